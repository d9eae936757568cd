// npm run bench:mcp: a thousand sessions and a thousand open streams of /mcp, each beside the others as tools are used and
// lists change: memory and CPU of each, at rest too, and what was lost. On Postgres when AMPOULE_TEST_DATABASE_URL names one
// (.ci/with-postgres npm run bench:mcp), and on the embedded default. The record goes to test/records/mcp.json, or where
// BENCH_RECORD says. It stops with 1 when something was lost; times and sizes it only tells. What opening a stream costs:
// all that the server's process does from the connection to the stream's first byte (socket, credential, session, state of
// the team's lists), and the looks at all streams and heartbeats that fall into that time; on the embedded database also
// the database's own work. The session that a stream belongs to is counted before it. The server is warm: it opened and
// closed as many streams of each kind before. Node is the one that runs this, and 24 opens a stream with two thirds of
// what 20 needs; the image and the executable run 24.
import { execFileSync } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { Agent, request } from "node:http"
import { cpus, loadavg, tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { start } from "../clients/server.mjs"
import { program, usage } from "./servers.mjs"

const at = (name) => fileURLToPath(new URL(name, import.meta.url))
const streamCount = Number(process.env.BENCH_STREAMS ?? 1_000)
const restMillis = Number(process.env.BENCH_REST_MILLIS ?? 30_000)
const record = process.env.BENCH_RECORD ?? at("../records/mcp.json")
/** A credential has twenty sessions and streams, a team two hundred. */
const perToken = 20
const perTeam = 200
const atOnce = 16

const round = (n, digits = 2) => Number(n.toFixed(digits))
const sleep = (millis) => new Promise((resolve) => setTimeout(resolve, millis))

/** Runs the work for each item, so many at once. */
const each = async (items, work) => {
  const results = []
  let next = 0
  const lane = async () => {
    while (next < items.length) {
      const i = next++
      results[i] = await work(items[i], i)
    }
  }
  await Promise.all(Array.from({ length: atOnce }, lane))
  return results
}

/** A server that has too much to do says so, and is asked again: how often. */
let busy = 0

const agent = new Agent({ keepAlive: true, maxSockets: atOnce })
const modern = "2026-07-28"
const meta = {
  "io.modelcontextprotocol/protocolVersion": modern,
  "io.modelcontextprotocol/clientInfo": { name: "bench", version: "1" },
  "io.modelcontextprotocol/clientCapabilities": {}
}

const headersOf = (token, more) => ({
  authorization: `Bearer ${token}`,
  accept: "application/json, text/event-stream",
  "content-type": "application/json",
  ...more
})

/** One message of a session. */
const send = (port, token, body, more = {}, method = "POST") =>
  new Promise((resolve, reject) => {
    const sent = request(
      { port, host: "127.0.0.1", path: "/mcp", method, agent, headers: headersOf(token, more) },
      (answer) => {
        let text = ""
        answer.setEncoding("utf8")
        answer.on("data", (chunk) => (text += chunk))
        answer.on("end", () => resolve({ status: answer.statusCode, headers: answer.headers, text }))
      }
    )
    sent.on("error", reject)
    sent.end(body === undefined ? undefined : JSON.stringify(body))
  })

/** An open stream: what came of it so far. */
const listen = (port, token, { body, headers, method }) =>
  new Promise((resolve, reject) => {
    const sent = request({
      port,
      host: "127.0.0.1",
      path: "/mcp",
      method,
      agent: false,
      headers: headersOf(token, headers)
    })
    sent.on("error", reject)
    sent.on("response", (answer) => {
      if (answer.statusCode === 429) {
        busy++
        answer.resume()
        return setTimeout(() => listen(port, token, { body, headers, method }).then(resolve, reject), 500)
      }
      if (answer.statusCode !== 200) return reject(new Error(`a stream answered ${answer.statusCode}`))
      const stream = { text: "", ended: false, close: () => sent.destroy() }
      answer.setEncoding("utf8")
      sent.removeAllListeners("error").on("error", () => (stream.ended = true))
      answer.on("error", () => (stream.ended = true))
      answer.on("end", () => (stream.ended = true))
      answer.on("data", (chunk) => {
        // The first bytes say that it is open.
        if (stream.text === "") resolve(stream)
        stream.text += chunk
      })
    })
    sent.end(body === undefined ? undefined : JSON.stringify(body))
  })

/** Teams with tokens, one project each, over the API of the pages. */
const populate = async (server) => {
  const call = async (method, path, body) => {
    const answer = await fetch(server.url + path, {
      method,
      headers: { cookie: server.session(), origin: server.url, "content-type": "application/json" },
      ...(body && { body: JSON.stringify(body) })
    })
    const text = await answer.text()
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`)
    return JSON.parse(text)
  }
  const teams = []
  for (let n = 0; n * perTeam < streamCount; n++) {
    const id = n === 0 ? server.teamId : (await call("POST", "/teams", { name: `Team ${n}` })).id
    const project = n === 0 ? { id: server.projectId } : await call("POST", `/teams/${id}/projects`, { name: "Shop" })
    const tokens = []
    for (let i = 0; i < perTeam / perToken; i++) {
      const mcpScopes = ["identity:read", "projects:read", "secrets:read"]
      const body = { name: `bench ${i}`, accessLevel: "read", lifetime: "1d", mcpScopes }
      tokens.push((await call("POST", `/teams/${id}/api-tokens`, body)).value)
    }
    teams.push({ id, project: project.id, tokens })
  }
  const holders = teams.flatMap(({ tokens }) =>
    tokens.flatMap((token) => Array.from({ length: perToken }, () => token))
  )
  return { call, teams, holders: holders.slice(0, streamCount) }
}

/** Memory of the server: resident, and what its heap holds after a collection. */
const memory = async ({ file, pid }) => {
  rmSync(file, { force: true })
  process.kill(pid, "SIGUSR2")
  for (;;) {
    await sleep(100)
    try {
      const { external, heapUsed } = JSON.parse(readFileSync(file, "utf8"))
      return { rss: usage(pid).rss, heap: heapUsed + external }
    } catch {
      // Not written yet.
    }
  }
}

/** Cost of so many of a kind: CPU and memory of each. */
const costOf = async (subject, count, work) => {
  const before = await memory(subject)
  const cpu = usage(subject.pid).cpu
  const result = await work()
  const cpuMillis = (usage(subject.pid).cpu - cpu) / 1000 / count
  const after = await memory(subject)
  const kilobytes = (name) => round((after[name] - before[name]) / count / 1024, 1)
  return { result, cost: { cpuMillis: round(cpuMillis), heapKiB: kilobytes("heap"), rssKiB: kilobytes("rss") } }
}

const listChanged = "notifications/resources/list_changed"
const countOf = (streams, text) => streams.filter((stream) => stream.text.includes(text)).length

/** Waits until all of them heard of it, a minute at most; answers how many did, and after how long. */
const heard = async (streams, text) => {
  const began = performance.now()
  while (countOf(streams, text) < streams.length && performance.now() - began < 60_000) await sleep(50)
  return { heard: countOf(streams, text), seconds: round((performance.now() - began) / 1000, 1) }
}

/** Streams of one kind: opened, at rest, told of a change in each team, closed. */
const streamsOf = async (subject, world, open) => {
  const { call, holders, teams } = world
  const { cost, result: streams } = await costOf(subject, holders.length, () => each(holders, open))
  const before = usage(subject.pid).cpu
  await sleep(restMillis)
  const atRest = round((usage(subject.pid).cpu - before) / restMillis / 10, 1)
  for (const { project } of teams) {
    await call("POST", `/projects/${project}/environments`, { slug: `e${Date.now()}`, name: "Bench" })
  }
  const notified = await heard(streams, listChanged)
  const ended = streams.filter((stream) => stream.ended).length
  for (const stream of streams) stream.close()
  await sleep(2_000)
  return { opened: streams.length, ...cost, percentOfACoreAtRest: atRest, told: notified, ended }
}

const measure = async (settings) => {
  const folder = mkdtempSync(join(tmpdir(), "ampoule-bench-mcp-"))
  const file = join(folder, "memory.json")
  const node = [
    process.execPath,
    "--no-allocation-site-pretenuring",
    "--expose-gc",
    "--import",
    at("memory.mjs"),
    program
  ]
  const server = await start(
    program,
    join(folder, "data"),
    { AMPOULE_RATE_LIMITS: "off", BENCH_MEMORY: file, ...settings },
    node
  )
  try {
    const port = Number(new URL(server.url).port)
    const subject = { pid: server.pid, file }
    busy = 0
    const world = await populate(server)
    const hello = {
      jsonrpc: "2.0",
      id: 1,
      method: "initialize",
      params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "bench", version: "1" } }
    }
    const initialize = async (token) => {
      const { headers, status, text } = await send(port, token, hello)
      if (status === 429) {
        busy++
        await sleep(500)
        return initialize(token)
      }
      if (status !== 200) throw new Error(`initialize answered ${status}: ${text}`)
      return headers["mcp-session-id"]
    }
    // Code that was never hot costs several times as much.
    const warm = await each(world.holders, initialize)
    for (const stream of await each(world.holders, (token, i) => listen(port, token, legacyListen(warm[i]))))
      stream.close()
    for (const stream of await each(world.holders, (token, i) => listen(port, token, modernListen(`${i}`))))
      stream.close()
    await sleep(2_000)
    // Cost of a plain request on this machine now, for comparison.
    const live = () => fetch(`${server.url}/health/live`).then((answer) => answer.arrayBuffer())
    for (let i = 0; i < 300; i++) await live()
    const { cost: plain } = await costOf(subject, 1_000, () => each(Array.from({ length: 1_000 }), live))
    const { cost, result: sessions } = await costOf(subject, world.holders.length, () =>
      each(world.holders, initialize)
    )
    const streams = await streamsOf(subject, world, (token, i) => listen(port, token, legacyListen(sessions[i])))
    const ping = { jsonrpc: "2.0", id: 2, method: "ping" }
    const answers = async (token, session) => {
      const { status } = await send(port, token, ping, { "mcp-session-id": session })
      if (status !== 429) return status === 200
      busy++
      await sleep(500)
      return answers(token, session)
    }
    const answered = await each(world.holders, (token, i) => answers(token, sessions[i]))
    const listens = await streamsOf(subject, world, (token, i) => listen(port, token, modernListen(String(i))))
    return {
      plainRequest: { cpuMillis: plain.cpuMillis },
      sessions: { opened: sessions.length, ...cost, busy, answered: answered.filter(Boolean).length },
      "streams of 2025-11-25": streams,
      "streams of 2026-07-28": listens
    }
  } finally {
    await server.stop()
    rmSync(folder, { recursive: true, force: true })
  }
}

const legacyListen = (session) => ({ method: "GET", headers: { "mcp-session-id": session } })
const modernListen = (id) => ({
  method: "POST",
  headers: { "mcp-protocol-version": modern, "mcp-method": "subscriptions/listen" },
  body: {
    jsonrpc: "2.0",
    id,
    method: "subscriptions/listen",
    params: { notifications: { toolsListChanged: true, resourcesListChanged: true }, _meta: meta }
  }
})

const lostIn = (result) =>
  Object.entries(result).flatMap(([name, { answered, ended, opened, told }]) => [
    ...(answered !== undefined && answered < opened ? [`${name}: ${opened - answered} did not answer`] : []),
    ...(ended > 0 ? [`${name}: ${ended} ended`] : []),
    ...(told !== undefined && told.heard < opened ? [`${name}: ${opened - told.heard} were not told of a change`] : [])
  ])

const url = process.env.AMPOULE_TEST_DATABASE_URL
const backends = {
  ...(url === undefined ? {} : { postgres: { AMPOULE_DATABASE_URL: url } }),
  embedded: {}
}
const result = {
  what: `${streamCount} sessions, then ${streamCount} open streams of each revision, on one process. To open a stream is all that the server does from its connection to its first byte (socket, credential, session, state of the lists; the embedded database's own work), with the looks at all streams that fall into that time. CPU of the server for each, what its heap holds for each after a collection, and resident memory. Rate limits off; the server is warm. npm run bench:mcp`,
  date: new Date().toISOString().slice(0, 10),
  goals: { heapKiB: 50, cpuMillis: 2 },
  versions: {
    ampoule: JSON.parse(readFileSync(at("../../package.json"), "utf8")).version,
    node: process.versions.node
  },
  machine: { cores: cpus().length, model: cpus()[0]?.model ?? "unknown", load: [] }
}
const lost = []
for (const [name, settings] of Object.entries(backends)) {
  result[name] = await measure(settings)
  // A machine that does other things too shows up to twice the CPU.
  result.machine.load.push(round(loadavg()[0], 1))
  lost.push(...lostIn(result[name]).map((what) => `${name}, ${what}`))
  console.log(name, JSON.stringify(result[name], undefined, 2))
}
writeFileSync(record, JSON.stringify({ ...result, lost }))
execFileSync(at("../../node_modules/.bin/oxfmt"), [record])
if (lost.length > 0) console.error(lost.join("\n"))
process.exitCode = lost.length > 0 ? 1 : 0
agent.destroy()

// npm run bench: what Ampoule does for a request beside what a bare server does (yardstick.mjs), in turn in one run, so
// that a drift of the machine meets both; then what a start costs. It judges nothing. The record goes to
// test/records/bench.json, or where BENCH_RECORD says. On Postgres when AMPOULE_TEST_DATABASE_URL names one
// (.ci/with-postgres npm run bench), and on the embedded default. BENCH_ROWS="create one,bulk of 100" measures these rows
// alone, on Postgres with one process, and leaves no record; "neighbour" among them measures what a large neighbour costs.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { Agent, request } from "node:http"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { comparison } from "./compare.mjs"
import { databasesOn } from "./databases.mjs"
import { median, round } from "./loads.mjs"
import { measureNeighbour } from "./neighbour.mjs"
import { about } from "./records.mjs"
import { ampoule, contents, large, stop, stopAll, yardstick } from "./servers.mjs"
import { measureStarts } from "./starts.mjs"

const at = (name) => fileURLToPath(new URL(name, import.meta.url))
const rounds = Number(process.env.BENCH_ROUNDS ?? 3)
const millis = Number(process.env.BENCH_MILLIS ?? 600)
const record = process.env.BENCH_RECORD ?? at("../records/bench.json")
const folder = mkdtempSync(join(tmpdir(), "ampoule-bench-"))

const query = ({ projectId }, environment) => `projectId=${projectId}&environment=${environment}`
const secret = { key: "NEW_{n}", value: "x".repeat(128) }
const hundred = Array.from({ length: 100 }, (_, i) => ({ key: `NEW_{n}_${i}`, value: "x".repeat(128) }))

/** By row: the request to Ampoule and the request to the bare server, which say how many at most in one measurement. */
const rows = {
  live: [() => ({ path: "/health/live" }), () => ({ path: "/live" })],
  verify: [() => ({ path: "/me/verify" }), () => ({ path: "/verify?token=token" })],
  "inject 50": [
    (s) => ({ path: `/secrets/inject?${query(s, "fifty")}`, expect: 5_000 }),
    ({ ids }) => ({ path: `/inject?environment=${ids.fifty}`, expect: 5_000 })
  ],
  "inject 500": [
    (s) => ({ path: `/secrets/inject?${query(s, "five-hundred")}`, expect: 50_000 }),
    ({ ids }) => ({ path: `/inject?environment=${ids["five-hundred"]}`, expect: 50_000 })
  ],
  "one value": [
    (s) => ({ path: `/secrets/value?${query(s, "fifty")}&key=SECRET_7` }),
    ({ ids }) => ({ path: `/value?environment=${ids.fifty}&key=SECRET_7` })
  ],
  // Logged: beside a bare server that also commits a row before it answers, as every trail needs.
  "inject 50 (logged)": [
    (s) => ({ path: `/secrets/inject?${query(s, "fifty")}`, expect: 5_000 }),
    ({ ids }) => ({ path: `/inject?environment=${ids.fifty}&logged=1`, expect: 5_000 })
  ],
  "one value (logged)": [
    (s) => ({ path: `/secrets/value?${query(s, "fifty")}&key=SECRET_7` }),
    ({ ids }) => ({ path: `/value?environment=${ids.fifty}&key=SECRET_7&logged=1` })
  ],
  "list 50 names": [
    (s) => ({ path: `/secrets?${query(s, "fifty")}`, expect: 5_000 }),
    ({ ids }) => ({ path: `/list?environment=${ids.fifty}`, expect: 5_000 })
  ],
  "create one": [
    ({ projectId }, n) => ({
      path: "/secrets",
      status: 201,
      body: JSON.stringify({ projectId, environment: `create-${n}`, ...secret }),
      most: 300
    }),
    ({ ids }, n) => ({
      path: "/create",
      body: JSON.stringify({ environment: ids[`create-${n}`], ...secret }),
      most: 300
    })
  ],
  "bulk of 100": [
    ({ projectId }, n) => ({
      path: "/secrets/bulk",
      status: 201,
      body: JSON.stringify({ projectId, environment: `bulk-${n}`, secrets: hundred }),
      most: 8
    }),
    ({ ids }, n) => ({
      path: "/bulk",
      body: JSON.stringify({ environment: ids[`bulk-${n}`], secrets: hundred }),
      most: 8
    })
  ]
}

/** Writes go to environments of their own, which hold 5,000 secrets at most. */
const warmedBy = { "create one": [4_000], "bulk of 100": [45, 45, 45] }
const compare = comparison({ rows, rounds, millis, warmedBy, alone: ["bulk of 100"], other: "bare" })

/** CPU milliseconds of each stage of a read, at 16 connections: what a row costs more than the one before it. */
const stagesOf = (table) => {
  const cpu = (name) => table[name][16].ours.cpuMillis
  return {
    pipeline: cpu("live"),
    authentication: round(cpu("verify") - cpu("live"), 3),
    snapshot: round(cpu("list 50 names") - cpu("verify"), 3),
    "audit entry and values": round(cpu("inject 50") - cpu("list 50 names"), 3)
  }
}

/** Lines of the table in docs/speed.md. */
const lines = (table) =>
  Object.entries(table).map(([name, cells]) => {
    const of = (n) => (cells[n] === undefined ? "-" : `${cells[n].ratio} (${cells[n].range.join(" to ")})`)
    const { bare, ours } = cells[16] ?? cells[1]
    return `| ${name} | ${of(1)} | ${of(16)} | ${of(64)} | ${ours.cpuMillis} / ${bare.cpuMillis} |`
  })

/** Milliseconds of the first injection after a write, beside one that is held; by one connection that stays open. */
const afterWrite = async ({ headers, port, projectId }, environment) => {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  const ask = (method, path, body) =>
    new Promise((resolve, reject) => {
      const sent = body === undefined ? headers : { ...headers, "content-type": "application/json" }
      const outgoing = request({ agent, port, host: "127.0.0.1", method, path, headers: sent }, (answer) =>
        answer
          .on("error", reject)
          .on("end", () => resolve(answer.statusCode))
          .resume()
      )
      outgoing.on("error", reject).end(body)
    })
  const inject = async () => {
    const started = performance.now()
    const status = await ask("GET", `/secrets/inject?${query({ projectId }, environment)}`)
    if (status !== 200) throw new Error(`an injection answered ${status}`)
    return performance.now() - started
  }
  const first = []
  const laterMillis = []
  for (let i = 0; i < 40; i++) {
    const secrets = [{ key: "SECRET_1", value: `${i}` }]
    await ask("POST", "/secrets/bulk", JSON.stringify({ projectId, environment, secrets }))
    first.push(await inject())
    laterMillis.push(await inject())
  }
  agent.destroy()
  return { first: round(median(first), 1), held: round(median(laterMillis), 1) }
}

const only = process.env.BENCH_ROWS?.split(",").map((name) => name.trim())
for (const name of only ?? [])
  if (name !== "neighbour" && !Object.hasOwn(rows, name)) throw new Error(`no row is called ${name}`)
const all = (only ?? Object.keys(rows)).filter((name) => name !== "neighbour")
const result = {
  ...about(
    "Requests to Ampoule and to a bare server (test/bench/yardstick.mjs), in turn: per second, CPU of the server's processes per request in milliseconds, times in milliseconds; ratio: requests per second of ours to the bare server's, median of pairs. Rate limits off. npm run bench"
  ),
  rounds,
  millis
}

const onPostgres = async (url) => {
  const { end, fresh } = await databasesOn(url)
  const pair = async (workers, contents) => [
    await ampoule({ url: await fresh(), dir: join(folder, `ours-${workers}`), workers, contents }),
    await yardstick({ url: await fresh(), workers, contents })
  ]
  const neighbour = async () => {
    result.neighbour = await measureNeighbour({ url: await fresh(), dir: join(folder, "neighbour"), millis, rounds })
    console.log("inject 50 alone, beside an environment of 50, of 4,900, ms:", JSON.stringify(result.neighbour))
  }
  try {
    if (only?.includes("neighbour")) await neighbour()
    if (all.length === 0) return
    const [ours, bare] = await pair(1, { ...contents, ...large })
    result.postgres = await compare("Postgres, one process", ours, bare, all, [1, 16, 64])
    if (only !== undefined) return
    result.postgres.stages = stagesOf(result.postgres.rows)
    console.log("stages, CPU ms:", JSON.stringify(result.postgres.stages))
    result.postgres.afterWrite = {
      50: await afterWrite(ours, "after-fifty"),
      4000: await afterWrite(ours, "after-four-thousand")
    }
    console.log("inject after a write, ms:", JSON.stringify(result.postgres.afterWrite))
    await Promise.all([stop(ours.child), stop(bare.child)])
    await neighbour()
    const [ours2, bare2] = await pair(2, contents)
    const names2 = all.filter((name) => name !== "bulk of 100" && name !== "inject 500" && !name.endsWith("(logged)"))
    result.twoProcesses = await compare("Postgres, two processes", ours2, bare2, names2, [64])
    await Promise.all([stop(ours2.child), stop(bare2.child)])
  } finally {
    await stopAll()
    await end()
  }
}

const onEmbedded = async () => {
  const ours = await ampoule({ dir: join(folder, "embedded"), workers: 1, contents })
  const bare = await yardstick({ dir: join(folder, "bare"), workers: 1, contents })
  result.embedded = await compare("Embedded database", ours, bare, ["inject 50", "create one"], [16])
  await Promise.all([stop(ours.child), stop(bare.child)])
}

try {
  const url = process.env.AMPOULE_TEST_DATABASE_URL
  if (url === undefined)
    console.log("Postgres: skipped, AMPOULE_TEST_DATABASE_URL is not set (.ci/with-postgres npm run bench)")
  else await onPostgres(url)
  if (only === undefined) {
    await onEmbedded()
    result.starts = await measureStarts(folder, url)
    console.log("\nstarts:", JSON.stringify(result.starts, undefined, 2))
    if (result.postgres !== undefined) console.log(`\nFor docs/speed.md:\n${lines(result.postgres.rows).join("\n")}`)
    // A record without Postgres would lack most of its rows.
    if (url === undefined) console.log("\nNot recorded: Postgres was skipped.")
    else writeFileSync(record, `${JSON.stringify(result, undefined, 2)}\n`)
  }
} finally {
  await stopAll()
  rmSync(folder, { recursive: true, force: true })
}

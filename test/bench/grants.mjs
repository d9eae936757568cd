// npm run bench:grants: what `GET /secrets/inject` costs where grants decide, beside an environment that the team reads,
// in turn on one server in one run, so that a drift of the machine meets both. A third environment, which the team reads
// too, says how far two equal things differ on this machine. It judges nothing; the record goes to
// test/records/grants.json, or where BENCH_RECORD says. On Postgres with .ci/with-postgres.
import { randomBytes } from "node:crypto"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { loadavg, tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { databasesOn } from "./databases.mjs"
import { load, median, round } from "./loads.mjs"
import { about } from "./records.mjs"
import { ampoule, contents, stopAll } from "./servers.mjs"

const at = (name) => fileURLToPath(new URL(name, import.meta.url))
const rounds = Number(process.env.BENCH_ROUNDS ?? 15)
const millis = Number(process.env.BENCH_MILLIS ?? 1_000)
const connections = 16
const record = process.env.BENCH_RECORD ?? at("../records/grants.json")
const folder = mkdtempSync(join(tmpdir(), "ampoule-bench-"))
/** Most grants that a person may hold, and a usual number. */
const most = 200
const few = 3

const asking = (server, cookie) => async (method, path, json) => {
  const headers = { cookie, origin: server.base, "content-type": "application/json" }
  const answer = await fetch(`${server.base}${path}`, {
    method,
    headers,
    ...(json === undefined ? {} : { body: JSON.stringify(json) })
  })
  if (!answer.ok) throw new Error(`${method} ${path} answered ${answer.status}: ${await answer.text()}`)
  return { json: await answer.json(), cookie: answer.headers.get("set-cookie")?.split(";")[0] }
}

/** A member of the team with a session. */
const member = async (server, owner, name) => {
  const email = `${name}@example.com`
  const invited = await owner("POST", `/teams/${server.teamId}/invitations`, { email, role: "member" })
  const code = new URL(invited.json.inviteUrl).searchParams.get("code")
  const password = randomBytes(16).toString("hex")
  const joined = await asking(server, "")("POST", "/invitations/accept", { code, name, password })
  const me = await asking(server, joined.cookie)("GET", "/me")
  return { cookie: joined.cookie, id: me.json.user.id }
}

/** Grants are given one by one, as people give them: at the environment, at others and at the whole project. */
const grant = async (server, owner, environments, count, { id: userId }) => {
  for (let i = 0; i < count; i++) {
    const path =
      i % 10 === 0 ? `/projects/${server.projectId}` : `/environments/${environments[i % environments.length]}`
    const until = new Date(Date.now() + 86_400_000 + i * 1_000).toISOString()
    await owner("POST", `${path}/grants`, { userId, level: "values", until, reason: "bench" })
  }
}

const setUp = async (server) => {
  const owner = asking(server, server.cookie)
  const { items } = (await owner("GET", `/projects/${server.projectId}/environments`)).json
  const granted = items.find(({ slug }) => slug === "granted").id
  await owner("PATCH", `/environments/${granted}`, { readers: "granted" })
  const environments = items.map(({ id }) => id)
  const people = []
  for (const [i, count] of [few, most, most, most].entries()) {
    people.push(await member(server, owner, `holder-${i}`))
    await grant(server, owner, environments, count, people[i])
  }
  return { withFew: people[0], withMost: people[1], free: await member(server, owner, "free") }
}

const measure = async (server) => {
  const { free, withFew, withMost } = await setUp(server)
  const rows = {
    team: { environment: "fifty", cookie: free.cookie },
    granted: { environment: "granted", cookie: withFew.cookie },
    "granted, most grants": { environment: "granted", cookie: withMost.cookie },
    "team again": { environment: "control", cookie: free.cookie }
  }
  const run = (name, forMillis) => {
    const { cookie, environment } = rows[name]
    const path = `/secrets/inject?projectId=${server.projectId}&environment=${environment}`
    return load({ ...server, headers: { cookie } }, { path, expect: 5_000 }, connections, forMillis)
  }
  const names = Object.keys(rows)
  for (const name of names) await run(name, 2_000)
  const turns = []
  for (let i = 0; i < rounds; i++) {
    const turn = {}
    // Each goes first as often as the others.
    for (let n = 0; n < names.length; n++)
      turn[names[(i + n) % names.length]] = await run(names[(i + n) % names.length], millis)
    turns.push(turn)
  }
  const of = (name) => ({
    perSecond: round(median(turns.map((turn) => turn[name].perSecond)), 0),
    cpuMillis: round(median(turns.map((turn) => turn[name].cpuMillis)), 3)
  })
  const ratio = (name, key) => {
    const list = turns.map((turn) => turn[name][key] / turn.team[key])
    return { median: round(median(list), 3), from: round(Math.min(...list), 3), to: round(Math.max(...list), 3) }
  }
  const compared = names.filter((name) => name !== "team")
  return {
    rows: Object.fromEntries(names.map((name) => [name, of(name)])),
    "ratio to team": Object.fromEntries(
      compared.map((name) => [name, { perSecond: ratio(name, "perSecond"), cpu: ratio(name, "cpuMillis") }])
    )
  }
}

const withDatabase = async (use) => {
  const url = process.env.AMPOULE_TEST_DATABASE_URL
  if (url === undefined) return use({ database: "embedded" })
  const { end, fresh } = await databasesOn(url)
  try {
    return await use({ database: "Postgres", url: await fresh() })
  } finally {
    await stopAll()
    await end()
  }
}

try {
  await withDatabase(async ({ database, url }) => {
    const layout = { fifty: contents.fifty, granted: contents.fifty, control: contents.fifty }
    const server = await ampoule({
      dir: join(folder, "ours"),
      workers: 1,
      contents: layout,
      ...(url === undefined ? {} : { url })
    })
    const before = loadavg()[0]
    const measures = await measure(server)
    const first = about(
      `Injections of 50 by a session at ${connections} connections, in turn: "team", an environment that the team reads; "granted", one where grants decide, by a reader who holds ${few} grants in a project with ${few + 3 * most}; "granted, most grants", the same by a reader who holds ${most}; "team again", a second one that the team reads, which says how far two equal things differ. Ratios: median of pairs of one round, with their range. npm run bench:grants`
    )
    const result = {
      ...first,
      machine: {
        ...first.machine,
        "load before": round(before, 1),
        "load after": round(loadavg()[0], 1)
      },
      database,
      rounds,
      millis,
      ...measures
    }
    console.log(JSON.stringify(result, undefined, 2))
    writeFileSync(record, `${JSON.stringify(result, undefined, 2)}\n`)
  })
} finally {
  await stopAll()
  rmSync(folder, { recursive: true, force: true })
}

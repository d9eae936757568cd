// npm run bench:macs: what part of a request's CPU it takes to check the MAC of authorization rows, and to hash the
// credential under the pepper (src/rows/RowMac.ts). V8's profiler says so, of a server that is asked by 16 connections:
// the part of the samples in which the process worked that are within these functions, or in what they call. It judges
// nothing; the budget for the MACs is 3 %. The record goes to test/records/macs.json, or where
// BENCH_RECORD says. On Postgres with .ci/with-postgres.
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { databasesOn } from "./databases.mjs"
import { load, round } from "./loads.mjs"
import { about } from "./records.mjs"
import { ampoule, contents, stop, stopAll } from "./servers.mjs"

const millis = Number(process.env.BENCH_MILLIS ?? 5_000)
const connections = 16
const warmUp = 8_000
const sampleMicros = 200
const record = process.env.BENCH_RECORD ?? fileURLToPath(new URL("../records/macs.json", import.meta.url))
const folder = mkdtempSync(join(tmpdir(), "ampoule-bench-"))

/** As `src/rows/RowMac.ts` calls them: names of members survive the build. */
const functions = { MACs: "holds", pepper: "pepper" }

const query = ({ projectId }) => `projectId=${projectId}&environment=fifty`
const rows = {
  verify: () => "/me/verify",
  "inject 50": (server) => `/secrets/inject?${query(server)}`,
  "one value": (server) => `/secrets/value?${query(server)}&key=SECRET_7`,
  "list 50 names": (server) => `/secrets?${query(server)}`
}

/** Per cent of the work of the last `micros` of a profile that is within each of the functions. */
const sharesOf = ({ nodes, samples, timeDeltas }, micros) => {
  const byId = new Map(nodes.map((node) => [node.id, node]))
  const parent = new Map(nodes.flatMap(({ children = [], id }) => children.map((child) => [child, id])))
  const nameOf = (id) => byId.get(id).callFrame.functionName
  const within = (id, name) => {
    for (let one = id; one !== undefined; one = parent.get(one)) if (nameOf(one) === name) return true
    return false
  }
  const bySample = new Map()
  let all = 0
  for (let i = samples.length - 1, seen = 0; i >= 0 && seen < micros; i--) {
    seen += timeDeltas[i]
    if (nameOf(samples[i]) === "(idle)") continue
    all += timeDeltas[i]
    bySample.set(samples[i], (bySample.get(samples[i]) ?? 0) + timeDeltas[i])
  }
  const spent = (name) => [...bySample].reduce((sum, [id, time]) => (within(id, name) ? sum + time : sum), 0)
  return Object.fromEntries(
    Object.entries(functions).map(([what, name]) => {
      // A build that called it otherwise would look as if it cost nothing.
      if (!nodes.some(({ callFrame }) => callFrame.functionName === name)) throw new Error(`no function ${name}`)
      return [what, round((100 * spent(name)) / all, 1)]
    })
  )
}

const measure = async (name, url, place) => {
  const dir = join(folder, place)
  const nodeArgs = ["--cpu-prof", `--cpu-prof-dir=${dir}-profile`, `--cpu-prof-interval=${sampleMicros}`]
  const server = await ampoule({ contents: { fifty: contents.fifty }, dir, nodeArgs, url, workers: 1 })
  const requests = { path: rows[name](server) }
  await load(server, requests, connections, warmUp)
  const { cpuMillis, perSecond } = await load(server, requests, connections, millis)
  await stop(server.child)
  const [file] = readdirSync(`${dir}-profile`)
  const profile = JSON.parse(readFileSync(join(`${dir}-profile`, file), "utf8"))
  const percent = sharesOf(profile, 1_000 * millis)
  return { perSecond: round(perSecond, 0), cpuMillis: round(cpuMillis, 3), percent }
}

const url = process.env.AMPOULE_TEST_DATABASE_URL
const databases = url === undefined ? undefined : await databasesOn(url)
const result = {
  ...about(
    "Per cent of the CPU of a request at 16 connections that holds the rows which decide to their MAC, and that hashes the credential under the pepper, as V8's profiler sees it. perSecond and cpuMillis are of a server that is profiled. npm run bench:macs"
  ),
  database: databases === undefined ? "embedded" : "Postgres",
  millis,
  rows: {}
}
try {
  for (const [i, name] of Object.keys(rows).entries()) {
    result.rows[name] = await measure(name, await databases?.fresh(), `${i}`)
    console.log(name, JSON.stringify(result.rows[name]))
  }
  writeFileSync(record, `${JSON.stringify(result, undefined, 2)}\n`)
} finally {
  await stopAll()
  await databases?.end()
  rmSync(folder, { recursive: true, force: true })
}

// npm run bench:cli: the CPU (user and system) of a command of the command line beside that of Node alone, in turn in
// one run, so that a drift of the machine meets both. It judges nothing. Prints the ratios, and keeps them by release of
// Node in test/records/cli.json, or where BENCH_RECORD says.
import { spawn, spawnSync } from "node:child_process"
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { createServer } from "node:http"
import { cpus, tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"

const projectId = "01980a5e-7c11-7b3a-9d54-6f2f8a1c0b7e"

/** In a process of its own: this one waits for the commands. */
const serve = () => {
  const list = { items: [], page: 1, pageSize: 500, total: 0, hasMore: false }
  const verified = {
    credential: { type: "api_token", id: projectId, expiresAt: null },
    teams: [],
    restrictions: { projectIds: null, environmentIds: null },
    only: null
  }
  const answers = {
    "/secrets": list,
    "/secrets/inject": { values: { KEY: "v" } },
    "/secrets/value": { value: "v" },
    "/projects": { items: [] },
    [`/projects/${projectId}/exposure`]: { ...list, upTo: "2026-11-27T00:00:00.000Z", unknownBefore: null },
    "/me/verify": verified,
    "/health/live": {},
    "/health/ready": { checks: { database: { status: "ok" } } },
    "/capabilities": { version: "1.1.0" }
  }
  const server = createServer((request, response) => {
    response.setHeader("content-type", "application/json")
    response.end(JSON.stringify(answers[request.url.split("?")[0]]))
  })
  server.listen(0, "127.0.0.1", () => process.stdout.write(`${server.address().port}\n`))
}

const at = (name) => fileURLToPath(new URL(name, import.meta.url))
const program = at("../../dist/ampoule.cjs")
const rounds = Number(process.env.BENCH_ROUNDS ?? 9)
/** Starts of one measurement: the system counts in hundredths of a second. */
const starts = Number(process.env.BENCH_STARTS ?? 8)
const record = process.env.BENCH_RECORD ?? at("../records/cli.json")
const place = ["--project", projectId, "--env", "development"]
const commands = {
  "--version": ["--version"],
  "--help": ["--help"],
  "secrets get": ["secrets", "get", ...place, "KEY"],
  run: ["run", ...place, "--", "true"],
  "secrets list": ["secrets", "list", ...place, "--json"],
  "secrets get, options behind": ["secrets", "get", "KEY", ...place],
  "run, --name=text": ["run", `--project=${projectId}`, "--env=development", "--", "true"],
  "projects list": ["projects", "list", "--json"],
  whoami: ["whoami"],
  exposed: ["exposed", ...place],
  doctor: ["doctor"]
}

/** Milliseconds of CPU of all children that ended (proc(5): cutime and cstime, in hundredths of a second). */
const ofChildren = () => {
  const stat = readFileSync("/proc/self/stat", "latin1")
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ")
  return (Number(fields[13]) + Number(fields[14])) * 10
}
const median = (list) => list.toSorted((a, b) => a - b)[Math.floor(list.length / 2)]
const round = (n) => Math.round(n * 100) / 100

const cost = (args, env) => {
  const before = ofChildren()
  for (let i = 0; i < starts; i++) {
    const ended = spawnSync(process.execPath, args, { env, encoding: "utf8" })
    if (ended.status !== 0) throw new Error(`${args.join(" ")}: ${ended.stderr}`)
  }
  return (ofChildren() - before) / starts
}

const compare = (name, words, env) => {
  const pairs = []
  for (let i = -1; i < rounds; i++) {
    const pair = [cost([program, ...words], env), cost(["-e", "0"], env)]
    if (i >= 0) pairs.push(pair)
  }
  const ratios = pairs.map(([ours, bare]) => ours / bare)
  const row = {
    cpuMillis: round(median(pairs.map(([ours]) => ours))),
    bareNode: round(median(pairs.map(([, bare]) => bare))),
    ratio: round(median(ratios)),
    range: [round(Math.min(...ratios)), round(Math.max(...ratios))]
  }
  process.stdout.write(
    `${name.padEnd(28)} ${String(row.cpuMillis).padStart(7)} ms ${String(row.bareNode).padStart(7)} ms   ratio ${row.ratio} (${row.range.join(" to ")})\n`
  )
  return row
}

const measure = async () => {
  const server = spawn(process.execPath, [at("cli.mjs"), "serve"])
  const port = await new Promise((resolve) => server.stdout.once("data", (line) => resolve(String(line).trim())))
  const home = mkdtempSync(join(tmpdir(), "ampoule-bench-cli-"))
  const env = {
    PATH: process.env.PATH,
    HOME: home,
    AMPOULE_URL: `http://127.0.0.1:${port}`,
    AMPOULE_API_TOKEN: "amp_at_0123456789abcdef_secretpart"
  }
  process.stdout.write(`Node ${process.versions.node}; CPU of a start, ours and Node's alone, ${rounds} pairs\n`)
  const rows = Object.fromEntries(Object.entries(commands).map(([name, words]) => [name, compare(name, words, env)]))
  server.kill()
  rmSync(home, { recursive: true })
  const before = existsSync(record) ? JSON.parse(readFileSync(record, "utf8")).node : {}
  const result = {
    what: "CPU of a start of the command line in milliseconds, user and system, and that of `node -e 0`, in turn; ratio: median of pairs. npm run bench:cli, with each Node named",
    date: new Date().toISOString().slice(0, 10),
    machine: { cores: cpus().length, model: cpus()[0]?.model ?? "unknown" },
    rounds,
    startsOfEach: starts,
    node: { ...before, [process.versions.node]: rows }
  }
  writeFileSync(record, `${JSON.stringify(result, null, 2)}\n`)
}

if (process.argv[2] === "serve") serve()
else await measure()

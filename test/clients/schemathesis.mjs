// @ts-check
/**
 * `npm run test:schemathesis [CASES]`: the built server on a throwaway Postgres, asked by schemathesis what its document
 * promises, all phases and checks, until so many cases (20,000) were sent. Needs Python; its tool stays in
 * AMPOULE_CLIENTS_DIR. A finding fails it. Writes test/records/schemathesis.json.
 */
import { execFileSync, spawn } from "node:child_process"
import { once } from "node:events"
import * as fs from "node:fs"
import { tmpdir } from "node:os"
import * as path from "node:path"
import { fileURLToPath } from "node:url"
import { start } from "./server.mjs"

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..")
const folder = process.env["AMPOULE_CLIENTS_DIR"] ?? path.join(tmpdir(), "ampoule-clients")
const caseCount = Number(process.argv[2] ?? 20_000)
const schemathesis = "4.32.5"
const database = process.env["AMPOULE_TEST_DATABASE_URL"]
if (database === undefined) throw new Error("run it with .ci/with-postgres")

/** Checks that contradict the contract, and why. */
const excluded = { unsupported_method: "a method that a path does not have is 404 ROUTE_NOT_FOUND, not 405" }
/**
 * Statuses that refuse bad data, by their documented codes. 413 is not among the tool's own: a text that is too long
 * can fill a body.
 */
const refusals = [400, 401, 403, 404, 409, 413, 415, 422, 429]
/** Operations that refuse what JSON Schema cannot say, and what it is: the check that valid data is accepted is left out. */
const inexpressible = {
  "POST /secrets/bulk": "no key twice among the members",
  "POST /projects/{projectId}/changes": "no key of an environment twice among the entries",
  "POST /environments/{envId}/restore": "a moment that has passed",
  "GET /teams/{teamId}/incident-report": "exactly one of person, token and grant in a query",
  "GET /secrets/inject": "a plan that was made within an hour",
  "POST /secrets/run-results": "a plan that was made within an hour"
}
/**
 * A rule that no pattern of every engine can express: a name has no tag characters (schema/Values.ts). Cases with one
 * anywhere are left out.
 */
const hooks = `import json
import schemathesis

def plain(value):
    text = json.dumps(value, ensure_ascii=False, default=str)
    return not any("\\U000e0000" <= character <= "\\U000e0fff" for character in text)

@schemathesis.hook
def filter_body(context, body):
    return plain(body)

@schemathesis.hook
def filter_query(context, query):
    return plain(query)
`
/** Operations that would end the run's own credential, or never answer. */
const skippedOperations = ["DELETE /me/token", "POST /auth/cli/logout", "GET /auth/cli/device/events", "GET /mcp"]

const python = path.join(folder, "schemathesis")
if (!fs.existsSync(path.join(python, "bin/pip"))) execFileSync("python3", ["-m", "venv", python], { stdio: "inherit" })
execFileSync(path.join(python, "bin/pip"), ["install", "--quiet", `schemathesis==${schemathesis}`], {
  stdio: "inherit"
})

const cache = path.join(root, "node_modules/.cache/ampoule")
fs.mkdirSync(cache, { recursive: true })
const work = fs.mkdtempSync(path.join(cache, "schemathesis-"))
execFileSync(process.execPath, ["src/build.mjs", path.join(work, "dist")], { cwd: root, stdio: "pipe" })
const settings = { AMPOULE_DATABASE_URL: database, AMPOULE_RATE_LIMITS: "off", AMPOULE_PLAINTEXT_HOSTS: "127.0.0.1" }
const server = await start(path.join(work, "dist/ampoule.mjs"), path.join(work, "data"), settings)

/** Sends cases of one seed; answers how many, and what was found. @param {number} seed */
const round = async (seed) => {
  // In a file: an argument can be read by everybody on the machine.
  const config = path.join(work, "schemathesis.toml")
  const token = await server.token("write")
  const without = Object.keys(inexpressible).map(
    (name) => `[[operations]]\ninclude-name = "${name}"\nchecks.positive_data_acceptance.enabled = false\n`
  )
  fs.writeFileSync(
    config,
    [
      `continue-on-failure = true\nheaders = { Authorization = "Bearer ${token}" }\n`,
      // All of them are on unless this file says otherwise; a list among the arguments would win over it.
      `checks.negative_data_rejection.expected-statuses = [${refusals.map((status) => `"${status}"`).join(", ")}]\n`,
      ...Object.keys(excluded).map((check) => `checks.${check}.enabled = false\n`),
      ...without
    ].join("")
  )
  const report = path.join(work, `${seed}.json`)
  const events = path.join(work, `${seed}.ndjson`)
  const words = [
    ["--config-file", config, "run", `${server.url}/openapi.json`],
    ["--phases", "examples,coverage,fuzzing,stateful", "--max-examples", "50", "--seed", String(seed)],
    ["--request-timeout", "30", "--suppress-health-check", "all", "--warnings", "off", "--no-color"],
    ["--report", "json,ndjson", "--report-json-path", report, "--report-ndjson-path", events],
    skippedOperations.flatMap((one) => ["--exclude-name", one])
  ].flat()
  fs.writeFileSync(path.join(work, "ampoule_hooks.py"), hooks)
  const child = spawn(path.join(python, "bin/schemathesis"), words, {
    cwd: work,
    env: { ...process.env, SCHEMATHESIS_HOOKS: "ampoule_hooks", PYTHONPATH: work },
    stdio: ["ignore", "pipe", "inherit"]
  })
  let output = ""
  child.stdout.on("data", (chunk) => (output += String(chunk)))
  const [code] = await once(child, "close")
  const cases = Number(/([\d,]+) generated/.exec(output)?.[1]?.replaceAll(",", "") ?? Number.NaN)
  if (Number.isNaN(cases)) throw new Error(`schemathesis ended with ${code}\n${output}`)
  return { seed, cases, code: Number(code), output }
}

/** @type {Array<{ seed: number, cases: number, code: number }>} */
const rounds = []
let failed = ""
try {
  for (let seed = 1, sent = 0; sent < caseCount; seed++) {
    const { output, ...one } = await round(seed)
    rounds.push(one)
    sent += one.cases
    process.stdout.write(`seed ${seed}: ${one.cases} cases, ended with ${one.code}\n`)
    if (one.code !== 0) {
      failed = output
      process.stdout.write(output)
      break
    }
  }
} finally {
  await server.stop()
  fs.rmSync(work, { recursive: true, force: true })
}
const file = path.join(root, "test/records/schemathesis.json")
const record = {
  what: "schemathesis against the built server on Postgres, by /openapi.json, with a write token. npm run test:schemathesis",
  date: new Date().toISOString().slice(0, 10),
  commit: execFileSync("git", ["rev-parse", "--short", "HEAD"], { cwd: root, encoding: "utf8" }).trim(),
  versions: { schemathesis, node: process.versions.node },
  excluded,
  inexpressible,
  refusals,
  left: skippedOperations,
  cases: rounds.reduce((sum, { cases }) => sum + cases, 0),
  rounds,
  findings: failed === "" ? 0 : "see the run"
}
fs.writeFileSync(file, JSON.stringify(record))
execFileSync(path.join(root, "node_modules/.bin/oxfmt"), [file])
process.exitCode = failed === "" ? 0 : 1

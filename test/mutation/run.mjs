// @ts-check
/**
 * `npm run test:mutation [MODULE…]`: alters each module that decides (a condition turned round, a border moved, a block
 * emptied…) and runs its tests on every alteration: what no test notices is a survivor. A survivor is a missing test, or
 * has its reason in `reasons.mjs`; without one the run fails, as it does below 90 %. Stryker alters and its runner for
 * vitest runs, in a copy of the sources; both stay in AMPOULE_MUTATION_DIR. What is altered inside functions runs in one
 * warm process; what was not noticed there, or took too long, is tried again in a fresh one: what a module makes when it
 * is loaded (tables, sets) is altered only there, and only what takes too long twice is counted as noticed. Writes
 * test/records/mutation.json, module by module. The score is what was noticed of all alterations: a survivor with a reason counts as a survivor. `--again`
 * tries only the survivors on record, with the tests as they are now; it refuses where the module has changed since.
 */
import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import { tmpdir } from "node:os"
import * as path from "node:path"
import { fileURLToPath } from "node:url"
import { reasons } from "./reasons.mjs"

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..")
const folder = process.env["AMPOULE_MUTATION_DIR"] ?? path.join(tmpdir(), "ampoule-mutation")
const record = path.join(root, "test/records/mutation.json")
/** The last that runs on Node 20. */
const stryker = "9.6.1"
const goal = 90

/** The modules, and the tests that concern them and need no database. */
const modules = {
  Policy: { file: "src/access/Policy.ts", tests: ["test/access/Policy.test.ts", "test/access/decisions.test.ts"] },
  Liveness: { file: "src/credentials/Liveness.ts", tests: ["test/credentials/liveness.test.ts"] },
  TokenText: { file: "src/credentials/TokenText.ts", tests: ["test/credentials/tokenText.test.ts"] },
  Template: { file: "src/secrets/Template.ts", tests: ["test/secrets/Template.test.ts"] },
  Composition: { file: "src/secrets/Composition.ts", tests: ["test/secrets/Composition.test.ts"] },
  Envelope: { file: "src/crypto/Envelope.ts", tests: ["test/crypto/Envelope.test.ts"] },
  RateLimiter: { file: "src/limits/RateLimiter.ts", tests: ["test/limits/windows.test.ts"] },
  Verify: { file: "src/audit/Verify.ts", tests: ["test/audit/verifier.test.ts"] }
}

/**
 * @typedef {{ line: number, column: number }} Point
 * @typedef {{ start: Point, end: Point }} Place
 * @typedef {{ mutatorName: string, replacement?: string, location: Place, status: string, static?: boolean }} Mutant
 * @typedef {{ at: string, mutator: string, from: string, to: string, why?: string }} Survivor
 */

const json = (/** @type {string} */ file) => JSON.parse(fs.readFileSync(file, "utf8"))
const say = (/** @type {string} */ text) => process.stdout.write(`${text}\n`)
const run = (/** @type {string} */ command, /** @type {ReadonlyArray<string>} */ args, /** @type {string} */ cwd) =>
  void execFileSync(command, args, { cwd, stdio: ["ignore", "inherit", "inherit"] })

const tools = path.join(folder, `stryker-${stryker}`)
if (!fs.existsSync(path.join(tools, "node_modules/@stryker-mutator/core/package.json"))) {
  fs.mkdirSync(tools, { recursive: true })
  fs.writeFileSync(path.join(tools, "package.json"), JSON.stringify({ private: true }))
  const packages = ["core", "vitest-runner"].map((name) => `@stryker-mutator/${name}@${stryker}`)
  // Without the vitest that the runner asks for: it takes ours.
  run("npm", ["install", "--ignore-scripts", "--legacy-peer-deps", "--no-audit", "--no-fund", ...packages], tools)
}
fs.rmSync(path.join(tools, "node_modules/vitest"), { recursive: true, force: true })
fs.symlinkSync(path.join(root, "node_modules/vitest"), path.join(tools, "node_modules/vitest"))

/** The runner counts failed tests, and none in a file that cannot be loaded: whether the module can be is a test too. */
const loads = "test/mutation/loads.test.mjs"
const loadTest = (/** @type {string} */ file) =>
  `import { it } from "vitest"\nit("can be loaded", async () => void (await import("../../${file}")))\n`

/** A plug-in that leaves alone what is none of these places and has none in it: patterns alone would alter all in them. */
const onlyAt = (/** @type {ReadonlyArray<Place>} */ places) => `
const places = ${JSON.stringify(places)}
const before = (one, other) => one.line < other.line || (one.line === other.line && one.column <= other.column)
const shouldIgnore = ({ node: { loc } }) =>
  loc && !places.some(({ end, start }) => before(loc.start, start) && before(end, loc.end)) ? "not asked again" : undefined
export const strykerPlugins = [{ kind: "Ignore", name: "only", value: { shouldIgnore } }]
`

/** Alters the module, all of it or what these patterns or places say, and answers what became of each alteration. @param {{ file: string, tests: ReadonlyArray<string>, mutate?: ReadonlyArray<string>, places?: ReadonlyArray<Place>, warm: boolean }} options @returns {ReadonlyArray<Mutant>} */
const altered = ({ file, mutate = [file], places, tests, warm }) => {
  const copy = fs.mkdtempSync(path.join(folder, "copy-"))
  try {
    for (const name of ["src", "schema", "layers", "migrations", "test", "package.json", "tsconfig.json"])
      fs.cpSync(path.join(root, name), path.join(copy, name), { recursive: true })
    fs.symlinkSync(path.join(root, "node_modules"), path.join(copy, "node_modules"))
    fs.writeFileSync(path.join(copy, loads), loadTest(file))
    if (places !== undefined) fs.writeFileSync(path.join(copy, "only.mjs"), onlyAt(places))
    const test = {
      include: [...tests, loads],
      env: { AMPOULE_TEST_SEED: "1" },
      setupFiles: ["test/support/testMethods.ts"],
      // An endless loop is Stryker's to end: a test that a busy machine held up would count as one that noticed.
      testTimeout: 600_000,
      poolOptions: { threads: { isolate: !warm } }
    }
    fs.writeFileSync(path.join(copy, "vitest.config.mjs"), `export default ${JSON.stringify({ test })}\n`)
    const settings = {
      testRunner: "vitest",
      plugins: ["@stryker-mutator/vitest-runner", ...(places === undefined ? [] : ["./only.mjs"])],
      ignorers: places === undefined ? [] : ["only"],
      vitest: { configFile: "vitest.config.mjs", related: false },
      mutate,
      coverageAnalysis: "perTest",
      ignoreStatic: warm,
      inPlace: true,
      concurrency: 1,
      timeoutMS: 60_000,
      dryRunTimeoutMinutes: 20,
      allowConsoleColors: false,
      // An hour is long: it tells how far it is.
      reporters: ["json", "progress-append-only"],
      jsonReporter: { fileName: "report.json" }
    }
    fs.writeFileSync(path.join(copy, "stryker.json"), JSON.stringify(settings))
    run(
      process.execPath,
      [path.join(tools, "node_modules/@stryker-mutator/core/bin/stryker.js"), "run", "stryker.json"],
      copy
    )
    const [report] = Object.values(json(path.join(copy, "report.json")).files)
    return report.mutants
  } finally {
    fs.rmSync(copy, { recursive: true, force: true })
  }
}

const idOf = (/** @type {Mutant} */ { location: { end, start }, mutatorName, replacement }) =>
  [start.line, start.column, end.line, end.column, mutatorName, replacement].join(":")

/** @param {keyof typeof modules} name @param {Omit<Survivor, "why">} survivor @returns {Survivor} */
const withReason = (name, { at, from, mutator, to }) => {
  const why = reasons.find(
    (one) => one.module === name && at.includes(one.at) && (one.from ?? from) === from && (one.to ?? to) === to
  )?.why
  return { at, mutator, from, to, why }
}

/** The survivors among these, each with its reason when there is one. @param {keyof typeof modules} name @param {ReadonlyArray<Mutant>} all @returns {ReadonlyArray<Survivor>} */
const survivorsOf = (name, all) => {
  const lines = fs.readFileSync(path.join(root, modules[name].file), "utf8").split("\n")
  const survived = ["Survived", "NoCoverage"].flatMap((status) => all.filter((one) => one.status === status))
  return survived.map(({ location: { end, start }, mutatorName, replacement = "" }) => {
    const line = lines[start.line - 1]
    const from =
      start.line === end.line ? line.slice(start.column - 1, end.column - 1) : `${line.slice(start.column - 1)}…`
    return withReason(name, { at: line.trim(), mutator: mutatorName, from, to: replacement })
  })
}
const scoreOf = (/** @type {number} */ survived, /** @type {number} */ all) =>
  Math.round((1000 * (all - survived)) / all) / 10

/** The survivors on record, with the tests as they are now: the module is the same. @param {keyof typeof modules} name */
const triedAgain = (name) => {
  const { file, tests } = modules[name]
  const { altered: count, commit, survivors: known, timeouts } = json(record).modules[name]
  execFileSync("git", ["diff", "--exit-code", "--stat", commit, "--", file], { cwd: root, stdio: "inherit" })
  const mutate = fs
    .readFileSync(path.join(root, file), "utf8")
    .split("\n")
    .flatMap((line, i) =>
      known.some((/** @type {Survivor} */ { at }) => at === line.trim()) ? [`${file}:${i + 1}-${i + 1}`] : []
    )
  // Statements of several lines are not among them.
  const spanning = known.filter((/** @type {Survivor} */ { from }) => from.endsWith("…"))
  const mutants = mutate.length === 0 ? [] : altered({ file, tests, mutate, warm: false })
  if (mutants.length < known.length - spanning.length) throw new Error(`${name}: not all of them were tried`)
  const survivors = [
    ...survivorsOf(name, mutants),
    ...spanning.map((/** @type {Survivor} */ one) => withReason(name, one))
  ]
  const killed = count - timeouts - survivors.length
  const score = scoreOf(survivors.length, count)
  return { file, tests, altered: count, killed, timeouts, survived: survivors.length, score, survivors }
}

/** @param {keyof typeof modules} name */
const tried = (name) => {
  const { file, tests } = modules[name]
  const warm = altered({ file, tests, warm: true })
  // Made at loading or at the first use: a warm process has them already, as they were. Too slow: it may have been the
  // machine.
  const unsure = warm.filter(({ status }) => status !== "Killed")
  const places = unsure.map(({ location: { end, start } }) => ({
    // The report counts columns from 1, a parser from 0.
    start: { line: start.line, column: start.column - 1 },
    end: { line: end.line, column: end.column - 1 }
  }))
  const cold = new Map(
    (places.length === 0 ? [] : altered({ file, tests, places, warm: false })).map((one) => [idOf(one), one])
  )
  const all = warm.map((one) => (unsure.includes(one) ? (cold.get(idOf(one)) ?? one) : one))
  const survivors = survivorsOf(name, all)
  /** @type {(status: string) => ReadonlyArray<Mutant>} */
  const of = (status) => all.filter((one) => one.status === status)
  const [killed, timeouts] = [of("Killed").length, of("Timeout").length]
  const others = all.filter(({ status }) => !["Killed", "Timeout", "Survived", "NoCoverage"].includes(status))
  if (others.length > 0) throw new Error(`${name}: ${others.map((one) => `${one.status} ${idOf(one)}`).join("\n")}`)
  const score = scoreOf(survivors.length, all.length)
  return { file, tests, altered: all.length, killed, timeouts, survived: survivors.length, score, survivors }
}

const words = process.argv.slice(2)
const names = /** @type {ReadonlyArray<keyof typeof modules>} */ (Object.keys(modules)).filter(
  (name) => words.every((one) => one.startsWith("--")) || words.includes(name)
)
let failed = false
for (const name of names) {
  const result = words.includes("--again") ? triedAgain(name) : tried(name)
  const without = result.survivors.filter(({ why }) => why === undefined)
  say(
    `${name}: ${result.score} % of ${result.altered} noticed, ${result.survived} survived, ${without.length} without a reason`
  )
  for (const { at, mutator, from, to } of without) say(`  ${mutator}: ${from} → ${to}\n    ${at}`)
  if (without.length > 0 || result.score < goal) failed = true
  const before = fs.existsSync(record) ? json(record) : {}
  const commit = execFileSync("git", ["rev-parse", "--short", "HEAD"], { cwd: root, encoding: "utf8" }).trim()
  const { version: vitest } = json(path.join(root, "node_modules/vitest/package.json"))
  const now = {
    what: "Share of altered lines that the tests of a module notice, without a database. npm run test:mutation",
    modules: {
      ...before.modules,
      [name]: {
        date: new Date().toISOString().slice(0, 10),
        commit,
        versions: { stryker, vitest, node: process.versions.node },
        ...result
      }
    }
  }
  const sorted = Object.fromEntries(
    Object.keys(modules).flatMap((one) => (now.modules[one] ? [[one, now.modules[one]]] : []))
  )
  fs.writeFileSync(record, `${JSON.stringify({ ...now, modules: sorted }, null, 2)}\n`)
}
execFileSync(path.join(root, "node_modules/.bin/oxfmt"), [record])
process.exitCode = failed ? 1 : 0

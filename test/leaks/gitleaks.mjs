// @ts-check
/**
 * `npm run test:gitleaks`: the scanner of others with the rule of deploy/gitleaks.toml, on a folder with credentials of
 * each kind in files as they leak, and on this repository's sources without. Needs Go and its module proxy; the scanner
 * stays in AMPOULE_GITLEAKS_DIR. Writes test/records/gitleaks.json.
 */
import * as esbuild from "esbuild"
import { execFileSync, spawnSync } from "node:child_process"
import { randomBytes } from "node:crypto"
import * as fs from "node:fs"
import { tmpdir } from "node:os"
import * as path from "node:path"
import { fileURLToPath } from "node:url"

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..")
const version = "v8.30.1"
const folder = process.env["AMPOULE_GITLEAKS_DIR"] ?? path.join(tmpdir(), "ampoule-gitleaks")
const rules = path.join(root, "deploy/gitleaks.toml")
const check = (/** @type {boolean} */ holds, /** @type {string} */ otherwise) => {
  if (!holds) throw new Error(otherwise)
}

fs.mkdirSync(folder, { recursive: true })
const gitleaks = path.join(folder, `gitleaks-${version}`)
if (!fs.existsSync(gitleaks)) {
  const to = path.join(folder, "go")
  const env = { ...process.env, GOBIN: to }
  execFileSync("go", ["install", `github.com/zricethezav/gitleaks/v8@${version}`], { env, stdio: "inherit" })
  fs.renameSync(path.join(to, "gitleaks"), gitleaks)
}

const work = fs.mkdtempSync(path.join(tmpdir(), "ampoule-leaks-"))
process.on("exit", () => fs.rmSync(work, { recursive: true, force: true }))

/** @typedef {{ RuleID: string, Secret: string, File: string }} Finding */
/** Findings below a folder. @param {string} where @returns {ReadonlyArray<Finding>} */
const findings = (where) => {
  const report = path.join(work, "report.json")
  const args = ["dir", "--config", rules, "--report-format", "json", "--report-path", report, "--no-banner", where]
  const { status, stderr } = spawnSync(gitleaks, args, { encoding: "utf8" })
  check(status === 0 || status === 1, stderr)
  return JSON.parse(fs.readFileSync(report, "utf8"))
}

// The module that makes credentials, as the server has it.
const module = path.join(work, "TokenText.mjs")
await esbuild.build({
  entryPoints: [path.join(root, "src/credentials/TokenText.ts")],
  outfile: module,
  bundle: true,
  platform: "node",
  format: "esm",
  logLevel: "error"
})
/** @type {typeof import("../../src/credentials/TokenText.ts")} */
const TokenText = await import(module)

/** Files in which credentials leak. @type {Record<string, (text: string) => string>} */
const places = {
  ".env": (text) => `AMPOULE_TOKEN=${text}\n`,
  "deploy.yaml": (text) => `env:\n  - name: AMPOULE_TOKEN\n    value: "${text}"\n`,
  "client.ts": (text) => `const client = make({ token: "${text}" })\n`,
  "mcp.json": (text) => JSON.stringify({ headers: { Authorization: `Bearer ${text}` } }),
  shell_history: (text) => `curl -H 'authorization: Bearer ${text}' https://ampoule.example.com/me\n`
}
const leaky = path.join(work, "leaky")
/** @type {Set<string>} */
const leaked = new Set()
for (const kind of TokenText.kinds) {
  for (const [name, written] of Object.entries(places)) {
    const text = TokenText.print(TokenText.make(kind, randomBytes(12), randomBytes(32)))
    leaked.add(text)
    fs.mkdirSync(path.join(leaky, kind), { recursive: true })
    fs.writeFileSync(path.join(leaky, kind, name), written(text))
  }
}
const leaks = findings(leaky)
const ours = new Set(leaks.filter(({ RuleID }) => RuleID === "ampoule-credential").map(({ Secret }) => Secret))
const missed = [...leaked].filter((text) => !ours.has(text))
check(missed.length === 0, `${missed.length} of ${leaked.size} credentials were not found`)
const others = [...ours].filter((text) => !leaked.has(text))
check(others.length === 0, "something was found that is no credential")

/** Without: the names of the kinds stand in many of them. */
let files = 0
let alarms = 0
for (const name of ["src", "schema", "layers", "migrations", "docs", "deploy"]) {
  files += fs.readdirSync(path.join(root, name), { recursive: true }).length
  alarms += findings(path.join(root, name)).filter(({ RuleID }) => RuleID === "ampoule-credential").length
}
check(alarms === 0, `${alarms} alarms without a credential`)

const record = {
  what: "gitleaks with deploy/gitleaks.toml: credentials of each kind in files as they leak, and this repository's sources, in which there are none. npm run test:gitleaks",
  date: new Date().toISOString().slice(0, 10),
  versions: { gitleaks: version, node: process.versions.node },
  withCredentials: { kinds: TokenText.kinds.length, credentials: leaked.size, found: ours.size },
  without: { files, alarms }
}
fs.writeFileSync(path.join(root, "test/records/gitleaks.json"), `${JSON.stringify(record, undefined, 2)}\n`)
process.stdout.write(`${JSON.stringify(record, undefined, 2)}\n`)

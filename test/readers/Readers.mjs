// @ts-check
/** Real readers of .env files: installed into a folder once, then asked about many texts at once. */
import { execFileSync, spawnSync } from "node:child_process"
import * as fs from "node:fs"
import { createRequire } from "node:module"
import { tmpdir } from "node:os"
import * as path from "node:path"
import { fileURLToPath, pathToFileURL } from "node:url"

const here = path.dirname(fileURLToPath(import.meta.url))
const folder = process.env["AMPOULE_READERS_DIR"] ?? path.join(tmpdir(), "ampoule-readers")
export const versions = {
  npm: { dotenv: "17.4.2", "@dotenvx/dotenvx": "2.38.2", nushell: "0.115.1" },
  python: { "python-dotenv": "1.2.4" },
  go: { "github.com/joho/godotenv": "v1.5.1", "github.com/compose-spec/compose-go/v2": "v2.16.2" }
}
const at = (/** @type {Array<string>} */ ...names) => path.join(folder, ...names)
const quiet = /** @type {const} */ (["ignore", "ignore", "inherit"])
/** @typedef {ReadonlyArray<string>} Texts @typedef {Array<string | null>} Answers */

/** From the registries of npm, Python and Go, by their ordinary clients. */
export const install = () => {
  fs.mkdirSync(at("go"), { recursive: true })
  fs.writeFileSync(at("package.json"), JSON.stringify({ private: true }))
  const packages = Object.entries(versions.npm).map(([name, version]) => `${name}@${version}`)
  execFileSync("npm", ["install", "--ignore-scripts", "--no-audit", "--no-fund", ...packages], {
    cwd: folder,
    stdio: quiet
  })
  if (!fs.existsSync(at("python"))) execFileSync("python3", ["-m", "venv", at("python")], { stdio: quiet })
  const wheels = Object.entries(versions.python).map(([name, version]) => `${name}==${version}`)
  execFileSync(at("python/bin/pip"), ["install", "--quiet", ...wheels], { stdio: quiet })
  fs.copyFileSync(path.join(here, "ask.go.txt"), at("go/main.go"))
  if (!fs.existsSync(at("go/go.mod")))
    execFileSync("go", ["mod", "init", "readers"], { cwd: at("go"), stdio: "ignore" })
  const modules = Object.entries(versions.go).map(([name, version]) => `${name}@${version}`)
  execFileSync("go", ["get", ...modules], { cwd: at("go"), stdio: "ignore" })
  execFileSync("go", ["mod", "tidy"], { cwd: at("go"), stdio: "ignore" })
  execFileSync("go", ["build", "-o", at("go/ask"), "."], { cwd: at("go"), stdio: quiet })
}

const work = fs.mkdtempSync(path.join(tmpdir(), "ampoule-readers-"))
process.once("exit", () => fs.rmSync(work, { recursive: true, force: true }))
const environment = { PATH: process.env["PATH"] ?? "", HOME: "/home/you" }

const eachFile = (/** @type {Texts} */ texts, /** @type {(file: string) => string | null} */ ask) =>
  texts.map((text, i) => {
    const file = path.join(work, `${i}.env`)
    fs.writeFileSync(file, text)
    return ask(file)
  })
/** @returns {any} */
const answersOf = (/** @type {string} */ program, /** @type {Array<string>} */ args, /** @type {Texts} */ texts) =>
  JSON.parse(execFileSync(program, args, { input: JSON.stringify(texts), encoding: "utf8", maxBuffer: 1 << 28 }))

const printA = 'process.stdout.write(JSON.stringify(process.env["A"] ?? null))'
const fromNode = (/** @type {Texts} */ texts) =>
  eachFile(texts, (file) => {
    const ended = spawnSync(process.execPath, [`--env-file=${file}`, "-e", printA], {
      env: environment,
      encoding: "utf8"
    })
    return ended.status === 0 ? JSON.parse(ended.stdout) : null
  })
const fromShell = (/** @type {string} */ shell) => (/** @type {Texts} */ texts) =>
  eachFile(texts, (file) => {
    const script = `set -a; . "$FILE" && '${process.execPath}' -e '${printA}'`
    const ended = spawnSync(shell, ["-c", script], { env: { ...environment, FILE: file }, encoding: "utf8" })
    /** @type {string | null} */
    const value = ended.status === 0 && ended.stderr === "" ? JSON.parse(ended.stdout) : null
    // $$ is another number each time.
    return value === null ? null : value.replaceAll(String(ended.pid), "1")
  })

/** Each reader's answers: the value of A, or null where it refuses the file or has no A. */
export const ask = async (/** @type {Texts} */ texts) => {
  const require = createRequire(at("package.json"))
  const dotenv = require("dotenv")
  const dotenvx = await import(pathToFileURL(require.resolve("@dotenvx/dotenvx")).href)
  const parsed = (/** @type {(text: string) => Record<string, string>} */ parse) =>
    texts.map((text) => {
      try {
        return parse(text)["A"] ?? null
      } catch {
        return null
      }
    })
  const { compose, godotenv } = answersOf(at("go/ask"), [], texts)
  /** @type {Record<string, Answers>} */
  const answers = {
    npm: parsed((text) => dotenv.parse(text)),
    node: fromNode(texts),
    python: answersOf(at("python/bin/python"), [path.join(here, "ask.py")], texts),
    dotenvx: parsed((text) => (dotenvx.default ?? dotenvx).parse(text, { processEnv: {} })),
    godotenv,
    compose,
    bash: fromShell("bash")(texts)
  }
  return answers
}

export const nushell = () => at("node_modules/.bin/nu")

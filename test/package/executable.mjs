// @ts-check
/**
 * `npm run test:executable`: builds the executable twice, here and in a clone of the last commit, and compares the bytes;
 * runs it where there is no Node: command, server on the embedded database, a second start; and times its start beside
 * that of `node dist`. Writes test/records/executable.json.
 */
import { execFileSync, spawnSync } from "node:child_process"
import { createHash } from "node:crypto"
import * as fs from "node:fs"
import { tmpdir } from "node:os"
import * as path from "node:path"
import { fileURLToPath } from "node:url"
import { commitOf } from "../../src/commit.mjs"
import { node, nodeBinary } from "../../deploy/executable.mjs"
import { cacheOf } from "../../deploy/packages.mjs"
import { start } from "../clients/server.mjs"

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..")
const work = fs.mkdtempSync(path.join(tmpdir(), "ampoule-executable-"))
const pairs = 15

const check = (/** @type {boolean} */ holds, /** @type {string} */ otherwise) => {
  if (!holds) throw new Error(otherwise)
}
/** @param {string} at @param {string} to */
const build = (at, to) => {
  execFileSync(process.execPath, [path.join(at, "deploy/executable.mjs"), to], { stdio: "pipe" })
  return createHash("sha256").update(fs.readFileSync(to)).digest("hex")
}
const median = (/** @type {ReadonlyArray<number>} */ values) =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0

try {
  const changed = execFileSync("git", ["status", "--porcelain"], { cwd: root, encoding: "utf8" })
  check(changed === "", `there is something that is not committed:\n${changed}`)
  const executable = path.join(work, "alone/ampoule")
  fs.mkdirSync(path.dirname(executable))
  const digest = build(root, executable)

  // Another folder, and nothing kept of an earlier build but Node itself.
  const clone = path.join(work, "clone")
  execFileSync("git", ["clone", "--quiet", root, clone])
  execFileSync("cp", ["-al", path.join(root, "node_modules"), clone])
  fs.rmSync(path.join(clone, "node_modules/.cache"), { recursive: true })
  const kept = cacheOf(node)
  fs.cpSync(path.join(root, kept), path.join(clone, kept), { recursive: true })
  const again = build(clone, path.join(work, "again"))
  check(digest === again, `two builds are ${digest} and ${again}`)
  process.stdout.write(`two builds, one hash: ${digest}\n`)

  const home = path.join(work, "home")
  fs.mkdirSync(home)
  const env = { PATH: "/nonexistent", HOME: home }
  /** @param {ReadonlyArray<string>} words @param {Record<string, string>} [more] */
  const run = (words, more = {}) => {
    const { status, stderr, stdout } = spawnSync(executable, words, {
      env: { ...env, ...more },
      cwd: home,
      encoding: "utf8"
    })
    check(status === 0, `ampoule ${words.join(" ")} ended with ${status}: ${stdout}${stderr}`)
    return stdout
  }
  const { version } = JSON.parse(fs.readFileSync(path.join(root, "package.json"), "utf8"))
  const commit = commitOf(root)
  const versionLine = commit === undefined ? `${version}\n` : `${version} (${commit})\n`
  check(run(["--version"]) === versionLine, "--version")
  const licences = run(["licences"])
  for (const text of ["Node.js is licensed for use as follows", "effect 3.", "oidc-provider ", "Apache License"]) {
    check(licences.includes(text), `no licence: ${text}`)
  }
  const server = await start(executable, path.join(work, "data"), { HOME: home, PATH: "/nonexistent" }, [executable])
  try {
    const credentials = { AMPOULE_URL: server.url, AMPOULE_API_TOKEN: await server.token("write") }
    const target = ["--project", "shop", "--env", "development"]
    check(run(["run", ...target, "--", "/usr/bin/env"], credentials).includes("DATABASE_URL=postgres://db\n"), "run")
    check(run(["secrets", "list", ...target], credentials).includes("DATABASE_URL"), "secrets list")
  } finally {
    await server.stop()
  }
  // A folder that somebody else may write is not taken for what was unpacked.
  const cache = path.join(home, ".cache/ampoule")
  const [unpacked = ""] = fs.readdirSync(cache).filter((name) => name.startsWith("program-"))
  fs.chmodSync(path.join(cache, unpacked), 0o777)
  fs.writeFileSync(path.join(cache, unpacked, "start.cjs"), `console.log("somebody else's")`)
  check(run(["--version"], { TMPDIR: work }) === versionLine, "a folder of others")
  fs.rmSync(path.join(cache, unpacked), { recursive: true })
  check(run(["--version"]) === versionLine, "unpacks again")
  process.stdout.write("it runs without Node\n")

  const dist = path.join(work, "dist")
  execFileSync(process.execPath, [path.join(root, "src/build.mjs"), dist], { stdio: "pipe" })
  const took = (/** @type {string} */ command, /** @type {ReadonlyArray<string>} */ words) => {
    const begun = performance.now()
    check(spawnSync(command, words, { env, cwd: home }).status === 0, words.join(" "))
    return performance.now() - begun
  }
  /** @type {Record<string, { executable: number, node: number, ratio: number }>} */
  const starts = {}
  for (const words of [["--version"], ["--help"], ["secrets", "--help"]]) {
    /** @type {Array<{ executable: number, node: number }>} */
    const times = []
    for (let i = 0; i <= pairs; i++) {
      const pair = {
        executable: took(executable, words),
        node: took(nodeBinary(), [path.join(dist, "ampoule.cjs"), ...words])
      }
      // The first of both compiles.
      if (i > 0) times.push(pair)
    }
    const one = { executable: median(times.map((t) => t.executable)), node: median(times.map((t) => t.node)) }
    starts[words.join(" ")] = {
      executable: Math.round(one.executable),
      node: Math.round(one.node),
      ratio: Math.round((one.executable / one.node) * 100) / 100
    }
  }
  const record = {
    what: `The executable for Linux x64. Starts in milliseconds, medians of ${pairs} pairs taken in turn, after one that compiles; node is that of the executable, with dist. npm run test:executable`,
    date: new Date().toISOString().slice(0, 10),
    commit: execFileSync("git", ["rev-parse", "--short", "HEAD"], { cwd: root, encoding: "utf8" }).trim(),
    node: node.version,
    builds: { sha256: digest, equal: true },
    megabytes: Math.round(fs.statSync(executable).size / 1e6),
    starts
  }
  const file = path.join(root, "test/records/executable.json")
  fs.writeFileSync(file, JSON.stringify(record))
  execFileSync(path.join(root, "node_modules/.bin/oxfmt"), [file])
  process.stdout.write(`${JSON.stringify(starts)}\n`)
} finally {
  fs.rmSync(work, { recursive: true, force: true })
}

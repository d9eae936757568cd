// @ts-check
/**
 * `npm run test:executables`: builds the executable of a client for Linux x64, runs every test of the command line on it
 * instead of Node, and measures its starts beside that of bare Node, in turn. Writes test/records/executables.json.
 */
import { execFileSync, spawnSync } from "node:child_process"
import * as fs from "node:fs"
import { tmpdir } from "node:os"
import * as path from "node:path"
import { fileURLToPath } from "node:url"
import { build } from "../../deploy/executables.mjs"
import { start } from "../clients/server.mjs"
import { check, megabytes } from "./newcomer.mjs"

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..")
const work = fs.mkdtempSync(path.join(tmpdir(), "ampoule-client-executable-"))
const pairs = 21

/** @param {string} name of a configuration of vitest, or none @param {string} executable */
const tests = (name, executable) => {
  const report = path.join(work, `report-${path.basename(name)}.json`)
  const words = ["run", "--root", ".", "--config", name, "test/cli", "--reporter=default", "--reporter=json"]
  const vitest = path.join(root, "node_modules/.bin/vitest")
  const { status } = spawnSync(vitest, [...words, `--outputFile.json=${report}`], {
    cwd: root,
    env: { ...process.env, AMPOULE_TEST_EXECUTABLE: executable },
    stdio: "inherit"
  })
  const { numFailedTests, numPassedTests, numPendingTests } = JSON.parse(fs.readFileSync(report, "utf8"))
  return { status, passed: numPassedTests, failed: numFailedTests, skipped: numPendingTests }
}

/** CPU of one process and its threads (ms). @param {ReadonlyArray<string>} command @param {NodeJS.ProcessEnv} env */
const cpu = (command, env) => {
  const program = `
import os, subprocess, sys, resource
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(code, (used.ru_utime + used.ru_stime) * 1000)`
  const output = execFileSync("python3", ["-c", program, ...command], { env, encoding: "utf8" })
  const [code, time] = output.trim().split(" ").map(Number)
  check(code === 0, `${command.join(" ")} ended with ${code}`)
  return time ?? 0
}
const median = (/** @type {ReadonlyArray<number>} */ values) =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0

/** @param {string} executable */
const starts = async (executable) => {
  const dist = path.join(root, "dist/ampoule.cjs")
  execFileSync(process.execPath, [path.join(root, "src/build.mjs")], { cwd: root, stdio: "pipe" })
  const server = await start(dist, path.join(work, "data"))
  try {
    const home = path.join(work, "home")
    fs.mkdirSync(home)
    const env = {
      PATH: "/usr/bin:/bin",
      HOME: home,
      AMPOULE_URL: server.url,
      AMPOULE_API_TOKEN: await server.token("read")
    }
    const target = ["--project", "shop", "--env", "development"]
    const rows = {
      "--version": ["--version"],
      "secrets --help": ["secrets", "--help"],
      "run -- true": ["run", ...target, "--", "true"],
      "secrets get": ["secrets", "get", ...target, "DATABASE_URL"],
      "secrets list": ["secrets", "list", ...target],
      whoami: ["whoami"],
      "projects list": ["projects", "list"],
      doctor: ["doctor"],
      "tokens list": ["tokens", "list"]
    }
    return Object.fromEntries(
      Object.entries(rows).map(([name, words]) => {
        const times = Array.from({ length: pairs }, () => ({
          executable: cpu([executable, ...words], env),
          bare: cpu([process.execPath, "-e", "0"], env)
        }))
        const one = { executable: median(times.map((t) => t.executable)), bare: median(times.map((t) => t.bare)) }
        const ratio = Math.round((one.executable / one.bare) * 100) / 100
        return [name, { executable: Math.round(one.executable), bare: Math.round(one.bare), ratio }]
      })
    )
  } finally {
    await server.stop()
  }
}

try {
  await build(work, ["linux-x64"])
  const executable = path.join(work, "ampoule-linux-x64")
  const runs = [tests("vitest.config.ts", executable), tests("test/vitest.long.config.ts", executable)]
  const measured = await starts(executable)
  const sum = (/** @type {"passed" | "failed" | "skipped"} */ key) => runs.reduce((all, run) => all + run[key], 0)
  const record = {
    what: `The executable of a client for Linux x64: every test of the command line on it, and the CPU of its starts (ms) beside bare Node (node -e 0), medians of ${pairs} taken in turn. npm run test:executables`,
    date: new Date().toISOString().slice(0, 10),
    commit: execFileSync("git", ["rev-parse", "--short", "HEAD"], { cwd: root, encoding: "utf8" }).trim(),
    node: process.versions.node,
    megabytes: megabytes(fs.statSync(executable).size),
    tests: { passed: sum("passed"), failed: sum("failed"), skipped: sum("skipped") },
    starts: measured
  }
  const file = path.join(root, "test/records/executables.json")
  fs.writeFileSync(file, JSON.stringify(record))
  execFileSync(path.join(root, "node_modules/.bin/oxfmt"), [file])
  process.stdout.write(`${JSON.stringify(measured)}\n${sum("passed")} passed, ${sum("failed")} failed\n`)
  process.exitCode = runs.every(({ status }) => status === 0) ? 0 : 1
} finally {
  fs.rmSync(work, { recursive: true, force: true })
}

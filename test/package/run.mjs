// @ts-check
/**
 * `npm run test:package`: publishes the last commit to a registry of this machine and installs it as a newcomer does,
 * with an empty HOME and cache, on Node 20, 22 and 24: the command by npx, the server as its sentence says, the library
 * with its types. Too heavy for `npm test`: it downloads some 400 MB the first time. Tools stay in AMPOULE_PACKAGE_DIR.
 * Writes test/records/package.json.
 */
import { execFileSync, spawn } from "node:child_process"
import { once } from "node:events"
import * as fs from "node:fs"
import { tmpdir } from "node:os"
import * as path from "node:path"
import { fileURLToPath } from "node:url"
import { compilerOptions } from "../clients/compilerOptions.mjs"
import { freePort, start } from "../clients/server.mjs"
import {
  check,
  install,
  installServer,
  megabytes,
  newcomer,
  nodeFolder,
  nodes,
  registry,
  sizeOf,
  tools,
  versions
} from "./newcomer.mjs"

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..")
const work = fs.mkdtempSync(path.join(tmpdir(), "ampoule-newcomer-"))

/** Bounds of an installation: of the package with its docs and fonts, alone and with the library of the keychain. */
const limits = { clientBytes: 14e6, clientPackages: 15, serverBytes: 80e6 }

const json = (/** @type {string} */ file) => JSON.parse(fs.readFileSync(file, "utf8"))
const say = (/** @type {string} */ text) => process.stdout.write(`${text}\n`)

// --- what is tried ---

/** README's first command in a clone, then what `npm publish` makes of it. @param {{ port: number, url: string }} from */
const cloneAndPublish = async (from) => {
  const ada = newcomer(work, "20", from)
  const clone = path.join(work, "clone")
  execFileSync("git", ["clone", "--quiet", root, clone])
  ada.npm("npm", ["install"], clone)
  const port = await freePort()
  const child = spawn(ada.node, [ada.npmFile, "start"], {
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

/** @param {string} major @param {{ port: number, url: string }} from */
const server = (major, from) => {
  const ada = newcomer(work, major, from)
  const said = installServer(ada)
  const { bytes, packages } = sizeOf(path.join(ada.home, "global/lib/node_modules"))
  check(bytes <= limits.serverBytes, `the server has ${megabytes(bytes)} MB`)
  return { program: ada.program, node: ada.node, said, megabytes: megabytes(bytes), packages }
}

/** @param {string} major @param {{ port: number, url: string }} from @param {Record<string, string>} credentials */
const client = (major, from, credentials) => {
  const target = ["--project", "shop", "--env", "development"]
  const seconds = [1, 2, 3].map(() => {
    const ada = newcomer(work, major, from)
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
  const ada = newcomer(work, major, from)
  ada.npm("npm", ["install", "--omit=optional", "ampoule"])
  const alone = sizeOf(path.join(ada.home, "node_modules"))
  check(alone.bytes <= limits.clientBytes, `without optional packages it has ${megabytes(alone.bytes)} MB`)
  check(alone.packages <= limits.clientPackages, `without optional packages it has ${alone.packages} packages`)
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
    packages,
    withoutOptional: { megabytes: megabytes(alone.bytes), packages: alone.packages }
  }
}

/** Every export on each Node, its types with both compilers. @param {{ port: number, url: string }} from */
const library = (from) => {
  const ada = newcomer(work, "20", from)
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
  await from.stop()
  fs.rmSync(work, { recursive: true, force: true })
}

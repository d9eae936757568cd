// @ts-check
/**
 * `npm run test:agents [NAME…]`: the official clients of agents, each over real HTTP against the built server: older and
 * newer lines of the TypeScript and Python SDKs with a token and over OAuth, the Go SDK, mcp-remote, @ai-sdk/mcp, the
 * inspector, the public conformance suite, and an agent that installs the plugin of deploy/agents. Needs Python, Go and their package registries. Tools stay in
 * AMPOULE_AGENTS_DIR. A run of everything writes test/records/agents.json.
 */
import { spawn } from "node:child_process"
import { once } from "node:events"
import * as fs from "node:fs"
import { tmpdir } from "node:os"
import * as path from "node:path"
import { fileURLToPath } from "node:url"
import { start } from "../clients/server.mjs"
import { notApplicable, scenarios } from "./conformance.mjs"
import * as Person from "./person.mjs"
import * as Plugin from "./plugin.mjs"
import * as WithToken from "./withToken.mjs"

const here = path.dirname(fileURLToPath(import.meta.url))
const root = path.resolve(here, "../..")
const folder = process.env["AMPOULE_AGENTS_DIR"] ?? path.join(tmpdir(), "ampoule-agents")
const names = process.argv.slice(2)

const versions = {
  npm: {
    "@ai-sdk/mcp": "1.0.101",
    "@anthropic-ai/claude-code-linux-x64": "2.1.330",
    "@modelcontextprotocol/client": "2.4.0",
    "@modelcontextprotocol/conformance": "0.2.0-alpha.12",
    "@modelcontextprotocol/inspector": "2.12.0",
    "@modelcontextprotocol/sdk": "1.32.2",
    "mcp-remote": "0.15.1",
    node: "24.21.0"
  },
  python: ["1.30.0", "2.3.0"],
  skills: "0.1.1",
  go: "v1.8.0"
}

const at = (/** @type {Array<string>} */ ...parts) => path.join(folder, ...parts)

/**
 * Runs a command to its end, 5 minutes at most; what it printed is shown when it fails.
 * @param {string} command @param {ReadonlyArray<string>} args @param {{ cwd?: string, env?: Record<string, string> }} [options]
 */
const run = async (command, args, { cwd = folder, env = {} } = {}) => {
  const child = spawn(command, args, {
    cwd,
    env: { ...process.env, ...env },
    stdio: ["ignore", "pipe", "pipe"],
    timeout: 300_000
  })
  let output = ""
  let errors = ""
  child.stdout.on("data", (chunk) => (output += String(chunk)))
  child.stderr.on("data", (chunk) => (errors += String(chunk)))
  const [code] = await once(child, "close")
  if (code !== 0) throw new Error(`${path.basename(command)} ended with ${code}\n${output}${errors}`)
  return output
}

const install = async () => {
  fs.mkdirSync(at("npm"), { recursive: true })
  fs.writeFileSync(at("npm/package.json"), JSON.stringify({ private: true, type: "module" }))
  const packages = Object.entries(versions.npm).map(([name, version]) => `${name}@${version}`)
  await run("npm", ["install", "--no-audit", "--no-fund", ...packages], { cwd: at("npm") })
  for (const version of versions.python) {
    if (fs.existsSync(at(`python-${version}/bin/mcp`))) continue
    await run("python3", ["-m", "venv", at(`python-${version}`)])
    await run(at(`python-${version}/bin/pip`), ["install", "--quiet", `mcp[cli]==${version}`])
  }
  if (!fs.existsSync(at("skills/bin/agentskills"))) {
    await run("python3", ["-m", "venv", at("skills")])
    await run(at("skills/bin/pip"), ["install", "--quiet", `skills-ref==${versions.skills}`])
  }
  for (const file of fs.readdirSync(path.join(here, "drivers"))) {
    fs.copyFileSync(path.join(here, "drivers", file), at("npm", file))
  }
}

const node = (/** @type {string} */ file) => () => [[process.execPath, at("npm", file)]]
/** The newest Node, which the inspector and the suite want. */
const newest = at("npm/node_modules/node/bin/node")
const packageBin = (/** @type {string} */ name, /** @type {string} */ bin) => {
  const manifest = JSON.parse(fs.readFileSync(at("npm/node_modules", name, "package.json"), "utf8"))
  return at("npm/node_modules", name, typeof manifest.bin === "string" ? manifest.bin : manifest.bin[bin])
}

const inspector = () => {
  const program = packageBin("@modelcontextprotocol/inspector", "mcp-inspector")
  const auth = ["--header", `Authorization: Bearer ${token}`]
  const ask = [newest, program, "--cli", `${server.url}/mcp`, "--transport", "http", ...auth, "--method"]
  const project = ["--tool-arg", `projectId=${server.projectId}`]
  return [
    [...ask, "tools/list"],
    [...ask, "tools/call", "--tool-name", "list_secrets", ...project, "--tool-arg", "environment=development"]
  ]
}

const goClient = async () => {
  fs.mkdirSync(at("go"), { recursive: true })
  fs.copyFileSync(at("npm/main.go"), at("go/main.go"))
  fs.writeFileSync(
    at("go/go.mod"),
    `module driver\n\ngo 1.25\n\nrequire github.com/modelcontextprotocol/go-sdk ${versions.go}\n`
  )
  await run("go", ["mod", "tidy"], { cwd: at("go") })
  await run("go", ["build", "-o", "driver", "."], { cwd: at("go") })
  return [[at("go/driver")]]
}

/** @type {Record<string, () => ReadonlyArray<ReadonlyArray<string>> | Promise<ReadonlyArray<ReadonlyArray<string>>>>} */
const clients = {
  "TypeScript SDK 1.x": node("sdk1.mjs"),
  "TypeScript SDK 2.x": node("sdk2.mjs"),
  "@ai-sdk/mcp": node("ai-sdk.mjs"),
  "mcp-remote": node("mcp-remote.mjs"),
  "Python SDK 1.x": () => [[at("python-1.30.0/bin/python"), at("npm/python1.py")]],
  "Python SDK 2.x": () => [[at("python-2.3.0/bin/python"), at("npm/python2.py")]],
  "Go SDK": goClient,
  inspector
}

const build = async () => {
  const cache = path.join(root, "node_modules/.cache/ampoule")
  fs.mkdirSync(cache, { recursive: true })
  const to = fs.mkdtempSync(path.join(cache, "agents-"))
  await run(process.execPath, ["src/build.mjs", path.join(to, "dist")], { cwd: root })
  return to
}

const isSelected = (/** @type {string} */ name) => names.length === 0 || names.some((one) => name.includes(one))
/** @type {Array<{ name: string, result: string, steps?: Array<string> }>} */
const results = []
const attempt = async (/** @type {string} */ name, /** @type {() => Promise<Array<string>>} */ work) => {
  if (!isSelected(name)) return
  try {
    results.push({ name, result: "passed", steps: await work() })
  } catch (error) {
    results.push({ name, result: "failed" })
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`)
  }
  process.stdout.write(`${results.at(-1)?.result}: ${name}\n`)
}

/**
 * Every scenario of both revisions that needs nothing of the suite's own; one that does not apply is reported, with the
 * reason.
 */
const conformance = async () => {
  const program = packageBin("@modelcontextprotocol/conformance", "conformance")
  const proxy = await WithToken.start(server.url, token)
  const steps = []
  const broken = []
  try {
    for (const scenario of scenarios) {
      const output = await run(newest, [program, "server", "--url", `${proxy.url}/mcp`, "--scenario", scenario]).then(
        () => "",
        (error) => String(error)
      )
      const why = [...output.matchAll(/^\s+Error: (.*)$/gm)].map(([, text]) => text ?? "")
      const untestable = why.filter((text) => text.startsWith("Not testable: server does not list the diagnostic tool"))
      if (output === "") steps.push(scenario)
      else if (why.length > 0 && untestable.length === why.length) {
        steps.push(`${scenario}, but for ${why.length} checks that want a tool of the suite's own`)
      } else broken.push(`${scenario}\n${output}`)
    }
  } finally {
    await proxy.stop()
  }
  if (broken.length > 0) throw new Error(broken.join("\n\n"))
  return [...steps, ...notApplicable.map(([which, why]) => `not applicable: ${which}: ${why}`)]
}

const plugin = async () => {
  const home = fs.mkdtempSync(path.join(tmpdir(), "ampoule-agents-home-"))
  const agent = at("npm/node_modules/@anthropic-ai/claude-code-linux-x64/claude")
  const skills = at("skills/bin/agentskills")
  try {
    return await Plugin.check({
      run,
      agent,
      skills,
      folder: path.join(root, "deploy/agents"),
      home,
      url: server.url,
      token
    })
  } finally {
    fs.rmSync(home, { recursive: true, force: true })
  }
}

fs.mkdirSync(folder, { recursive: true })
await install()
const release = await build()
const data = fs.mkdtempSync(path.join(tmpdir(), "ampoule-agents-data-"))
const server = await start(path.join(release, "dist/ampoule.cjs"), data, { AMPOULE_RATE_LIMITS: "off" })
const person = await Person.start(server.url, server.session(), server.teamId)
const token = await server.token("read", {
  mcpScopes: ["identity:read", "projects:read", "secrets:read", "secrets:run", "secrets:read_values"]
})
const writer = await server.token("write", {
  mcpScopes: ["identity:read", "projects:read", "secrets:read", "secrets:write", "secrets:run", "secrets:read_values"]
})
try {
  for (const [name, make] of Object.entries(clients)) {
    await attempt(name, async () => {
      /** @type {Array<string>} */
      const steps = []
      for (const [command = "", ...args] of await make()) {
        const env = {
          MCP_REMOTE: packageBin("mcp-remote", "mcp-remote"),
          MCP_URL: `${server.url}/mcp`,
          PERSON: person.url,
          PROJECT: server.projectId,
          TOKEN: writer
        }
        const output = await run(command, args, { cwd: at("npm"), env })
        if (name !== "inspector") steps.push(...output.trim().split("\n"))
      }
      return steps
    })
  }
  await attempt("conformance", conformance)
  await attempt("plugin", plugin)
} finally {
  await person.stop()
  await server.stop()
  for (const one of [release, data]) fs.rmSync(one, { recursive: true, force: true })
}

const failed = results.filter(({ result }) => result === "failed").length
if (names.length === 0) {
  const record = {
    what: "Official clients of agents against the built server, over HTTP: what each did. npm run test:agents",
    date: new Date().toISOString().slice(0, 10),
    versions: {
      ampoule: JSON.parse(fs.readFileSync(path.join(root, "package.json"), "utf8")).version,
      nodeOfServer: process.versions.node,
      ...versions
    },
    results
  }
  const file = path.join(root, "test/records/agents.json")
  fs.writeFileSync(file, JSON.stringify(record))
  await run(path.join(root, "node_modules/.bin/oxfmt"), [file], { cwd: root })
}
process.stdout.write(`${results.length - failed} passed, ${failed} failed\n`)
process.exitCode = failed === 0 ? 0 : 1

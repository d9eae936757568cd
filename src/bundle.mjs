// @ts-check
/** The bundle of the program, for `src/build.mjs` and for tests that run it as a process. */
import { build } from "esbuild"
import { execFileSync } from "node:child_process"
import { createHash } from "node:crypto"
import * as fs from "node:fs"
import * as path from "node:path"
import { fileURLToPath, pathToFileURL } from "node:url"
import { brotliCompressSync, constants } from "node:zlib"
import { commitOf } from "./commit.mjs"
import { printed } from "./printed.mjs"

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))

/**
 * Programs that are built separately: in a common build, each would include a whole file of which another needs a part.
 * The small ones are CommonJS, one file each, because Node starts that before its loader of ES modules.
 */
const first = { ampoule: "layers/main.ts" }
const small = {
  get: "layers/CliGet.ts",
  manual: "src/cli/help/Manual.ts",
  names: "layers/CliNames.ts",
  run: "layers/CliRun.ts",
  show: "layers/CliShow.ts"
}
export const smallPrograms = Object.keys(small)
/** Modules that they load on demand, shared with the large program. */
const parts = { formats: "src/formats/EnvFile.ts", proxy: "src/cli/connection/ProxyAgents.ts" }
const large = { cli: "layers/Cli.ts" }

/**
 * Redirects the import of one program by another to its bundle.
 *
 * @type {import("esbuild").Plugin}
 */
const apart = {
  name: "programs",
  setup: (plugin) => {
    plugin.onResolve({ filter: /\.ts$/ }, ({ kind, path: specifier, resolveDir }) => {
      if (kind !== "dynamic-import") return undefined
      const target = specifier.startsWith("#")
        ? specifier.slice(1)
        : path.relative(root, path.join(resolveDir, specifier))
      for (const [programs, ending] of /** @type {const} */ ([
        [parts, "cjs"],
        [large, "mjs"]
      ])) {
        const program = Object.entries(programs).find(([, file]) => file === target)
        if (program !== undefined) return { path: `./${program[0]}.${ending}`, external: true }
      }
      return undefined
    })
  }
}

/**
 * Modules that derive something from the sources, and the modules that read it as the build packed it.
 *
 * @type {Readonly<Record<string, string>>}
 */
const packedModules = {
  "DerivedDocuments.ts": "src/http/engine/PackedDocuments.ts",
  "DocsSource.ts": "src/docs/PackedDocs.ts"
}

/** @type {import("esbuild").Plugin} */
const packed = {
  name: "packed documents",
  setup: (plugin) => {
    plugin.onResolve({ filter: /\/(?:DerivedDocuments|DocsSource)\.ts$/ }, ({ path: specifier }) => ({
      path: path.join(root, packedModules[path.basename(specifier)] ?? "")
    }))
  }
}

/** Derives the OpenAPI documents and renders the documentation: inputs of `PackedDocuments.ts` and `PackedDocs.ts`. */
const derived = async () => {
  const contents = `
    import * as Effect from "effect/Effect"
    import { load } from "#src/http/engine/DerivedDocuments.ts"
    import { pack } from "#src/http/engine/DocumentText.ts"
    import { siteOf } from "#src/docs/DocsSource.ts"
    const openapi = pack(Effect.runSync(load))
    process.stdout.write(JSON.stringify({ openapi, docs: JSON.stringify(siteOf(process.argv[2])) }))`
  const { docs, openapi } = JSON.parse(await printed(contents, [`${root}/`]))
  // The best quality takes ten times as long for a tenth of the bytes.
  const params = { [constants.BROTLI_PARAM_QUALITY]: 9, [constants.BROTLI_PARAM_LGWIN]: 24 }
  return { openapi: brotliCompressSync(openapi), docs: brotliCompressSync(docs, { params }) }
}

// CommonJS dependencies (pg, yaml) call `require` for Node's modules.
const require = `import { createRequire as $createRequire } from "node:module"; const require = $createRequire(import.meta.url);`
/** @param {string} file */
const digestOf = (file) => createHash("sha256").update(fs.readFileSync(file)).digest("hex").slice(0, 32)
/** Kept for users of the former file name. */
const former = `${require} require("./ampoule.cjs")\n`

/**
 * Writes into `out`: the programs, the chunks of the large ones, `manual.json` (the help of the commands), `openapi.br`
 * (the OpenAPI documents) and `docs.br` (the documentation).
 * @param {string} out @param {import("esbuild").BuildOptions} more
 * @returns {Promise<import("esbuild").Metafile>} of everything
 */
export const bundle = async (out, more) => {
  /** Named by `src/Release.ts`. JSON has no `undefined`: where no commit is known, the text stays that word. */
  const release = { builtFromCommit: JSON.stringify(commitOf(root)) ?? "undefined" }
  /** @type {import("esbuild").BuildOptions} */
  const options = {
    absWorkingDir: root,
    define: release,
    outdir: out,
    bundle: true,
    platform: "node",
    target: "node20",
    legalComments: "none",
    logLevel: "warning",
    ...more,
    plugins: [apart, packed, ...(more.plugins ?? [])],
    metafile: true
  }
  /** @type {import("esbuild").BuildOptions} */
  const asCommonJs = {
    ...options,
    format: "cjs",
    outExtension: { ".js": ".cjs" },
    // Parsed at each start, so shorter is faster.
    minify: true,
    // Naming `performance` loads a module of Node, and Effect's clock works without it.
    define: { ...release, "import.meta.dirname": "__dirname", performance: "undefined" }
  }
  const builds = await Promise.all([
    // In Node 20, `import()` fails in code from V8's cache.
    build({ ...asCommonJs, entryPoints: { ...small, ...parts }, supported: { "dynamic-import": false } }),
    ...Object.entries(large).map(([name, file]) =>
      build({
        ...options,
        entryPoints: { [name]: file },
        format: "esm",
        outExtension: { ".js": ".mjs" },
        splitting: true,
        chunkNames: `${name}-[hash]`,
        banner: { js: require }
      })
    )
  ])
  const digests = Object.fromEntries(Object.keys(small).map((name) => [name, digestOf(path.join(out, `${name}.cjs`))]))
  const define = { ...asCommonJs.define, digests: JSON.stringify(digests) }
  builds.push(await build({ ...asCommonJs, entryPoints: first, define }))
  const outputs = Object.assign({}, ...builds.map(({ metafile }) => metafile?.outputs))
  const commands = Object.entries(outputs).find(([, output]) => output.entryPoint === "src/cli/Commands.ts")?.[0]
  if (commands === undefined) throw new Error("the bundle has no chunk of the commands")
  const chunk = pathToFileURL(path.join(root, commands)).href
  const program = `import { manual } from ${JSON.stringify(chunk)}; process.stdout.write(JSON.stringify(manual()))`
  const manual = execFileSync(process.execPath, ["--input-type=module", "-e", program])
  fs.writeFileSync(path.join(out, "manual.json"), manual)
  const { docs, openapi } = await derived()
  fs.writeFileSync(path.join(out, "openapi.br"), openapi)
  fs.writeFileSync(path.join(out, "docs.br"), docs)
  fs.writeFileSync(path.join(out, "ampoule.mjs"), former)
  return { inputs: Object.assign({}, ...builds.map(({ metafile }) => metafile?.inputs)), outputs }
}

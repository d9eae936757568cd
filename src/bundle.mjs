// @ts-check
/** The bundle of the program, for `src/build.mjs` and for tests that run it as a process. */
import { build } from "esbuild"
import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import { fileURLToPath, pathToFileURL } from "node:url"

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))

/**
 * Each of these is built by itself: where one build has several programs, each gets all of a file that another one needs
 * a part of. The small ones are CommonJS, each in one file: Node starts it before its loader of ES modules.
 */
const small = {
  ampoule: "src/cli/main.ts",
  get: "layers/CliGet.ts",
  manual: "src/cli/Manual.ts",
  names: "layers/CliNames.ts",
  run: "layers/CliRun.ts"
}
const large = { cli: "layers/Cli.ts", formats: "src/formats/EnvFile.ts", proxy: "src/cli/ProxyAgents.ts" }

/**
 * Where one loads another.
 *
 * @type {import("esbuild").Plugin}
 */
const apart = {
  name: "programs",
  setup: (plugin) => {
    plugin.onResolve({ filter: /^#(layers|src)\// }, ({ kind, path: given }) => {
      const found = Object.entries(large).find(([, file]) => `#${file}` === given)
      return found === undefined || kind !== "dynamic-import"
        ? undefined
        : { path: `./${found[0]}.mjs`, external: true }
    })
  }
}

// CommonJS dependencies (pg, yaml) call `require` for what Node has.
const require = `import { createRequire as $createRequire } from "node:module"; const require = $createRequire(import.meta.url);`
const url = `const $url = require("node:url").pathToFileURL(__filename).href;`
/** For whoever names the program by its former file. */
const former = `${require} require("./ampoule.cjs")\n`

/**
 * Into `out`: the programs, the chunks of the large ones, and `manual.json`, what the help says of the commands.
 * @param {string} out @param {import("esbuild").BuildOptions} more
 * @returns {Promise<import("esbuild").Metafile>} of everything
 */
export const bundle = async (out, more) => {
  /** @type {import("esbuild").BuildOptions} */
  const options = {
    absWorkingDir: root,
    outdir: out,
    bundle: true,
    platform: "node",
    target: "node20",
    legalComments: "none",
    logLevel: "warning",
    ...more,
    plugins: [apart, ...(more.plugins ?? [])],
    metafile: true
  }
  const builds = await Promise.all([
    build({
      ...options,
      entryPoints: small,
      format: "cjs",
      outExtension: { ".js": ".cjs" },
      // Read anew at each start: the shorter, the faster.
      minify: true,
      define: { "import.meta.url": "$url" },
      banner: { js: url }
    }),
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
  const outputs = Object.assign({}, ...builds.map(({ metafile }) => metafile?.outputs))
  const commands = Object.entries(outputs).find(([, output]) => output.entryPoint === "src/cli/Commands.ts")?.[0]
  if (commands === undefined) throw new Error("the bundle has no chunk of the commands")
  const chunk = pathToFileURL(path.join(root, commands)).href
  const program = `import { manual } from ${JSON.stringify(chunk)}; process.stdout.write(JSON.stringify(manual()))`
  // In a process of its own: the one that builds may be a test runner, with modules of its own.
  const manual = execFileSync(process.execPath, ["--input-type=module", "-e", program])
  fs.writeFileSync(path.join(out, "manual.json"), manual)
  fs.writeFileSync(path.join(out, "ampoule.mjs"), former)
  return { inputs: Object.assign({}, ...builds.map(({ metafile }) => metafile?.inputs)), outputs }
}

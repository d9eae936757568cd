// @ts-check
/**
 * Bundles the browser code: the islands of `src/dashboard/islands`, the parsers of file formats, which a page fetches
 * when a file is pasted or dropped, and the script of the documentation (`src/docs/browser.ts`). `src/build.mjs` and the tests call it.
 */
import { build } from "esbuild"
import * as fs from "node:fs"
import * as path from "node:path"
import { fileURLToPath } from "node:url"

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))
const islands = path.join(root, "src/dashboard/islands")

/** Files as text, by name, and the modules in them. */
const bundled = async () => {
  const result = await build({
    absWorkingDir: root,
    entryPoints: {
      islands: "src/dashboard/islands/main.tsx",
      formats: "src/dashboard/islands/formats.ts",
      docs: "src/docs/browser.ts"
    },
    outdir: "/",
    bundle: true,
    write: false,
    metafile: true,
    minify: true,
    format: "esm",
    platform: "browser",
    target: "es2022",
    jsx: "automatic",
    jsxImportSource: "preact",
    legalComments: "none",
    logLevel: "warning",
    // Errors are distinguished by their members, so a browser needs no further code of Effect's.
    alias: { "effect/Data": path.join(islands, "TaggedErrors.ts") },
    // A browser has no process.
    define: { "process.env.LOG_TOKENS": "undefined", "process.env.LOG_STREAM": "undefined" }
  })
  const files = new Map(result.outputFiles.map((file) => [path.basename(file.path), file.text]))
  return { files, modules: Object.keys(result.metafile.inputs) }
}

/**
 * Writes them into a folder. Each is written under a temporary name first, because two programs may run at once. Returns
 * paths of the bundled modules.
 */
export const buildIslands = async (/** @type {string} */ folder) => {
  fs.mkdirSync(folder, { recursive: true })
  const { files, modules } = await bundled()
  for (const [name, text] of files) {
    const file = path.join(folder, name)
    if (fs.existsSync(file) && fs.readFileSync(file, "utf8") === text) continue
    const unfinished = `${file}.${process.pid}`
    fs.writeFileSync(unfinished, text)
    fs.renameSync(unfinished, file)
  }
  return modules
}

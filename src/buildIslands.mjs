// @ts-check
/**
 * Bundles the browser code of `src/dashboard/islands`: the islands, and the parsers of file formats, which a page
 * fetches when a file is pasted or dropped. `src/build.mjs` and the tests call it.
 */
import { build } from "esbuild"
import * as fs from "node:fs"
import * as path from "node:path"
import { fileURLToPath } from "node:url"

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))
const islands = path.join(root, "src/dashboard/islands")

/** Files as text, by name. */
const bundled = async () => {
  const result = await build({
    absWorkingDir: root,
    entryPoints: { islands: "src/dashboard/islands/main.tsx", formats: "src/dashboard/islands/formats.ts" },
    outdir: "/",
    bundle: true,
    write: false,
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
  return new Map(result.outputFiles.map((file) => [path.basename(file.path), file.text]))
}

/** Writes them into a folder. Each is written under a temporary name first, because two programs may run at once. */
export const buildIslands = async (/** @type {string} */ folder) => {
  fs.mkdirSync(folder, { recursive: true })
  for (const [name, text] of await bundled()) {
    const file = path.join(folder, name)
    if (fs.existsSync(file) && fs.readFileSync(file, "utf8") === text) continue
    const unfinished = `${file}.${process.pid}`
    fs.writeFileSync(unfinished, text)
    fs.renameSync(unfinished, file)
  }
}

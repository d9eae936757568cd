/**
 * A folder outside of this one, with the package installed in it as npm would: built, and without what is ours alone.
 */
import * as Effect from "effect/Effect"
import { copyFileSync, cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import * as path from "node:path"
import * as Release from "#test/support/Release.ts"

const others = ["effect", "@effect", "@types", "typescript", "undici-types", "@standard-schema"]

export const scratch = Effect.acquireRelease(
  Effect.map(Release.dist, (dist) => {
    const folder = mkdtempSync(path.join(tmpdir(), "ampoule-scratch-"))
    const installed = path.join(folder, "node_modules/ampoule")
    mkdirSync(installed, { recursive: true })
    copyFileSync("package.json", path.join(installed, "package.json"))
    cpSync(dist, path.join(installed, "dist"), { recursive: true, verbatimSymlinks: true })
    for (const name of others) symlinkSync(path.resolve("node_modules", name), path.join(folder, "node_modules", name))
    writeFileSync(path.join(folder, "package.json"), JSON.stringify({ type: "module" }))
    return folder
  }),
  (folder) => Effect.sync(() => rmSync(folder, { recursive: true, force: true }))
)

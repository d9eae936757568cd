/** The server of an earlier commit, built from the history of this repository. It needs no network. */
import * as Effect from "effect/Effect"
import { execFileSync, spawnSync } from "node:child_process"
import * as fs from "node:fs"
import { tmpdir } from "node:os"
import * as path from "node:path"

/** The last commit before row seals of all tables, generations of service keys and second persons. */
export const commit = process.env["AMPOULE_UPGRADE_FROM"] ?? "ac3b16a38fd8fbf143cbc5e6569d133614ebc488"

/** A clone without history lacks the commit. */
export const available = spawnSync("git", ["cat-file", "-e", `${commit}^{commit}`]).status === 0

/** A folder with its `dist/ampoule.cjs`, built with the packages of now. */
export const build = Effect.acquireRelease(
  Effect.sync(() => {
    // Its bundler treats files below a folder `node_modules` as those of packages.
    const folder = fs.mkdtempSync(path.join(tmpdir(), "ampoule-earlier-"))
    const archive = path.join(folder, "source.tar")
    execFileSync("git", ["archive", "--output", archive, commit])
    execFileSync("tar", ["-xf", archive, "-C", folder])
    fs.symlinkSync(path.resolve("node_modules"), path.join(folder, "node_modules"))
    execFileSync(process.execPath, ["src/build.mjs", path.join(folder, "dist")], { cwd: folder })
    return folder
  }),
  (folder) => Effect.sync(() => fs.rmSync(folder, { recursive: true, force: true }))
)

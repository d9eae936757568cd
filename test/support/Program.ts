import * as Effect from "effect/Effect"
import { build } from "esbuild"
import { spawn } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"

const REQUIRE = 'import{createRequire}from"node:module";const require=createRequire(import.meta.url);'

/**
 * Bundles one of our TypeScript programs as the release is bundled, beside the embedded database's worker. Answers its
 * path.
 */
export const bundle = (entry: string) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      // Inside node_modules, where the packages that stay outside a bundle are found.
      const cache = path.resolve("node_modules/.cache/ampoule")
      fs.mkdirSync(cache, { recursive: true })
      const folder = fs.mkdtempSync(path.join(cache, "program-"))
      const outfile = path.join(folder, "program.mjs")
      await build({
        entryPoints: [entry],
        outfile,
        bundle: true,
        platform: "node",
        target: "node20",
        format: "esm",
        external: ["pg-native", "@electric-sql/pglite"],
        banner: { js: REQUIRE },
        logLevel: "error"
      })
      fs.copyFileSync("layers/pglite-worker.mjs", path.join(folder, "pglite-worker.mjs"))
      return { folder, outfile }
    }),
    ({ folder }) => Effect.sync(() => fs.rmSync(folder, { recursive: true, force: true }))
  ).pipe(Effect.map(({ outfile }) => outfile))

/** Runs such a program, with flags of Node; it is killed with the scope. */
export const run = (program: string, args: ReadonlyArray<string>, flags: ReadonlyArray<string> = []) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const child = spawn(process.execPath, [...flags, program, ...args], {
        stdio: ["ignore", "pipe", "pipe"],
        env: {}
      })
      const output = { stdout: "", stderr: "" }
      child.stdout.on("data", (chunk) => (output.stdout += String(chunk)))
      child.stderr.on("data", (chunk) => (output.stderr += String(chunk)))
      const exit = new Promise<number | null>((resolve) => void child.once("close", (code) => resolve(code)))
      return {
        output,
        exit: Effect.promise(() => exit),
        kill: Effect.zipRight(
          Effect.sync(() => child.kill("SIGKILL")),
          Effect.promise(() => exit)
        )
      }
    }),
    ({ kill }) => kill
  )

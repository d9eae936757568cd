/** The program as it is released: bundled into a folder of its own, started as a process of its own. */
import { execFile, spawn } from "node:child_process"
import { cpSync, mkdtempSync, rmSync } from "node:fs"
import * as path from "node:path"
import { promisify } from "node:util"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { parsed } from "./Json.ts"
import { freePort } from "./FreePort.ts"
import { once } from "./Once.ts"

const run = promisify(execFile)

/** The program as `npm run build` makes it; nobody writes into this folder. */
export const dist = Effect.promise(() =>
  once("dist", async (folder) => {
    await run(process.execPath, ["src/build.mjs", folder])
  })
)

/** A folder of its own with `dist/ampoule.cjs` in it, where the packages that stay outside the bundle are found. */
export const build = Effect.acquireRelease(
  Effect.map(dist, (built) => {
    const folder = mkdtempSync(path.resolve("node_modules/.cache/ampoule/release-"))
    cpSync(built, path.join(folder, "dist"), { recursive: true, verbatimSymlinks: true })
    return folder
  }),
  (folder) => Effect.sync(() => rmSync(folder, { recursive: true, force: true }))
)

/** `ampoule server` on a free port; ready when it answers, killed with the scope. `nodeArgs`: what its Node gets besides. */
export const server = (folder: string, env: Record<string, string>, nodeArgs: ReadonlyArray<string> = []) =>
  Effect.gen(function* () {
    const port = yield* freePort
    const url = `http://127.0.0.1:${port}`
    const child = yield* Effect.acquireRelease(
      Effect.sync(() =>
        spawn(process.execPath, [...nodeArgs, path.join(folder, "dist/ampoule.cjs"), "server"], {
          env: { PATH: process.env["PATH"], AMPOULE_PORT: String(port), ...env },
          stdio: ["ignore", "pipe", "pipe"]
        })
      ),
      (child) => Effect.sync(() => child.kill("SIGKILL"))
    )
    const output = { text: "" }
    yield* Effect.async<void, Error>((resume) => {
      const read = (chunk: unknown) => {
        output.text += String(chunk)
        if (output.text.includes("listens on")) resume(Effect.void)
      }
      child.stdout.on("data", read)
      child.stderr.on("data", read)
      child.once("exit", (code) => resume(Effect.fail(new Error(`the server stopped with ${code}: ${output.text}`))))
    })
    return { url, port, child, output }
  })

const readStatus = parsed(
  Schema.Struct({
    rootKeys: Schema.Array(
      Schema.Struct({ id: Schema.String, current: Schema.Boolean, held: Schema.Boolean, rows: Schema.Number })
    )
  })
)
/** Output of `ampoule vault status --json`. */
export const rootKeysOf = (stdout: string) => readStatus(stdout).rootKeys

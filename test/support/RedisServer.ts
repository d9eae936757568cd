/** A Redis for a test: the run's (`AMPOULE_TEST_REDIS_URL`, see `.ci/with-redis`), or one of its own. */
import * as Effect from "effect/Effect"
import { execFileSync, spawn } from "node:child_process"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { freePort } from "./FreePort.ts"

const setting = process.env["AMPOULE_TEST_REDIS_URL"]

const installed = () => {
  try {
    execFileSync("redis-server", ["--version"], { stdio: "ignore" })
    return true
  } catch {
    return false
  }
}
/** Whether tests that need a Redis can run here. */
export const available = setting !== undefined || installed()

/** A server on a free port, killed with the scope. */
export const own = Effect.gen(function* () {
  const port = yield* freePort
  const folder = yield* Effect.acquireRelease(
    Effect.sync(() => mkdtempSync(join(tmpdir(), "ampoule-redis-"))),
    (folder) => Effect.sync(() => rmSync(folder, { recursive: true, force: true }))
  )
  const args = ["--port", String(port), "--bind", "127.0.0.1", "--dir", folder, "--save", "", "--appendonly", "no"]
  const start = Effect.async<ReturnType<typeof spawn>, Error>((resume) => {
    const child = spawn("redis-server", args, { stdio: ["ignore", "pipe", "ignore"] })
    child.once("error", (error) => resume(Effect.fail(error)))
    child.once("exit", () => resume(Effect.fail(new Error("redis-server stopped"))))
    child.stdout.on("data", (chunk) => {
      if (String(chunk).includes("Ready to accept connections")) resume(Effect.succeed(child))
    })
  })
  const child = yield* Effect.acquireRelease(start, (child) => Effect.sync(() => child.kill("SIGKILL")))
  return {
    port,
    url: `redis://127.0.0.1:${port}`,
    signal: (signal: NodeJS.Signals) => Effect.sync(() => child.kill(signal))
  }
})

export const url = setting === undefined ? Effect.map(own, ({ url }) => url) : Effect.succeed(setting)

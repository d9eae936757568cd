/** World of the recipes of docs/recipes: a project `shop`, a reader's token, the program as an image has it. */
import { assert } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { execFileSync, spawn } from "node:child_process"
import * as fs from "node:fs"
import { tmpdir } from "node:os"
import * as path from "node:path"
import { Listening } from "#src/http/engine/Server.ts"
import * as Release from "#test/support/Release.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"

const temporary = Effect.acquireRelease(
  Effect.sync(() => fs.mkdtempSync(path.join(tmpdir(), "ampoule-recipe-"))),
  (folder) => Effect.sync(() => fs.rmSync(folder, { recursive: true, force: true }))
)

export const values = {
  DATABASE_URL: "postgres://app:canary@db.internal/app",
  SMTP_HOST: "smtp.internal",
  SMTP_PORT: "2525",
  VITE_API: "https://api.example.com"
}

/** A project `shop` with these values in two environments, and a token for each that reads it alone. */
export const shop = Effect.gen(function* () {
  const project = yield* World.project({ slug: "shop" })
  const writer = yield* World.token({ team: project.team, environments: [project.production, project.development] })
  for (const environment of ["production", "development"]) {
    const secrets = Object.entries(values).map(([key, value]) => ({ key, value }))
    const json = { projectId: project.id, environment, secrets }
    const { status } = yield* TestApp.post("/secrets/bulk", { bearer: writer.text, json })
    assert.strictEqual(status, 201)
  }
  const readerOf = (environment: World.Environment) =>
    World.token({ team: project.team, accessLevel: "read", environments: [environment] })
  const reader = yield* readerOf(project.production)
  const developer = yield* readerOf(project.development)
  const { port } = yield* Listening
  return {
    project,
    token: reader.text,
    developerToken: developer.text,
    writer: writer.text,
    url: `http://127.0.0.1:${port}`
  }
})

/** Folder with the program as the image has it, and `ampoule` to be found in `bin`. */
export const image = Effect.gen(function* () {
  const folder = yield* temporary
  const release = yield* Release.build
  const app = path.join(folder, "opt/ampoule")
  execFileSync(process.execPath, ["deploy/collect.mjs", app, path.join(release, "dist")], { stdio: "pipe" })
  const bin = path.join(folder, "bin")
  fs.mkdirSync(bin)
  fs.symlinkSync(path.join(app, "dist/ampoule.cjs"), path.join(bin, "ampoule"))
  const srv = path.join(folder, "srv")
  fs.mkdirSync(srv)
  const env = { PATH: `${bin}:${process.env["PATH"]}`, HOME: folder }
  return { folder, srv, program: path.join(app, "dist/ampoule.cjs"), env }
})

/** Says what it got, then waits for a signal and ends with 7. */
export const serverProgram = `
process.on("SIGTERM", () => { console.log("stopping"); process.exit(7) })
setInterval(() => {}, 1_000)
console.log(JSON.stringify({ url: process.env.DATABASE_URL, token: process.env.AMPOULE_API_TOKEN_FILE ?? null }))
`
export const untilStopped = (
  command: string,
  args: ReadonlyArray<string>,
  options: { cwd: string; env: NodeJS.ProcessEnv }
) =>
  Effect.async<{ readonly code: number | null; readonly out: string }>((resume) => {
    const child = spawn(command, args, { ...options, stdio: ["ignore", "pipe", "pipe"] })
    let out = ""
    const read = (chunk: unknown) => {
      const before = out
      out += String(chunk)
      if (!before.includes("\n") && out.includes("\n")) child.kill("SIGTERM")
    }
    child.stdout.on("data", read)
    child.stderr.on("data", (chunk) => (out += String(chunk)))
    child.once("close", (code) => resume(Effect.succeed({ code, out })))
    return Effect.sync(() => child.kill("SIGKILL"))
  })

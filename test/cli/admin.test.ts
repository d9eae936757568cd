/** `ampoule admin` as it is released, on an embedded database. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { spawn } from "node:child_process"
import * as path from "node:path"
import * as Release from "#test/support/Release.ts"

describe("ampoule admin", () => {
  it.scopedLive(
    "lists accounts, makes a reset link, removes an account; the trail has each of them and is whole",
    () =>
      Effect.gen(function* () {
        const folder = yield* Release.build
        const env = {
          PATH: process.env["PATH"],
          HOME: folder,
          AMPOULE_DATA_DIR: path.join(folder, "data"),
          AMPOULE_PORT: "4999"
        }
        const run = (...args: ReadonlyArray<string>) =>
          Effect.async<{ readonly status: number | null; readonly stdout: string; readonly stderr: string }>(
            (resume) => {
              const program = path.join(folder, "dist/ampoule.cjs")
              const child = spawn(process.execPath, [program, ...args], { cwd: folder, env, stdio: "pipe" })
              let [stdout, stderr] = ["", ""]
              child.stdout.on("data", (chunk) => (stdout += String(chunk)))
              child.stderr.on("data", (chunk) => (stderr += String(chunk)))
              child.stdin.end()
              child.once("close", (status) => resume(Effect.succeed({ status, stdout, stderr })))
              return Effect.sync(() => child.kill("SIGKILL"))
            }
          )
        const early = yield* run("admin", "users")
        assert.strictEqual(early.status, 1)
        assert.include(early.stderr, "There is no Ampoule database here yet.")

        const account = ["--email", "Ada@Example.com", "--name", "Ada", "--team", "Platform"]
        const setup = yield* run("setup", ...account, "--generate-password", "--json")
        assert.strictEqual(setup.status, 0, setup.stderr)
        const listed = yield* run("admin", "users")
        assert.strictEqual(listed.status, 0, listed.stderr)
        assert.match(listed.stdout, /ada@example\.com +Ada +\d{4}-\d\d-\d\d +Platform \(owner\)\n/)

        const link = yield* run("admin", "reset-link", "ADA@example.com")
        assert.strictEqual(link.status, 0, link.stderr)
        assert.match(link.stdout, /^http:\/\/127\.0\.0\.1:4999\/reset\?code=amp_pr_[0-9A-Za-z_]{66}\n$/)
        const unknown = yield* run("admin", "reset-link", "nobody@example.com")
        assert.strictEqual(unknown.status, 1)
        assert.include(unknown.stderr, "There is no account with this e-mail address.")

        const factor = yield* run("admin", "remove-factor", "ada@example.com", "--yes")
        assert.strictEqual(factor.status, 0, factor.stderr)
        assert.include(factor.stderr, "ada@example.com has no second factor any more.")

        const asked = yield* run("admin", "remove-user", "ada@example.com")
        assert.strictEqual(asked.status, 2)
        assert.include(asked.stderr, "--yes")
        const refused = yield* run("admin", "remove-user", "ada@example.com", "--yes")
        assert.strictEqual(refused.status, 1)
        assert.include(refused.stderr, "The person is the last active owner of Platform.")
        const removed = yield* run("admin", "remove-user", "ada@example.com", "--yes", "--even-last-owner")
        assert.strictEqual(removed.status, 0, removed.stderr)
        assert.deepStrictEqual(JSON.parse((yield* run("admin", "users", "--json")).stdout), {
          items: [],
          hasMore: false
        })

        const trail = yield* run("audit", "export")
        const actions = trail.stdout
          .split("\n")
          .flatMap((line) => /\\?"action\\?":\\?"([\w.]+)\\?"/.exec(line)?.[1] ?? [])
        for (const action of ["member.list", "password.reset_link", "factor.remove", "member.remove"]) {
          assert.include(actions, action)
        }
        const verified = yield* run("audit", "verify")
        assert.strictEqual(verified.status, 0, verified.stderr + verified.stdout)
      }),
    180_000
  )
})

/** `ampoule admin` as it is released, on an embedded database. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { spawn } from "node:child_process"
import * as path from "node:path"
import { parsed } from "#test/support/Json.ts"
import * as Release from "#test/support/Release.ts"

describe("ampoule admin", () => {
  it.scopedLive(
    "lists, deactivates and removes accounts, makes reset links; makes, lists, suspends and removes teams; the trail has each use",
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
        assert.include(factor.stderr, "ada@example.com no longer has a second factor.")

        const moved = yield* run("admin", "change-email", "ada@example.com", "Ada.L@example.com", "--yes")
        assert.strictEqual(moved.status, 0, moved.stderr)
        assert.include(moved.stderr, "ada.l@example.com now signs in to the account, instead of ada@example.com.")
        const conflict = yield* run("admin", "change-email", "ada.l@example.com", "ada.l@example.com", "--yes")
        assert.deepStrictEqual([conflict.status, conflict.stdout], [1, ""])
        assert.include(conflict.stderr, "The new e-mail address belongs to an account.")
        assert.strictEqual((yield* run("admin", "change-email", "ada.l@example.com", "nonsense", "--yes")).status, 2)
        const back = yield* run("admin", "change-email", "ada.l@example.com", "ada@example.com", "--yes", "--json")
        assert.strictEqual(back.status, 0, back.stderr)
        assert.include(back.stdout, '"email": "ada@example.com"')

        // Witnesses of addresses: the setup's operator vouched for the first account.
        assert.match(
          (yield* run("admin", "accounts")).stdout,
          /ada@example\.com +operator +\d{4}-\d\d-\d\d +[0-9a-f-]{36} +Platform/
        )
        const unvouched = yield* run("admin", "accounts", "--unvouched", "--json")
        assert.deepStrictEqual([unvouched.status, JSON.parse(unvouched.stdout)], [0, { items: [], hasMore: false }])
        const vouched = yield* run("admin", "accounts", "vouch", "ADA@example.com", "--yes")
        assert.strictEqual(vouched.status, 0, vouched.stderr)
        assert.include(vouched.stderr, "holds the address ada@example.com.")
        const stranger = yield* run("admin", "accounts", "vouch", "nobody@example.com", "--yes")
        assert.deepStrictEqual([stranger.status, stranger.stdout], [1, ""])
        assert.strictEqual((yield* run("admin", "accounts", "vouch", "nonsense", "--yes")).status, 2)

        // Teams: made for an account, listed, suspended, let go on, removed.
        const nobody = yield* run("admin", "create-team", "Web", "--owner", "nobody@example.com")
        assert.deepStrictEqual([nobody.status, nobody.stdout], [1, ""])
        assert.include(nobody.stderr, "There is no account with this e-mail address.")
        const creation = yield* run("admin", "create-team", "Web", "--owner", "ADA@example.com", "--json")
        assert.strictEqual(creation.status, 0, creation.stderr)
        const { team } = parsed(Schema.Struct({ team: Schema.Struct({ id: Schema.String }) }))(creation.stdout)
        const teams = Effect.map(run("admin", "teams"), ({ stdout }) => stdout)
        assert.match(yield* teams, new RegExp(`${team.id} +Web +1 +0 +ada@example\\.com\n`))
        assert.notInclude((yield* run("admin", "teams", "--search", "plat")).stdout, team.id)
        assert.strictEqual((yield* run("admin", "suspend-team", team.id)).status, 2)
        const suspended = yield* run("admin", "suspend-team", team.id, "--yes")
        assert.strictEqual(suspended.status, 0, suspended.stderr)
        assert.include(yield* teams, "Web (suspended)")
        assert.strictEqual((yield* run("admin", "resume-team", team.id)).status, 0)
        assert.notInclude(yield* teams, "suspended")
        assert.strictEqual((yield* run("admin", "remove-team", team.id, "--yes", "--json")).status, 0)
        assert.notInclude(yield* teams, team.id)
        assert.include((yield* run("admin", "resume-team", "nonsense")).stderr, "TEAM takes the id of a team.")

        // People: kept out of all teams, and let in again.
        const lastOwner = yield* run("admin", "deactivate-user", "ada@example.com", "--yes")
        assert.include(lastOwner.stderr, "The person is the last active owner of Platform.")
        const out = yield* run("admin", "deactivate-user", "ada@example.com", "--yes", "--even-last-owner")
        assert.strictEqual(out.status, 0, out.stderr)
        assert.include((yield* run("admin", "users")).stdout, "Platform (owner, inactive)")
        assert.strictEqual((yield* run("admin", "activate-user", "ada@example.com")).status, 0)
        assert.notInclude((yield* run("admin", "users")).stdout, "inactive")

        const unconfirmed = yield* run("admin", "remove-user", "ada@example.com")
        assert.strictEqual(unconfirmed.status, 2)
        assert.include(unconfirmed.stderr, "--yes")
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
        for (const action of [
          "member.list",
          "member.update",
          "member.remove",
          "password.reset_link",
          "factor.remove",
          "team.list",
          "team.create",
          "team.suspend",
          "team.resume",
          "team.delete"
        ]) {
          assert.include(actions, action)
        }
        const verified = yield* run("audit", "verify")
        assert.strictEqual(verified.status, 0, verified.stderr + verified.stdout)
      }),
    400_000
  )
})

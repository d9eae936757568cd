import { assert, layer } from "@effect/vitest"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as fs from "node:fs"
import * as path from "node:path"
import { ApiToken } from "#schema/ApiTokensApi.ts"
import { Project, ProjectEnvironment } from "#schema/ProjectsApi.ts"
import { SecondPersonRequest } from "#schema/SecondPersonApi.ts"
import { Invitation, Member } from "#schema/TeamsApi.ts"
import { cliScopes, type Role } from "#schema/Scopes.ts"
import { failureOf, parsed } from "#test/support/Json.ts"
import * as Seals from "#test/support/Seals.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"
import { app, setUp } from "./ProjectFolder.ts"

/** A person of the team with a login in the variable, and what they do in the browser. */
const at = (role: Role) =>
  Effect.gen(function* () {
    const { ampoule, env, home, project, run } = yield* setUp()
    const { team } = project
    const person = role === "owner" ? team.owner : yield* World.member(team, role)
    const login = yield* World.grant({ person, teams: [{ team, scopes: cliScopes }] })
    const session = (yield* World.session(person)).text
    const own = { ...env, AMPOULE_API_TOKEN: login.text }
    /** Runs the command, decides where it says, and answers how it ended. */
    const decided =
      (decision: "approve-management" | "deny") =>
      (...words: ReadonlyArray<string>) =>
        Effect.gen(function* () {
          const running = yield* ampoule.start(words, { home, stdin: "", env: own })
          const first = yield* Effect.raceFirst(Effect.as(running.shows("Waiting"), undefined), running.ended)
          if (first !== undefined) return first
          const userCode = /approve the code {2}([A-Z]{4}-[A-Z]{4})/.exec(running.output.stderr)?.[1] ?? ""
          const answer = yield* TestApp.post(`/auth/cli/device/requests/${userCode}/${decision}`, { session })
          assert.strictEqual(answer.status, 200, answer.text)
          return yield* running.ended
        })
    /** Those that manage now. */
    const managing = Effect.map(TestApp.get("/me/sessions", { session }), ({ json }) =>
      json.items.filter(({ manages }) => manages !== null)
    )
    return {
      project,
      team,
      home,
      ampoule,
      own,
      session,
      managing,
      alone: (...words: ReadonlyArray<string>) => run(words, { env: own }),
      withToken: (...words: ReadonlyArray<string>) => run(words),
      approved: decided("approve-management"),
      denied: decided("deny")
    }
  })

const files = (folder: string): ReadonlyArray<string> =>
  fs.readdirSync(folder, { withFileTypes: true, recursive: true }).flatMap((entry) => {
    const file = path.join(entry.parentPath, entry.name)
    return entry.isFile() ? [file] : []
  })

layer(app, { excludeTestServices: true, timeout: 120_000 })("management by the command line", (it) => {
  it.scoped(
    "makes, changes and deletes projects and environments after an approval, keeps nothing and ends it",
    () =>
      Effect.gen(function* () {
        const { alone, approved, home, managing, project, team } = yield* at("owner")
        const creation = yield* approved(
          "projects",
          "create",
          "Web shop",
          "--slug",
          "web",
          "--environment",
          "qa",
          "--json"
        )
        assert.strictEqual(creation.code, 0, creation.stderr)
        assert.include(creation.stderr, `Managing ${team.name} needs your approval: for this command alone`)
        const created = parsed(Project)(creation.stdout)
        assert.deepStrictEqual([created.slug, created.name, created.teamId], ["web", "Web shop", team.id])
        assert.deepStrictEqual(yield* managing, [], "the command ended what it was given")
        for (const file of files(home)) assert.notInclude(fs.readFileSync(file, "latin1"), "amp_ss_", file)
        assert.notInclude(creation.stdout + creation.stderr, "amp_ss_")

        const listed = yield* alone("environments", "list", "--project", "web", "--json")
        assert.deepStrictEqual(
          parsed(Schema.Array(ProjectEnvironment))(listed.stdout).map(({ slug }) => slug),
          ["qa"]
        )
        const live = yield* approved("environments", "create", "live", "-p", "web", "--protected", "yes")
        assert.strictEqual(live.code, 0, live.stderr)
        assert.match(live.stdout, /^[0-9a-f-]{36}\n$/)
        const changed = yield* approved("environments", "update", "live", "-p", "web", "--protected", "no", "--json")
        assert.isFalse(parsed(ProjectEnvironment)(changed.stdout).protected)
        assert.include((yield* alone("environments", "list", "-p", "web")).stdout, "live")
        assert.strictEqual((yield* approved("environments", "delete", "live", "-p", "web", "--yes")).code, 0)
        assert.strictEqual((yield* approved("projects", "update", "web", "--name", "Shop")).code, 0)
        const gone = yield* approved("projects", "delete", "web", "--yes", "--json")
        assert.deepStrictEqual(JSON.parse(gone.stdout), { id: created.id, deleted: true })
        const remaining = parsed(Schema.Array(Project))((yield* alone("projects", "--json")).stdout)
        assert.deepStrictEqual(
          remaining.map(({ id }) => id),
          [project.id]
        )
      }),
    300_000
  )

  it.scoped(
    "makes a token and tells its text once, where it was asked for",
    () =>
      Effect.gen(function* () {
        const { alone, approved, home, project } = yield* at("owner")
        // Asked before anybody approves anything.
        const nowhere = yield* alone("tokens", "create", "ci")
        assert.deepStrictEqual([nowhere.code, nowhere.stdout], [2, ""])
        assert.include(nowhere.stderr, "--token-file FILE or --stdout")
        const words = ["tokens", "create", "ci", "--project", project.slug, "--lifetime", "7d"]
        const piped = yield* approved(...words, "--stdout")
        assert.strictEqual(piped.code, 0, piped.stderr)
        assert.match(piped.stdout, /^amp_at_[0-9A-Za-z]{16}_[0-9A-Za-z]{49}\n$/)
        assert.notInclude(piped.stderr, "amp_at_")
        assert.strictEqual((yield* TestApp.get("/me/verify", { bearer: piped.stdout.trim() })).status, 200)

        const filed = yield* approved("tokens", "create", "deploy", "--token-file", "deploy.token", "--json")
        assert.notInclude(filed.stdout + filed.stderr, "amp_at_")
        assert.strictEqual(parsed(ApiToken)(filed.stdout).name, "deploy")
        const file = path.join(home, "deploy.token")
        assert.strictEqual(fs.statSync(file).mode & 0o777, 0o600)
        const before = fs.readFileSync(file, "utf8").trim()
        const again = yield* alone("tokens", "create", "deploy", "--token-file", "deploy.token")
        assert.strictEqual(again.code, 1, "a file that is there is not written over")

        const rotated = yield* approved("tokens", "rotate", "deploy", "--stdout")
        assert.strictEqual(rotated.code, 0, rotated.stderr)
        assert.strictEqual((yield* TestApp.get("/me/verify", { bearer: before })).error.code, "CREDENTIAL_REVOKED")
        const listed = parsed(Schema.Array(ApiToken))((yield* approved("tokens", "list", "--json")).stdout)
        assert.includeMembers(
          listed.map(({ name }) => name),
          ["ci", "deploy"]
        )
        assert.strictEqual((yield* approved("tokens", "revoke", "deploy", "--yes")).code, 0)
        const unknown = yield* approved("tokens", "revoke", "nothing", "--yes")
        assert.strictEqual(unknown.code, 1)
        assert.include(unknown.stderr, "The team has no token nothing.")
      }),
    300_000
  )

  it.scoped(
    "lists what waits for a second person, and makes the approved link of the person who asked",
    () =>
      Effect.gen(function* () {
        const { alone, approved, team } = yield* at("admin")
        const sql = yield* SqlClient.SqlClient
        const owner = (yield* World.session(team.owner)).text
        const set = yield* TestApp.patch(`/teams/${team.id}`, { session: owner, json: { secondPerson: true } })
        assert.strictEqual(set.status, 200, set.text)
        yield* Seals.after(
          "memberships",
          sql`UPDATE memberships SET updated_at = now() - interval '2 days' WHERE team_id = ${team.id}`
        )
        const invitation = yield* approved("members", "invite", `${team.id}@example.com`, "--role", "admin")
        assert.include(invitation.stderr, "waits until another owner or admin approves it")
        const list = yield* approved("second-person", "list", "--json")
        const [item] = parsed(Schema.Array(SecondPersonRequest))(list.stdout)
        assert.deepInclude(item, { kind: "invitation", status: "pending", mayDecide: false, hasLink: false })
        const early = yield* approved("second-person", "link", item.id)
        assert.strictEqual(early.code, 1)
        assert.include(early.stderr, "approves it first")
        const page = yield* alone("second-person", "approve", "--no-browser")
        assert.match(page.stdout, /\/app\/waiting\n$/)
        const decision = yield* TestApp.post(`/second-person/${item.id}/approve`, { session: owner })
        assert.strictEqual(decision.status, 200, decision.text)
        const ready = yield* approved("second-person", "list")
        assert.include(ready.stdout, "approved: make your link")
        const link = yield* approved("second-person", "link", item.id)
        assert.match(link.stdout, /^http:\S+\/invite\?code=\S+\n$/)
        assert.strictEqual((yield* approved("second-person", "link", item.id)).code, 1)
        assert.strictEqual((yield* alone("second-person", "link", "nonsense")).code, 2)
      }),
    300_000
  )

  it.scoped(
    "invites, changes and removes people",
    () =>
      Effect.gen(function* () {
        const { approved, team } = yield* at("admin")
        const invited = yield* approved("members", "invite", "New@Example.com", "--role", "viewer", "--json")
        assert.include(parsed(Invitation)(invited.stdout).inviteUrl, "/invite?code=")
        const member = yield* World.member(team, "member")
        const changed = yield* approved("members", "update", member.email, "--role", "viewer", "--json")
        assert.strictEqual(parsed(Member)(changed.stdout).role, "viewer")
        const listed = yield* approved("members", "list")
        assert.match(listed.stdout, new RegExp(`${member.email} +Ada +viewer +yes`))
        assert.strictEqual((yield* approved("members", "remove", member.email, "--yes")).code, 0)
        const again = yield* approved("members", "remove", member.email, "--yes")
        assert.include(again.stderr, "has no member with this address")
        // Only owners manage owners.
        const refused = yield* approved("members", "update", team.owner.email, "--role", "viewer", "--json")
        assert.deepStrictEqual(
          [refused.code, failureOf(refused.stderr.slice(refused.stderr.indexOf("{"))).code],
          [1, "FORBIDDEN"]
        )
      }),
    300_000
  )

  it.scoped(
    "shows where a member is signed in, and ends one or all",
    () =>
      Effect.gen(function* () {
        const { alone, approved, team } = yield* at("admin")
        const member = yield* World.member(team, "member")
        const browser = yield* World.session(member)
        const login = yield* World.grant({ person: member, teams: [{ team, scopes: ["identity:read"] }] })
        yield* World.token({ team, creator: member })
        const Listed = parsed(Schema.Array(Schema.Struct({ id: Schema.String, type: Schema.String })))
        const listed = yield* approved("sessions", "--member", member.email, "--json")
        assert.strictEqual(listed.code, 0, listed.stderr)
        assert.sameDeepMembers(
          Listed(listed.stdout).map(({ id, type }) => ({ id, type })),
          [
            { id: browser.id, type: "session" },
            { id: login.id, type: "cli_grant" }
          ]
        )
        const table = yield* approved("sessions", "list", "--member", member.email)
        assert.match(table.stdout, new RegExp(`${browser.id} +browser`))
        assert.match(table.stdout, new RegExp(`${login.id} +CLI login`))
        const one = yield* approved("sessions", "end", login.id, "--member", member.email, "--json")
        assert.deepStrictEqual(JSON.parse(one.stdout), { id: login.id, ended: true })
        assert.strictEqual((yield* TestApp.get("/me/verify", { bearer: login.text })).error.code, "CREDENTIAL_REVOKED")
        assert.strictEqual((yield* TestApp.get("/me", { session: browser.text })).status, 200)
        // Of a person whom somebody else manages elsewhere, the browser stays.
        const elsewhere = yield* World.team()
        yield* World.join(elsewhere, member, "member")
        yield* World.grant({ person: member, teams: [{ team, scopes: ["identity:read"] }] })
        const kept = yield* approved("sessions", "end-all", "--member", member.email, "--json")
        assert.deepStrictEqual(JSON.parse(kept.stdout), { ended: 1, kept: 1 })
        const lone = yield* World.member(team, "viewer")
        const theirs = yield* World.session(lone)
        const ended = yield* approved("sessions", "end-all", "--member", lone.email)
        assert.include(ended.stderr, "1 ended.")
        assert.strictEqual((yield* TestApp.get("/me", { session: theirs.text })).error.code, "CREDENTIAL_REVOKED")
        // An admin ends nothing of an owner, and a stored login manages nobody.
        const owners = yield* World.session(team.owner)
        const refused = yield* approved("sessions", "end", owners.id, "--member", team.owner.email)
        assert.strictEqual(refused.code, 1)
        assert.strictEqual((yield* TestApp.get("/me", { session: owners.text })).status, 200)
        const nobody = yield* approved("sessions", "--member", "nobody@example.com")
        assert.include(nobody.stderr, "has no member with this address")
        assert.strictEqual((yield* alone("sessions", "end", "nonsense", "--member", lone.email)).code, 2)
      }),
    300_000
  )

  it.scoped(
    "is a part of `init`, which makes the project and the environment that are not there",
    () =>
      Effect.gen(function* () {
        const { ampoule, own, session, team } = yield* at("owner")
        const folder = yield* ampoule.home
        const words = ["init", "--project", "brand-new", "--env", "qa"]
        const running = yield* ampoule.terminal(words, { home: folder, env: own })
        yield* running.shows("This login sees no project brand-new. Create it?")
        running.child.stdin?.write("y\n")
        yield* running.shows("Waiting")
        const approve = (output: string, at: number) =>
          Effect.gen(function* () {
            const userCode = [...output.matchAll(/approve the code {2}([A-Z]{4}-[A-Z]{4})/g)][at]?.[1] ?? ""
            const page = `/auth/cli/device/requests/${userCode}/approve-management` as const
            assert.strictEqual((yield* TestApp.post(page, { session })).status, 200)
          })
        yield* approve(running.output.stdout, 0)
        const ended = yield* running.ended
        assert.strictEqual(ended.code, 0, ended.stdout)
        assert.include(ended.stdout, `Created the project brand-new of ${team.name}.`)
        assert.include(ended.stdout, "Next: ampoule run -- npm start")
        const written = fs.readFileSync(path.join(folder, ".ampoule.json"), "utf8")
        assert.deepStrictEqual(JSON.parse(written), { project: "brand-new", environment: "qa" })

        const second = yield* ampoule.terminal(["init", "--project", "brand-new"], { home: folder, env: own })
        yield* second.shows("a new environment")
        second.child.stdin?.write("a new environment\n")
        yield* second.shows("Slug of the new environment")
        second.child.stdin?.write("pr-12\n")
        yield* second.shows("Waiting")
        yield* approve(second.output.stdout, 0)
        const again = yield* second.ended
        assert.strictEqual(again.code, 0, again.stdout)
        const rewritten = fs.readFileSync(path.join(folder, ".ampoule.json"), "utf8")
        assert.deepStrictEqual(JSON.parse(rewritten), { project: "brand-new", environment: "pr-12" })
      }),
    300_000
  )

  it.scoped(
    "does nothing when it is denied, and for who does not manage",
    () =>
      Effect.gen(function* () {
        const { alone, denied, managing, withToken } = yield* at("owner")
        const refused = yield* denied("projects", "create", "Mine")
        assert.deepStrictEqual([refused.code, refused.stdout], [1, ""])
        assert.include(refused.stderr, "The request was denied.")
        assert.deepStrictEqual(yield* managing, [])
        for (const [words, sentence] of [
          [["projects", "create", "Shop", "--slug", "Not a slug"], "slug "],
          [["projects", "create", "Shop", "--team", "Nobodys"], "This login does not belong to a team Nobodys."],
          [["environments", "create", "Not a slug"], "slug "],
          [["environments", "update", "development"], "Use --name, --protected"],
          [["environments", "delete", "nowhere", "--yes"], "cannot reach an environment nowhere"],
          [["projects", "delete", "nowhere", "--yes"], "cannot see a project nowhere"],
          [["members", "invite", "no address"], "email "],
          [["members", "update", "a@example.com"], "Use --role or --active"]
        ] as const) {
          const ended = yield* alone(...words)
          assert.notStrictEqual(ended.code, 0)
          assert.include(ended.stderr, sentence)
          assert.notInclude(ended.stderr, "Waiting")
        }
        const token = yield* withToken("projects", "create", "Shop")
        assert.include(token.stderr, "This needs a login")
        const viewer = yield* at("viewer")
        const role = yield* viewer.alone("projects", "create", "Shop")
        assert.include(role.stderr, "owners and admins manage a team")
      }),
    300_000
  )
})

import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { AccessRequest } from "#schema/AccessRequestsApi.ts"
import { EnvironmentAccess } from "#schema/EnvironmentAccessApi.ts"
import { ChangeRequest, RevealedChanges } from "#schema/ChangeRequestsApi.ts"
import { failureOf, parsed } from "#test/support/Json.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"
import { app, setUp } from "./ProjectFolder.ts"

/** A member with a login in the variable, at a production that is granted; and an admin. */
const atProduction = Effect.gen(function* () {
  const { project, run } = yield* setUp()
  const { team } = project
  const owner = (yield* World.session(team.owner)).text
  yield* TestApp.patch(`/environments/${project.production.id}`, { session: owner, json: { readers: "granted" } })
  const scopes = ["projects:read", "secrets:read", "secrets:read_values", "secrets:run", "secrets:write"] as const
  const login = (person: World.Person) =>
    Effect.map(World.grant({ teams: [{ team, scopes: [...scopes] }], person }), ({ text }) => text)
  const as = (person: World.Person) =>
    Effect.map(
      login(person),
      (text) =>
        (...words: ReadonlyArray<string>) =>
          run(words, { env: { AMPOULE_API_TOKEN: text } })
    )
  const member = yield* World.member(team, "member")
  const memberSession = (yield* World.session(member)).text
  return {
    project,
    owner,
    run,
    memberSession,
    member: yield* as(member),
    admin: yield* as(team.owner),
    email: member.email
  }
})

layer(app, { excludeTestServices: true })("ampoule access", (it) => {
  it.scoped("asks, lists and withdraws, and names the page where people decide", () =>
    Effect.gen(function* () {
      const { admin, email, member, owner, project } = yield* atProduction
      const request = yield* member("access", "request", "--env", "production", "--for", "2h", "--why", "Incident 42")
      assert.strictEqual(request.code, 0, request.stderr)
      assert.include(request.stderr, "Requested values of production for 2 h.")
      const page = `/app/projects/${project.id}/env/production/access`
      assert.include(request.stderr, page)
      const id = request.stdout.trim()
      const listed = yield* member("access", "requests")
      assert.match(listed.stdout, new RegExp(`${id} .*production .*values .*2 .*no .*Incident 42`))
      const [item] = parsed(Schema.Array(AccessRequest))((yield* admin("access", "requests", "--json")).stdout)
      assert.deepStrictEqual([item.id, item.user.email, item.mayDecide], [id, email, true])

      // The command line decides nothing: it says so and names the page.
      const own = yield* member("access", "approve", id)
      assert.strictEqual(own.code, 1)
      assert.include(own.stderr, "only a person other than its author")
      const named = yield* admin("access", "approve", id, "--no-browser")
      assert.strictEqual(named.code, 0)
      assert.include(named.stderr, "Decide on this page, signed in")
      assert.match(named.stdout, new RegExp(`^http://127.0.0.1:\\d+${page}\n$`))
      assert.strictEqual((yield* TestApp.post(`/access-requests/${id}/approve`, { session: owner })).status, 200)
      assert.strictEqual((yield* member("access", "requests", "--json")).stdout, "[]\n")

      const more = yield* member("access", "request", "-e", "production", "--for", "1d", "--why", "More", "--json")
      const created = parsed(AccessRequest)(more.stdout)
      assert.deepStrictEqual([created.hours, created.level], [24, "values"])
      assert.strictEqual((yield* member("access", "withdraw", created.id)).code, 0)
      assert.include((yield* member("access", "requests")).stderr, "No request is pending.")
    })
  )

  it.scoped("shows who reaches an environment, by which way, until when, and who asks to; to owners and admins", () =>
    Effect.gen(function* () {
      const { admin, email, member, owner, project } = yield* atProduction
      const { production, team } = project
      yield* World.token({ team, name: "nightly" })
      const members = yield* TestApp.get(`/teams/${team.id}/members`, { session: owner })
      const userId = members.json.items.find((one) => one.email === email)?.userId
      const until = new Date(Date.now() + 7_200_000).toISOString()
      const grant = yield* TestApp.post(`/environments/${production.id}/grants`, {
        session: owner,
        json: { userId, level: "run", until, reason: "Deploy" }
      })
      assert.strictEqual(grant.status, 201, grant.text)
      yield* member("access", "request", "--env", "production", "--for", "2h", "--why", "Incident 42")
      const list = yield* admin("access", "list", "--env", "production")
      assert.strictEqual(list.code, 0, list.stderr)
      const line = (...words: ReadonlyArray<string>) => new RegExp(words.join(".*"))
      assert.match(list.stdout, line("WHO", "MAY", "BY", "UNTIL", "LAST USE"))
      assert.match(list.stdout, line(team.owner.email, "write", "role owner", "the role changes", "never"))
      assert.match(list.stdout, line(email, "run", `grant by ${team.owner.email}: Deploy`, until, "never"))
      assert.match(list.stdout, line("nightly", "values", `API token nightly, created by ${team.owner.email}`))
      assert.match(list.stdout, line(team.owner.email, "write", "login"))
      assert.match(list.stdout, line(email, "nothing yet", "asks for values for 2 h", "Incident 42"))

      const { items, requests } = parsed(EnvironmentAccess)(
        (yield* admin("access", "list", "-e", "production", "--json")).stdout
      )
      assert.includeMembers([...new Set(items.map(({ way }) => way))], ["role", "grant", "api_token", "cli_grant"])
      assert.deepStrictEqual(
        requests.map(({ mayDecide, user }) => [user.email, mayDecide]),
        [[email, true]]
      )
      const refused = yield* member("access", "list", "--env", "production")
      assert.strictEqual(refused.code, 1)
      assert.include(refused.stderr, "`ampoule access requests` lists your own requests.")
    })
  )

  it.scoped("takes hours and days, and refuses other durations", () =>
    Effect.gen(function* () {
      const { member } = yield* atProduction
      for (const duration of ["0h", "169h", "8d", "2", "30m", "1.5h"]) {
        const refused = yield* member("access", "request", "-e", "production", "--for", duration, "--why", "x")
        assert.deepStrictEqual([duration, refused.code], [duration, 2])
        assert.include(refused.stderr, "--for takes")
      }
    })
  )

  it.scoped("is what a command says that lacks a grant, with the level it lacks", () =>
    Effect.gen(function* () {
      const { member, project } = yield* atProduction
      const hint = (level: string) =>
        `ampoule access request --project ${project.slug} --env production --level ${level} --for 2h --why "..."`
      const run = yield* member("run", "-e", "production", "--", "true")
      assert.strictEqual(run.code, 125)
      assert.include(run.stderr, hint("run"))
      assert.include((yield* member("secrets", "get", "KEY", "-e", "production")).stderr, hint("values"))
      const json = yield* member("secrets", "get", "KEY", "-e", "production", "--json")
      assert.include(failureOf(json.stderr).hint, hint("values"))
    })
  )
})

layer(app, { excludeTestServices: true })("ampoule changes", (it) => {
  it.scoped("says that nothing is written yet, lists names, names the page, and withdraws", () =>
    Effect.gen(function* () {
      const { admin, email, member, owner, project } = yield* atProduction
      const json = { readers: "team", changes: "proposed" }
      yield* TestApp.patch(`/environments/${project.production.id}`, { session: owner, json })
      yield* TestApp.post("/secrets", {
        session: owner,
        json: { projectId: project.id, environment: "production", key: "OLD", value: "v" }
      })
      const unset = yield* member("secrets", "unset", "OLD", "-e", "production")
      assert.strictEqual(unset.code, 1)
      assert.include(unset.stderr, "Nothing was written yet. The change ")
      const page = `/app/projects/${project.id}/env/production/access`
      assert.include(unset.stderr, page)
      const listed = yield* member("changes", "list")
      assert.match(listed.stdout, /production .*no .*delete OLD/)
      const [item] = parsed(Schema.Array(ChangeRequest))((yield* admin("changes", "list", "--json")).stdout)
      assert.deepStrictEqual([item.user.email, item.mayDecide], [email, true])
      const printed = yield* admin("changes", "show", item.id)
      assert.strictEqual(printed.code, 0, printed.stderr)
      assert.include(printed.stdout.split("\n"), "- OLD")
      assert.include((yield* admin("changes", "show", item.teamId)).stderr, "No such change is pending.")
      assert.strictEqual((yield* member("changes", "approve", item.id)).code, 1)
      const named = yield* admin("changes", "approve", item.id, "--no-browser")
      assert.match(named.stdout, new RegExp(`^http://127.0.0.1:\\d+${page}\n$`))
      assert.strictEqual((yield* member("changes", "withdraw", item.id)).code, 0)
      assert.include((yield* member("changes", "list")).stderr, "No change is pending.")
    })
  )
})

layer(app, { excludeTestServices: true })("ampoule changes with values", (it) => {
  it.scoped("shows them to the session of a person alone, and approves what it showed", () =>
    Effect.gen(function* () {
      const { admin, memberSession, owner, project, run } = yield* atProduction
      const json = { readers: "team", changes: "proposed" }
      yield* TestApp.patch(`/environments/${project.production.id}`, { session: owner, json })
      const person = (...words: ReadonlyArray<string>) => run(words, { env: { AMPOULE_API_TOKEN: owner } })
      const propose = Effect.fnUntraced(function* (key: string, text: string) {
        const at = { projectId: project.id, environment: "production" }
        const write = yield* TestApp.post("/secrets", { session: memberSession, json: { ...at, key, value: text } })
        assert.strictEqual(write.status, 202)
        const items = parsed(Schema.Array(ChangeRequest))((yield* admin("changes", "list", "--json")).stdout)
        return items.find(({ changes }) => changes[0]?.key === key)?.id ?? assert.fail()
      })
      const id = yield* propose("LD_PRELOAD", "hidden\u001b[2J text")
      for (const words of [
        ["show", id, "--reveal"],
        ["approve", id, "--reveal", "--yes"]
      ]) {
        const refused = yield* admin("changes", ...words)
        assert.strictEqual(refused.code, 1)
        assert.include(refused.stderr, "Only a signed-in person sees the values of a change")
        assert.include(refused.stderr, `/app/projects/${project.id}/env/production/access`)
        assert.notInclude(refused.stdout, "hidden")
      }
      const names = yield* person("changes", "show", id)
      assert.include(names.stdout, "runs code: LD_PRELOAD decides which libraries are loaded")
      assert.notInclude(names.stdout, "hidden")
      const reveal = yield* person("changes", "show", id, "--reveal")
      assert.strictEqual(reveal.code, 0, reveal.stderr)
      // Control characters are visible: none acts on the terminal.
      assert.include(reveal.stdout.split("\n"), "    hidden\\u001b[2J text")
      const digest = /^Digest: (\S{43})$/m.exec(reveal.stdout)?.[1] ?? assert.fail(reveal.stdout)
      const revealed = yield* person("changes", "show", id, "--reveal", "--json")
      assert.strictEqual(parsed(Schema.Struct({ revealed: RevealedChanges }))(revealed.stdout).revealed.digest, digest)
      const withToken = yield* admin("changes", "approve", id, "--digest", digest)
      assert.include(withToken.stderr, "Only a signed-in person approves a change")
      const other = yield* propose("OTHER", "v")
      const differs = yield* person("changes", "approve", other, "--digest", digest)
      assert.strictEqual(differs.code, 1)
      assert.include(differs.stderr, "ampoule changes show ID --reveal")
      assert.strictEqual((yield* person("changes", "approve", id, "--digest", "nonsense")).code, 2)
      assert.strictEqual((yield* person("changes", "approve", id, "--digest", digest)).code, 0)
      const unconfirmed = yield* person("changes", "approve", other, "--reveal")
      assert.include(unconfirmed.stderr, "--yes")
      const approved = yield* person("changes", "approve", other, "--reveal", "--yes")
      assert.strictEqual(approved.code, 0, approved.stderr)
      assert.include(approved.stdout, "    v")
      assert.include((yield* admin("changes", "list")).stderr, "No change is pending.")
    })
  )
})

layer(app, { excludeTestServices: true })("ampoule sessions", (it) => {
  it.scoped("lists the browsers in which one is signed in, ends one, and all", () =>
    Effect.gen(function* () {
      const { project, run } = yield* setUp()
      const { owner } = project.team
      const grant = yield* World.grant({ person: owner, teams: [{ team: project.team, scopes: ["identity:read"] }] })
      const [first, second, third] = yield* Effect.all([
        World.session(owner),
        World.session(owner),
        World.session(owner)
      ])
      const stranger = yield* World.session(yield* World.person())
      const sessions = (...words: ReadonlyArray<string>) =>
        run(["sessions", ...words], { env: { AMPOULE_API_TOKEN: grant.text } })
      const Listed = parsed(Schema.Array(Schema.Struct({ id: Schema.String, current: Schema.Boolean })))
      const ids = Effect.map(sessions("list", "--json"), ({ stdout }) => Listed(stdout).map(({ id }) => id))
      assert.includeMembers(yield* ids, [first.id, second.id, third.id])
      assert.notInclude(yield* ids, stranger.id)

      assert.strictEqual((yield* sessions("end", first.id)).code, 0)
      assert.strictEqual((yield* TestApp.get("/me", { session: first.text })).error.code, "CREDENTIAL_REVOKED")
      assert.notInclude(yield* ids, first.id)
      for (const gone of [first.id, stranger.id]) assert.strictEqual((yield* sessions("end", gone)).code, 1)
      assert.strictEqual((yield* sessions("end", "nonsense")).code, 2)
      assert.strictEqual((yield* TestApp.get("/me", { session: stranger.text })).status, 200)

      assert.strictEqual((yield* sessions("end-all")).code, 0)
      assert.deepStrictEqual(yield* ids, [])
      assert.strictEqual((yield* TestApp.get("/me", { session: third.text })).error.code, "CREDENTIAL_REVOKED")
      assert.include((yield* sessions("list")).stderr, "You have no sessions.")
    })
  )
})

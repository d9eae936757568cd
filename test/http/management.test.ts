/** Management from the command line (docs/contract/management.md): asked for, approved, used for minutes, ended. */
import { assert, layer } from "@effect/vitest"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { cliScopes } from "#schema/Scopes.ts"
import { auditEntry } from "#test/support/Json.ts"
import * as MovableClock from "#test/support/MovableClock.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"

const app = TestApp.layer.pipe(Layer.provideMerge(MovableClock.layer))
const { codeOf } = TestApp
const page = (userCode: string) => `/auth/cli/device/requests/${userCode}` as const

/** A team whose owner has a login on a laptop, and is signed in. */
const setUp = Effect.gen(function* () {
  const project = yield* World.project()
  const { team } = project
  const login = yield* World.grant({ person: team.owner, teams: [{ team, scopes: cliScopes }] })
  const session = (yield* World.session(team.owner)).text
  const ask = (bearer: string = login.text, teamId: string = team.id) =>
    TestApp.post("/auth/cli/management", { bearer, json: { teamId, host: { hostname: "laptop" } } })
  return { project, team, login, session, ask }
})
const poll = (deviceCode: string) => TestApp.post("/auth/cli/device/token", { json: { deviceCode } })

/** Asked for, approved and fetched. */
const managing = Effect.gen(function* () {
  const world = yield* setUp
  const { json } = yield* world.ask()
  const approved = yield* TestApp.post(`${page(json.userCode)}/approve-management`, { session: world.session })
  assert.strictEqual(approved.status, 200, approved.text)
  const granted = yield* poll(json.deviceCode)
  const bearer = granted.json.credential ?? assert.fail(granted.text)
  return { ...world, ...json, granted: granted.json, bearer }
})

const entriesOf = (team: World.Team) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const rows = yield* sql<{
      readonly body: string
    }>`SELECT body FROM audit_entries WHERE team_id = ${team.id} ORDER BY id`
    return rows.map(auditEntry)
  })

layer(app, { excludeTestServices: true })("management from the command line", (it) => {
  it.effect("is approved by the person whose login asks, delivered once, and in the trail", () =>
    Effect.gen(function* () {
      const { ask, login, session, team } = yield* setUp
      const started = yield* ask()
      assert.strictEqual(started.status, 201, started.text)
      const { deviceCode, userCode } = started.json
      const device = yield* TestApp.get(page(userCode), { session })
      assert.deepStrictEqual(
        [device.json.manages, device.json.host, device.json.status],
        [{ id: team.id, name: team.name }, { hostname: "laptop" }, "pending"]
      )
      assert.deepStrictEqual((yield* poll(deviceCode)).json, { status: "pending" })
      // As a login it cannot be approved: it would give what nobody asked for.
      const json = { teams: [{ teamId: team.id, scopes: ["secrets:read_values"] }] }
      assert.deepStrictEqual(codeOf(yield* TestApp.post(`${page(userCode)}/approve`, { session, json })), [
        404,
        "GRANT_NOT_FOUND"
      ])
      assert.strictEqual((yield* TestApp.post(`${page(userCode)}/approve-management`, { session })).status, 200)
      assert.deepStrictEqual(codeOf(yield* TestApp.post(`${page(userCode)}/approve-management`, { session })), [
        409,
        "GRANT_ALREADY_DECIDED"
      ])
      const { json: granted } = yield* poll(deviceCode)
      assert.strictEqual(granted.status, "granted")
      assert.deepStrictEqual(granted.teams, [{ id: team.id, name: team.name, scopes: [] }])
      assert.deepStrictEqual((yield* poll(deviceCode)).json, { status: "failed", reason: "consumed" })
      const events = (yield* entriesOf(team)).filter(({ action }) => action.startsWith("management."))
      assert.deepStrictEqual(
        events.map(({ action, actor }) => [action, actor.type, actor.id]),
        [
          ["management.request", "cli_grant", login.id],
          ["management.approve", "user", team.owner.id],
          ["management.begin", "user", team.owner.id]
        ]
      )
    })
  )

  it.effect("is asked for by a whole login of an owner or admin, and decided by them alone", () =>
    Effect.gen(function* () {
      const { ask, login, project, session, team } = yield* setUp
      const of = (person: World.Person, more: Partial<Parameters<typeof World.grant>[0]> = {}) =>
        Effect.map(World.grant({ person, teams: [{ team, scopes: cliScopes }], ...more }), ({ text }) => text)
      const member = yield* of(yield* World.member(team, "member"))
      const narrow = yield* of(team.owner, { projects: [project] })
      for (const bearer of [member, narrow]) assert.deepStrictEqual(codeOf(yield* ask(bearer)), [403, "FORBIDDEN"])
      const names = yield* World.grant({ person: team.owner, teams: [{ team, scopes: ["secrets:read"] }] })
      assert.deepStrictEqual(codeOf(yield* ask(names.text)), [403, "SCOPE_MISSING"])
      const other = yield* World.team()
      assert.deepStrictEqual(codeOf(yield* ask(login.text, other.id)), [404, "TEAM_NOT_FOUND"])
      for (const asked of [{ session }, { bearer: (yield* World.token({ team })).text }]) {
        const refused = yield* TestApp.post("/auth/cli/management", { ...asked, json: { teamId: team.id } })
        assert.deepStrictEqual(codeOf(refused), [403, "CREDENTIAL_KIND_NOT_ACCEPTED"])
      }

      // To everybody else the code is unknown, to an admin of the team too.
      const { json } = yield* ask()
      const stranger = (yield* World.session(yield* World.member(team, "admin"))).text
      const unknown = yield* TestApp.get(page("BBBB-BBBB"), { session: stranger })
      const seen = yield* TestApp.get(page(json.userCode), { session: stranger })
      assert.deepStrictEqual(codeOf(seen), [404, "GRANT_NOT_FOUND"])
      assert.strictEqual(seen.text, unknown.text)
      for (const verb of ["approve-management", "deny"] as const) {
        const refused = yield* TestApp.post(`${page(json.userCode)}/${verb}`, { session: stranger })
        assert.deepStrictEqual(codeOf(refused), [404, "GRANT_NOT_FOUND"])
      }
      assert.strictEqual((yield* TestApp.post(`${page(json.userCode)}/deny`, { session })).status, 200)
      assert.deepStrictEqual((yield* poll(json.deviceCode)).json, { status: "failed", reason: "denied" })
    })
  )

  it.effect("needs the person, who was here a short time ago", () =>
    Effect.gen(function* () {
      const { ask, session, team } = yield* setUp
      yield* MovableClock.advance("16 minutes")
      const { json } = yield* ask()
      const refused = yield* TestApp.post(`${page(json.userCode)}/approve-management`, { session })
      assert.deepStrictEqual(codeOf(refused), [403, "STEP_UP_REQUIRED"])
      const denied = (yield* entriesOf(team)).find(({ outcome }) => outcome === "denied")
      assert.deepStrictEqual([denied?.action, denied?.reason], ["management.approve", "STEP_UP_REQUIRED"])
      const fresh = (yield* World.session(team.owner)).text
      assert.strictEqual(
        (yield* TestApp.post(`${page(json.userCode)}/approve-management`, { session: fresh })).status,
        200
      )
    })
  )

  it.effect("creates and lists what owners and admins manage, in its team, as the person and by the command line", () =>
    Effect.gen(function* () {
      const { bearer, team } = yield* managing
      const headers = { "user-agent": "ampoule-cli/1.0.0" }
      const json = { name: "Shop", slug: "shop" }
      const project = yield* TestApp.post(`/teams/${team.id}/projects`, { bearer, json, headers })
      assert.strictEqual(project.status, 201, project.text)
      const environment = yield* TestApp.post(`/projects/${project.json.id}/environments`, {
        bearer,
        json: { slug: "qa" }
      })
      assert.strictEqual(environment.status, 201)
      const token = yield* TestApp.post(`/teams/${team.id}/api-tokens`, { bearer, json: { name: "ci" } })
      assert.strictEqual(token.status, 201)
      assert.strictEqual((yield* TestApp.get(`/teams/${team.id}/api-tokens`, { bearer })).json.items.length, 1)
      assert.strictEqual((yield* TestApp.get(`/teams/${team.id}/members`, { bearer })).json.items.length, 1)
      const other = yield* World.team({ owner: team.owner })
      const beyond = yield* TestApp.post(`/teams/${other.id}/projects`, { bearer, json })
      assert.deepStrictEqual(codeOf(beyond), [404, "TEAM_NOT_FOUND"])
      const created = (yield* entriesOf(team)).find(({ action }) => action === "project.create")
      assert.deepStrictEqual([created?.actor.type, created?.actor.id, created?.via], ["user", team.owner.id, "cli"])
    })
  )

  it.effect("is refused for values, names, rules of the team, the trail and pages", () =>
    Effect.gen(function* () {
      const { bearer, project, team } = yield* managing
      const at = `projectId=${project.id}&environment=development`
      const refusals = [
        yield* TestApp.get(`/secrets?${at}`, { bearer }),
        yield* TestApp.get(`/secrets/inject?${at}`, { bearer }),
        yield* TestApp.get(`/secrets/value?${at}&key=A`, { bearer }),
        yield* TestApp.get("/projects", { bearer }),
        yield* TestApp.get("/me", { bearer }),
        yield* TestApp.get("/me/sessions", { bearer }),
        yield* TestApp.get(`/teams/${team.id}/audit`, { bearer }),
        yield* TestApp.patch(`/teams/${team.id}`, { bearer, json: { name: "Mine" } }),
        yield* TestApp.post("/auth/cli/management", { bearer, json: { teamId: team.id } }),
        yield* TestApp.post("/auth/cli/logout", { bearer })
      ]
      for (const refused of refusals) assert.deepStrictEqual(codeOf(refused), [403, "CREDENTIAL_KIND_NOT_ACCEPTED"])
      // As a cookie it opens no page.
      const opened = yield* TestApp.get("/app", { session: bearer })
      assert.notStrictEqual(opened.status, 200)
    })
  )

  it.effect("ends after 10 minutes however often it is used", () =>
    Effect.gen(function* () {
      const { bearer, team } = yield* managing
      const ask = TestApp.get(`/teams/${team.id}/members`, { bearer })
      yield* MovableClock.advance("9 minutes")
      assert.strictEqual((yield* ask).status, 200)
      yield* MovableClock.advance("1 minute")
      assert.deepStrictEqual(codeOf(yield* ask), [401, "CREDENTIAL_EXPIRED"])
    })
  )

  it.effect("ends itself, with its login, from the list of sessions, and with a new password's logins", () =>
    Effect.gen(function* () {
      const revoked = [401, "CREDENTIAL_REVOKED"]
      const ends = [
        ({ bearer }: { readonly bearer: string }) => TestApp.del("/auth/cli/management", { bearer }),
        ({ login }: { readonly login: { readonly text: string } }) =>
          TestApp.post("/auth/cli/logout", { bearer: login.text }),
        ({ login, session }: { readonly login: { readonly id: string }; readonly session: string }) =>
          TestApp.del(`/me/cli-grants/${login.id}`, { session }),
        ({ session, team }: { readonly session: string; readonly team: World.Team }) =>
          Effect.flatMap(TestApp.get("/me/sessions", { session }), ({ json }) => {
            const own = json.items.find(({ manages }) => manages?.id === team.id) ?? assert.fail("it is not listed")
            assert.isFalse(own.current)
            return TestApp.del(`/me/sessions/${own.id}`, { session })
          })
      ]
      for (const end of ends) {
        const managed = yield* managing
        const ask = TestApp.get(`/teams/${managed.team.id}/members`, { bearer: managed.bearer })
        assert.strictEqual((yield* ask).status, 200)
        const ended = yield* end(managed)
        assert.isBelow(ended.status, 300, ended.text)
        assert.deepStrictEqual(codeOf(yield* ask), revoked)
        // Its end is not that of the browser.
        assert.strictEqual((yield* TestApp.get("/me", { session: managed.session })).status, 200)
      }
    })
  )

  it.effect("does what the person's role allows now, and is not delivered to who lost it", () =>
    Effect.gen(function* () {
      const project = yield* World.project()
      const { team } = project
      const admin = yield* World.member(team, "admin")
      const owner = (yield* World.session(team.owner)).text
      const begin = Effect.gen(function* () {
        const login = yield* World.grant({ person: admin, teams: [{ team, scopes: cliScopes }] })
        const session = (yield* World.session(admin)).text
        const { json } = yield* TestApp.post("/auth/cli/management", { bearer: login.text, json: { teamId: team.id } })
        const approved = yield* TestApp.post(`${page(json.userCode)}/approve-management`, { session })
        assert.strictEqual(approved.status, 200)
        return json.deviceCode
      })
      const bearer = (yield* poll(yield* begin)).json.credential ?? ""
      const waiting = yield* begin
      const demoted = yield* TestApp.patch(`/teams/${team.id}/members/${admin.id}`, {
        session: owner,
        json: { role: "member" }
      })
      assert.strictEqual(demoted.status, 200)
      const refused = yield* TestApp.post(`/teams/${team.id}/projects`, { bearer, json: { name: "Mine" } })
      assert.deepStrictEqual(codeOf(refused), [403, "FORBIDDEN"])
      assert.deepStrictEqual((yield* poll(waiting)).json, { status: "failed", reason: "denied" })
    })
  )
})

import { assert, layer } from "@effect/vitest"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Plans from "#src/limits/Plans.ts"
import { auditEntry } from "#test/support/Json.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as Seals from "#test/support/Seals.ts"
import * as World from "#test/support/World.ts"

const { codeOf } = TestApp
const sessionOf = (person: World.Person) => Effect.map(World.session(person), ({ text }) => text)

layer(TestApp.shared, { excludeTestServices: true })("teams", (it) => {
  it.effect("are made by any signed-in person, who becomes the owner, on the plan developer", () =>
    Effect.gen(function* () {
      const session = yield* sessionOf(yield* World.person())
      const { json, status } = yield* TestApp.post("/teams", { session, json: { name: "Platform" } })
      assert.deepStrictEqual([status, json], [201, { id: json.id, name: "Platform", role: "owner", plan: "developer" }])
      assert.deepStrictEqual((yield* TestApp.get("/me", { session })).json.teams, [json])
      for (const [body, field] of [
        [{}, "name"],
        [{ name: " " }, "name"],
        [{ name: "x", plan: "team" }, "plan"]
      ] as const) {
        const answer = yield* TestApp.post("/teams", { session, json: body })
        assert.deepStrictEqual([...codeOf(answer), answer.error.field], [400, "VALIDATION_FAILED", field])
      }
      const token = yield* World.token({ team: yield* World.team() })
      const bearer = yield* TestApp.post("/teams", { bearer: token.text, json: { name: "x" } })
      assert.deepStrictEqual(codeOf(bearer), [403, "CREDENTIAL_KIND_NOT_ACCEPTED"])
    })
  )

  it.effect(`are at most ${Plans.teamsPerPerson} of one owner`, () =>
    Effect.gen(function* () {
      const person = yield* World.person()
      yield* World.fillerTeams(person, Plans.teamsPerPerson - 1)
      const session = yield* sessionOf(person)
      const create = TestApp.post("/teams", { session, json: { name: "One more" } })
      const answers = yield* Effect.all([create, create, create], { concurrency: "unbounded" })
      assert.deepStrictEqual(answers.map((answer) => answer.status).sort(), [201, 403, 403])
      assert.deepStrictEqual(codeOf(yield* create), [403, "PLAN_LIMIT_REACHED"])
    })
  )

  it.effect("are renamed by owners and admins; only owners change the plan", () =>
    Effect.gen(function* () {
      const team = yield* World.team({ plan: "developer" })
      const change = (session: string, json: unknown) => TestApp.patch(`/teams/${team.id}`, { session, json })
      const owner = yield* sessionOf(team.owner)
      const admin = yield* sessionOf(yield* World.member(team, "admin"))
      const member = yield* sessionOf(yield* World.member(team, "member"))
      const stranger = yield* sessionOf(yield* World.person())

      assert.deepInclude((yield* change(admin, { name: "Ops" })).json, {
        name: "Ops",
        role: "admin",
        plan: "developer"
      })
      assert.deepStrictEqual(codeOf(yield* change(admin, { plan: "team" })), [403, "FORBIDDEN"])
      assert.deepStrictEqual(codeOf(yield* change(admin, { name: "Sneaky", plan: "team" })), [403, "FORBIDDEN"])
      assert.deepStrictEqual(codeOf(yield* change(admin, { adminsNeedGrants: false })), [403, "FORBIDDEN"])
      assert.deepStrictEqual(codeOf(yield* change(member, { name: "Mine" })), [403, "FORBIDDEN"])
      assert.deepStrictEqual(codeOf(yield* change(stranger, { name: "Mine" })), [404, "TEAM_NOT_FOUND"])
      assert.deepStrictEqual((yield* change(owner, { plan: "team" })).json, {
        id: team.id,
        name: "Ops",
        role: "owner",
        plan: "team",
        adminsNeedGrants: false,
        tokensFollowCreators: false,
        secondFactorRequired: false,
        stepUpMinutes: 15,
        leakedCredentials: "revoke",
        sessionAddresses: null,
        allowedKeys: null,
        secondPerson: false
      })
      for (const json of [{}, { plan: "enterprise" }, { name: "" }]) {
        assert.deepStrictEqual(codeOf(yield* change(owner, json)), [400, "VALIDATION_FAILED"])
      }
      const trail = yield* TestApp.get(`/teams/${team.id}/audit?action=team.update`, { session: owner })
      assert.deepStrictEqual(
        trail.json.items.map((entry: { outcome: string }) => entry.outcome),
        ["allowed", "denied", "denied", "denied", "denied", "allowed"]
      )
    })
  )

  it.effect("on a smaller plan keep the tokens they have, and make no longer ones", () =>
    Effect.gen(function* () {
      const team = yield* World.team({ plan: "team" })
      const session = yield* sessionOf(team.owner)
      const create = (lifetime: string) =>
        TestApp.post(`/teams/${team.id}/api-tokens`, { session, json: { name: "ci", lifetime } })
      const long = yield* create("1y")
      assert.strictEqual(long.status, 201)
      yield* TestApp.patch(`/teams/${team.id}`, { session, json: { plan: "developer" } })
      assert.strictEqual((yield* TestApp.get("/me/verify", { bearer: long.json.value })).status, 200)
      assert.strictEqual((yield* create("1y")).status, 400)
      assert.strictEqual((yield* create("90d")).status, 201)
    })
  )

  it.effect("on a smaller plan keep the current version of each secret alone", () =>
    Effect.gen(function* () {
      const { development, id: projectId, team } = yield* World.project({ team: yield* World.team({ plan: "team" }) })
      const session = yield* sessionOf(team.owner)
      const place = { projectId, environment: development.slug }
      const { json: secret } = yield* TestApp.post("/secrets", { session, json: { ...place, key: "A", value: "1" } })
      for (const value of ["2", "3"]) yield* TestApp.patch(`/secrets/${secret.id}`, { session, json: { value } })
      const versions = Effect.map(TestApp.get(`/secrets/${secret.id}/versions`, { session }), ({ json }) =>
        json.items.map(({ version }: { readonly version: number }) => version)
      )
      assert.deepStrictEqual(yield* versions, [3, 2, 1])
      yield* TestApp.patch(`/teams/${team.id}`, { session, json: { plan: "developer" } })
      assert.deepStrictEqual(yield* versions, [3])
      const back = yield* TestApp.post(`/secrets/${secret.id}/rollback`, { session, json: { version: 2 } })
      assert.deepStrictEqual([back.status, back.error.code], [404, "SECRET_VERSION_NOT_FOUND"])
    })
  )
})

const ownersOnly = TestApp.server.pipe(
  Layer.provideMerge(Layer.merge(TestApp.backends, TestApp.config({ teamCreation: "owners" })))
)

layer(ownersOnly, { excludeTestServices: true })("teams, where only owners may create one", (it) => {
  it.effect("are refused to everybody else, with a sentence and on the record", () =>
    Effect.gen(function* () {
      const team = yield* World.team()
      const create = (session: string) => TestApp.post("/teams", { session, json: { name: "Another" } })
      const owner = yield* sessionOf(team.owner)
      assert.strictEqual((yield* create(owner)).status, 201)
      const stranger = yield* World.person()
      const others = [stranger, yield* World.member(team, "admin"), yield* World.member(team, "viewer")]
      for (const person of others) {
        const answer = yield* create(yield* sessionOf(person))
        assert.deepStrictEqual(codeOf(answer), [403, "FORBIDDEN"])
        assert.match(answer.error.message, /only owners of a team/)
      }
      const page = (session: string) => Effect.map(TestApp.get("/app/teams/new", { session }), ({ text }) => text)
      assert.include(yield* page(owner), "Create the team")
      const strangers = yield* page(yield* sessionOf(stranger))
      assert.notInclude(strangers, "Create the team")
      assert.include(strangers, "Ask an owner of a team for an invitation.")
      const sql = yield* SqlClient.SqlClient
      const entries = yield* sql<{ readonly body: string }>`
        SELECT body FROM audit_entries WHERE action = 'team.create' AND actor_id = ${stranger.id}`
      assert.deepStrictEqual(
        entries.map((row) => auditEntry(row).outcome),
        ["denied"]
      )
    })
  )

  it.effect("count an owner of this moment only", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const team = yield* World.team()
      const second = yield* World.member(team, "owner")
      const session = yield* sessionOf(second)
      yield* Seals.after(
        "memberships",
        sql`
        UPDATE memberships SET active = false, deactivated_at = ${new Date()}
        WHERE team_id = ${team.id} AND user_id = ${second.id}`
      )
      const answer = yield* TestApp.post("/teams", { session, json: { name: "Another" } })
      assert.include([401, 403], answer.status)
      assert.lengthOf(yield* sql`SELECT 1 AS one FROM memberships WHERE user_id = ${second.id} AND active`, 0)
    })
  )
})

const operatorsOnly = TestApp.server.pipe(
  Layer.provideMerge(Layer.merge(TestApp.backends, TestApp.config({ teamCreation: "operators" })))
)

layer(operatorsOnly, { excludeTestServices: true })("teams, where only the operator creates them", (it) => {
  it.effect("are refused to owners too, and no page offers one", () =>
    Effect.gen(function* () {
      const team = yield* World.team()
      const session = yield* sessionOf(team.owner)
      const answer = yield* TestApp.post("/teams", { session, json: { name: "Another" } })
      assert.deepStrictEqual(codeOf(answer), [403, "FORBIDDEN"])
      assert.match(answer.error.message, /only its operator/)
      const page = yield* TestApp.get("/app/teams/new", { session })
      assert.notInclude(page.text, "Create the team")
      assert.include(page.text, "On this server, only its operator can create teams.")
      assert.notInclude((yield* TestApp.get("/app", { session })).text, "New team")
    })
  )
})

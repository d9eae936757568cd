/** A team's rules about second factors: one is needed, and a recent proof of it. */
import { assert, layer } from "@effect/vitest"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { oauthToken } from "#test/access/Scene.ts"
import { auditEntry } from "#test/support/Json.ts"
import * as MovableClock from "#test/support/MovableClock.ts"
import * as SignIn from "#test/support/SignIn.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"
import { initialize } from "#test/mcp/Clients.ts"

const app = TestApp.server.pipe(
  Layer.provideMerge(Layer.merge(TestApp.backends, TestApp.config({ trustedProxies: ["127.0.0.1"] }))),
  Layer.provideMerge(MovableClock.layer)
)
const { codeOf } = TestApp
const factors = "/app/account/second-factor"
const scopes = ["identity:read", "secrets:run", "secrets:read_values"] as const
const sessionOf = (jar: SignIn.Jar) => ({ session: jar.get("ampoule_session") ?? "" })

const valueAt = (project: World.Project, environment: string, asked: TestApp.Asked) =>
  TestApp.get(`/secrets/value?projectId=${project.id}&environment=${environment}&key=K`, asked)
const writeAt = (project: World.Project, environment: string, asked: TestApp.Asked) =>
  TestApp.post("/secrets", { ...asked, json: { projectId: project.id, environment, key: "K", value: "the value" } })

/** A device that asks to be logged in. */
const startDevice = Effect.map(
  TestApp.post("/auth/cli/device", { headers: { "x-forwarded-for": "192.0.2.44" } }),
  ({ json }) => json
)
const approveDevice = (userCode: string, team: World.Team, asked: TestApp.Asked) =>
  TestApp.post(`/auth/cli/device/requests/${userCode}/approve`, {
    ...asked,
    json: { teams: [{ teamId: team.id, scopes }] }
  })

const atMcp = (bearer: string) =>
  Effect.map(
    TestApp.post("/mcp", {
      bearer,
      headers: { accept: "application/json, text/event-stream", host: new URL(TestApp.baseUrl).host },
      json: initialize
    }),
    ({ status }) => status
  )

layer(app, { excludeTestServices: true })("a team", (it) => {
  it.effect("that requires a second factor is reached by nothing that was had without one", () =>
    Effect.gen(function* () {
      const owner = yield* SignIn.signedIn
      const project = yield* World.project({ team: owner.team })
      const wrote = yield* writeAt(project, "development", sessionOf(owner.jar))
      assert.strictEqual(wrote.status, 201, wrote.text)
      const member = yield* SignIn.signedIn
      yield* World.join(owner.team, member.person, "member")
      const teams = [{ team: owner.team, scopes }]
      const grant = yield* World.grant({ person: member.person, teams })
      const wide = yield* World.grant({ person: member.person, teams: [...teams, { team: member.team, scopes }] })
      const agent = yield* oauthToken(member.person, owner.team, `${TestApp.baseUrl}/mcp`, {
        scopes,
        projects: null,
        environments: null
      })
      const token = yield* World.token({ team: owner.team })
      const reads = (asked: TestApp.Asked) => valueAt(project, "development", asked)
      for (const asked of [sessionOf(member.jar), { bearer: grant.text }, { bearer: wide.text }]) {
        assert.strictEqual((yield* reads(asked)).status, 200)
      }
      assert.strictEqual(yield* atMcp(agent.text), 200)
      const device = yield* startDevice

      // Nobody locks themself out.
      const require = (jar: SignIn.Jar, secondFactorRequired: boolean) =>
        TestApp.patch(`/teams/${owner.team.id}`, { ...sessionOf(jar), json: { secondFactorRequired } })
      assert.deepStrictEqual(TestApp.refusalOf(yield* require(owner.jar, true)), [
        400,
        "VALIDATION_FAILED",
        "secondFactorRequired"
      ])
      const ofOwner = yield* SignIn.enrol(owner.jar)
      const set = yield* require(ofOwner.jar, true)
      assert.strictEqual(set.status, 200, set.text)
      assert.strictEqual((yield* reads(sessionOf(ofOwner.jar))).status, 200)

      // Sessions, approvals, consent, logins and agents alike.
      const missing = [403, "SECOND_FACTOR_MISSING"]
      assert.deepStrictEqual(codeOf(yield* reads(sessionOf(member.jar))), missing)
      assert.deepStrictEqual(codeOf(yield* TestApp.get("/projects", sessionOf(member.jar))), missing)
      assert.deepStrictEqual(codeOf(yield* approveDevice(device.userCode, owner.team, sessionOf(member.jar))), missing)
      for (const path of ["/app", "/device", "/app/connect/aaaaaaaaaaaaaaaaaaaaaaaa", "/app/grants"] as const) {
        const page = yield* SignIn.see(path, member.jar)
        assert.deepStrictEqual([page.status, page.headers.get("location")], [303, factors], path)
      }
      assert.deepStrictEqual(codeOf(yield* reads({ bearer: grant.text })), [401, "CREDENTIAL_REVOKED"])
      assert.deepStrictEqual(codeOf(yield* reads({ bearer: wide.text })), [404, "PROJECT_NOT_FOUND"])
      assert.strictEqual((yield* TestApp.get("/me", { bearer: wide.text })).status, 200)
      assert.strictEqual(yield* atMcp(agent.text), 401)
      // The team's grants to machines stay.
      assert.strictEqual((yield* reads({ bearer: token.text })).status, 200)

      // A person who joins by an invitation adds one first.
      const email = `${member.person.id}@invited.example`
      const invited = yield* TestApp.post(`/teams/${owner.team.id}/invitations`, {
        ...sessionOf(ofOwner.jar),
        json: { email, role: "member" }
      })
      const joined = yield* TestApp.post("/invitations/accept", {
        json: {
          code: new URL(invited.json.inviteUrl).searchParams.get("code"),
          name: "Eve",
          password: SignIn.password
        },
        headers: { "x-forwarded-for": "192.0.2.45" }
      })
      assert.strictEqual(joined.status, 200, joined.text)
      assert.deepStrictEqual(codeOf(yield* reads(sessionOf(SignIn.kept(joined)))), missing)

      // Enrolment is what the person is led to, and it opens the team.
      assert.include((yield* SignIn.see(factors, member.jar)).text, "requires a second factor")
      const ofMember = yield* SignIn.enrol(member.jar)
      assert.strictEqual((yield* reads(sessionOf(ofMember.jar))).status, 200)
      assert.deepStrictEqual(codeOf(yield* reads({ bearer: grant.text })), [401, "CREDENTIAL_REVOKED"])
      const approved = yield* approveDevice(device.userCode, owner.team, sessionOf(ofMember.jar))
      assert.isBelow(approved.status, 300, approved.text)
      const polled = yield* TestApp.post("/auth/cli/device/token", { json: { deviceCode: device.deviceCode } })
      const bearer = polled.json.status === "granted" ? (polled.json.credential ?? "") : ""
      assert.strictEqual((yield* reads({ bearer })).status, 200)

      // Without the factor, what was approved with it is nothing either; signing out is always there.
      const removed = yield* SignIn.submit(`${factors}/app/remove`, ofMember.jar)
      assert.strictEqual(removed.status, 303)
      const after = SignIn.kept(removed, ofMember.jar)
      assert.deepStrictEqual(codeOf(yield* reads(sessionOf(after))), missing)
      assert.deepStrictEqual(codeOf(yield* reads({ bearer })), [401, "CREDENTIAL_REVOKED"])
      assert.strictEqual((yield* TestApp.del("/auth/session", sessionOf(after))).status, 200)

      assert.strictEqual((yield* require(ofOwner.jar, false)).status, 200)
      assert.strictEqual((yield* reads({ bearer: grant.text })).status, 200)
    })
  )

  it.effect("asks for the second factor again when the last proof is older than it says", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const owner = yield* SignIn.signedIn
      const project = yield* World.project({ team: owner.team })
      for (const environment of ["development", "production"]) {
        assert.strictEqual((yield* writeAt(project, environment, sessionOf(owner.jar))).status, 201)
      }
      // A person without a factor is not asked for one.
      yield* MovableClock.advance("1 hour")
      assert.strictEqual((yield* valueAt(project, "production", sessionOf(owner.jar))).status, 200)
      const again = SignIn.kept(
        yield* SignIn.submit("/app/confirm", owner.jar, { password: SignIn.password }),
        owner.jar
      )
      const { jar, secret } = yield* SignIn.enrol(again)
      yield* SignIn.agedFactors(owner.person)
      const member = yield* World.member(owner.team, "member")
      const device = yield* startDevice
      const kept = yield* World.token({ team: owner.team })

      const asks = (session: SignIn.Jar) => ({
        value: valueAt(project, "production", sessionOf(session)),
        values: TestApp.get(`/secrets/inject?projectId=${project.id}&environment=production`, sessionOf(session)),
        token: TestApp.post(`/teams/${owner.team.id}/api-tokens`, { ...sessionOf(session), json: { name: "ci" } }),
        addresses: TestApp.patch(`/teams/${owner.team.id}/api-tokens/${kept.id}`, {
          ...sessionOf(session),
          json: { addresses: null }
        }),
        device: approveDevice(device.userCode, owner.team, sessionOf(session)),
        rule: TestApp.patch(`/teams/${owner.team.id}`, { ...sessionOf(session), json: { stepUpMinutes: 30 } })
      })
      yield* MovableClock.advance("16 minutes")
      for (const [name, ask] of Object.entries(asks(jar))) {
        assert.deepStrictEqual(codeOf(yield* ask), [403, "STEP_UP_REQUIRED"], name)
      }
      const request = yield* TestApp.post(`/environments/${project.production.id}/access-requests`, {
        ...sessionOf(new Map([["ampoule_session", (yield* World.session(member)).text]])),
        json: { level: "values", hours: 1, reason: "to look" }
      })
      if (request.status < 300) {
        const approve = TestApp.post(`/access-requests/${request.json.id}/approve`, sessionOf(jar))
        assert.deepStrictEqual(codeOf(yield* approve), [403, "STEP_UP_REQUIRED"])
      }
      // The rest goes on as before.
      assert.strictEqual((yield* valueAt(project, "development", sessionOf(jar))).status, 200)
      assert.strictEqual(
        (yield* TestApp.get(`/secrets?projectId=${project.id}&environment=production`, sessionOf(jar))).status,
        200
      )
      const page = yield* SignIn.submit(
        `/app/teams/${owner.team.id}/tokens/new`,
        jar,
        { name: "ci", accessLevel: "read", lifetime: "30d", allProjects: "on", allEnvironments: "on" },
        { referer: `${TestApp.baseUrl}/app/teams/${owner.team.id}/tokens/new` }
      )
      const tokens = `/app/teams/${owner.team.id}/tokens`
      const confirmAt = `/app/confirm/before?to=${encodeURIComponent(`${tokens}/new`)}&next=${encodeURIComponent(`${tokens}/new`)}`
      assert.deepStrictEqual([page.status, page.headers.get("location")], [307, confirmAt])
      const entries = (yield* sql<{ readonly body: string }>`
        SELECT body FROM audit_entries WHERE team_id = ${owner.team.id} ORDER BY id`).map(auditEntry)
      for (const action of ["secret.read", "secret.inject", "token.create", "device.approve", "team.update"]) {
        assert.isTrue(
          entries.some((entry) => entry.action === action && entry.reason === "STEP_UP_REQUIRED"),
          action
        )
      }

      const confirmed = yield* SignIn.submit("/app/confirm", jar, { code: yield* SignIn.codeOf(secret) })
      assert.strictEqual(confirmed.status, 303)
      const fresh = SignIn.kept(confirmed, jar)
      const { device: _, rule, value, values } = asks(fresh)
      for (const ask of [value, values, rule]) assert.strictEqual((yield* ask).status, 200)
      // The team says now: half an hour.
      yield* MovableClock.advance("16 minutes")
      assert.strictEqual((yield* valueAt(project, "production", sessionOf(fresh))).status, 200)
      yield* MovableClock.advance("15 minutes")
      assert.deepStrictEqual(codeOf(yield* valueAt(project, "production", sessionOf(fresh))), [403, "STEP_UP_REQUIRED"])
    })
  )
})

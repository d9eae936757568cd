import { assert, layer } from "@effect/vitest"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { UserId } from "#schema/Ids.ts"
import * as MovableClock from "#test/support/MovableClock.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"

const codeOf = TestApp.refusalOf
const timed = TestApp.server.pipe(
  Layer.provideMerge(Layer.merge(TestApp.backends, TestApp.config())),
  Layer.provideMerge(MovableClock.layer)
)
const forbidden = [403, "FORBIDDEN", undefined]
const notFound = [404, "GRANT_NOT_FOUND", undefined]
const decided = [409, "GRANT_ALREADY_DECIDED", undefined]
const limited = [403, "PLAN_LIMIT_REACHED", undefined]

/** A team with a project whose production is granted; owner, two admins and two members are signed in. */
const setUp = Effect.gen(function* () {
  const team = yield* World.team()
  const sessionOf = (person: World.Person) => Effect.map(World.session(person), ({ text }) => text)
  const [admin, second, asker, other] = [
    yield* World.member(team, "admin"),
    yield* World.member(team, "admin"),
    yield* World.member(team, "member"),
    yield* World.member(team, "member")
  ]
  const owner = yield* sessionOf(team.owner)
  const project = yield* TestApp.post(`/teams/${team.id}/projects`, { session: owner, json: { name: "Shop" } })
  const projectId = project.json.id
  const { json } = yield* TestApp.get(`/projects/${projectId}/environments`, { session: owner })
  const idOf = (slug: string) => json.items.find((one) => one.slug === slug)?.id ?? assert.fail(slug)
  const production = idOf("production")
  const sessions = {
    owner,
    admin: yield* sessionOf(admin),
    second: yield* sessionOf(second),
    asker: yield* sessionOf(asker),
    other: yield* sessionOf(other)
  }
  return {
    team,
    people: { admin, second, asker, other },
    sessions,
    projectId,
    production,
    development: idOf("development"),
    ask: (json: object = {}, session = sessions.asker) =>
      TestApp.post(`/environments/${production}/access-requests`, {
        session,
        json: { level: "values", hours: 2, reason: "Incident 42", ...json }
      }),
    pending: (session: typeof owner) =>
      Effect.map(TestApp.get(`/environments/${production}/access-requests`, { session }), ({ json }) => json.items),
    approve: (id: string, session: typeof owner) => TestApp.post(`/access-requests/${id}/approve`, { session }),
    deny: (id: string, session: typeof owner) => TestApp.post(`/access-requests/${id}/deny`, { session }),
    withdraw: (id: string, session: typeof owner) => TestApp.del(`/access-requests/${id}`, { session }),
    set: (json: object) => TestApp.patch(`/environments/${production}`, { session: owner, json }),
    role: (person: { readonly id: UserId }, json: object) =>
      TestApp.patch(`/teams/${team.id}/members/${person.id}`, { session: owner, json }),
    reads: (session: typeof owner) =>
      Effect.map(
        TestApp.get(`/secrets/with-values?projectId=${projectId}&environment=production`, { session }),
        ({ status }) => status
      )
  }
})

layer(TestApp.shared, { excludeTestServices: true })("a request for access", (it) => {
  it.effect("becomes a grant with an end when an admin approves it, and the trail names both people", () =>
    Effect.gen(function* () {
      const { approve, ask, pending, people, production, reads, sessions, team } = yield* setUp
      assert.strictEqual(yield* reads(sessions.asker), 403)
      const { json, status } = yield* ask()
      assert.strictEqual(status, 201)
      assert.deepStrictEqual(
        [json.user.id, json.environment, json.level, json.hours, json.reason, json.approvals, json.mayDecide],
        [people.asker.id, "production", "values", 2, "Incident 42", 1, false]
      )
      // The requester and the approvers see it, and no one else.
      const seen = Effect.forEach([sessions.asker, sessions.admin, sessions.other], (session) =>
        Effect.map(pending(session), (items) => items.map(({ mayDecide }) => mayDecide))
      )
      assert.deepStrictEqual(yield* seen, [[false], [true], []])
      assert.deepStrictEqual(codeOf(yield* approve(json.id, sessions.other)), notFound)
      const before = Date.now()
      assert.deepStrictEqual((yield* approve(json.id, sessions.admin)).json, { status: "approved" })
      assert.strictEqual(yield* reads(sessions.asker), 200)
      assert.deepStrictEqual(yield* seen, [[], [], []])
      const grants = yield* TestApp.get(`/environments/${production}/grants`, { session: sessions.owner })
      const [grant] = grants.json.items
      assert.deepStrictEqual(
        [grant?.userId, grant?.level, grant?.reason, grant?.createdBy.id],
        [people.asker.id, "values", "Incident 42", people.admin.id]
      )
      const lasts = Date.parse(grant?.until ?? "") - before
      assert.isTrue(lasts >= 7_200_000 && lasts < 7_260_000)
      assert.deepStrictEqual(codeOf(yield* approve(json.id, sessions.second)), decided)
      const trail = yield* TestApp.get(`/teams/${team.id}/audit?limit=50`, { session: sessions.owner })
      const entries = trail.json.items
        .filter(({ action, outcome }) => action.startsWith("access.") && outcome === "allowed")
        .map(({ action, actor, target }) => [action, actor.id, target?.name])
      const name = `values: ${people.asker.email}`
      assert.sameDeepMembers(entries, [
        ["access.request", people.asker.id, name],
        ["access.approve", people.admin.id, name],
        ["access.grant", people.admin.id, name]
      ])
    })
  )

  it.effect("reaches webhooks, without its reason", () =>
    Effect.gen(function* () {
      const { approve, ask, deny, people, sessions, team, withdraw } = yield* setUp
      const session = sessions.owner
      const hook = yield* TestApp.post(`/teams/${team.id}/webhooks`, {
        session,
        json: { name: "chat", url: "https://127.0.0.1:9/chat", events: ["access.requested", "access.granted"] }
      })
      assert.strictEqual(hook.status, 201)
      yield* approve((yield* ask({ reason: "only for those who decide" })).json.id, sessions.admin)
      yield* deny((yield* ask()).json.id, sessions.admin)
      yield* withdraw((yield* ask()).json.id, sessions.asker)
      const sql = yield* SqlClient.SqlClient
      const rows = yield* sql<{ readonly event: string; readonly body: string }>`
        SELECT event, body FROM webhook_deliveries WHERE webhook_id = ${hook.json.id} ORDER BY event`
      assert.deepStrictEqual(
        rows.map(({ event }) => event),
        ["access.granted", "access.requested", "access.requested", "access.requested"]
      )
      for (const { body } of rows) {
        assert.include(body, `values: ${people.asker.email}`)
        assert.notInclude(body, "only for those who decide")
      }
    })
  )

  it.effect("is never decided by the one who asks, also as an owner", () =>
    Effect.gen(function* () {
      const { approve, ask, deny, reads, sessions, team } = yield* setUp
      yield* TestApp.patch(`/teams/${team.id}`, { session: sessions.owner, json: { adminsNeedGrants: true } })
      const { json } = yield* ask({}, sessions.owner)
      assert.deepStrictEqual(codeOf(yield* approve(json.id, sessions.owner)), forbidden)
      assert.deepStrictEqual(codeOf(yield* deny(json.id, sessions.owner)), forbidden)
      assert.strictEqual(yield* reads(sessions.owner), 403)
      assert.strictEqual((yield* approve(json.id, sessions.admin)).status, 200)
      assert.strictEqual(yield* reads(sessions.owner), 200)
    })
  )

  it.effect("is denied, or withdrawn by who asked, and then nobody approves it", () =>
    Effect.gen(function* () {
      const { approve, ask, deny, reads, sessions, withdraw } = yield* setUp
      const denied = (yield* ask()).json.id
      assert.deepStrictEqual((yield* deny(denied, sessions.admin)).json, { status: "denied" })
      assert.deepStrictEqual(codeOf(yield* approve(denied, sessions.owner)), decided)
      assert.deepStrictEqual(codeOf(yield* withdraw(denied, sessions.asker)), decided)
      const withdrawn = (yield* ask()).json.id
      assert.deepStrictEqual(codeOf(yield* withdraw(withdrawn, sessions.other)), notFound)
      assert.deepStrictEqual(codeOf(yield* withdraw(withdrawn, sessions.admin)), forbidden)
      assert.deepStrictEqual((yield* withdraw(withdrawn, sessions.asker)).json, { deleted: true })
      assert.deepStrictEqual(codeOf(yield* approve(withdrawn, sessions.admin)), notFound)
      assert.strictEqual(yield* reads(sessions.asker), 403)
    })
  )

  it.effect("comes from a CLI grant too, which decides nothing; an API token asks for nothing", () =>
    Effect.gen(function* () {
      const { approve, people, production, sessions, team } = yield* setUp
      const bearer = (yield* World.grant({ teams: [{ team, scopes: ["secrets:read"] }], person: people.asker })).text
      const json = { level: "run", hours: 1, reason: "Deploy" }
      const request = yield* TestApp.post(`/environments/${production}/access-requests`, { bearer, json })
      assert.strictEqual(request.status, 201)
      const mine = yield* TestApp.get("/access-requests", { bearer })
      assert.deepStrictEqual(
        mine.json.items.map(({ id }) => id),
        [request.json.id]
      )
      const admins = (yield* World.grant({ teams: [{ team, scopes: ["secrets:read"] }], person: people.admin })).text
      const refused = [403, "CREDENTIAL_KIND_NOT_ACCEPTED", undefined]
      const byGrant = yield* TestApp.post(`/access-requests/${request.json.id}/approve`, { bearer: admins })
      assert.deepStrictEqual(codeOf(byGrant), refused)
      const token = (yield* World.token({ team })).text
      const byToken = yield* TestApp.post(`/environments/${production}/access-requests`, { bearer: token, json })
      assert.deepStrictEqual(codeOf(byToken), refused)
      assert.strictEqual((yield* approve(request.json.id, sessions.admin)).status, 200)
    })
  )

  it.effect("asks for what a role can be granted, where a grant is needed, a few at a time", () =>
    Effect.gen(function* () {
      const { ask, development, people, role, sessions } = yield* setUp
      const plain = yield* TestApp.post(`/environments/${development}/access-requests`, {
        session: sessions.asker,
        json: { level: "values", hours: 2, reason: "No need" }
      })
      assert.deepStrictEqual(codeOf(plain), [400, "VALIDATION_FAILED", "level"])
      assert.deepStrictEqual(codeOf(yield* ask({}, sessions.admin)), [400, "VALIDATION_FAILED", "level"])
      for (const hours of [0, 169, 1.5]) {
        assert.deepStrictEqual(codeOf(yield* ask({ hours })), [400, "VALIDATION_FAILED", "hours"])
      }
      yield* role(people.other, { role: "viewer" })
      assert.deepStrictEqual(codeOf(yield* ask({ level: "run" }, sessions.other)), [400, "VALIDATION_FAILED", "level"])
      for (const _ of [1, 2, 3]) assert.strictEqual((yield* ask()).status, 201)
      assert.deepStrictEqual(codeOf(yield* ask()), limited)
    })
  )

  it.effect("is decided by the roles of now", () =>
    Effect.gen(function* () {
      const { approve, ask, pending, people, role, sessions } = yield* setUp
      const first = (yield* ask()).json.id
      yield* role(people.asker, { role: "viewer" })
      assert.deepStrictEqual(codeOf(yield* approve(first, sessions.admin)), forbidden)
      yield* role(people.asker, { active: false })
      assert.deepStrictEqual(codeOf(yield* approve(first, sessions.admin)), notFound)
      assert.deepStrictEqual(yield* pending(sessions.admin), [])
      yield* role(people.asker, { active: true, role: "member" })
      yield* role(people.admin, { role: "member" })
      assert.deepStrictEqual(codeOf(yield* approve(first, sessions.admin)), notFound)
      assert.strictEqual((yield* approve(first, sessions.second)).status, 200)
    })
  )

  it.effect("ends with the membership of who asks", () =>
    Effect.gen(function* () {
      const { approve, ask, pending, people, sessions, team } = yield* setUp
      const { id } = (yield* ask()).json
      yield* TestApp.del(`/teams/${team.id}/members/${people.asker.id}`, { session: sessions.owner })
      yield* World.join(team, people.asker, "member")
      assert.deepStrictEqual(yield* pending(sessions.admin), [])
      assert.deepStrictEqual(codeOf(yield* approve(id, sessions.admin)), notFound)
    })
  )

  it.effect("of another team is not there", () =>
    Effect.gen(function* () {
      const { ask, production } = yield* setUp
      const foreign = yield* setUp
      const { id } = (yield* ask()).json
      const { sessions } = foreign
      assert.deepStrictEqual(codeOf(yield* foreign.approve(id, sessions.owner)), notFound)
      assert.deepStrictEqual(codeOf(yield* foreign.deny(id, sessions.owner)), notFound)
      assert.deepStrictEqual(codeOf(yield* foreign.withdraw(id, sessions.owner)), notFound)
      const path = `/environments/${production}/access-requests` as const
      const gone = [404, "ENVIRONMENT_NOT_FOUND", undefined]
      assert.deepStrictEqual(codeOf(yield* TestApp.get(path, { session: sessions.owner })), gone)
      const json = { level: "names", hours: 1, reason: "Curious" }
      assert.deepStrictEqual(codeOf(yield* TestApp.post(path, { session: sessions.owner, json })), gone)
      const { json: listed } = yield* TestApp.get("/access-requests", { session: sessions.owner })
      assert.deepStrictEqual(listed.items, [])
    })
  )

  it.effect("that many approve or deny at once is decided once", () =>
    Effect.gen(function* () {
      const { approve, ask, deny, production, sessions } = yield* setUp
      const { id } = (yield* ask()).json
      const answers = yield* Effect.all(
        [
          approve(id, sessions.admin),
          approve(id, sessions.second),
          approve(id, sessions.owner),
          deny(id, sessions.second)
        ],
        { concurrency: "unbounded" }
      )
      const statuses = answers.map(({ status }) => status).sort()
      assert.deepStrictEqual(statuses, [200, 409, 409, 409])
      const approved = answers.some((answer) => answer.status === 200 && answer.json.status === "approved")
      const { json } = yield* TestApp.get(`/environments/${production}/grants`, { session: sessions.owner })
      assert.strictEqual(json.items.length, approved ? 1 : 0)
    })
  )
})

layer(TestApp.shared, { excludeTestServices: true })("approvers of an environment", (it) => {
  it.effect("decide beside owners and admins, never above their own standing", () =>
    Effect.gen(function* () {
      const { approve, ask, pending, people, production, sessions, set } = yield* setUp
      const named = yield* set({ approvers: [people.other.id] })
      assert.deepStrictEqual(named.json.approvers, [people.other.id])
      const { id } = (yield* ask()).json
      assert.deepStrictEqual(
        (yield* pending(sessions.other)).map(({ mayDecide }) => mayDecide),
        [false]
      )
      assert.deepStrictEqual(codeOf(yield* approve(id, sessions.other)), forbidden)
      yield* TestApp.post(`/environments/${production}/grants`, {
        session: sessions.owner,
        json: { userId: people.other.id, level: "values" }
      })
      assert.deepStrictEqual((yield* approve(id, sessions.other)).json, { status: "approved" })
      const more = (yield* ask({ level: "write" })).json.id
      assert.deepStrictEqual(codeOf(yield* approve(more, sessions.other)), forbidden)
    })
  )

  it.effect("are active members, until they leave the team", () =>
    Effect.gen(function* () {
      const { people, projectId, sessions, set, team } = yield* setUp
      const wrong = [400, "VALIDATION_FAILED", "approvers"]
      const stranger = yield* World.person()
      assert.deepStrictEqual(codeOf(yield* set({ approvers: [stranger.id] })), wrong)
      assert.deepStrictEqual(codeOf(yield* set({ approvers: [people.other.id, people.other.id] })), [
        400,
        "VALIDATION_FAILED",
        "approvers.1"
      ])
      yield* set({ approvers: [people.other.id, people.asker.id] })
      yield* TestApp.del(`/teams/${team.id}/members/${people.other.id}`, { session: sessions.owner })
      const { json } = yield* TestApp.get(`/projects/${projectId}/environments`, { session: sessions.owner })
      const production = json.items.find(({ slug }) => slug === "production")
      assert.deepStrictEqual(production?.approvers, [people.asker.id])
    })
  )
})

layer(TestApp.shared, { excludeTestServices: true })("two approvals", (it) => {
  it.effect("are those of two people who may both still decide", () =>
    Effect.gen(function* () {
      const { approve, ask, pending, people, reads, role, sessions, set } = yield* setUp
      assert.strictEqual((yield* set({ approvals: 2 })).json.approvals, 2)
      const { id } = (yield* ask()).json
      assert.deepStrictEqual((yield* approve(id, sessions.admin)).json, { status: "pending" })
      assert.deepStrictEqual(codeOf(yield* approve(id, sessions.admin)), decided)
      const [shown] = yield* pending(sessions.second)
      assert.deepStrictEqual([shown?.approvals, shown?.approvedBy?.id], [2, people.admin.id])
      // The first one is no admin any more: the next approval is the first again.
      yield* role(people.admin, { role: "member" })
      assert.deepStrictEqual((yield* approve(id, sessions.second)).json, { status: "pending" })
      assert.strictEqual(yield* reads(sessions.asker), 403)
      assert.deepStrictEqual((yield* approve(id, sessions.owner)).json, { status: "approved" })
      assert.strictEqual(yield* reads(sessions.asker), 200)
    })
  )

  it.effect("count only while the grant lasts that lets the first person approve", () =>
    Effect.gen(function* () {
      const { approve, ask, owner, people, production, reads, sessions, set } = yield* Effect.map(setUp, (made) => ({
        ...made,
        owner: made.sessions.owner
      }))
      assert.strictEqual((yield* set({ approvals: 2, approvers: [people.other.id] })).status, 200)
      const give = TestApp.post(`/environments/${production}/grants`, {
        session: owner,
        json: { userId: people.other.id, level: "values" }
      })
      const grant = (yield* give).json.id
      const first = (yield* ask()).json.id
      assert.deepStrictEqual((yield* approve(first, sessions.other)).json, { status: "pending" })
      assert.strictEqual((yield* TestApp.del(`/access-grants/${grant}`, { session: owner })).status, 200)
      // The next approval is the first again.
      assert.deepStrictEqual((yield* approve(first, sessions.admin)).json, { status: "pending" })
      assert.strictEqual(yield* reads(sessions.asker), 403)
      assert.deepStrictEqual((yield* approve(first, sessions.second)).json, { status: "approved" })
      // With a grant that lasts, both approvals count.
      yield* give
      const second = (yield* ask({ level: "run" })).json.id
      assert.deepStrictEqual((yield* approve(second, sessions.other)).json, { status: "pending" })
      assert.deepStrictEqual((yield* approve(second, sessions.admin)).json, { status: "approved" })
    })
  )

  it.effect("that come at once make one grant, and the same person's two make none", () =>
    Effect.gen(function* () {
      const { approve, ask, production, sessions, set } = yield* setUp
      yield* set({ approvals: 2 })
      const grants = Effect.map(
        TestApp.get(`/environments/${production}/grants`, { session: sessions.owner }),
        ({ json }) => json.items.length
      )
      const one = (yield* ask()).json.id
      const same = yield* Effect.all([approve(one, sessions.admin), approve(one, sessions.admin)], { concurrency: 2 })
      assert.deepStrictEqual(same.map(({ status }) => status).sort(), [200, 409])
      assert.strictEqual(yield* grants, 0)
      const two = (yield* ask()).json.id
      const both = yield* Effect.all([approve(two, sessions.admin), approve(two, sessions.second)], { concurrency: 2 })
      assert.sameMembers(
        both.map(({ json }) => json.status),
        ["pending", "approved"]
      )
      assert.strictEqual(yield* grants, 1)
    })
  )
})

layer(timed, { excludeTestServices: true })("a request that nobody decides", (it) => {
  it.effect("ends after seven days", () =>
    Effect.gen(function* () {
      const { approve, ask, pending, team } = yield* setUp
      const { createdAt, expiresAt, id } = (yield* ask()).json
      const week = 7 * 24 * 3_600_000
      assert.strictEqual(Date.parse(expiresAt) - Date.parse(createdAt), week)
      // The sessions from before ended too.
      yield* MovableClock.advance(week)
      const { text: session } = yield* World.session(team.owner)
      assert.deepStrictEqual(yield* pending(session), [])
      assert.deepStrictEqual(codeOf(yield* approve(id, session)), notFound)
    })
  )
})

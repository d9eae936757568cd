import { assert, layer } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as MovableClock from "#test/support/MovableClock.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"

const codeOf = TestApp.refusalOf
type Grants = `/environments/${string}/grants` | `/projects/${string}/grants`
const notGranted = [403, "ENVIRONMENT_NOT_GRANTED", undefined]
const timed = TestApp.server.pipe(
  Layer.provideMerge(Layer.merge(TestApp.backends, TestApp.config())),
  Layer.provideMerge(MovableClock.layer)
)
const inMillis = (millis: number) => new Date(Date.now() + millis).toISOString()

/** A team with a project, and a secret in its production; the owner, a member and a viewer are signed in. */
const setUp = Effect.gen(function* () {
  const team = yield* World.team()
  const member = yield* World.member(team, "member")
  const viewer = yield* World.member(team, "viewer")
  const session = (yield* World.session(team.owner)).text
  const project = yield* TestApp.post(`/teams/${team.id}/projects`, { session, json: { name: "Shop" } })
  const projectId = project.json.id
  const listed = yield* TestApp.get(`/projects/${projectId}/environments`, { session })
  const environments = listed.json.items
  const idOf = (slug: string) => environments.find((one) => one.slug === slug)?.id ?? assert.fail(slug)
  const at = { projectId, environment: "production" }
  yield* TestApp.post("/secrets", { session, json: { ...at, key: "PIN", value: "4711" } })
  const query = `projectId=${projectId}&environment=production`
  const reads = (asked: TestApp.Asked) =>
    Effect.forEach(
      [
        `/secrets?${query}`,
        `/secrets/inject?${query}`,
        `/secrets/value?${query}&key=PIN`,
        `/secrets/with-values?${query}`
      ],
      (path) =>
        Effect.map(TestApp.get(path, asked), (answer) => (answer.status < 400 ? answer.status : answer.error.code))
    )
  return {
    team,
    member,
    viewer,
    owner: session,
    person: (yield* World.session(member)).text,
    projectId,
    environments,
    production: idOf("production"),
    development: idOf("development"),
    at,
    query,
    reads,
    grant: (json: object, path: Grants = `/environments/${idOf("production")}/grants`) =>
      TestApp.post(path, { session, json: { userId: member.id, level: "values", ...json } })
  }
})
const closed = [200, "ENVIRONMENT_NOT_GRANTED", "ENVIRONMENT_NOT_GRANTED", "ENVIRONMENT_NOT_GRANTED"]
const opened = [200, 200, 200, 200]

layer(TestApp.shared, { excludeTestServices: true })("a granted environment", (it) => {
  it.effect("is what a new protected one starts as, unless its creator says otherwise", () =>
    Effect.gen(function* () {
      const { environments, owner, projectId } = yield* setUp
      assert.deepStrictEqual(
        environments.map(({ readers, slug }) => [slug, readers]),
        [
          ["development", "team"],
          ["staging", "team"],
          ["production", "granted"]
        ]
      )
      const open = yield* TestApp.post(`/projects/${projectId}/environments`, {
        session: owner,
        json: { slug: "live", protected: true, readers: "team" }
      })
      assert.strictEqual(open.json.readers, "team")
      // Protecting an environment that exists does not take it from those who read it.
      const plain = yield* TestApp.post(`/projects/${projectId}/environments`, { session: owner, json: { slug: "qa" } })
      const later = yield* TestApp.patch(`/environments/${plain.json.id}`, {
        session: owner,
        json: { protected: true }
      })
      assert.deepStrictEqual([later.json.protected, later.json.readers], [true, "team"])
    })
  )

  it.effect("shows names to a member, and values by a grant, to sessions and CLI grants alike", () =>
    Effect.gen(function* () {
      const { grant, member, owner, person, reads, team } = yield* setUp
      const cli = (yield* World.grant({
        teams: [{ team, scopes: ["secrets:read", "secrets:read_values", "secrets:run"] }],
        person: member
      })).text
      assert.deepStrictEqual(yield* reads({ session: person }), closed)
      assert.deepStrictEqual(yield* reads({ bearer: cli }), closed)
      assert.deepStrictEqual(yield* reads({ session: owner }), opened)
      const grantAnswer = yield* grant({ reason: "On call" })
      assert.strictEqual(grantAnswer.status, 201)
      assert.deepStrictEqual(yield* reads({ session: person }), opened)
      assert.deepStrictEqual(yield* reads({ bearer: cli }), opened)
      const ended = yield* TestApp.del(`/access-grants/${grantAnswer.json.id}`, { session: owner })
      assert.deepStrictEqual(ended.json, { deleted: true })
      assert.deepStrictEqual(yield* reads({ session: person }), closed)
      assert.deepStrictEqual(yield* reads({ bearer: cli }), closed)
      assert.deepStrictEqual(codeOf(yield* TestApp.del(`/access-grants/${grantAnswer.json.id}`, { session: owner })), [
        404,
        "GRANT_NOT_FOUND",
        undefined
      ])
    })
  )

  it.effect("gives a level and what is below it, and an API token keeps its own reach", () =>
    Effect.gen(function* () {
      const { grant, person, reads, team } = yield* setUp
      const token = (yield* World.token({ team, accessLevel: "read" })).text
      assert.deepStrictEqual(yield* reads({ bearer: token }), opened)
      yield* grant({ level: "names" })
      assert.deepStrictEqual(yield* reads({ session: person }), closed)
      yield* grant({ level: "run" })
      assert.deepStrictEqual(yield* reads({ session: person }), [
        200,
        200,
        "ENVIRONMENT_NOT_GRANTED",
        "ENVIRONMENT_NOT_GRANTED"
      ])
      yield* grant({ level: "write" })
      assert.deepStrictEqual(yield* reads({ session: person }), opened)
    })
  )

  it.effect("is written by a grant where it is not protected, and by admins alone where it is", () =>
    Effect.gen(function* () {
      const { at, development, grant, owner, person, projectId } = yield* setUp
      const write = (environment: string) =>
        TestApp.post("/secrets", { session: person, json: { ...at, environment, key: "NEW", value: "v" } })
      yield* TestApp.patch(`/environments/${development}`, { session: owner, json: { readers: "granted" } })
      assert.deepStrictEqual(codeOf(yield* write("development")), notGranted)
      yield* grant({ level: "write" }, `/projects/${projectId}/grants`)
      assert.strictEqual((yield* write("development")).status, 201)
      assert.deepStrictEqual(codeOf(yield* write("production")), [403, "FORBIDDEN", undefined])
    })
  )

  it.effect("asks owners and admins for a grant too where the team says so, and their new tokens", () =>
    Effect.gen(function* () {
      const { at, grant, owner, reads, team } = yield* setUp
      const create = (json: object) =>
        TestApp.post(`/teams/${team.id}/api-tokens`, { session: owner, json: { name: "ci", ...json } })
      const { json } = yield* TestApp.patch(`/teams/${team.id}`, { session: owner, json: { adminsNeedGrants: true } })
      assert.deepStrictEqual([json.adminsNeedGrants, json.tokensFollowCreators], [true, false])
      assert.deepStrictEqual(yield* reads({ session: owner }), closed)
      assert.deepStrictEqual(codeOf(yield* create({})), notGranted)
      assert.deepStrictEqual(codeOf(yield* create({ environments: [at.environment] })), notGranted)
      assert.strictEqual((yield* create({ environments: ["development"] })).status, 201)
      // Owners can grant themselves, and the trail shows it.
      yield* grant({ userId: team.owner.id, reason: "Incident" })
      assert.deepStrictEqual(yield* reads({ session: owner }), opened)
      assert.strictEqual((yield* create({})).status, 201)
      const trail = yield* TestApp.get(`/teams/${team.id}/audit?action=access.grant`, { session: owner })
      const [entry] = trail.json.items
      assert.deepStrictEqual(
        [entry.actor.id, entry.environment, entry.target?.name, entry.reason],
        [team.owner.id, "production", `values: ${team.owner.email}`, "Incident"]
      )
    })
  )

  it.effect("bounds API tokens by their creators where the team says so", () =>
    Effect.gen(function* () {
      const { owner, reads, team } = yield* setUp
      const admin = yield* World.member(team, "admin")
      const token = (yield* World.token({ team, creator: admin })).text
      const rule = (tokensFollowCreators: boolean) =>
        TestApp.patch(`/teams/${team.id}`, { session: owner, json: { tokensFollowCreators } })
      const member = (json: object) => TestApp.patch(`/teams/${team.id}/members/${admin.id}`, { session: owner, json })
      yield* rule(true)
      assert.deepStrictEqual(yield* reads({ bearer: token }), opened)
      yield* member({ active: false })
      assert.deepStrictEqual(codeOf(yield* TestApp.get("/me/verify", { bearer: token })), [
        401,
        "CREDENTIAL_REVOKED",
        undefined
      ])
      yield* rule(false)
      assert.deepStrictEqual(yield* reads({ bearer: token }), opened)
    })
  )
})

layer(TestApp.shared, { excludeTestServices: true })("a granted project", (it) => {
  it.effect("cannot be named by who does not see it when a device is approved", () =>
    Effect.gen(function* () {
      const { development, grant, owner, person, projectId, team } = yield* setUp
      yield* TestApp.patch(`/projects/${projectId}`, { session: owner, json: { visibility: "granted" } })
      const approve = (restriction: object) =>
        Effect.gen(function* () {
          const { json } = yield* TestApp.post("/auth/cli/device")
          const teams = [{ teamId: team.id, scopes: ["secrets:read"] }]
          const path = `/auth/cli/device/requests/${json.userCode}/approve` as const
          return (yield* TestApp.post(path, { session: person, json: { teams, ...restriction } })).status
        })
      assert.strictEqual(yield* approve({ projectIds: [projectId] }), 404)
      assert.strictEqual(yield* approve({ environmentIds: [development] }), 404)
      yield* grant({ level: "names" }, `/projects/${projectId}/grants`)
      assert.strictEqual(yield* approve({ projectIds: [projectId] }), 200)
    })
  )

  it.effect("is not there for who holds no grant in it, byte for byte", () =>
    Effect.gen(function* () {
      const { development, grant, owner, person, projectId, query } = yield* setUp
      yield* TestApp.patch(`/projects/${projectId}`, { session: owner, json: { visibility: "granted" } })
      const nowhere = "01980a5e-7c11-7b3a-9d54-6f2f8a1c0b7e"
      for (const path of [`/projects/ID/environments`, `/secrets?projectId=ID&environment=production`]) {
        const text = (id: string) =>
          Effect.map(TestApp.get(path.replace("ID", id), { session: person }), (answer) => [answer.status, answer.text])
        assert.deepStrictEqual(yield* text(projectId), yield* text(nowhere))
      }
      const projects = TestApp.get("/projects", { session: person })
      assert.deepStrictEqual((yield* projects).json.items, [])
      // A grant of one environment shows that one, and its names alone.
      yield* grant({ level: "names" }, `/environments/${development}/grants`)
      assert.strictEqual((yield* projects).json.items.length, 1)
      const { json } = yield* TestApp.get(`/projects/${projectId}/environments`, { session: person })
      assert.deepStrictEqual(
        json.items.map((one: { slug: string }) => one.slug),
        ["development"]
      )
      assert.deepStrictEqual(codeOf(yield* TestApp.get(`/secrets?${query}`, { session: person })), [
        404,
        "ENVIRONMENT_NOT_FOUND",
        undefined
      ])
      const values = yield* TestApp.get(`/secrets/inject?projectId=${projectId}&environment=development`, {
        session: person
      })
      assert.deepStrictEqual(codeOf(values), notGranted)
    })
  )
})

layer(TestApp.shared, { excludeTestServices: true })("grants", (it) => {
  it.effect("are given, listed and ended by owners and admins, to active members, within their role", () =>
    Effect.gen(function* () {
      const { grant, owner, person, production, projectId, viewer } = yield* setUp
      const refused = yield* TestApp.post(`/environments/${production}/grants`, {
        session: person,
        json: { userId: viewer.id, level: "names" }
      })
      assert.deepStrictEqual(codeOf(refused), [403, "FORBIDDEN", undefined])
      assert.strictEqual((yield* TestApp.get(`/projects/${projectId}/grants`, { session: person })).status, 403)
      assert.deepStrictEqual(codeOf(yield* grant({ userId: viewer.id })), [400, "VALIDATION_FAILED", "level"])
      assert.strictEqual((yield* grant({ userId: viewer.id, level: "names" })).status, 201)
      assert.deepStrictEqual(codeOf(yield* grant({ until: inMillis(-1) })), [400, "VALIDATION_FAILED", "until"])
      const stranger = yield* World.person()
      assert.deepStrictEqual(codeOf(yield* grant({ userId: stranger.id })), [404, "MEMBER_NOT_FOUND", undefined])
      const foreign = yield* setUp
      const theirs = yield* foreign.grant({})
      assert.deepStrictEqual(codeOf(yield* TestApp.del(`/access-grants/${theirs.json.id}`, { session: owner })), [
        404,
        "GRANT_NOT_FOUND",
        undefined
      ])
    })
  )

  it.effect("are listed where they reach", () =>
    Effect.gen(function* () {
      const { development, grant, member, owner, production, projectId, team } = yield* setUp
      yield* grant({ level: "names" }, `/projects/${projectId}/grants`)
      yield* grant({ level: "values", reason: "On call" })
      const list = (path: Grants) =>
        Effect.map(TestApp.get(path, { session: owner }), ({ json }) =>
          json.items.map((one) => [one.level, one.environment])
        )
      const both = [
        ["names", null],
        ["values", "production"]
      ]
      assert.deepStrictEqual(yield* list(`/projects/${projectId}/grants`), both)
      assert.deepStrictEqual(yield* list(`/environments/${production}/grants`), both)
      assert.deepStrictEqual(yield* list(`/environments/${development}/grants`), [["names", null]])
      const { json } = yield* TestApp.get(`/environments/${production}/grants`, { session: owner })
      const { createdAt, id, ...rest } = json.items[1]
      assert.deepStrictEqual(rest, {
        userId: member.id,
        email: member.email,
        projectId,
        environmentId: production,
        environment: "production",
        level: "values",
        until: null,
        reason: "On call",
        createdBy: { id: team.owner.id, email: team.owner.email }
      })
      assert.isAtMost(Date.parse(createdAt), Date.now())
      assert.isString(id)
    })
  )

  it.effect("end with the membership, and do not come back with the person", () =>
    Effect.gen(function* () {
      const { grant, member, owner, production, reads, team } = yield* setUp
      yield* grant({})
      yield* TestApp.del(`/teams/${team.id}/members/${member.id}`, { session: owner })
      yield* World.join(team, member, "member")
      const session = (yield* World.session(member)).text
      assert.deepStrictEqual(yield* reads({ session }), closed)
      const { json } = yield* TestApp.get(`/environments/${production}/grants`, { session: owner })
      assert.deepStrictEqual(json.items, [])
    })
  )
})

layer(timed, { excludeTestServices: true })("the end of a grant", (it) => {
  it.effect("closes the environment from that moment on, and takes the grant from the list", () =>
    Effect.gen(function* () {
      const { grant, owner, person, production, reads } = yield* setUp
      const now = yield* Clock.currentTimeMillis
      yield* grant({ until: new Date(now + 60_000).toISOString() })
      yield* MovableClock.advance(59_999)
      assert.deepStrictEqual(yield* reads({ session: person }), opened)
      yield* MovableClock.advance(1)
      assert.deepStrictEqual(yield* reads({ session: person }), closed)
      const { json } = yield* TestApp.get(`/environments/${production}/grants`, { session: owner })
      assert.deepStrictEqual(json, { items: [] })
    })
  )
})

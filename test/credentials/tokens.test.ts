import { assert, layer } from "@effect/vitest"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { TeamId } from "#schema/Ids.ts"
import { LastUse } from "#src/credentials/LastUse.ts"
import { Listening } from "#src/http/engine/Server.ts"
import * as Plans from "#src/limits/Plans.ts"
import { auditEntry } from "#test/support/Json.ts"
import * as MovableClock from "#test/support/MovableClock.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"

const app = TestApp.layer.pipe(Layer.provideMerge(MovableClock.layer))

const codeOf = TestApp.refusalOf
const day = 86_400_000

/** A team with a project and its owner's session. */
const setUp = Effect.fnUntraced(function* (options: { readonly plan?: "developer" | "team" } = {}) {
  const team = yield* World.team(options)
  const project = yield* World.project({ team })
  const session = (yield* World.session(team.owner)).text
  return { team, project, session, tokens: routes(team.id, session) }
})

const routes = (teamId: TeamId, session: string) => {
  const path = `/teams/${teamId}/api-tokens` as const
  const at = (id: string) => `${path}/${id}` as const
  return {
    create: (json: unknown) => TestApp.post(path, { session, json }),
    list: TestApp.get(path, { session }),
    update: (id: string, json: unknown) => TestApp.patch(at(id), { session, json }),
    rotate: (id: string) => TestApp.post(`${at(id)}/rotate`, { session }),
    revoke: (id: string) => TestApp.post(`${at(id)}/revoke`, { session }),
    remove: (id: string) => TestApp.del(at(id), { session })
  }
}

const verify = (text: string) => TestApp.get("/me/verify", { bearer: text })
const write = (text: string, projectId: string, environment: string, key = "KEY") =>
  TestApp.post("/secrets", { bearer: text, json: { projectId, environment, key, value: "v" } })
const listTools = (text: string) =>
  TestApp.post("/mcp", {
    bearer: text,
    headers: { accept: "application/json, text/event-stream" },
    json: {
      jsonrpc: "2.0",
      id: 1,
      method: "initialize",
      params: { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "test", version: "1" } }
    }
  })
const read = (text: string, projectId: string, environment: string) =>
  TestApp.get(`/secrets?projectId=${projectId}&environment=${environment}`, { bearer: text })

const trailOf = (teamId: TeamId) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const rows = yield* sql<{ readonly body: string }>`
      SELECT body FROM audit_entries WHERE team_id = ${teamId} ORDER BY id`
    return rows.map(auditEntry)
  })
const trail = (teamId: TeamId) =>
  Effect.map(trailOf(teamId), (entries) => entries.filter(({ action }) => action.startsWith("token.")))

layer(app, { excludeTestServices: true })("API tokens", (it) => {
  it.effect("are made by owners and admins, shown once, and kept as a salted hash", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { team, tokens } = yield* setUp()
      const created = yield* tokens.create({ name: "ci" })
      assert.strictEqual(created.status, 201, created.text)
      const { value, ...record } = created.json
      assert.match(value, /^amp_at_[0-9A-Za-z]{16}_[0-9A-Za-z]{49}$/)
      assert.deepStrictEqual(record, {
        id: record.id,
        teamId: team.id,
        name: "ci",
        accessLevel: "read",
        projects: null,
        environments: null,
        mcpScopes: [],
        mcpOnly: false,
        addresses: null,
        createdBy: { id: team.owner.id, email: team.owner.email },
        createdAt: record.createdAt,
        expiresAt: new Date(Date.parse(record.createdAt) + 365 * day).toISOString(),
        lastUsedAt: null,
        lastUsedIp: null,
        lastUsedUserAgent: null
      })
      assert.deepStrictEqual((yield* tokens.list).json, { items: [record] })
      const [row] = yield* sql<{
        readonly text: string
      }>`SELECT t::text AS text FROM api_tokens t WHERE id = ${record.id}`
      assert.notInclude(row.text, value.split("_")[3].slice(0, 43))

      const admin = routes(team.id, (yield* World.session(yield* World.member(team, "admin"))).text)
      assert.strictEqual((yield* admin.create({ name: "two" })).status, 201)
      for (const role of ["member", "viewer"] as const) {
        const other = routes(team.id, (yield* World.session(yield* World.member(team, role))).text)
        assert.deepStrictEqual(codeOf(yield* other.create({ name: "no" })), [403, "FORBIDDEN", undefined])
        assert.deepStrictEqual(codeOf(yield* other.list), [403, "FORBIDDEN", undefined])
        assert.deepStrictEqual(codeOf(yield* other.rotate(record.id)), [403, "FORBIDDEN", undefined])
      }
      const stranger = routes(team.id, (yield* World.session(yield* World.person())).text)
      assert.deepStrictEqual(codeOf(yield* stranger.list), [404, "TEAM_NOT_FOUND", undefined])
      const bearer = yield* TestApp.post(`/teams/${team.id}/api-tokens`, { bearer: value, json: { name: "self" } })
      assert.deepStrictEqual(codeOf(bearer), [403, "CREDENTIAL_KIND_NOT_ACCEPTED", undefined])
      const none = yield* TestApp.post(`/teams/${team.id}/api-tokens`, { json: { name: "self" } })
      assert.deepStrictEqual(codeOf(none), [401, "UNAUTHENTICATED", undefined])
    })
  )

  it.effect("are never made of a body with a mistake in it, and the answer names the member", () =>
    Effect.gen(function* () {
      const { project, tokens } = yield* setUp()
      const foreign = yield* World.project()
      const cases: ReadonlyArray<readonly [body: Record<string, unknown>, field: string, code?: string]> = [
        [{}, "name"],
        [{ name: "" }, "name"],
        [{ name: "n".repeat(101) }, "name"],
        [{ name: "bidi \u202e name" }, "name"],
        [{ name: "ci", scope: "all" }, "scope"],
        [{ name: "ci", accessLevel: "admin" }, "accessLevel"],
        [{ name: "ci", lifetime: "2d" }, "lifetime"],
        [{ name: "ci", projects: [] }, "projects"],
        [{ name: "ci", environments: [] }, "environments"],
        [{ name: "ci", environments: ["development", "nowhere"] }, "environments.1"],
        [{ name: "ci", projects: [project.id, foreign.id] }, "projects.1", "PROJECT_NOT_FOUND"],
        [{ name: "ci", mcpScopes: ["secrets:write"] }, "mcpScopes"],
        [{ name: "ci", accessLevel: "read", mcpScopes: ["secrets:read", "secrets:write"] }, "mcpScopes"],
        [{ name: "ci", mcpScopes: ["everything"] }, "mcpScopes.0"]
      ]
      for (const [body, field, code = "VALIDATION_FAILED"] of cases) {
        const answer = yield* tokens.create(body)
        assert.deepStrictEqual(
          codeOf(answer),
          [code === "VALIDATION_FAILED" ? 400 : 404, code, field],
          JSON.stringify(body)
        )
      }
      assert.deepStrictEqual((yield* tokens.list).json, { items: [] })
    })
  )

  it.effect("live as long as was chosen, never longer than the plan allows", () =>
    Effect.gen(function* () {
      const big = yield* setUp({ plan: "team" })
      const small = yield* setUp({ plan: "developer" })
      for (const [lifetime, days] of [
        ["1d", 1],
        ["7d", 7],
        ["30d", 30],
        ["90d", 90],
        ["1y", 365]
      ] as const) {
        const { json } = yield* big.tokens.create({ name: lifetime, lifetime })
        assert.strictEqual(Date.parse(json.expiresAt ?? "") - Date.parse(json.createdAt), days * day)
      }
      assert.deepStrictEqual(codeOf(yield* small.tokens.create({ name: "ci", lifetime: "1y" })), [
        400,
        "VALIDATION_FAILED",
        "lifetime"
      ])
      const { json } = yield* small.tokens.create({ name: "ci" })
      assert.strictEqual(Date.parse(json.expiresAt ?? "") - Date.parse(json.createdAt), 90 * day)
    })
  )

  it.effect("are refused from the date of their expiry on", () =>
    Effect.gen(function* () {
      const { tokens } = yield* setUp()
      const { json } = yield* tokens.create({ name: "ci", lifetime: "1d" })
      yield* MovableClock.advance(day - 1)
      assert.strictEqual((yield* verify(json.value)).status, 200)
      yield* MovableClock.advance(1)
      assert.deepStrictEqual(codeOf(yield* verify(json.value)), [401, "CREDENTIAL_EXPIRED", undefined])
      const own = yield* TestApp.del("/me/token", { bearer: json.value })
      assert.deepStrictEqual(codeOf(own), [401, "CREDENTIAL_EXPIRED", undefined])
    })
  )

  it.effect("without expiry, as older ones are, stop after 90 days unused; each use begins the 90 days anew", () =>
    Effect.gen(function* () {
      const lastUse = yield* LastUse
      const team = yield* World.team()
      const used = yield* World.token({ team, expiresIn: null })
      const idle = yield* World.token({ team, expiresIn: null })
      assert.isNull((yield* verify(used.text)).json.credential.expiresAt)
      yield* lastUse.flush
      yield* MovableClock.advance(90 * day - 1)
      assert.strictEqual((yield* verify(used.text)).status, 200)
      yield* lastUse.flush
      yield* MovableClock.advance(1)
      assert.deepStrictEqual(codeOf(yield* verify(idle.text)), [401, "CREDENTIAL_EXPIRED", undefined])
      yield* MovableClock.advance(90 * day - 2)
      assert.strictEqual((yield* verify(used.text)).status, 200)
      yield* MovableClock.advance(90 * day)
      assert.deepStrictEqual(codeOf(yield* verify(used.text)), [401, "CREDENTIAL_EXPIRED", undefined])
    })
  )

  it.effect("revoked in the dashboard are refused from the next request on, for good, and leave the list", () =>
    Effect.gen(function* () {
      const { team, tokens } = yield* setUp()
      const { json } = yield* tokens.create({ name: "ci" })
      assert.strictEqual((yield* verify(json.value)).status, 200)
      assert.deepStrictEqual((yield* tokens.revoke(json.id)).json, { revoked: true })
      assert.deepStrictEqual(codeOf(yield* verify(json.value)), [401, "CREDENTIAL_REVOKED", undefined])
      assert.deepStrictEqual((yield* tokens.list).json, { items: [] })
      assert.strictEqual((yield* tokens.revoke(json.id)).status, 200)
      assert.deepStrictEqual(codeOf(yield* tokens.rotate(json.id)), [404, "TOKEN_NOT_FOUND", undefined])
      assert.deepStrictEqual(codeOf(yield* tokens.update(json.id, { name: "x" })), [404, "TOKEN_NOT_FOUND", undefined])
      const actions = (yield* trail(team.id)).map(({ action, actor, target }) => [action, actor.type, target?.id])
      assert.deepStrictEqual(actions, [
        ["token.create", "user", json.id],
        ["token.revoke", "user", json.id]
      ])
    })
  )

  it.effect("revoke themselves with DELETE /me/token, as often as it is asked", () =>
    Effect.gen(function* () {
      const { team, tokens } = yield* setUp()
      const { json } = yield* tokens.create({ name: "ci" })
      for (let i = 0; i < 3; i++) {
        const answer = yield* TestApp.del("/me/token", { bearer: json.value })
        assert.deepStrictEqual([answer.status, answer.json], [200, { revoked: true }])
      }
      assert.deepStrictEqual(codeOf(yield* verify(json.value)), [401, "CREDENTIAL_REVOKED", undefined])
      const own = (yield* trail(team.id)).filter((entry) => entry.action === "token.revoke")
      assert.lengthOf(own, 1)
      assert.deepStrictEqual(own[0].actor, { type: "api_token", id: json.id, name: "ci" })
    })
  )

  it.effect("deleted are gone from the records and unknown from then on; the trail still names them", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { team, tokens } = yield* setUp()
      const { json } = yield* tokens.create({ name: "ci" })
      assert.deepStrictEqual((yield* tokens.remove(json.id)).json, { revoked: true })
      assert.lengthOf(yield* sql`SELECT 1 FROM api_tokens WHERE id = ${json.id}`, 0)
      assert.deepStrictEqual(codeOf(yield* verify(json.value)), [401, "CREDENTIAL_INVALID", undefined])
      assert.deepStrictEqual(codeOf(yield* tokens.remove(json.id)), [404, "TOKEN_NOT_FOUND", undefined])
      assert.deepInclude((yield* trail(team.id)).at(-1), {
        action: "token.delete",
        target: { type: "api_token", id: json.id, name: "ci" }
      })
    })
  )

  it.scoped("ended on one process are ended on another from the next request on", () =>
    Effect.gen(function* () {
      const { project, tokens } = yield* setUp()
      const other = Context.get(yield* Layer.build(Layer.fresh(TestApp.server)), Listening)
      const there = (asked: Effect.Effect<TestApp.Answer, never, Listening>) =>
        Effect.provideService(asked, Listening, other)
      assert.notStrictEqual(other.port, (yield* Listening).port)

      const { json } = yield* tokens.create({ name: "ci", accessLevel: "write" })
      assert.strictEqual((yield* there(write(json.value, project.id, "development"))).status, 201)
      yield* tokens.update(json.id, { accessLevel: "read" })
      const refused = yield* there(write(json.value, project.id, "development", "TWO"))
      assert.deepStrictEqual(codeOf(refused), [403, "API_TOKEN_READ_ONLY", undefined])
      yield* tokens.revoke(json.id)
      assert.deepStrictEqual(codeOf(yield* there(verify(json.value))), [401, "CREDENTIAL_REVOKED", undefined])
    })
  )

  it.effect("of another team do not exist, for every route with an id", () =>
    Effect.gen(function* () {
      const mine = yield* setUp()
      const theirs = yield* setUp()
      const { json } = yield* theirs.tokens.create({ name: "ci" })
      for (const answer of [
        yield* mine.tokens.update(json.id, { name: "x" }),
        yield* mine.tokens.rotate(json.id),
        yield* mine.tokens.revoke(json.id),
        yield* mine.tokens.remove(json.id)
      ]) {
        assert.deepStrictEqual(codeOf(answer), [404, "TOKEN_NOT_FOUND", undefined])
      }
      assert.strictEqual((yield* verify(json.value)).status, 200)
    })
  )

  it.effect(
    "rotated keep name, reach, level, MCP scopes and expiry; the rotator becomes creator; the old value ends",
    () =>
      Effect.gen(function* () {
        const { project, team, tokens } = yield* setUp()
        const admin = yield* World.member(team, "admin")
        const { json: first } = yield* tokens.create({
          name: "deploy",
          accessLevel: "write",
          projects: [project.id],
          environments: ["development", "production"],
          lifetime: "30d",
          mcpScopes: ["secrets:read", "secrets:write"]
        })
        yield* MovableClock.advance(3 * day)
        const fresh = routes(team.id, (yield* World.session(admin)).text)
        const rotated = yield* fresh.rotate(first.id)
        assert.strictEqual(rotated.status, 200, rotated.text)
        const { createdAt: _, createdBy, id, value, ...kept } = rotated.json
        const { createdAt: _1, createdBy: _2, id: oldId, value: oldValue, ...before } = first
        assert.deepStrictEqual(kept, before)
        assert.notStrictEqual(id, oldId)
        assert.deepStrictEqual(createdBy, { id: admin.id, email: admin.email })
        assert.deepStrictEqual(codeOf(yield* verify(oldValue)), [401, "CREDENTIAL_REVOKED", undefined])
        assert.strictEqual((yield* verify(value)).status, 200)
        assert.strictEqual((yield* write(value, project.id, "production")).status, 201)

        yield* MovableClock.advance(27 * day - 1)
        assert.strictEqual((yield* verify(value)).status, 200)
        yield* MovableClock.advance(1)
        assert.deepStrictEqual(codeOf(yield* verify(value)), [401, "CREDENTIAL_EXPIRED", undefined])
        const again = routes(team.id, (yield* World.session(admin)).text)
        assert.deepStrictEqual(codeOf(yield* again.rotate(id)), [404, "TOKEN_NOT_FOUND", undefined])
      })
  )

  it.effect("rotated many times at once give one new token", () =>
    Effect.gen(function* () {
      const { tokens } = yield* setUp()
      const { json } = yield* tokens.create({ name: "ci" })
      const answers = yield* Effect.all(
        Array.from({ length: 6 }, () => tokens.rotate(json.id)),
        { concurrency: "unbounded" }
      )
      assert.deepStrictEqual(answers.map((a) => a.status).sort(), [200, 404, 404, 404, 404, 404])
      assert.lengthOf((yield* tokens.list).json.items, 1)
    })
  )

  it.effect("made read-only lose secrets:write in the same change, read on, and are never widened again", () =>
    Effect.gen(function* () {
      const { project, team, tokens } = yield* setUp()
      const { json } = yield* tokens.create({
        name: "ci",
        accessLevel: "write",
        mcpScopes: ["secrets:read", "secrets:write"]
      })
      assert.strictEqual((yield* write(json.value, project.id, "development")).status, 201)
      const narrowed = yield* tokens.update(json.id, { accessLevel: "read" })
      assert.deepInclude(narrowed.json, { accessLevel: "read", mcpScopes: ["secrets:read"], name: "ci" })
      assert.deepStrictEqual(codeOf(yield* write(json.value, project.id, "development", "TWO")), [
        403,
        "API_TOKEN_READ_ONLY",
        undefined
      ])
      assert.strictEqual((yield* read(json.value, project.id, "development")).status, 200)
      assert.deepInclude((yield* verify(json.value)).json, { accessLevel: "read", mcpScopes: ["secrets:read"] })

      for (const [body, field] of [
        [{ accessLevel: "write" }, "accessLevel"],
        [{ mcpScopes: ["secrets:read", "secrets:write"] }, "mcpScopes"],
        [{ mcpScopes: ["secrets:run"] }, "mcpScopes"],
        [{ projects: [project.id] }, "projects"],
        [{ expiresAt: null }, "expiresAt"],
        [{}, "name"]
      ] as const) {
        assert.deepStrictEqual(codeOf(yield* tokens.update(json.id, body)), [400, "VALIDATION_FAILED", field])
      }
      assert.isTrue((yield* trail(team.id)).some((entry) => entry.action === "token.make_read_only"))
    })
  )

  it.effect("lose MCP scopes and get a new name; without any MCP scope the HTTP API still works", () =>
    Effect.gen(function* () {
      const { project, tokens } = yield* setUp()
      const { json } = yield* tokens.create({
        name: "ci",
        accessLevel: "write",
        mcpScopes: ["secrets:read", "secrets:run"]
      })
      const renamed = yield* tokens.update(json.id, { name: "agent", mcpScopes: ["secrets:run"] })
      assert.deepInclude(renamed.json, { name: "agent", mcpScopes: ["secrets:run"], accessLevel: "write" })
      const none = yield* tokens.update(json.id, { mcpScopes: [] })
      assert.deepStrictEqual(none.json.mcpScopes, [])
      assert.strictEqual((yield* write(json.value, project.id, "development")).status, 201)
      assert.deepStrictEqual(codeOf(yield* tokens.update(json.id, { mcpScopes: ["secrets:run"] })), [
        400,
        "VALIDATION_FAILED",
        "mcpScopes"
      ])
    })
  )

  it.effect("for /mcp only work there and are refused by every other route, DELETE /me/token too", () =>
    Effect.gen(function* () {
      const { project, team, tokens } = yield* setUp()
      const scopes = ["projects:read", "secrets:read"]
      const created = yield* tokens.create({ name: "agent", mcpScopes: scopes, mcpOnly: true })
      assert.strictEqual(created.status, 201, created.text)
      assert.isTrue(created.json.mcpOnly)
      assert.isTrue((yield* tokens.list).json.items[0].mcpOnly)
      const refusedOverRest = Effect.fnUntraced(function* (bearer: string) {
        const at = `projectId=${project.id}&environment=production`
        for (const answer of [
          yield* verify(bearer),
          yield* read(bearer, project.id, "production"),
          yield* TestApp.get(`/secrets/inject?${at}`, { bearer }),
          yield* TestApp.del("/me/token", { bearer })
        ]) {
          assert.deepStrictEqual(codeOf(answer), [403, "CREDENTIAL_KIND_NOT_ACCEPTED", undefined])
        }
      })
      yield* refusedOverRest(created.json.value)
      assert.strictEqual((yield* listTools(created.json.value)).status, 200)

      const rotated = yield* tokens.rotate(created.json.id)
      assert.isTrue(rotated.json.mcpOnly)
      yield* refusedOverRest(rotated.json.value)

      const narrowed = yield* tokens.update(rotated.json.id, { mcpScopes: [] })
      assert.deepStrictEqual([narrowed.json.mcpScopes, narrowed.json.mcpOnly], [[], true])
      yield* refusedOverRest(rotated.json.value)
      assert.strictEqual((yield* listTools(rotated.json.value)).status, 403)

      const denied = (yield* trailOf(team.id)).filter((entry) => entry.action === "credential.refused")
      assert.isNotEmpty(denied)
      assert.strictEqual(denied[0]?.actor.name, "agent")
    })
  )

  it.effect("for /mcp only need an MCP scope, and are made by that member alone", () =>
    Effect.gen(function* () {
      const { tokens } = yield* setUp()
      for (const mcpScopes of [[], undefined]) {
        const refused = yield* tokens.create({ name: "agent", mcpScopes, mcpOnly: true })
        assert.deepStrictEqual(codeOf(refused), [400, "VALIDATION_FAILED", "mcpOnly"])
      }
      const text = yield* tokens.create({ name: "agent", mcpScopes: ["secrets:read"], mcpOnly: "true" })
      assert.deepStrictEqual(codeOf(text), [400, "VALIDATION_FAILED", "mcpOnly"])
      const plain = yield* tokens.create({ name: "agent", mcpScopes: ["secrets:read"] })
      assert.isFalse(plain.json.mcpOnly)
      assert.strictEqual((yield* verify(plain.json.value)).status, 200)
      const widened = yield* tokens.update(plain.json.id, { mcpOnly: false })
      assert.deepStrictEqual(codeOf(widened), [400, "VALIDATION_FAILED", "mcpOnly"])
    })
  )

  it.effect("narrowed to environments reach those of their making, not later ones of the same slug", () =>
    Effect.gen(function* () {
      const { project, session, team, tokens } = yield* setUp()
      const { json } = yield* tokens.create({
        name: "ci",
        accessLevel: "write",
        environments: ["development", "production"]
      })
      assert.sameDeepMembers(
        [...(json.environments ?? [])],
        [
          { id: project.development.id, slug: "development", projectId: project.id },
          { id: project.production.id, slug: "production", projectId: project.id }
        ]
      )
      assert.strictEqual((yield* read(json.value, project.id, "development")).status, 200)
      assert.deepStrictEqual(codeOf(yield* read(json.value, project.id, "staging")), [
        404,
        "ENVIRONMENT_NOT_FOUND",
        undefined
      ])
      assert.strictEqual(
        (yield* write(json.value, project.id, "production")).status,
        201,
        "it was made naming production"
      )

      const later = yield* World.project({ team })
      assert.deepStrictEqual(codeOf(yield* read(json.value, later.id, "development")), [
        404,
        "PROJECT_NOT_FOUND",
        undefined
      ])

      yield* TestApp.del(`/environments/${project.development.id}`, { session })
      const again = yield* TestApp.post(`/projects/${project.id}/environments`, {
        session,
        json: { slug: "development" }
      })
      assert.strictEqual(again.status, 201, again.text)
      assert.deepStrictEqual(codeOf(yield* read(json.value, project.id, "development")), [
        404,
        "ENVIRONMENT_NOT_FOUND",
        undefined
      ])

      yield* TestApp.del(`/environments/${project.production.id}`, { session })
      assert.deepStrictEqual(codeOf(yield* read(json.value, project.id, "development")), [
        404,
        "PROJECT_NOT_FOUND",
        undefined
      ])
      assert.deepStrictEqual((yield* TestApp.get("/projects", { bearer: json.value })).json, { items: [] })
      assert.deepStrictEqual((yield* tokens.list).json.items[0].environments, [], "nothing, never all")
    })
  )

  it.effect("narrowed to projects resolve slugs within those", () =>
    Effect.gen(function* () {
      const { project, team, tokens } = yield* setUp()
      const other = yield* World.project({ team })
      const preview = yield* World.environment(other, "preview")
      const { json } = yield* tokens.create({ name: "ci", projects: [other.id, other.id], environments: ["preview"] })
      assert.deepStrictEqual(json.projects, [{ id: other.id, name: "Demo" }])
      assert.deepStrictEqual(json.environments, [{ id: preview.id, slug: "preview", projectId: other.id }])
      const none = yield* tokens.create({ name: "ci", projects: [project.id], environments: ["preview"] })
      assert.deepStrictEqual(codeOf(none), [400, "VALIDATION_FAILED", "environments.0"])
    })
  )

  it.effect("made for all environments read protected ones and are refused there when they write", () =>
    Effect.gen(function* () {
      const { project, session, tokens } = yield* setUp()
      const { json: all } = yield* tokens.create({ name: "all", accessLevel: "write" })
      const { json: named } = yield* tokens.create({ name: "staging", accessLevel: "write", environments: ["staging"] })
      assert.strictEqual((yield* read(all.value, project.id, "production")).status, 200)
      assert.deepStrictEqual(codeOf(yield* write(all.value, project.id, "production")), [
        403,
        "API_TOKEN_NOT_SCOPED_TO_PROTECTED_ENVIRONMENT",
        undefined
      ])
      const protect = yield* TestApp.patch(`/environments/${project.staging.id}`, {
        session,
        json: { protected: true }
      })
      assert.isTrue(protect.json.protected)
      assert.strictEqual((yield* write(named.value, project.id, "staging")).status, 201, "it keeps its access")
      assert.strictEqual((yield* write(all.value, project.id, "staging", "TWO")).status, 403)
    })
  )

  it.effect("show time, address and user agent of their last use", () =>
    Effect.gen(function* () {
      const lastUse = yield* LastUse
      const { tokens } = yield* setUp()
      const { json } = yield* tokens.create({ name: "ci" })
      yield* TestApp.get("/me/verify", { bearer: json.value, headers: { "user-agent": "curl/8.5.0" } })
      yield* lastUse.flush
      const [record] = (yield* tokens.list).json.items
      assert.deepInclude(record, {
        lastUsedIp: "127.0.0.1",
        lastUsedUserAgent: "curl/8.5.0",
        lastUsedAt: json.createdAt
      })
    })
  )
})

layer(app, { excludeTestServices: true })("API tokens and their creator", (it) => {
  /** A token that an admin made, and the owner's hand on that admin. */
  const adminsToken = Effect.fnUntraced(function* () {
    const { team, tokens } = yield* setUp()
    const creator = yield* World.member(team, "admin")
    const { json } = yield* routes(team.id, (yield* World.session(creator)).text).create({ name: "ci" })
    const bystander = yield* tokens.create({ name: "other" })
    const path = `/teams/${team.id}/members/${creator.id}` as const
    const asOwner = Effect.map(World.session(team.owner), ({ text }) => text)
    const change = (body: unknown) => Effect.flatMap(asOwner, (session) => TestApp.patch(path, { session, json: body }))
    return { team, creator, token: json, bystander: bystander.json, path, asOwner, change }
  })
  const revoked = [401, "CREDENTIAL_REVOKED", undefined]
  const expired = [401, "CREDENTIAL_EXPIRED", undefined]

  for (const role of ["viewer", "member", "owner"] as const) {
    it.effect(`end when the creator becomes ${role}; others' tokens do not`, () =>
      Effect.gen(function* () {
        const { bystander, change, creator, team, token } = yield* adminsToken()
        const answer = yield* change({ role })
        assert.deepInclude(answer.json, { userId: creator.id, role })
        assert.deepStrictEqual(codeOf(yield* verify(token.value)), revoked)
        assert.strictEqual((yield* verify(bystander.value)).status, 200)
        yield* change({ role: "admin" })
        assert.deepStrictEqual(codeOf(yield* verify(token.value)), revoked, "for good")
        assert.deepInclude((yield* trail(team.id)).at(-1), {
          action: "token.revoke",
          target: { type: "api_token", id: token.id, name: "ci" }
        })
      })
    )
  }

  it.effect("end when the creator leaves, and stay ended when they come back", () =>
    Effect.gen(function* () {
      const { bystander, creator, team, token } = yield* adminsToken()
      const session = (yield* World.session(creator)).text
      assert.strictEqual((yield* TestApp.post(`/teams/${team.id}/leave`, { session })).status, 200)
      assert.deepStrictEqual(codeOf(yield* verify(token.value)), revoked)
      yield* World.join(team, creator, "admin")
      assert.deepStrictEqual(codeOf(yield* verify(token.value)), revoked)
      assert.strictEqual((yield* verify(bystander.value)).status, 200)
    })
  )

  it.effect("end when the creator is removed; an owner's other team is not touched", () =>
    Effect.gen(function* () {
      const { asOwner, creator, path, token } = yield* adminsToken()
      const elsewhere = yield* World.team({ owner: creator })
      const kept = yield* World.token({ team: elsewhere })
      const { deleted, waysIn } = (yield* TestApp.del(path, { session: yield* asOwner })).json
      assert.isTrue(deleted)
      assert.deepInclude(waysIn, { way: "tokens", ending: "ended", count: 1 })
      // The person has a team left, so they stay signed in.
      assert.deepInclude(waysIn, { way: "sessions", ending: "kept", count: 0 })
      assert.deepStrictEqual(codeOf(yield* verify(token.value)), revoked)
      assert.strictEqual((yield* verify(kept.text)).status, 200)
    })
  )

  it.effect("work on for 7 days when the creator is deactivated, and stop then", () =>
    Effect.gen(function* () {
      const { change, token } = yield* adminsToken()
      assert.isFalse((yield* change({ active: false })).json.active)
      yield* MovableClock.advance(7 * day - 1)
      assert.strictEqual((yield* verify(token.value)).status, 200)
      yield* MovableClock.advance(1)
      assert.deepStrictEqual(codeOf(yield* verify(token.value)), expired)
      yield* change({ active: true })
      assert.deepStrictEqual(codeOf(yield* verify(token.value)), revoked, "what stopped does not begin again")
    })
  )

  it.effect("are out of danger when the creator is reactivated in time; a later deactivation begins 7 days anew", () =>
    Effect.gen(function* () {
      const { change, token } = yield* adminsToken()
      yield* change({ active: false })
      yield* MovableClock.advance(6 * day)
      yield* change({ active: true })
      yield* MovableClock.advance(30 * day)
      assert.strictEqual((yield* verify(token.value)).status, 200)
      yield* change({ active: false })
      yield* MovableClock.advance(6 * day)
      // Deactivating the deactivated does not prolong the grace.
      yield* change({ active: false })
      yield* MovableClock.advance(day)
      assert.deepStrictEqual(codeOf(yield* verify(token.value)), expired)
    })
  )

  it.effect("rotated by another person follow that person's standing from then on", () =>
    Effect.gen(function* () {
      const { change, team, token } = yield* adminsToken()
      const rotator = yield* World.member(team, "admin")
      const { json } = yield* routes(team.id, (yield* World.session(rotator)).text).rotate(token.id)
      yield* change({ role: "viewer" })
      assert.strictEqual((yield* verify(json.value)).status, 200, "the first creator does not count any more")
      yield* TestApp.post(`/teams/${team.id}/leave`, { session: (yield* World.session(rotator)).text })
      assert.deepStrictEqual(codeOf(yield* verify(json.value)), revoked)
    })
  )

  it.effect("are not left behind by someone who is being demoted at the same time", () =>
    Effect.gen(function* () {
      for (let round = 0; round < 8; round++) {
        const { change, creator, team } = yield* adminsToken()
        const mine = routes(team.id, (yield* World.session(creator)).text)
        const [created] = yield* Effect.all([mine.create({ name: "late" }), change({ role: "viewer" })], {
          concurrency: "unbounded"
        })
        if (created.status === 201) assert.deepStrictEqual(codeOf(yield* verify(created.json.value)), revoked)
        else assert.strictEqual(created.status, 403)
      }
    })
  )
})

layer(app, { excludeTestServices: true })("the cap on active API tokens", (it) => {
  /** Fills a team up to `n` active tokens in one statement. */
  const fill = (team: World.Team, n: number, expiresAt: Date | null) =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* sql`
        INSERT INTO api_tokens (id, lookup_id, salt, hash, team_id, name, access_level, mcp_scopes, created_by, created_at, expires_at)
        SELECT gen_random_uuid(), gen_random_uuid()::text, ''::bytea, ''::bytea, ${team.id}::uuid, 'filler', 'read', '{}',
          ${team.owner.id}::uuid, ${new Date(0)}::timestamptz, ${expiresAt}::timestamptz
        FROM generate_series(1, ${n}::int)`
    })

  for (const plan of ["developer", "team"] as const) {
    const cap = plan === "developer" ? 500 : 2_000
    it.effect(`is ${cap} on the plan ${plan}, also when requests come at once; expired ones do not count`, () =>
      Effect.gen(function* () {
        assert.strictEqual(Plans.plans[plan].activeTokens, cap)
        const { team, tokens } = yield* setUp({ plan })
        yield* fill(team, 20, new Date(1))
        yield* fill(team, cap - 3, new Date(Date.parse("2030-01-01")))
        const answers = yield* Effect.all(
          Array.from({ length: 8 }, (_, i) => tokens.create({ name: `n${i}` })),
          { concurrency: "unbounded" }
        )
        assert.deepStrictEqual(answers.map((a) => a.status).sort(), [201, 201, 201, 403, 403, 403, 403, 403])
        for (const refused of answers.filter((a) => a.status === 403))
          assert.strictEqual(refused.error.code, "PLAN_LIMIT_REACHED")
        const kept = answers.find((a) => a.status === 201)?.json.id ?? assert.fail("none was made")
        assert.strictEqual((yield* tokens.rotate(kept)).status, 200, "a rotation is not one more")
        // An active one: the list shows expired ones too, and those make no room.
        const expired = new Date(1).toISOString()
        const { items } = (yield* tokens.list).json
        const victim = items.find(({ expiresAt }) => expiresAt !== expired)
        if (victim === undefined) return assert.fail("the team has active tokens")
        yield* tokens.revoke(victim.id)
        assert.strictEqual((yield* tokens.create({ name: "room" })).status, 201)
      })
    )
  }
})

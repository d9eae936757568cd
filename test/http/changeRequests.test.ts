/** Writes that wait for an approval: who proposes, who decides, what is kept, and what is written in the end. */
import { assert, layer } from "@effect/vitest"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { ChangeRequest } from "#schema/ChangeRequestsApi.ts"
import { cliScopes } from "#schema/Scopes.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import * as MovableClock from "#test/support/MovableClock.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"

const codeOf = TestApp.refusalOf
const app = Layer.provideMerge(
  TestApp.server.pipe(Layer.provideMerge(Layer.merge(TestApp.backends, TestApp.config()))),
  Layer.merge(MovableClock.layer, Crypto.Default)
)

/** A protected environment that takes proposals, with a secret BASE and a template on it. */
const setUp = Effect.gen(function* () {
  const project = yield* World.project()
  const { production, team } = project
  const people = {
    admin: yield* World.member(team, "admin"),
    author: yield* World.member(team, "member"),
    other: yield* World.member(team, "member"),
    viewer: yield* World.member(team, "viewer")
  }
  const sessionOf = (person: World.Person) => Effect.map(World.session(person), ({ text }) => text)
  const sessions = {
    owner: yield* sessionOf(team.owner),
    admin: yield* sessionOf(people.admin),
    author: yield* sessionOf(people.author),
    other: yield* sessionOf(people.other),
    viewer: yield* sessionOf(people.viewer)
  }
  const set = (json: object) => TestApp.patch(`/environments/${production.id}`, { session: sessions.owner, json })
  assert.strictEqual((yield* set({ changes: "proposed" })).json.changes, "proposed")
  const at = { projectId: project.id, environment: "production" }
  const create = (session: string, key: string, value: string) =>
    TestApp.post("/secrets", { session, json: { ...at, key, value } })
  const base = yield* create(sessions.owner, "BASE", "first")
  yield* create(sessions.owner, "URL", "x-${BASE}")
  const inject = Effect.map(
    TestApp.get(`/secrets/inject?${new URLSearchParams(at)}`, { session: sessions.owner }),
    ({ json }) => json.values
  )
  const proposed = (answer: TestApp.Answer) => {
    assert.strictEqual(answer.status, 202, answer.text)
    return answer.as(ChangeRequest)
  }
  const decide = (session: string, id: string, how: "approve" | "deny" = "approve") =>
    TestApp.post(`/change-requests/${id}/${how}`, { session })
  const reveal = (session: string, id: string) => TestApp.post(`/change-requests/${id}/reveal`, { session })
  const listed = (session: string) =>
    Effect.map(TestApp.get("/change-requests", { session }), ({ json }) => json.items.map(({ id }) => id))
  return { project, team, people, sessions, set, at, create, base: base.json, inject, proposed, decide, reveal, listed }
})

layer(app, { excludeTestServices: true })("a change that waits", (it) => {
  it.effect("is kept, and written as the one who approves, with its author beside it in the trail", () =>
    Effect.gen(function* () {
      const { base, create, decide, inject, listed, people, proposed, sessions, team } = yield* setUp
      const request = proposed(
        yield* TestApp.patch(`/secrets/${base.id}`, { session: sessions.author, json: { value: "second" } })
      )
      assert.deepStrictEqual(request.changes, [
        { key: "BASE", change: "update", kind: "literal", references: [], warnings: [], conflict: false }
      ])
      assert.deepStrictEqual([request.user.id, request.mayDecide], [people.author.id, false])
      const own = proposed(yield* create(sessions.author, "NEW", "${BASE}!"))
      assert.deepStrictEqual(own.changes, [
        { key: "NEW", change: "create", kind: "template", references: ["BASE"], warnings: [], conflict: false }
      ])
      assert.deepStrictEqual(yield* inject, { BASE: "first", URL: "x-first" })
      assert.sameMembers(yield* listed(sessions.author), [request.id, own.id])
      assert.sameMembers(yield* listed(sessions.admin), [request.id, own.id])
      assert.deepStrictEqual(yield* listed(sessions.other), [])

      const approved = yield* decide(sessions.admin, request.id)
      assert.deepStrictEqual(approved.json, { status: "approved" }, approved.text)
      yield* decide(sessions.owner, own.id)
      assert.deepStrictEqual(yield* inject, { BASE: "second", URL: "x-second", NEW: "second!" })
      const again = yield* decide(sessions.owner, request.id)
      assert.deepStrictEqual(codeOf(again), [409, "GRANT_ALREADY_DECIDED", undefined])

      const trail = yield* TestApp.get(`/teams/${team.id}/audit?limit=200`, { session: sessions.owner })
      const about = trail.json.items
        .filter(({ target }) => target?.id === request.id)
        .map(({ action, actor, keys, target }) => [action, actor.id, keys, target?.name])
        .sort()
      assert.deepStrictEqual(about, [
        ["change.approve", people.admin.id, ["BASE"], people.author.email],
        ["change.request", people.author.id, ["BASE"], people.author.email],
        ["secret.update", people.admin.id, ["BASE"], people.author.email]
      ])
    })
  )

  it.effect("is proposed by members alone: others write as they did, or are refused as they were", () =>
    Effect.gen(function* () {
      const { create, people, project, proposed, sessions, set, team } = yield* setUp
      assert.strictEqual((yield* create(sessions.admin, "DIRECT", "v")).status, 201)
      assert.deepStrictEqual(codeOf(yield* create(sessions.viewer, "NO", "v")), [403, "FORBIDDEN", undefined])
      const naming = yield* World.token({ team, environments: [project.production] })
      const write = (bearer: string, key: string) =>
        TestApp.post("/secrets", {
          bearer,
          json: { projectId: project.id, environment: "production", key, value: "v" }
        })
      assert.strictEqual((yield* write(naming.text, "TOKEN")).status, 201)
      const wide = yield* World.token({ team })
      assert.deepStrictEqual(codeOf(yield* write(wide.text, "WIDE")), [
        403,
        "API_TOKEN_NOT_SCOPED_TO_PROTECTED_ENVIRONMENT",
        undefined
      ])
      const cli = yield* World.grant({ person: people.author, teams: [{ team, scopes: cliScopes }] })
      proposed(yield* write(cli.text, "CLI"))
      // A grant is needed as for a direct write.
      yield* set({ readers: "granted" })
      assert.deepStrictEqual(codeOf(yield* create(sessions.author, "NOT", "v")), [
        403,
        "ENVIRONMENT_NOT_GRANTED",
        undefined
      ])
      yield* set({ readers: "team", changes: "direct" })
      assert.deepStrictEqual(codeOf(yield* create(sessions.author, "NOT", "v")), [403, "FORBIDDEN", undefined])
    })
  )

  it.effect("is decided by owners, admins and approvers, never by its author; to others it is not there", () =>
    Effect.gen(function* () {
      const { create, decide, inject, people, proposed, sessions, set } = yield* setUp
      const request = proposed(yield* create(sessions.author, "NEW", "v"))
      const gone = [404, "GRANT_NOT_FOUND", undefined]
      const forbidden = [403, "FORBIDDEN", undefined]
      assert.deepStrictEqual(codeOf(yield* decide(sessions.other, request.id)), gone)
      assert.deepStrictEqual(codeOf(yield* decide(sessions.viewer, request.id)), gone)
      assert.deepStrictEqual(codeOf(yield* decide(sessions.author, request.id)), forbidden)
      yield* set({ approvers: [people.author.id, people.other.id, people.viewer.id] })
      assert.deepStrictEqual(codeOf(yield* decide(sessions.author, request.id)), forbidden)
      assert.deepStrictEqual(codeOf(yield* decide(sessions.author, request.id, "deny")), forbidden)
      // An approver writes: a viewer cannot.
      assert.deepStrictEqual(codeOf(yield* decide(sessions.viewer, request.id)), forbidden)
      assert.strictEqual((yield* decide(sessions.other, request.id)).status, 200)
      assert.strictEqual((yield* inject)["NEW"], "v")
      // An approver who writes proposes, too: another person approves it.
      const own = proposed(yield* create(sessions.other, "OWN", "v"))
      assert.deepStrictEqual(codeOf(yield* decide(sessions.other, own.id)), forbidden)
      assert.strictEqual((yield* decide(sessions.author, own.id)).status, 200)
    })
  )

  it.effect("shows a conflict for each secret that has another version by now, and is not written", () =>
    Effect.gen(function* () {
      const { at, base, create, decide, inject, proposed, sessions } = yield* setUp
      const request = proposed(
        yield* TestApp.post("/secrets/bulk", {
          session: sessions.author,
          json: {
            ...at,
            secrets: [
              { key: "BASE", value: "theirs" },
              { key: "NEW", value: "new" }
            ]
          }
        })
      )
      yield* TestApp.patch(`/secrets/${base.id}`, { session: sessions.admin, json: { value: "ours" } })
      const [shown] = (yield* TestApp.get("/change-requests", { session: sessions.admin })).json.items
      assert.deepStrictEqual(shown?.changes, [
        { key: "BASE", change: "update", kind: "literal", references: [], warnings: [], conflict: true },
        { key: "NEW", change: "create", kind: "literal", references: [], warnings: [], conflict: false }
      ])
      const refused = yield* decide(sessions.admin, request.id)
      assert.deepStrictEqual(codeOf(refused), [409, "SECRET_VERSION_CONFLICT", "BASE"])
      assert.strictEqual(refused.error.currentVersion, 2)
      assert.deepStrictEqual(yield* inject, { BASE: "ours", URL: "x-ours" })
      // It goes on waiting, and can be denied.
      assert.deepStrictEqual((yield* decide(sessions.admin, request.id, "deny")).json, { status: "denied" })
      // A key that somebody else made meanwhile.
      const other = proposed(yield* create(sessions.author, "TAKEN", "theirs"))
      yield* create(sessions.admin, "TAKEN", "ours")
      assert.deepStrictEqual(codeOf(yield* decide(sessions.admin, other.id)), [409, "SECRET_VERSION_CONFLICT", "TAKEN"])
    })
  )

  it.effect("deletes, rolls back and restores, and breaks no template", () =>
    Effect.gen(function* () {
      const { base, create, decide, inject, proposed, sessions } = yield* setUp
      const asAuthor = { session: sessions.author }
      const url = (yield* TestApp.get(
        `/secrets?${new URLSearchParams({ projectId: base.projectId, environment: "production" })}`,
        asAuthor
      )).json.items.find(({ key }) => key === "URL")
      const used = yield* TestApp.del(`/secrets/${base.id}`, asAuthor)
      assert.deepStrictEqual(codeOf(used).slice(0, 2), [409, "SECRET_HAS_DEPENDENTS"])
      const removal = proposed(yield* TestApp.del(`/secrets/${url?.id}`, asAuthor))
      assert.deepStrictEqual(removal.changes, [
        { key: "URL", change: "delete", kind: null, references: [], warnings: [], conflict: false }
      ])
      assert.strictEqual((yield* decide(sessions.admin, removal.id)).status, 200)
      assert.deepStrictEqual(yield* inject, { BASE: "first" })
      const restoration = proposed(yield* TestApp.post(`/secrets/${url?.id}/restore`, asAuthor))
      assert.deepStrictEqual(restoration.changes, [
        { key: "URL", change: "restore", kind: "template", references: ["BASE"], warnings: [], conflict: false }
      ])
      assert.strictEqual((yield* decide(sessions.admin, restoration.id)).status, 200)
      assert.deepStrictEqual(yield* inject, { BASE: "first", URL: "x-first" })
      yield* TestApp.patch(`/secrets/${base.id}`, { session: sessions.admin, json: { value: "second" } })
      const back = proposed(yield* TestApp.post(`/secrets/${base.id}/rollback`, { ...asAuthor, json: { version: 1 } }))
      assert.strictEqual((yield* decide(sessions.admin, back.id)).status, 200)
      assert.deepStrictEqual(yield* inject, { BASE: "first", URL: "x-first" })
      // A template whose secret goes while it waits.
      const template = proposed(yield* create(sessions.author, "ON_URL", "${URL}"))
      yield* TestApp.del(`/secrets/${url?.id}`, { session: sessions.admin })
      assert.deepStrictEqual(codeOf(yield* decide(sessions.admin, template.id)).slice(0, 2), [
        400,
        "TEMPLATE_REFERENCE_MISSING"
      ])
    })
  )

  it.effect("is withdrawn by its author, ends after 7 days, and ends with the membership", () =>
    Effect.gen(function* () {
      const { create, decide, listed, people, proposed, sessions, team } = yield* setUp
      const first = proposed(yield* create(sessions.author, "ONE", "v"))
      const withdrawn = (session: string, id: string) => TestApp.del(`/change-requests/${id}`, { session })
      assert.deepStrictEqual(codeOf(yield* withdrawn(sessions.admin, first.id)).slice(0, 2), [403, "FORBIDDEN"])
      assert.deepStrictEqual((yield* withdrawn(sessions.author, first.id)).json, { deleted: true })
      const gone = [404, "GRANT_NOT_FOUND", undefined]
      assert.deepStrictEqual(codeOf(yield* decide(sessions.admin, first.id)), gone)
      const second = proposed(yield* create(sessions.author, "TWO", "v"))
      const role = (json: object) =>
        TestApp.patch(`/teams/${team.id}/members/${people.author.id}`, { session: sessions.owner, json })
      yield* role({ role: "viewer" })
      assert.deepStrictEqual(codeOf(yield* decide(sessions.admin, second.id)).slice(0, 2), [403, "FORBIDDEN"])
      yield* role({ active: false })
      assert.deepStrictEqual(yield* listed(sessions.admin), [])
      const third = proposed(yield* create(sessions.other, "THREE", "v"))
      yield* MovableClock.advance("167 hours")
      const { text: later } = yield* World.session(people.admin)
      assert.deepStrictEqual(yield* listed(later), [third.id])
      yield* MovableClock.advance("1 hour")
      assert.deepStrictEqual(yield* listed(later), [])
      assert.deepStrictEqual(codeOf(yield* decide(later, third.id)), gone)
    })
  )

  it.effect("is not written when a writer of the database gave it another author or other changes", () =>
    Effect.gen(function* () {
      const { base, decide, inject, people, proposed, reveal, sessions } = yield* setUp
      const sql = yield* SqlClient.SqlClient
      const { id } = proposed(
        yield* TestApp.patch(`/secrets/${base.id}`, { session: sessions.author, json: { value: "second" } })
      )
      const as = (column: string, value: string) =>
        sql`UPDATE change_requests SET ${sql.literal(`${column} = ${value}`)} WHERE id = ${id}`
      // A table of all connections: the pool may use another one for each statement.
      yield* sql`CREATE TABLE intact AS SELECT user_id, changes, reason FROM change_requests WHERE id = ${id}`
      for (const [column, value] of [
        ["user_id", `'${people.other.id}'`],
        ["reason", "'asked for by the owner'"],
        ["changes", `changes #- '{0}'`],
        ["changes", `changes || '[{"key":"URL","change":"delete","version":1}]'`],
        ["changes", `jsonb_set(changes, '{0,key}', '"URL"')`],
        ["changes", `jsonb_set(changes, '{0,change}', '"create"')`],
        ["changes", `jsonb_set(changes, '{0,version}', '2')`],
        ["changes", `jsonb_set(changes, '{0,kind}', '"template"')`],
        ["changes", `jsonb_set(changes, '{0,refs}', '["URL"]')`],
        ["changes", `jsonb_set(changes, '{0,above}', '["NODE_OPTIONS"]')`],
        ["changes", `changes #- '{0,refs}'`]
      ] as const) {
        yield* as(column, value)
        assert.strictEqual((yield* decide(sessions.admin, id)).status, 500, value)
        assert.strictEqual((yield* reveal(sessions.admin, id)).status, 500, value)
        yield* sql`UPDATE change_requests r SET user_id = i.user_id, changes = i.changes, reason = i.reason
          FROM intact i WHERE r.id = ${id}`
      }
      yield* sql`DROP TABLE intact`
      assert.deepInclude(yield* inject, { BASE: "first" })
      assert.strictEqual((yield* decide(sessions.admin, id)).status, 200)
      assert.deepInclude(yield* inject, { BASE: "second" })
    })
  )

  it.effect("is sealed at rest, bounded, and its box goes with the decision", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { at, create, decide, proposed, sessions } = yield* setUp
      const canary = "canary-of-a-change-that-waits"
      const request = proposed(yield* create(sessions.author, "CANARY", canary))
      const rows = yield* sql<{ readonly sealed: Uint8Array | null; readonly row: string }>`
        SELECT sealed, row_to_json(r)::text AS row FROM change_requests r WHERE id = ${request.id}`
      assert.notInclude(rows[0]?.row ?? canary, canary)
      assert.notInclude(Buffer.from(rows[0]?.sealed ?? []).toString("latin1"), canary)
      // Of another request: it opens nowhere else.
      const other = proposed(yield* create(sessions.author, "OTHER", "v"))
      yield* sql`UPDATE change_requests SET sealed = ${rows[0]?.sealed ?? null} WHERE id = ${other.id}`
      assert.deepStrictEqual(codeOf(yield* decide(sessions.admin, other.id)).slice(0, 2), [500, "INTEGRITY_FAILURE"])
      yield* decide(sessions.admin, request.id)
      const remaining = yield* sql<{ readonly n: number }>`
        SELECT count(*)::int AS n FROM change_requests WHERE id = ${request.id} AND sealed IS NOT NULL`
      assert.strictEqual(remaining[0]?.n, 0)
      const large = yield* TestApp.post("/secrets/bulk", {
        session: sessions.author,
        json: { ...at, secrets: Array.from({ length: 20 }, (_, i) => ({ key: `L_${i}`, value: "v".repeat(60_000) })) }
      })
      assert.deepStrictEqual(codeOf(large).slice(0, 2), [403, "PLAN_LIMIT_REACHED"])
      for (let i = 0; i < 19; i++) proposed(yield* create(sessions.author, `K_${i}`, "v"))
      assert.deepStrictEqual(codeOf(yield* create(sessions.author, "ONE_MORE", "v")).slice(0, 2), [
        403,
        "PLAN_LIMIT_REACHED"
      ])
    })
  )

  it.effect("of one who may not have values stays a guess, under any approver", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { base, decide, people, proposed, sessions, team } = yield* setUp
      const cli = yield* World.grant({
        person: people.author,
        teams: [{ team, scopes: ["secrets:read", "secrets:write"] }]
      })
      const request = proposed(
        yield* TestApp.patch(`/secrets/${base.id}`, { bearer: cli.text, json: { value: "guess" } })
      )
      yield* decide(sessions.admin, request.id)
      const [row] = yield* sql<{ readonly createdBy: unknown }>`
        SELECT created_by FROM secret_versions WHERE secret_id = ${base.id} AND version = 2`
      const { id, withoutValues } = Schema.decodeUnknownSync(
        Schema.Struct({ id: Schema.String, withoutValues: Schema.Boolean })
      )(row?.createdBy)
      assert.deepStrictEqual([id, withoutValues], [people.admin.id, true])
    })
  )

  it.effect("is proposed once under an idempotency key", () =>
    Effect.gen(function* () {
      const { at, listed, proposed, sessions } = yield* setUp
      const once = TestApp.post("/secrets", {
        session: sessions.author,
        headers: { "idempotency-key": "one" },
        json: { ...at, key: "ONCE", value: "v" }
      })
      assert.strictEqual(proposed(yield* once).id, proposed(yield* once).id)
      assert.lengthOf(yield* listed(sessions.author), 1)
    })
  )
})

/** An environment back to a moment: what comes back, what cannot, and under whose name. */
import * as SqlClient from "@effect/sql/SqlClient"
import { assert, layer } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { ChangeRequest } from "#schema/ChangeRequestsApi.ts"
import { EnvironmentRestoration } from "#schema/SecretResponses.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { Maintenance } from "#src/secrets/Maintenance.ts"
import { auditEntry } from "#test/support/Json.ts"
import * as MovableClock from "#test/support/MovableClock.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"

const { codeOf } = TestApp
const app = Layer.provideMerge(
  TestApp.server.pipe(Layer.provideMerge(Layer.merge(TestApp.backends, TestApp.config()))),
  Layer.merge(MovableClock.layer, Crypto.Default)
)

/** Each moment is a second of its own. */
const moment = Effect.gen(function* () {
  yield* MovableClock.advance("1 second")
  const at = new Date(yield* Clock.currentTimeMillis).toISOString()
  yield* MovableClock.advance("1 second")
  return at
})
const nothing = { created: [], updated: [], deleted: [], renamed: [], lost: [], unknown: [] }

const setUp = Effect.gen(function* () {
  const project = yield* World.project()
  const signIn = (person: World.Person) => Effect.map(World.session(person), ({ text }) => text)
  let session = yield* signIn(project.team.owner)
  const at = { projectId: project.id, environment: "development" }
  const create = (key: string, value: string) =>
    Effect.map(TestApp.post("/secrets", { session, json: { ...at, key, value } }), ({ json }) => json)
  const update = (id: string, value: string) => TestApp.patch(`/secrets/${id}`, { session, json: { value } })
  const remove = (id: string) => TestApp.del(`/secrets/${id}`, { session })
  const post = (json: object, as = session) =>
    TestApp.post(`/environments/${project.development.id}/restore`, { session: as, json })
  const inject = Effect.suspend(() =>
    Effect.map(TestApp.get(`/secrets/inject?${new URLSearchParams(at)}`, { session }), ({ json }) => json.values)
  )
  const rename = (id: string, key: string) =>
    TestApp.post(`/secrets/${id}/rename`, { session, json: { key, references: "rewrite" } })
  /** Long pauses end sessions. */
  const later = Effect.map(
    Effect.suspend(() => signIn(project.team.owner)),
    (text) => void (session = text)
  )
  const restored = (answer: TestApp.Answer) => {
    assert.strictEqual(answer.status, 200, answer.text)
    const { created, deleted, lost, renamed, unknown, updated } = answer.as(EnvironmentRestoration)
    return { created, updated, deleted, renamed, lost, unknown }
  }
  const owner = () => session
  return { project, at, create, update, remove, post, inject, rename, later, restored, signIn, owner }
})

layer(app, { excludeTestServices: true })("an environment that goes back to a moment", (it) => {
  it.effect("is previewed by name, then written in one transaction, and can go forth again", () =>
    Effect.gen(function* () {
      const { create, inject, owner, post, project, remove, rename, restored, update } = yield* setUp
      const base = yield* create("BASE", "one")
      const gone = yield* create("GONE", "dropped")
      const rewritten = yield* create("REWRITTEN", "old")
      const moved = yield* create("MOVED", "under its key")
      yield* create("URL", "x-${BASE}-${MOVED}")
      const again = yield* create("AGAIN", "kept")
      yield* remove(again.id)
      const early = yield* moment
      const before = yield* inject

      yield* update(base.id, "two")
      yield* remove(gone.id)
      // Deleted at a later version, and deleted and made again.
      yield* update(rewritten.id, "new")
      yield* remove(rewritten.id)
      yield* rename(moved.id, "ELSEWHERE")
      yield* create("TRIAL", "later")
      yield* TestApp.post(`/secrets/${again.id}/restore`, { session: owner() })
      const late = yield* moment
      const after = yield* inject

      const preview = yield* post({ at: early, preview: true })
      assert.deepStrictEqual(restored(preview), {
        ...nothing,
        created: ["GONE", "REWRITTEN"],
        updated: ["BASE", "URL"],
        deleted: ["AGAIN", "TRIAL"],
        renamed: [{ from: "ELSEWHERE", to: "MOVED" }]
      })
      assert.deepStrictEqual(yield* inject, after)
      const { revision } = preview.as(EnvironmentRestoration)
      assert.deepStrictEqual(codeOf(yield* post({ at: early, expectedRevision: revision - 1 })), [
        409,
        "SECRET_VERSION_CONFLICT"
      ])
      assert.deepStrictEqual(restored(yield* post({ at: early, expectedRevision: revision })), restored(preview))
      assert.deepStrictEqual(yield* inject, before)
      assert.deepStrictEqual(restored(yield* post({ at: early, preview: true })).created, [])

      // The secret is the same one, with all its versions, under the key that it had.
      const versions = yield* TestApp.get(`/secrets/${moved.id}/versions`, { session: owner() })
      assert.deepStrictEqual(
        versions.json.items.map(({ key }) => key),
        ["MOVED", "ELSEWHERE", "MOVED"]
      )
      const sql = yield* SqlClient.SqlClient
      const entries = yield* sql<{ readonly body: string }>`
        SELECT body FROM audit_entries WHERE environment_id = ${project.development.id}
          AND action IN ('environment.restore', 'secret.rename') ORDER BY at, seq`
      assert.deepStrictEqual(
        entries.map((entry) => auditEntry(entry)).map(({ action, keys, target }) => [action, keys, target?.name]),
        [
          ["secret.rename", ["MOVED", "ELSEWHERE"], undefined],
          ["environment.restore", [], early],
          ["secret.rename", ["ELSEWHERE", "MOVED"], undefined]
        ]
      )

      const forth = restored(yield* post({ at: late }))
      assert.deepStrictEqual(forth.renamed, [{ from: "MOVED", to: "ELSEWHERE" }])
      assert.deepStrictEqual(forth.created, ["AGAIN", "TRIAL"])
      assert.deepStrictEqual(yield* inject, after)
    })
  )

  it.effect("says what cannot come back, and takes no moment that is to come", () =>
    Effect.gen(function* () {
      const { create, inject, later, owner, post, project, remove, restored, update } = yield* setUp
      assert.deepStrictEqual(codeOf(yield* post({ at: "2100-01-01T00:00:00Z" })), [400, "VALIDATION_FAILED"])
      for (const json of [{}, { at: "yesterday" }, { at: "2026-01-01T00:00:00Z", value: "x" }]) {
        assert.strictEqual((yield* post(json)).status, 400, JSON.stringify(json))
      }
      const kept = yield* create("KEPT", "first")
      const purged = yield* create("PURGED", "gone for good")
      const early = yield* moment
      yield* remove(purged.id)
      yield* MovableClock.advance("31 days")
      yield* Effect.flatMap(Maintenance, ({ purge }) => purge)
      yield* later
      const result = restored(yield* post({ at: early, preview: true }))
      assert.deepStrictEqual(result, { ...nothing, unknown: ["PURGED"] })
      // A plan that keeps one version has lost the others.
      yield* TestApp.patch(`/teams/${project.team.id}`, { session: owner(), json: { plan: "developer" } })
      yield* update(kept.id, "second")
      assert.deepStrictEqual(restored(yield* post({ at: early })), { ...nothing, lost: ["KEPT"], unknown: ["PURGED"] })
      assert.deepStrictEqual(yield* inject, { KEPT: "second" })
    })
  )

  it.effect("waits for an approval where changes do; a page shows what would change", () =>
    Effect.gen(function* () {
      const { create, inject, owner, post, project, remove, rename, signIn, update } = yield* setUp
      const base = yield* create("BASE", "one")
      const moved = yield* create("MOVED", "same")
      const early = yield* moment
      yield* update(base.id, "two")
      yield* rename(moved.id, "ELSEWHERE")
      yield* TestApp.patch(`/environments/${project.development.id}`, {
        session: owner(),
        json: { changes: "proposed" }
      })
      const author = yield* signIn(yield* World.member(project.team, "member"))
      const viewer = yield* signIn(yield* World.member(project.team, "viewer"))
      assert.deepStrictEqual(codeOf(yield* post({ at: early }, viewer)), [403, "FORBIDDEN"])
      const proposed = yield* post({ at: early }, author)
      assert.strictEqual(proposed.status, 202, proposed.text)
      assert.deepStrictEqual(
        proposed.as(ChangeRequest).changes.map(({ change, key }) => `${change} ${key}`),
        ["update BASE", "delete ELSEWHERE", "create MOVED"]
      )
      const id = proposed.as(ChangeRequest).id
      yield* TestApp.post(`/change-requests/${id}/approve`, { session: owner() })
      assert.deepStrictEqual(yield* inject, { BASE: "one", MOVED: "same" })

      yield* remove(base.id)
      const path = `/app/projects/${project.id}/env/development/restore` as const
      const page = yield* TestApp.get(`${path}?at=${early.slice(0, -1)}`, { session: owner() })
      assert.include(page.text, "These keys come back")
      const revision = /name="expectedRevision" value="(\d+)"/.exec(page.text)?.[1] ?? assert.fail(page.text)
      const send = (expectedRevision: string) =>
        TestApp.post(path, {
          session: owner(),
          headers: { "content-type": "application/x-www-form-urlencoded", origin: TestApp.baseUrl },
          body: new URLSearchParams({ at: early, expectedRevision }).toString()
        })
      assert.include((yield* send("1")).text, "changed meanwhile")
      assert.strictEqual((yield* send(revision)).status, 303)
      assert.deepStrictEqual(yield* inject, { BASE: "one", MOVED: "same" })
    })
  )
})

import * as SqlClient from "@effect/sql/SqlClient"
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { Maintenance } from "#src/secrets/Maintenance.ts"
import { auditEntry } from "#test/support/Json.ts"
import * as MovableClock from "#test/support/MovableClock.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"

const app = TestApp.server.pipe(
  Layer.provideMerge(Layer.merge(TestApp.backends, TestApp.config())),
  Layer.provideMerge(MovableClock.layer)
)
const purge = Effect.flatMap(Maintenance, (maintenance) => maintenance.purge)

/** Rows that an environment has in each table that holds something of it. */
const heldBy = (environmentId: string) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const [row] = yield* sql<{ readonly secrets: number; readonly counters: number; readonly keys: number }>`
      SELECT (SELECT count(*)::int FROM secrets WHERE environment_id = ${environmentId}) AS secrets,
        (SELECT count(*)::int FROM secret_counters WHERE environment_id = ${environmentId}) AS counters,
        (SELECT count(*)::int FROM data_keys WHERE environment_id = ${environmentId})
          + (SELECT count(*)::int FROM sealing_keys WHERE environment_id = ${environmentId}) AS keys`
    return row
  })

layer(app, { excludeTestServices: true })("what a deleted environment held", (it) => {
  for (const deleted of ["environment", "project"] as const) {
    it.effect(`goes 30 days after its ${deleted}, with its keys, and the trail says which secrets`, () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const project = yield* World.project()
        const kept = yield* World.project({ team: project.team })
        const session = (yield* World.session(project.team.owner)).text
        const write = (at: { readonly id: string }, key: string) =>
          TestApp.post("/secrets", {
            session,
            json: { projectId: at.id, environment: "development", key, value: "value" }
          })
        for (const key of ["A", "B"]) yield* write(project, key)
        const gone = yield* write(project, "GONE")
        yield* TestApp.del(`/secrets/${gone.json.id}`, { session })
        yield* write(kept, "A")
        yield* TestApp.get(`/environments/${project.development.id}/keypair`, { session })

        const path = deleted === "environment" ? `/environments/${project.development.id}` : `/projects/${project.id}`
        assert.strictEqual((yield* TestApp.del(path, { session })).status, 200)
        yield* MovableClock.advance("29 days")
        yield* purge
        assert.deepStrictEqual(yield* heldBy(project.development.id), { secrets: 3, counters: 3, keys: 2 })

        yield* MovableClock.advance("2 days")
        yield* purge
        assert.deepStrictEqual(yield* heldBy(project.development.id), { secrets: 0, counters: 0, keys: 0 })
        assert.deepInclude(yield* heldBy(kept.development.id), { secrets: 1, counters: 1 })

        const entries = yield* sql<{ readonly body: string }>`
          SELECT body FROM audit_entries WHERE environment_id = ${project.development.id} AND action = 'secret.purge'`
        const named = entries.flatMap((row) => auditEntry(row).keys)
        assert.sameMembers(named, ["A", "B", "GONE"])
        const fresh = (yield* World.session(project.team.owner)).text
        const query = `projectId=${kept.id}&environment=development`
        const read = yield* TestApp.get(`/secrets/value?${query}&key=A`, { session: fresh })
        assert.strictEqual(read.json.value, "value")
      })
    )
  }
})

layer(app, { excludeTestServices: true })("idempotency keys", (it) => {
  it.effect("go after 24 hours in one purge, however many there are", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { id, team } = yield* World.project()
      const bearer = (yield* World.token({ team })).text
      const create = (key: string) =>
        TestApp.post("/secrets", {
          bearer,
          headers: { "idempotency-key": key },
          json: { projectId: id, environment: "development", key, value: "value" }
        })
      const count = Effect.map(sql`SELECT 1 FROM idempotency_keys`, (rows) => rows.length)
      assert.strictEqual((yield* create("FIRST")).status, 201)
      yield* sql`
        INSERT INTO idempotency_keys (credential_id, route, key, request_mac, body, created_at)
        SELECT 'someone', 'POST /secrets', n::text, '\\x00', '{}', created_at
        FROM generate_series(1, 4321) AS n, idempotency_keys`
      yield* MovableClock.advance("23 hours")
      const second = yield* create("SECOND")
      yield* purge
      assert.strictEqual(yield* count, 4_323)
      yield* MovableClock.advance("2 hours")
      yield* purge
      assert.strictEqual(yield* count, 1)
      assert.deepStrictEqual((yield* create("SECOND")).json, second.json)
    })
  )
})

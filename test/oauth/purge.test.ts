import * as SqlClient from "@effect/sql/SqlClient"
import { assert, layer } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as EndedCredentials from "#src/credentials/EndedCredentials.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import * as MovableClock from "#test/support/MovableClock.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"

const app = TestApp.server.pipe(
  Layer.provideMerge(Layer.merge(TestApp.backends, TestApp.config())),
  Layer.provideMerge(MovableClock.layer)
)
const purge = Effect.flatMap(SqlClient.SqlClient, EndedCredentials.purge)
const day = 86_400_000

const tables = ["codes", "access_tokens", "refresh_tokens", "interactions", "grants", "clients"] as const

layer(app, { excludeTestServices: true })("what the authorization server gave out", (it) => {
  it.effect("is forgotten after its end, however much there is; what lives stays", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const person = yield* World.person()
      const now = yield* Clock.currentTimeMillis
      const grantId = yield* (yield* Crypto).uuid
      const [at, later, in30] = [new Date(now), new Date(now + 3_600_000), new Date(now + 30 * day)]
      const many = 2_345
      // Three clients: one with a grant, one that was used once, one that nobody came back for.
      yield* sql`
        INSERT INTO oauth_clients (id, metadata, created_at, last_used_at)
        VALUES ('kept', '{}', ${at}, ${later}), ('used', '{}', ${at}, ${later}), ('never', '{}', ${at}, ${at})`
      yield* sql`
        INSERT INTO oauth_grants
          (id, user_id, client_id, client_name, redirect_host, scopes, payload, created_at, expires_at)
        VALUES (${grantId}, ${person.id}, 'kept', 'Agent', '127.0.0.1', '{}', '{}', ${at}, ${in30})`
      yield* sql`
        INSERT INTO oauth_codes (lookup_id, salt, hash, grant_id, payload, expires_at)
        SELECT n::text, '\\x00', '\\x00', ${grantId}, '{}', ${later} FROM generate_series(1, ${many}) AS n`
      yield* sql`
        INSERT INTO oauth_access_tokens
          (lookup_id, salt, hash, grant_id, audience, scopes, payload, created_at, expires_at)
        SELECT n::text, '\\x00', '\\x00', ${grantId}, '', '{}', '{}', ${at}, ${later}
        FROM generate_series(1, ${many}) AS n`
      yield* sql`
        INSERT INTO oauth_refresh_tokens (lookup_id, salt, hash, grant_id, rotation, payload, expires_at)
        VALUES ('1', '\\x00', '\\x00', ${grantId}, 0, '{}', ${later}), ('2', '\\x00', '\\x00', ${grantId}, 1, '{}', ${in30})`
      yield* sql`
        INSERT INTO oauth_interactions (id_hash, payload, expires_at)
        SELECT decode(lpad(to_hex(n), 8, '0'), 'hex'), '{}', ${later} FROM generate_series(1, ${many}) AS n`
      const counts = Effect.map(
        Effect.forEach(tables, (table) => sql`SELECT 1 FROM ${sql(`oauth_${table}`)}`),
        (counts) => counts.map((rows) => rows.length)
      )

      yield* purge
      assert.deepStrictEqual(yield* counts, [many, many, 2, many, 1, 3])
      yield* MovableClock.advance("2 hours")
      yield* purge
      assert.deepStrictEqual(yield* counts, [many, many, 2, 0, 1, 3])
      yield* MovableClock.advance("1 day")
      yield* purge
      assert.deepStrictEqual(yield* counts, [0, 0, 1, 0, 1, 2])
      yield* MovableClock.advance("58 days")
      yield* purge
      assert.deepStrictEqual(yield* counts, [0, 0, 0, 0, 1, 2])
      yield* MovableClock.advance("32 days")
      yield* purge
      assert.deepStrictEqual(yield* counts, [0, 0, 0, 0, 0, 0])
    })
  )
})

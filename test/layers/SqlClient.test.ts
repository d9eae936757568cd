import * as SqlClient from "@effect/sql/SqlClient"
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as TestDatabase from "#test/support/TestDatabase.ts"

layer(TestDatabase.layer)("the database", (it) => {
  it.effect("is migrated", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const rows = yield* sql<{
        createdAt: Date
        name: string
      }>`SELECT created_at, name FROM effect_sql_migrations ORDER BY 1`
      assert.include(
        rows.map(({ name }) => name),
        "identity"
      )
      assert.instanceOf(rows[0]?.createdAt, Date)
    })
  )
})

import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/**
 * MAC on the last entry of each statement, proving that a server wrote it (docs/backup.md). Null for entries of earlier
 * releases.
 */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  yield* sql`ALTER TABLE audit_entries ADD COLUMN mac bytea`
})

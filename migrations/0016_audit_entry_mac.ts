import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/** On the last entry of each statement: that a server wrote it (docs/backup.md). Of releases before: null. */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  yield* sql`ALTER TABLE audit_entries ADD COLUMN mac bytea`
})

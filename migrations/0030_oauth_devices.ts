import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/**
 * Browser of the consent; null: unknown, or from before this column. It selects the earlier grant that a new one
 * replaces, and grants no rights.
 */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  yield* sql`ALTER TABLE oauth_grants ADD COLUMN device_id uuid`
})

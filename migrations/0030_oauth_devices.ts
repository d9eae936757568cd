import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/**
 * In which browser a person consented; null: in one that is not known, or before this was kept. It decides which earlier
 * grant a new one replaces, and no right.
 */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  yield* sql`ALTER TABLE oauth_grants ADD COLUMN device_id uuid`
})

import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/** Optional restriction of a client's grant to environments; null: unrestricted. */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  yield* sql`ALTER TABLE oauth_grants ADD COLUMN environment_ids uuid[]`
})

import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/** A person can restrict what a client gets to some environments; null: to none in particular. */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  yield* sql`ALTER TABLE oauth_grants ADD COLUMN environment_ids uuid[]`
})

import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/**
 * MAC of a pending consent. From here on more tables require a MAC than at 0022. A program without this migration
 * writes rows that this one rejects, so it must not start beside this one.
 */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  yield* sql`ALTER TABLE oauth_interactions ADD COLUMN mac bytea`
})

import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/**
 * The MAC of a consent that is under way. From here on more tables are held to theirs than at 0022: a program that does
 * not know this migration writes rows that this one does not believe, so it is not started again beside it.
 */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  yield* sql`ALTER TABLE oauth_interactions ADD COLUMN mac bytea`
})

import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/** The MAC of a consent that is under way (0022). It only adds: a program of the release before serves beside it. */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  yield* sql`ALTER TABLE oauth_interactions ADD COLUMN mac bytea`
})

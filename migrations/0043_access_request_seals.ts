import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/**
 * Requests for access are held to the MAC that their table has had a column for since 0022: a program that does not know this
 * migration writes requests that this one does not believe, so it is not started again beside it. What was decided or is
 * over gives nothing and has an empty MAC, so that a database in which nothing is asked for has no rows to seal.
 */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  yield* sql`UPDATE access_requests SET mac = '' WHERE status <> 'pending' OR expires_at < now()`
})

import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/**
 * Requests for access are held to the MAC that their table has had a column for since 0022. No row changes: those that are
 * there are sealed by the first start, which has the key. A program that does not know this migration writes requests that this
 * one does not believe, so it is not started again beside it.
 */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  yield* sql`COMMENT ON COLUMN access_requests.mac IS 'Over all that decides; empty: decided'`
})

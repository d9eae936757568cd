import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/**
 * Access requests now require the MAC whose column exists since 0022. No row changes: the first start, which has the
 * key, seals existing ones. A program without this migration writes requests that this one rejects, so it must not
 * start beside this one.
 */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  yield* sql`COMMENT ON COLUMN access_requests.mac IS 'Over all that decides; empty: decided'`
})

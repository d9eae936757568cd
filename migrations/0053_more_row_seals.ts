import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/**
 * MACs of requests for a value, planned runs and webhooks. Additive: the previous release can serve beside it. The
 * first start that has the key seals existing rows, as `AMPOULE_SEAL_ROWS` says.
 */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  yield* sql`ALTER TABLE value_requests ADD COLUMN mac bytea`
  yield* sql`COMMENT ON COLUMN value_requests.mac IS 'Over place, key, person and answer'`
  yield* sql`ALTER TABLE run_plans ADD COLUMN mac bytea`
  yield* sql`COMMENT ON COLUMN run_plans.mac IS 'Over place, credentials and result; the output is a box'`
  yield* sql`ALTER TABLE webhooks ADD COLUMN mac bytea`
  yield* sql`COMMENT ON COLUMN webhooks.mac IS 'Over address, events and state'`
})

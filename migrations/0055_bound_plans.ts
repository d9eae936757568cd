import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/** Keys of a planned run. Additive: the previous release plans without, and does not run plans that have them. */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  yield* sql`ALTER TABLE run_plans ADD COLUMN keys text[]`
  yield* sql`COMMENT ON COLUMN run_plans.keys IS 'The only keys that the run gets; null: all of the environment'`
})

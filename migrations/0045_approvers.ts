import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/**
 * Index of approvers, who stop deciding about access requests when they leave a team or the service. Their environments
 * were searched among those of all teams (`test/growth/growth.test.ts`). No row changes; writes to environments wait
 * while the index is built.
 */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  yield* sql`CREATE INDEX environments_approvers ON environments USING gin (approvers)`
})

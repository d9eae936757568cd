import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/**
 * Whoever leaves a team, or the service, no longer decides about requests for access: the environments that name them as an
 * approver were looked for among those of all teams (`test/growth/growth.test.ts`). No row changes; who writes to environments waits
 * while the index is built.
 */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  yield* sql`CREATE INDEX environments_approvers ON environments USING gin (approvers)`
})

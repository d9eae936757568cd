import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/**
 * Indexes for two statements that scanned whole tables (`test/growth/growth.test.ts`). Statements over the environments
 * of a team scanned those of all teams. The search for due rotations scanned all secrets. No row changes; writes to
 * these tables wait while the indexes are built.
 */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  yield* sql`CREATE INDEX environments_team ON environments (team_id) WHERE deleted_at IS NULL`
  yield* sql`CREATE INDEX secrets_due ON secrets (rotate_by) WHERE rotate_by IS NOT NULL AND deleted_at IS NULL`
})

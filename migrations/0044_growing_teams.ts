import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/**
 * Two statements read whole tables (`test/growth/growth.test.ts`): what goes through the environments of a team (who may read
 * what) read those of all teams, and what is due for replacement was looked for among all secrets. No row
 * changes; who writes to these tables waits while the indexes are built.
 */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  yield* sql`CREATE INDEX environments_team ON environments (team_id) WHERE deleted_at IS NULL`
  yield* sql`CREATE INDEX secrets_due ON secrets (rotate_by) WHERE rotate_by IS NOT NULL AND deleted_at IS NULL`
})

import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/** What the purges look for, by age. */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  yield* sql`CREATE INDEX sessions_age ON sessions (expires_at)`
  yield* sql`CREATE INDEX invitations_age ON invitations (expires_at)`
  yield* sql`CREATE INDEX password_resets_age ON password_resets (expires_at)`
  yield* sql`CREATE INDEX cli_grants_age ON cli_grants (expires_at)`
  // Requests name the grant they delivered; without this each purged grant would look through all of them.
  yield* sql`CREATE INDEX device_requests_grant ON device_requests (grant_id) WHERE grant_id IS NOT NULL`
  // Was 201 whatever the route: its declaration knows. Earlier releases still write it.
  yield* sql`ALTER TABLE idempotency_keys ALTER COLUMN status DROP NOT NULL`
})

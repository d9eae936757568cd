import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/** Indexes by age, for the purges. */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  yield* sql`CREATE INDEX sessions_age ON sessions (expires_at)`
  yield* sql`CREATE INDEX invitations_age ON invitations (expires_at)`
  yield* sql`CREATE INDEX password_resets_age ON password_resets (expires_at)`
  yield* sql`CREATE INDEX cli_grants_age ON cli_grants (expires_at)`
  // Requests name their delivered grant. Without this index each purged grant would scan all requests.
  yield* sql`CREATE INDEX device_requests_grant ON device_requests (grant_id) WHERE grant_id IS NOT NULL`
  // It was always 201, which the route's declaration already has. Earlier releases still write it.
  yield* sql`ALTER TABLE idempotency_keys ALTER COLUMN status DROP NOT NULL`
})

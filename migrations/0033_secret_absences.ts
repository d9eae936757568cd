import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/**
 * Past deletions of secrets that exist again. With them the rows show an environment's content at a moment
 * (docs/contract/secrets.md, "Back to a moment"). Additive: a restore by the previous release counts as uninterrupted
 * existence.
 */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  yield* sql`CREATE TABLE secret_absences (
    secret_id uuid NOT NULL REFERENCES secrets (id) ON DELETE CASCADE,
    from_at timestamptz NOT NULL,
    to_at timestamptz NOT NULL
  )`
  yield* sql`CREATE INDEX secret_absences_secret ON secret_absences (secret_id)`
})

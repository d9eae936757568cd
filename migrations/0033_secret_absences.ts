import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/**
 * When a secret that is there was deleted for a while: with it, rows tell what an environment held at a moment
 * (docs/contract/secrets.md, "Back to a moment"). It only adds: what a program of the release before restores counts as
 * there all along.
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

import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/**
 * Writes that wait for an approval (docs/contract/access.md). Existing environments accept direct writes. `sealed` is
 * emptied by the decision. Additive: the previous release can serve beside it, and writes directly if the role allows
 * it.
 */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  yield* sql`ALTER TABLE environments ADD COLUMN changes text NOT NULL DEFAULT 'direct' CHECK (changes IN ('direct', 'proposed'))`
  yield* sql`
    CREATE TABLE change_requests (
      id uuid PRIMARY KEY,
      team_id uuid NOT NULL,
      user_id uuid NOT NULL,
      environment_id uuid NOT NULL REFERENCES environments (id) ON DELETE CASCADE,
      changes jsonb NOT NULL,
      data_key_id uuid NOT NULL REFERENCES data_keys (id) ON DELETE CASCADE,
      sealed bytea,
      status text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'approved', 'denied')),
      created_at timestamptz NOT NULL,
      expires_at timestamptz NOT NULL,
      FOREIGN KEY (team_id, user_id) REFERENCES memberships (team_id, user_id) ON DELETE CASCADE
    )`
  yield* sql`CREATE INDEX change_requests_team ON change_requests (team_id)`
  yield* sql`CREATE INDEX change_requests_environment ON change_requests (environment_id)`
})

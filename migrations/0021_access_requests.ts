import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/**
 * Access requests and approvers (docs/contract/access.md). A request ends with the membership of its author. Additive:
 * the previous release can serve beside it.
 */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  yield* sql`
    ALTER TABLE environments ADD COLUMN approvers uuid[] NOT NULL DEFAULT '{}',
      ADD COLUMN approvals integer NOT NULL DEFAULT 1 CHECK (approvals IN (1, 2))`
  yield* sql`
    CREATE TABLE access_requests (
      id uuid PRIMARY KEY,
      team_id uuid NOT NULL,
      user_id uuid NOT NULL,
      environment_id uuid NOT NULL REFERENCES environments (id) ON DELETE CASCADE,
      level text NOT NULL CHECK (level IN ('names', 'run', 'values', 'write')),
      hours integer NOT NULL,
      reason text NOT NULL,
      status text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'approved', 'denied')),
      approved_by uuid REFERENCES users (id) ON DELETE SET NULL,
      created_at timestamptz NOT NULL,
      expires_at timestamptz NOT NULL,
      FOREIGN KEY (team_id, user_id) REFERENCES memberships (team_id, user_id) ON DELETE CASCADE
    )`
  yield* sql`CREATE INDEX access_requests_team ON access_requests (team_id)`
  yield* sql`CREATE INDEX access_requests_environment ON access_requests (environment_id)`
})

import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/**
 * Tags of secrets (docs/contract/secrets.md, "Metadata"), and saved filters of the trail, for one person or for all
 * readers of a team's trail (`user_id` null). Additive.
 */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  yield* sql`ALTER TABLE secrets ADD COLUMN tags text[] NOT NULL DEFAULT '{}'`
  // `filter`: members of a trail query, as JSON.
  yield* sql`CREATE TABLE audit_views (
    id uuid PRIMARY KEY,
    team_id uuid NOT NULL REFERENCES teams (id),
    user_id uuid REFERENCES users (id),
    name text NOT NULL,
    filter text NOT NULL,
    created_by uuid NOT NULL REFERENCES users (id),
    created_at timestamptz NOT NULL
  )`
  yield* sql`CREATE INDEX audit_views_team ON audit_views (team_id, user_id)`
})

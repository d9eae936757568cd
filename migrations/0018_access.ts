import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/**
 * Readers of environments (docs/contract/access.md). Existing environments stay open to the team, including those that
 * an earlier release creates in the meantime. Times are the server's clock. An expired grant is deleted; the trail has
 * its entry. An earlier program would read values for people without a grant, so it must not start beside this one.
 */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  yield* sql`ALTER TABLE environments ADD COLUMN readers text NOT NULL DEFAULT 'team' CHECK (readers IN ('team', 'granted'))`
  yield* sql`
    ALTER TABLE projects ADD COLUMN visibility text NOT NULL DEFAULT 'team' CHECK (visibility IN ('team', 'granted'))`
  yield* sql`
    ALTER TABLE teams ADD COLUMN admins_need_grants boolean NOT NULL DEFAULT false,
      ADD COLUMN tokens_follow_creators boolean NOT NULL DEFAULT false`
  yield* sql`
    CREATE TABLE access_grants (
      id uuid PRIMARY KEY,
      team_id uuid NOT NULL REFERENCES teams (id) ON DELETE CASCADE,
      user_id uuid NOT NULL REFERENCES users (id) ON DELETE CASCADE,
      project_id uuid NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
      environment_id uuid REFERENCES environments (id) ON DELETE CASCADE,
      level text NOT NULL CHECK (level IN ('names', 'run', 'values', 'write')),
      until timestamptz,
      reason text,
      created_by uuid NOT NULL REFERENCES users (id),
      created_at timestamptz NOT NULL
    )`
  yield* sql`CREATE INDEX access_grants_user ON access_grants (user_id)`
  yield* sql`CREATE INDEX access_grants_project ON access_grants (project_id)`
})

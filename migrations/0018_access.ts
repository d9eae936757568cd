import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/**
 * Who reads what (docs/contract/access.md). What exists stays open to the team, also what a release before this one
 * makes meanwhile. Times are the server's clock. A grant that ended is deleted: the trail tells of it.
 * A program before this one would read values to people without a grant, so it is not started again beside it.
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

import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/**
 * Projects own environments. `revision` increases with every change of an environment's secrets
 * (docs/contract/secrets.md).
 */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  yield* sql`CREATE TABLE projects (
    id uuid PRIMARY KEY,
    team_id uuid NOT NULL REFERENCES teams (id),
    name text NOT NULL,
    slug text NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    deleted_at timestamptz
  )`
  yield* sql`CREATE UNIQUE INDEX projects_slug ON projects (team_id, slug) WHERE deleted_at IS NULL`
  yield* sql`CREATE TABLE environments (
    id uuid PRIMARY KEY,
    team_id uuid NOT NULL REFERENCES teams (id),
    project_id uuid NOT NULL REFERENCES projects (id),
    slug text NOT NULL,
    name text NOT NULL,
    protected boolean NOT NULL,
    revision bigint NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    deleted_at timestamptz
  )`
  yield* sql`CREATE UNIQUE INDEX environments_slug ON environments (project_id, slug) WHERE deleted_at IS NULL`
})

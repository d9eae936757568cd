import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/** Sessions of the MCP revisions that have them, and requests for values to people. */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  yield* sql`CREATE TABLE mcp_sessions (
    id text PRIMARY KEY,
    principal text NOT NULL,
    protocol_version text NOT NULL,
    client_capabilities jsonb NOT NULL,
    subscriptions text[] NOT NULL,
    created_at timestamptz NOT NULL,
    last_seen_at timestamptz NOT NULL
  )`
  yield* sql`CREATE INDEX mcp_sessions_principal ON mcp_sessions (principal)`
  yield* sql`CREATE INDEX mcp_sessions_age ON mcp_sessions (last_seen_at)`
  yield* sql`CREATE TABLE value_requests (
    id uuid PRIMARY KEY,
    code text NOT NULL UNIQUE,
    credential_id uuid NOT NULL,
    asked_by jsonb NOT NULL,
    user_id uuid REFERENCES users (id),
    team_id uuid NOT NULL REFERENCES teams (id),
    project_id uuid NOT NULL REFERENCES projects (id),
    environment_id uuid NOT NULL REFERENCES environments (id),
    key text NOT NULL,
    note text,
    replace boolean NOT NULL,
    status text NOT NULL CHECK (status IN ('pending', 'stored', 'declined')),
    secret_id uuid,
    version integer,
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    decided_at timestamptz,
    decided_by uuid REFERENCES users (id),
    reported_at timestamptz
  )`
  yield* sql`CREATE INDEX value_requests_credential ON value_requests (credential_id, environment_id, key)`
  yield* sql`CREATE INDEX value_requests_age ON value_requests (expires_at)`
})

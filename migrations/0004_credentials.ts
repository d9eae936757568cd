import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/**
 * Bearer credentials: a look-up id, a salt and SHA-256(salt || secret); never the secret
 * (docs/contract/credentials.md).
 */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  yield* sql`CREATE TABLE api_tokens (
    id uuid PRIMARY KEY,
    lookup_id text NOT NULL UNIQUE,
    salt bytea NOT NULL,
    hash bytea NOT NULL,
    team_id uuid NOT NULL REFERENCES teams (id),
    name text NOT NULL,
    access_level text NOT NULL CHECK (access_level IN ('read', 'write')),
    project_ids uuid[],
    environment_ids uuid[],
    mcp_scopes text[] NOT NULL,
    created_by uuid NOT NULL REFERENCES users (id),
    created_at timestamptz NOT NULL,
    expires_at timestamptz,
    last_used_at timestamptz,
    last_used_ip text,
    last_used_user_agent text,
    revoked_at timestamptz
  )`
  yield* sql`CREATE INDEX api_tokens_team ON api_tokens (team_id)`
  yield* sql`CREATE INDEX api_tokens_creator ON api_tokens (created_by)`
  yield* sql`CREATE TABLE cli_grants (
    id uuid PRIMARY KEY,
    lookup_id text NOT NULL UNIQUE,
    salt bytea NOT NULL,
    hash bytea NOT NULL,
    user_id uuid NOT NULL REFERENCES users (id),
    machine boolean NOT NULL,
    project_ids uuid[],
    environment_ids uuid[],
    hostname text,
    os text,
    installation_id uuid,
    credential_protection text NOT NULL,
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    last_used_at timestamptz,
    last_used_ip text,
    last_used_user_agent text,
    revoked_at timestamptz
  )`
  yield* sql`CREATE INDEX cli_grants_user ON cli_grants (user_id)`
  yield* sql`CREATE TABLE cli_grant_teams (
    grant_id uuid NOT NULL REFERENCES cli_grants (id) ON DELETE CASCADE,
    team_id uuid NOT NULL REFERENCES teams (id),
    scopes text[] NOT NULL,
    PRIMARY KEY (grant_id, team_id)
  )`
  yield* sql`CREATE TABLE device_requests (
    id uuid PRIMARY KEY,
    lookup_id text NOT NULL UNIQUE,
    salt bytea NOT NULL,
    hash bytea NOT NULL,
    user_code_hash bytea NOT NULL UNIQUE,
    status text NOT NULL CHECK (status IN ('pending', 'approved', 'denied')),
    credential_protection text NOT NULL,
    installation_id uuid,
    machine_requested boolean NOT NULL,
    hostname text,
    os text,
    ip text NOT NULL,
    interval_seconds integer NOT NULL,
    last_polled_at timestamptz,
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    decided_by uuid REFERENCES users (id),
    decided_at timestamptz,
    machine boolean,
    teams jsonb,
    project_ids uuid[],
    environment_ids uuid[],
    delivered_at timestamptz,
    grant_id uuid REFERENCES cli_grants (id)
  )`
  yield* sql`CREATE INDEX device_requests_age ON device_requests (expires_at)`
})

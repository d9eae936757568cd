import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/**
 * Authorization server of `/mcp`. Tokens have a look-up id, a salt and a hash, like all credentials, with one table per
 * kind (docs/contract/credentials.md). Revoking a grant's row ends all its tokens.
 */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  yield* sql`CREATE TABLE service_keys (
    name text PRIMARY KEY,
    root_key_id text NOT NULL,
    wrapped bytea NOT NULL,
    created_at timestamptz NOT NULL
  )`
  yield* sql`CREATE TABLE oauth_clients (
    id text PRIMARY KEY,
    metadata jsonb NOT NULL,
    secret_hash bytea,
    created_at timestamptz NOT NULL,
    last_used_at timestamptz NOT NULL
  )`
  yield* sql`CREATE INDEX oauth_clients_use ON oauth_clients (last_used_at)`
  yield* sql`CREATE TABLE oauth_grants (
    id uuid PRIMARY KEY,
    user_id uuid NOT NULL REFERENCES users (id),
    client_id text NOT NULL,
    client_name text NOT NULL,
    redirect_host text NOT NULL,
    scopes text[] NOT NULL,
    project_ids uuid[],
    payload jsonb NOT NULL,
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    last_used_at timestamptz,
    last_used_ip text,
    last_used_user_agent text,
    revoked_at timestamptz
  )`
  yield* sql`CREATE INDEX oauth_grants_user ON oauth_grants (user_id)`
  yield* sql`CREATE INDEX oauth_grants_client ON oauth_grants (client_id)`
  yield* sql`CREATE TABLE oauth_grant_teams (
    grant_id uuid NOT NULL REFERENCES oauth_grants (id) ON DELETE CASCADE,
    team_id uuid NOT NULL REFERENCES teams (id),
    PRIMARY KEY (grant_id, team_id)
  )`
  yield* sql`CREATE TABLE oauth_codes (
    lookup_id text PRIMARY KEY,
    salt bytea NOT NULL,
    hash bytea NOT NULL,
    grant_id uuid NOT NULL REFERENCES oauth_grants (id) ON DELETE CASCADE,
    payload jsonb NOT NULL,
    expires_at timestamptz NOT NULL,
    consumed_at timestamptz
  )`
  yield* sql`CREATE INDEX oauth_codes_grant ON oauth_codes (grant_id)`
  yield* sql`CREATE INDEX oauth_codes_age ON oauth_codes (expires_at)`
  yield* sql`CREATE TABLE oauth_access_tokens (
    lookup_id text PRIMARY KEY,
    salt bytea NOT NULL,
    hash bytea NOT NULL,
    grant_id uuid NOT NULL REFERENCES oauth_grants (id) ON DELETE CASCADE,
    audience text NOT NULL,
    scopes text[] NOT NULL,
    payload jsonb NOT NULL,
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL
  )`
  yield* sql`CREATE INDEX oauth_access_tokens_grant ON oauth_access_tokens (grant_id)`
  yield* sql`CREATE INDEX oauth_access_tokens_age ON oauth_access_tokens (expires_at)`
  yield* sql`CREATE TABLE oauth_refresh_tokens (
    lookup_id text PRIMARY KEY,
    salt bytea NOT NULL,
    hash bytea NOT NULL,
    grant_id uuid NOT NULL REFERENCES oauth_grants (id) ON DELETE CASCADE,
    rotation integer NOT NULL,
    payload jsonb NOT NULL,
    expires_at timestamptz NOT NULL,
    consumed_at timestamptz
  )`
  yield* sql`CREATE UNIQUE INDEX oauth_refresh_tokens_family ON oauth_refresh_tokens (grant_id, rotation)`
  yield* sql`CREATE INDEX oauth_refresh_tokens_age ON oauth_refresh_tokens (expires_at)`
  yield* sql`CREATE TABLE oauth_interactions (
    id_hash bytea PRIMARY KEY,
    payload jsonb NOT NULL,
    expires_at timestamptz NOT NULL
  )`
  yield* sql`CREATE INDEX oauth_interactions_age ON oauth_interactions (expires_at)`
})

import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/** People, teams and sign-in. One statement per sql`` (the embedded database refuses several). */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  yield* sql`CREATE TABLE users (
    id uuid PRIMARY KEY,
    email text NOT NULL UNIQUE,
    name text NOT NULL,
    password_hash text NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL
  )`
  yield* sql`CREATE TABLE teams (
    id uuid PRIMARY KEY,
    name text NOT NULL,
    plan text NOT NULL CHECK (plan IN ('developer', 'team')),
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL
  )`
  yield* sql`CREATE TABLE memberships (
    team_id uuid NOT NULL REFERENCES teams (id),
    user_id uuid NOT NULL REFERENCES users (id),
    role text NOT NULL CHECK (role IN ('owner', 'admin', 'member', 'viewer')),
    active boolean NOT NULL DEFAULT true,
    deactivated_at timestamptz,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (team_id, user_id)
  )`
  yield* sql`CREATE INDEX memberships_user ON memberships (user_id)`
  yield* sql`CREATE TABLE sessions (
    id uuid PRIMARY KEY,
    lookup_id text NOT NULL UNIQUE,
    salt bytea NOT NULL,
    hash bytea NOT NULL,
    user_id uuid NOT NULL REFERENCES users (id),
    active_team_id uuid,
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    last_used_at timestamptz NOT NULL,
    last_used_ip text,
    last_used_user_agent text,
    revoked_at timestamptz
  )`
  yield* sql`CREATE INDEX sessions_user ON sessions (user_id)`
  yield* sql`CREATE TABLE setup_codes (
    lookup_id text PRIMARY KEY,
    salt bytea NOT NULL,
    hash bytea NOT NULL,
    created_at timestamptz NOT NULL,
    used_at timestamptz
  )`
  yield* sql`CREATE TABLE invitations (
    id uuid PRIMARY KEY,
    lookup_id text NOT NULL UNIQUE,
    salt bytea NOT NULL,
    hash bytea NOT NULL,
    team_id uuid NOT NULL REFERENCES teams (id),
    email text NOT NULL,
    role text NOT NULL,
    invited_by uuid NOT NULL REFERENCES users (id),
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    accepted_at timestamptz,
    revoked_at timestamptz
  )`
  yield* sql`CREATE INDEX invitations_team ON invitations (team_id)`
  yield* sql`CREATE TABLE password_resets (
    id uuid PRIMARY KEY,
    lookup_id text NOT NULL UNIQUE,
    salt bytea NOT NULL,
    hash bytea NOT NULL,
    user_id uuid NOT NULL REFERENCES users (id),
    created_by uuid NOT NULL REFERENCES users (id),
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    used_at timestamptz
  )`
})

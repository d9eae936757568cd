import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/**
 * Secrets at rest. `secrets` has the current version of each key, `secret_versions` one sealed box per version.
 * `secret_counters` continues the version numbers after delete and purge (docs/contract/secrets.md, "Versions").
 */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  yield* sql`CREATE TABLE data_keys (
    id uuid PRIMARY KEY,
    environment_id uuid NOT NULL REFERENCES environments (id),
    generation integer NOT NULL,
    root_key_id text NOT NULL,
    wrapped bytea NOT NULL,
    state text NOT NULL CHECK (state IN ('active', 'decrypt_only')),
    created_at timestamptz NOT NULL,
    UNIQUE (environment_id, generation)
  )`
  yield* sql`CREATE UNIQUE INDEX data_keys_active ON data_keys (environment_id) WHERE state = 'active'`
  yield* sql`CREATE TABLE secrets (
    id uuid PRIMARY KEY,
    environment_id uuid NOT NULL REFERENCES environments (id),
    key text COLLATE "C" NOT NULL,
    version integer NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    deleted_at timestamptz,
    purge_at timestamptz
  )`
  yield* sql`CREATE UNIQUE INDEX secrets_key ON secrets (environment_id, key) WHERE deleted_at IS NULL`
  yield* sql`CREATE INDEX secrets_purge ON secrets (purge_at) WHERE deleted_at IS NOT NULL`
  yield* sql`CREATE INDEX secrets_deleted ON secrets (environment_id) WHERE deleted_at IS NOT NULL`
  yield* sql`CREATE TABLE secret_versions (
    secret_id uuid NOT NULL REFERENCES secrets (id) ON DELETE CASCADE,
    version integer NOT NULL,
    kind text NOT NULL CHECK (kind IN ('literal', 'template')),
    pinned boolean NOT NULL,
    refs text[] NOT NULL,
    data_key_id uuid NOT NULL REFERENCES data_keys (id),
    sealed bytea NOT NULL,
    created_at timestamptz NOT NULL,
    created_by jsonb NOT NULL,
    PRIMARY KEY (secret_id, version)
  )`
  yield* sql`CREATE TABLE secret_counters (
    environment_id uuid NOT NULL REFERENCES environments (id),
    key text COLLATE "C" NOT NULL,
    last_version integer NOT NULL,
    PRIMARY KEY (environment_id, key)
  )`
  yield* sql`CREATE TABLE idempotency_keys (
    credential_id text NOT NULL,
    route text NOT NULL,
    key text NOT NULL,
    request_mac bytea NOT NULL,
    status integer NOT NULL,
    body text NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (credential_id, route, key)
  )`
  yield* sql`CREATE INDEX idempotency_keys_age ON idempotency_keys (created_at)`
  yield* sql`CREATE TABLE sealing_keys (
    environment_id uuid NOT NULL REFERENCES environments (id),
    key_id text NOT NULL,
    public_key bytea NOT NULL,
    root_key_id text NOT NULL,
    wrapped_private bytea NOT NULL,
    state text NOT NULL CHECK (state IN ('active', 'open_only', 'retired')),
    created_at timestamptz NOT NULL,
    retired_at timestamptz,
    PRIMARY KEY (environment_id, key_id)
  )`
  yield* sql`CREATE UNIQUE INDEX sealing_keys_active ON sealing_keys (environment_id) WHERE state = 'active'`
})

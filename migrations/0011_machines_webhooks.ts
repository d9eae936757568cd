import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/** Trust rules for CI issuers, their used assertions, and webhooks with their outbox. */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  yield* sql`CREATE TABLE machine_rules (
    id uuid PRIMARY KEY,
    team_id uuid NOT NULL REFERENCES teams (id),
    name text NOT NULL,
    issuer text NOT NULL,
    audience text NOT NULL,
    claims jsonb NOT NULL,
    access_level text NOT NULL CHECK (access_level IN ('read', 'write')),
    project_ids uuid[],
    environment_ids uuid[],
    lifetime_seconds integer NOT NULL,
    created_by uuid NOT NULL REFERENCES users (id),
    created_at timestamptz NOT NULL,
    last_used_at timestamptz,
    revoked_at timestamptz
  )`
  yield* sql`CREATE INDEX machine_rules_team ON machine_rules (team_id)`
  yield* sql`CREATE INDEX machine_rules_creator ON machine_rules (created_by)`
  // Set for an API token that a machine received by this rule.
  yield* sql`ALTER TABLE api_tokens ADD COLUMN rule_id uuid`
  yield* sql`CREATE INDEX api_tokens_rule ON api_tokens (rule_id) WHERE rule_id IS NOT NULL`
  // SHA-256 of the signed part, kept until the JWT has expired.
  yield* sql`CREATE TABLE machine_assertions (
    digest bytea PRIMARY KEY,
    expires_at timestamptz NOT NULL
  )`
  yield* sql`CREATE INDEX machine_assertions_age ON machine_assertions (expires_at)`

  yield* sql`CREATE TABLE webhooks (
    id uuid PRIMARY KEY,
    team_id uuid NOT NULL REFERENCES teams (id),
    name text NOT NULL,
    url text NOT NULL,
    events text[],
    enabled boolean NOT NULL,
    created_by uuid NOT NULL REFERENCES users (id),
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL
  )`
  yield* sql`CREATE INDEX webhooks_team ON webhooks (team_id)`
  // Signing secrets: one without an end, and for a day after a rotation also the previous one.
  yield* sql`CREATE TABLE webhook_secrets (
    id uuid PRIMARY KEY,
    webhook_id uuid NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE,
    root_key_id text NOT NULL,
    wrapped bytea NOT NULL,
    ends_at timestamptz
  )`
  yield* sql`CREATE INDEX webhook_secrets_webhook ON webhook_secrets (webhook_id)`
  // Outbox, written in the transaction of the change.
  yield* sql`CREATE TABLE webhook_deliveries (
    webhook_id uuid NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE,
    event_id uuid NOT NULL,
    event text NOT NULL,
    body text NOT NULL,
    state text NOT NULL CHECK (state IN ('pending', 'delivered', 'failed')),
    attempts integer NOT NULL DEFAULT 0,
    log jsonb NOT NULL DEFAULT '[]'::jsonb,
    created_at timestamptz NOT NULL,
    next_at timestamptz NOT NULL,
    finished_at timestamptz,
    PRIMARY KEY (webhook_id, event_id)
  )`
  yield* sql`CREATE INDEX webhook_deliveries_due ON webhook_deliveries (webhook_id, next_at) WHERE state = 'pending'`
  yield* sql`CREATE INDEX webhook_deliveries_age ON webhook_deliveries (finished_at) WHERE finished_at IS NOT NULL`
})

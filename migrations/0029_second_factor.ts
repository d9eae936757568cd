import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/**
 * Second factors of people (docs/security.md, "Second factor"). A row without one keeps its MAC. Additive, but the
 * previous release would sign people in without their factor.
 */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  yield* sql`ALTER TABLE users ADD COLUMN second_factor boolean NOT NULL DEFAULT false`
  // Time of the last confirmed second factor, in the session or before the login was approved; null: never.
  yield* sql`ALTER TABLE sessions ADD COLUMN factor_at timestamptz`
  for (const table of ["device_requests", "cli_grants", "oauth_grants"]) {
    yield* sql`ALTER TABLE ${sql(table)} ADD COLUMN factor_at timestamptz`
  }
  yield* sql`ALTER TABLE teams ADD COLUMN second_factor_required boolean NOT NULL DEFAULT false`
  yield* sql`ALTER TABLE teams ADD COLUMN step_up_minutes integer NOT NULL DEFAULT 15 CHECK (step_up_minutes BETWEEN 1 AND 1440)`
  // `confirmed`: the person typed one of its codes. An unconfirmed factor is replaced by the next.
  yield* sql`CREATE TABLE totp_factors (
    id uuid PRIMARY KEY,
    user_id uuid NOT NULL REFERENCES users (id),
    sealed bytea NOT NULL,
    confirmed boolean NOT NULL,
    used_step integer NOT NULL,
    created_at timestamptz NOT NULL,
    last_used_at timestamptz,
    mac bytea,
    UNIQUE (user_id, confirmed)
  )`
  yield* sql`CREATE TABLE recovery_codes (
    id uuid PRIMARY KEY,
    user_id uuid NOT NULL REFERENCES users (id),
    salt bytea NOT NULL,
    hash bytea NOT NULL,
    used_at timestamptz,
    mac bytea
  )`
  yield* sql`CREATE INDEX recovery_codes_user ON recovery_codes (user_id)`
  // Step between the password and the second factor.
  yield* sql`CREATE TABLE sign_in_steps (
    id uuid PRIMARY KEY,
    lookup_id text NOT NULL UNIQUE,
    salt bytea NOT NULL,
    hash bytea NOT NULL,
    user_id uuid NOT NULL REFERENCES users (id),
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    mac bytea
  )`
  yield* sql`CREATE INDEX sign_in_steps_user ON sign_in_steps (user_id)`
  yield* sql`CREATE INDEX sign_in_steps_age ON sign_in_steps (expires_at)`
})

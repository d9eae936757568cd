import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/**
 * Sign-in with OpenID Connect (docs/sign-in.md). Rows without these columns keep their MAC. Additive, but the previous
 * release would accept passwords for teams that refuse them.
 */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  // Of a team; those of the installation are settings.
  yield* sql`CREATE TABLE sign_in_issuers (
    id uuid PRIMARY KEY,
    team_id uuid NOT NULL REFERENCES teams (id),
    name text NOT NULL,
    issuer text NOT NULL,
    client_id text NOT NULL,
    scopes text NOT NULL,
    sealed bytea NOT NULL,
    factors text[] NOT NULL,
    enabled boolean NOT NULL,
    created_at timestamptz NOT NULL,
    mac bytea
  )`
  yield* sql`CREATE INDEX sign_in_issuers_team ON sign_in_issuers (team_id)`
  // "source": the team's issuer, or empty for those of the installation.
  yield* sql`CREATE TABLE sign_in_identities (
    id uuid PRIMARY KEY,
    source text NOT NULL,
    issuer text NOT NULL,
    subject text NOT NULL,
    user_id uuid NOT NULL REFERENCES users (id),
    created_at timestamptz NOT NULL,
    last_used_at timestamptz,
    mac bytea,
    UNIQUE (source, issuer, subject)
  )`
  yield* sql`CREATE INDEX sign_in_identities_user ON sign_in_identities (user_id)`
  yield* sql`CREATE TABLE sign_in_rules (
    id uuid PRIMARY KEY,
    team_id uuid NOT NULL REFERENCES teams (id),
    issuer text NOT NULL,
    claim text NOT NULL,
    value text NOT NULL,
    role text NOT NULL CHECK (role IN ('admin', 'member', 'viewer')),
    created_at timestamptz NOT NULL,
    mac bytea
  )`
  yield* sql`CREATE INDEX sign_in_rules_team ON sign_in_rules (team_id)`
  yield* sql`CREATE INDEX sign_in_rules_issuer ON sign_in_rules (issuer)`

  // Issuer that opened the session, and the only team that a team's issuer gives access to.
  for (const table of ["sessions", "sign_in_steps"]) {
    yield* sql`ALTER TABLE ${sql(table)} ADD COLUMN issuer text`
    yield* sql`ALTER TABLE ${sql(table)} ADD COLUMN only_team uuid`
    // Person and session at the issuer, which may end the session (Back-Channel Logout).
    yield* sql`ALTER TABLE ${sql(table)} ADD COLUMN issuer_subject text`
    yield* sql`ALTER TABLE ${sql(table)} ADD COLUMN issuer_session text`
  }
  yield* sql`CREATE INDEX sessions_issuer ON sessions (issuer, issuer_subject) WHERE issuer IS NOT NULL`
  // Issuers that the team requires; null: passwords are accepted too.
  yield* sql`ALTER TABLE teams ADD COLUMN sign_in_only text[]`
  // Set by the operator: all access to the team stops.
  yield* sql`ALTER TABLE teams ADD COLUMN suspended boolean NOT NULL DEFAULT false`
  // Issuer whose rules gave the role, and the highest role that the team lets them give.
  yield* sql`ALTER TABLE memberships ADD COLUMN ruled_by text`
  yield* sql`ALTER TABLE memberships ADD COLUMN role_limit text`
  yield* sql`ALTER TABLE memberships ADD COLUMN break_glass boolean NOT NULL DEFAULT false`
})

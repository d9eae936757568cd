import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/**
 * Sign-in by OpenID Connect (docs/sign-in.md). Nobody uses it yet, and a row that says nothing of it keeps the MAC that it
 * has. It only adds, but a program of the release before would let passwords into teams that take none.
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

  // Which issuer opened the session; the one team that it is good for, when the issuer is a team's.
  for (const table of ["sessions", "sign_in_steps"]) {
    yield* sql`ALTER TABLE ${sql(table)} ADD COLUMN issuer text`
    yield* sql`ALTER TABLE ${sql(table)} ADD COLUMN only_team uuid`
    // What the issuer calls the person and their session there: it may end it (Back-Channel Logout).
    yield* sql`ALTER TABLE ${sql(table)} ADD COLUMN issuer_subject text`
    yield* sql`ALTER TABLE ${sql(table)} ADD COLUMN issuer_session text`
  }
  yield* sql`CREATE INDEX sessions_issuer ON sessions (issuer, issuer_subject) WHERE issuer IS NOT NULL`
  // The only issuers that let people into the team; null: passwords do too.
  yield* sql`ALTER TABLE teams ADD COLUMN sign_in_only text[]`
  // By the operator: nothing of the team is reached by anything.
  yield* sql`ALTER TABLE teams ADD COLUMN suspended boolean NOT NULL DEFAULT false`
  // The issuer whose rules gave the role, and the most that a person of the team lets them give.
  yield* sql`ALTER TABLE memberships ADD COLUMN ruled_by text`
  yield* sql`ALTER TABLE memberships ADD COLUMN role_limit text`
  yield* sql`ALTER TABLE memberships ADD COLUMN break_glass boolean NOT NULL DEFAULT false`
})

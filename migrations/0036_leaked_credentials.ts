import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/**
 * Credentials that somebody reported as found in the open (docs/contract/leaked-credentials.md): names and where, never a
 * text. Each is there once for a team, however often it is reported. `teams.leaked_credentials`: whether a report revokes
 * or is told alone. A program before this one takes a team that set it to `notify` for one that nobody wrote: set it
 * after the upgrade.
 */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`ALTER TABLE teams ADD COLUMN leaked_credentials text NOT NULL DEFAULT 'revoke'`
  yield* sql`CREATE TABLE leaked_credentials (
    id uuid PRIMARY KEY,
    team_id uuid NOT NULL REFERENCES teams (id),
    credential_type text NOT NULL,
    credential_id uuid NOT NULL,
    name text NOT NULL,
    person text,
    url text,
    source text,
    revoked boolean NOT NULL,
    reported_at timestamptz NOT NULL,
    UNIQUE (team_id, credential_id)
  )`
  yield* sql`CREATE INDEX leaked_credentials_team ON leaked_credentials (team_id, reported_at DESC)`
})

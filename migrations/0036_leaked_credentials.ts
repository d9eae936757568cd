import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/**
 * Leaked credentials from reports (docs/contract/leaked-credentials.md): names and places, never a text. Each exists
 * once per team, however often it is reported. `teams.leaked_credentials`: whether a report revokes the credential or
 * only notifies the team. An earlier program rejects the row of a team with `notify`, so set it after the upgrade.
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

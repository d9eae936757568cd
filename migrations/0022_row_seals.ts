import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/**
 * MACs of the rows that decide about access (docs/security.md, "Authorization rows"). Null: from an earlier release, or
 * not written by a server. Empty: the row has ended. The first start, which has the key, seals existing rows. An
 * earlier program writes no MAC and has no pepper, so it must not start beside this one.
 */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  for (const table of [
    "users",
    "teams",
    "memberships",
    "sessions",
    "invitations",
    "password_resets",
    "projects",
    "environments",
    "api_tokens",
    "cli_grants",
    "cli_grant_teams",
    "device_requests",
    "oauth_grants",
    "oauth_grant_teams",
    "oauth_access_tokens",
    "oauth_refresh_tokens",
    "oauth_codes",
    "machine_rules",
    "access_grants",
    "access_requests"
  ]) {
    yield* sql`ALTER TABLE ${sql(table)} ADD COLUMN mac bytea`
  }
  // Tables whose MACs are enforced: one row per table, itself with a MAC.
  yield* sql`CREATE TABLE sealed_tables (
    name text PRIMARY KEY,
    mac bytea NOT NULL
  )`
})

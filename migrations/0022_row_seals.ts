import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/**
 * Rows that decide who may do what carry a MAC (docs/security.md, "Authorization rows"). Null: of a release before, or
 * not written by a server; empty: the row ended. The rows that are there are sealed by the first start, which has the
 * key. A program before this one writes no MAC and knows no pepper, so it is not started again beside it.
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
  // What is held to its MAC from now on: a row per table, itself with a MAC.
  yield* sql`CREATE TABLE sealed_tables (
    name text PRIMARY KEY,
    mac bytea NOT NULL
  )`
})

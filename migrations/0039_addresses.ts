import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/**
 * From which addresses a team's people, and a token, are let in (docs/contract/credentials.md, "Addresses"). Nobody has set any
 * yet, and a row without keeps the MAC that it has. It only adds, but a program of the release before would not look.
 */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  // Addresses and CIDR blocks; null: from anywhere.
  yield* sql`ALTER TABLE teams ADD COLUMN session_addresses text[]`
  yield* sql`ALTER TABLE api_tokens ADD COLUMN addresses text[]`
})

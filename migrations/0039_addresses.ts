import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/**
 * Addresses from which a team accepts its members, or a token is accepted (docs/contract/credentials.md, "Addresses").
 * A row without addresses keeps its MAC. Additive, but the previous release does not check them.
 */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  // Addresses and CIDR blocks; null: from anywhere.
  yield* sql`ALTER TABLE teams ADD COLUMN session_addresses text[]`
  yield* sql`ALTER TABLE api_tokens ADD COLUMN addresses text[]`
})

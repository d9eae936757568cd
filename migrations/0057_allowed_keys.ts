import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/**
 * The keys that secrets of a team may have (docs/contract/access.md, "Allowed keys"). Additive: null allows every key,
 * as before. A server of the release before refuses a team that has a list, since the list is under the row's MAC.
 */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  yield* sql`ALTER TABLE teams ADD COLUMN allowed_keys text[]`
})

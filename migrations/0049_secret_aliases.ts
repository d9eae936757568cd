import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/**
 * The name that another program has for a secret, as `ConnectionStrings__Default` (docs/contract/secrets.md,
 * "Metadata"). It only adds.
 */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  yield* sql`ALTER TABLE secrets ADD COLUMN alias text`
})

import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/** End of a data key's use for sealing, and an index of the versions that it still seals. */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  yield* sql`ALTER TABLE data_keys ADD COLUMN retired_at timestamptz`
  yield* sql`CREATE INDEX secret_versions_data_key ON secret_versions (data_key_id)`
})

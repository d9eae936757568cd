import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/** When a data key stopped sealing; and a way to ask what a data key still seals without reading every version. */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  yield* sql`ALTER TABLE data_keys ADD COLUMN retired_at timestamptz`
  yield* sql`CREATE INDEX secret_versions_data_key ON secret_versions (data_key_id)`
})

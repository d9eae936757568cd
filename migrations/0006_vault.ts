import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/**
 * One row (id 1): a known text wrapped by the current root key. A server with another root key notices this before it
 * writes anything under the wrong key.
 */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  yield* sql`CREATE TABLE vault_canary (
    id smallint PRIMARY KEY CHECK (id = 1),
    root_key_id text NOT NULL,
    canary bytea NOT NULL,
    created_at timestamptz NOT NULL
  )`
})

import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/**
 * Keys of reads of many secrets, each list stored once. An entry has the hash of its list, in its text and in
 * `key_list`. Entries of earlier releases have the keys themselves.
 */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  yield* sql`CREATE TABLE audit_key_lists (hash bytea PRIMARY KEY, keys text[] NOT NULL)`
  yield* sql`CREATE INDEX audit_key_lists_keys ON audit_key_lists USING gin (keys)`
  yield* sql`ALTER TABLE audit_entries ADD COLUMN key_list bytea`
})

import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/**
 * The keys of reads that are about many, each list stored once: an entry holds the hash of its list, in its text and
 * repeated in `key_list`. Entries of releases before hold the keys themselves.
 */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  yield* sql`CREATE TABLE audit_key_lists (hash bytea PRIMARY KEY, keys text[] NOT NULL)`
  yield* sql`CREATE INDEX audit_key_lists_keys ON audit_key_lists USING gin (keys)`
  yield* sql`ALTER TABLE audit_entries ADD COLUMN key_list bytea`
})

import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/**
 * Proofs of the audit trail. `audit_seals`: the last head of each stream, under a MAC that only the vault can create.
 * `seen_at`: the stream's process was alive. `final`: no entry follows. `audit_cuts`: the end of an authorised deletion
 * in a stream, as a note signed by the vault.
 */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  yield* sql`CREATE TABLE audit_seals (
    stream uuid PRIMARY KEY,
    seq bigint NOT NULL,
    hash bytea NOT NULL,
    final boolean NOT NULL,
    root_key_id text NOT NULL,
    mac bytea NOT NULL,
    sealed_at timestamptz NOT NULL,
    seen_at timestamptz NOT NULL
  )`
  yield* sql`CREATE INDEX audit_seals_age ON audit_seals (sealed_at)`
  yield* sql`CREATE INDEX audit_seals_open ON audit_seals (seen_at) WHERE NOT final`
  yield* sql`CREATE TABLE audit_cuts (
    stream uuid PRIMARY KEY,
    seq bigint NOT NULL,
    hash bytea NOT NULL,
    note text NOT NULL,
    created_at timestamptz NOT NULL
  )`
})

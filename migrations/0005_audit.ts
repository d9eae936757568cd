import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/**
 * Audit trail (docs/contract/audit.md). `body` is the canonical text that `hash` covers. The other columns repeat parts
 * of it for look-up, and the verifier checks them against it. Entries outlive the rows that they name, so the table has
 * no foreign keys.
 */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  yield* sql`CREATE TABLE audit_entries (
    stream uuid NOT NULL,
    seq bigint NOT NULL,
    id uuid NOT NULL,
    at timestamptz NOT NULL,
    team_id uuid,
    project_id uuid,
    environment_id uuid,
    environment text,
    actor_id text NOT NULL,
    action text NOT NULL,
    body text NOT NULL,
    hash bytea NOT NULL,
    PRIMARY KEY (stream, seq)
  )`
  yield* sql`CREATE INDEX audit_entries_team ON audit_entries (team_id, id DESC)`
  yield* sql`CREATE INDEX audit_entries_environment ON audit_entries (environment_id, id DESC)`
  yield* sql`CREATE TABLE audit_streams (
    id uuid PRIMARY KEY,
    seq bigint NOT NULL,
    hash bytea NOT NULL,
    created_at timestamptz NOT NULL
  )`
})

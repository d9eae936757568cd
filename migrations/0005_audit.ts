import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/**
 * The audit trail (docs/contract/audit.md). `body` is the canonical text that `hash` covers; the other columns repeat
 * parts of it for look-up and are checked against it by the verifier. Entries outlive what they name, so nothing here
 * is a foreign key.
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

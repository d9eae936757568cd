import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/**
 * Runs planned by an agent (docs/contract/mcp.md), with the planning and the starting credential, and the result.
 * `output` is sealed. A row expires an hour after its plan, or an hour after its run. Additive: the previous release
 * can serve beside it.
 */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  yield* sql`
    CREATE TABLE run_plans (
      id uuid PRIMARY KEY,
      environment_id uuid NOT NULL REFERENCES environments (id) ON DELETE CASCADE,
      credential_id uuid NOT NULL,
      user_id uuid REFERENCES users (id) ON DELETE CASCADE,
      created_at timestamptz NOT NULL,
      expires_at timestamptz NOT NULL,
      started_at timestamptz,
      started_by uuid,
      tells_output boolean NOT NULL DEFAULT false,
      ended_at timestamptz,
      exit_code integer,
      duration_millis bigint,
      output bytea
    )`
  yield* sql`CREATE INDEX run_plans_age ON run_plans (expires_at)`
})

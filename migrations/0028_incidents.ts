import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/**
 * Bad days. What was handed out when one was opened is a note that the vault signed (`src/audit/Incident.ts`): nobody who
 * writes to the database changes it. When each value was replaced stands in the trail.
 */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`CREATE TABLE incidents (
    id uuid PRIMARY KEY,
    team_id uuid NOT NULL REFERENCES teams (id),
    opened_at timestamptz NOT NULL,
    up_to timestamptz NOT NULL,
    note text NOT NULL
  )`
  yield* sql`CREATE INDEX incidents_team ON incidents (team_id, id DESC)`
})

import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/**
 * Incidents. The values handed out at the opening are in a note signed by the vault (`src/audit/Incident.ts`), so
 * database writers cannot change it. The trail has the time of each replacement.
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

import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/** Team in whose share an MCP session counts, and the pages that its client opened for a person. */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  // Null: opened by a process of an earlier release while both serve. Such sessions form one share.
  yield* sql`ALTER TABLE mcp_sessions ADD COLUMN team_id uuid`
  yield* sql`ALTER TABLE mcp_sessions ADD COLUMN elicitations uuid[] NOT NULL DEFAULT '{}'`
  yield* sql`CREATE INDEX mcp_sessions_team ON mcp_sessions (team_id)`
})

import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/**
 * The reason of a change that waits, and the people to whom its texts were revealed (docs/contract/access.md, "Changes
 * that wait"). It only adds: the previous release neither reads nor writes the columns.
 */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  yield* sql`ALTER TABLE change_requests ADD COLUMN reason text, ADD COLUMN seen_by jsonb NOT NULL DEFAULT '[]'`
})

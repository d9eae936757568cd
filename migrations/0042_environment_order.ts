import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/**
 * The order of a project's environments on pages and in lists: by `position`, then as they were made. What nobody has
 * moved comes last, and so does what a program of the release before makes. It only adds.
 */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  // Above every place that a move gives: a project has at most 100 environments.
  yield* sql`ALTER TABLE environments ADD COLUMN position integer NOT NULL DEFAULT 1000`
})

import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/**
 * Order of a project's environments: by `position`, then by creation. Environments without a chosen position come last,
 * including those that the previous release creates. Additive.
 */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  // Beyond all chosen positions, since a project has at most 100 environments.
  yield* sql`ALTER TABLE environments ADD COLUMN position integer NOT NULL DEFAULT 1000`
})

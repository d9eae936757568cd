import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/**
 * For reports of a busy project (`src/trail-use/Exposure.ts`): the latest of its reads in order, and those whose entries did
 * not name versions yet. It only adds: a program of the release before fills the same table.
 */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  yield* sql`CREATE INDEX exposure_reads_latest ON exposure_reads (project_id, last_at DESC, id)`
  yield* sql`
    CREATE INDEX exposure_reads_unknown ON exposure_reads (project_id, last_at)
    WHERE versions IS NULL AND revision IS NULL AND way <> 'opened'`
})

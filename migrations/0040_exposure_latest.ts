import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/**
 * Index of the latest reads, for reports of a busy project (`src/trail-use/Exposure.ts`), and of reads without versions
 * in their entries. Additive: the previous release fills the same table.
 */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  yield* sql`CREATE INDEX exposure_reads_latest ON exposure_reads (project_id, last_at DESC, id)`
  yield* sql`
    CREATE INDEX exposure_reads_unknown ON exposure_reads (project_id, last_at)
    WHERE versions IS NULL AND revision IS NULL AND way <> 'opened'`
})

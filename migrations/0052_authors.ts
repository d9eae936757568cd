import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/**
 * Authors of values in the exposure index (`src/trail/ExposureIndex.ts`). `written_seq`: the last entry of a stream whose
 * writes are indexed too. The previous release indexes reads alone and leaves it behind; then this release reads those
 * entries again. `certain`: false for a write whose entry does not say whether its author typed the text. Additive: the
 * previous release fills the same tables.
 */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  yield* sql`ALTER TABLE exposure_streams ADD COLUMN written_seq bigint NOT NULL DEFAULT 0`
  yield* sql`ALTER TABLE exposure_reads ADD COLUMN certain boolean NOT NULL DEFAULT true`
})

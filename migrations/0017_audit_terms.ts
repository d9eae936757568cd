import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/**
 * Search index of the trail (`src/trail/TrailIndex.ts`): the parts of a team's trail about a term. Filled later from
 * sealed entries, up to `searchable`. Nothing is built here, and writing an entry costs no more.
 */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  yield* sql`CREATE TABLE audit_terms (
    team_id uuid NOT NULL,
    term text COLLATE "C" NOT NULL,
    part text COLLATE "C" NOT NULL,
    PRIMARY KEY (team_id, term, part)
  )`
  yield* sql`ALTER TABLE audit_seals ADD COLUMN searchable bigint NOT NULL DEFAULT 0`
  yield* sql`CREATE INDEX audit_seals_behind ON audit_seals (stream) WHERE seq > searchable`
  // Terms replace this index.
  yield* sql`DROP INDEX audit_entries_environment`
})

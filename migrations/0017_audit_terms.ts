import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/**
 * For searching the trail (`src/trail/TrailIndex.ts`): which parts of a team's trail are about a term. Filled behind,
 * from what stands under a seal: `searchable` is how far. Nothing is built here, and adding an entry costs no more.
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
  // What it was for is found by terms.
  yield* sql`DROP INDEX audit_entries_environment`
})

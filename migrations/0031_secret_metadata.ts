import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/**
 * Metadata that people write: owner, purpose and rotation date (docs/contract/secrets.md, "Metadata"). `rotation_told`:
 * rotation date of the last notice. `described` counts changes of the metadata in an environment, which makes cached
 * lists of names outdated. Additive.
 */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  yield* sql`ALTER TABLE secrets
    ADD COLUMN owner text,
    ADD COLUMN note text,
    ADD COLUMN rotate_by date,
    ADD COLUMN rotation_told date`
  yield* sql`CREATE INDEX secrets_rotation ON secrets (rotate_by)
    WHERE rotate_by IS NOT NULL AND deleted_at IS NULL AND rotation_told IS DISTINCT FROM rotate_by`
  yield* sql`ALTER TABLE environments ADD COLUMN described integer NOT NULL DEFAULT 0`
})

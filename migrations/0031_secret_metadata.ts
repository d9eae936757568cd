import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/**
 * What people say of a secret: who looks after it, what it is for, by which day its value should be replaced
 * (docs/contract/secrets.md, "Metadata"). `rotation_told`: the day of which notice was given. `described` counts the
 * changes of these in an environment, so that a list of names that is kept is known to be old. It only adds.
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

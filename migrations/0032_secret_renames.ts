import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/**
 * Renames: a secret keeps its versions under a new key (docs/contract/secrets.md, "Rename"). `key`: the key under which
 * a version was sealed, if it differs from the present one. An earlier program cannot open such a version, nor read
 * `secret.rename` in the trail, so it must not start beside this one.
 *
 * `exposure_writes.carried_from`: key of an earlier text that the version has again (rollback, restore, rename).
 * Recipients of that text may have this version too.
 */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  yield* sql`ALTER TABLE secret_versions ADD COLUMN key text COLLATE "C"`
  yield* sql`ALTER TABLE exposure_writes ADD COLUMN carried_from text COLLATE "C"`
  yield* sql`
    UPDATE exposure_writes w SET carried_from = w.key
    FROM audit_entries e, jsonb_array_elements_text(e.body::jsonb -> 'keys') AS k (key)
    WHERE e.action = 'secret.rollback' AND w.environment_id = (e.body::jsonb ->> 'environmentId')::uuid
      AND w.key = k.key AND w.revision = (e.body::jsonb ->> 'revision')::bigint AND w.version > 0`
})

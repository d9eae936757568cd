import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/**
 * A secret keeps its versions when it gets another key (docs/contract/secrets.md, "Rename"). `key`: what a version was
 * sealed under, where that is another than the secret has now. A program before this one neither opens such a version
 * nor reads `secret.rename` in the trail, so it is not started again beside it.
 *
 * `exposure_writes.carried_from`: the key of which the version took an earlier text over (a rollback, a restore, a rename),
 * so who was handed that one may have this one.
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

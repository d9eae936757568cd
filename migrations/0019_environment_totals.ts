import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/**
 * Data for a write about the rest of an environment: totals, and the templates that use a key. `counted_revision` is
 * the revision of the totals and of `secret_references`. An earlier release only increases `revision`, and the next
 * write then counts again. `secrets.revision` is the revision at which a secret was last written, deleted or restored,
 * for revisions after `tracked_from`.
 */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  yield* sql`ALTER TABLE environments
    ADD COLUMN live_secrets integer NOT NULL DEFAULT 0,
    ADD COLUMN written_bytes bigint NOT NULL DEFAULT 0,
    ADD COLUMN expanded_bytes bigint NOT NULL DEFAULT 0,
    ADD COLUMN counted_revision bigint NOT NULL DEFAULT 0,
    ADD COLUMN tracked_from bigint NOT NULL DEFAULT 0`
  yield* sql`ALTER TABLE secrets ADD COLUMN revision bigint NOT NULL DEFAULT 0`
  yield* sql`CREATE INDEX secrets_revision ON secrets (environment_id, revision)`
  yield* sql`CREATE TABLE secret_references (
    environment_id uuid NOT NULL REFERENCES environments (id),
    key text COLLATE "C" NOT NULL,
    secret_id uuid NOT NULL REFERENCES secrets (id) ON DELETE CASCADE,
    PRIMARY KEY (environment_id, key, secret_id)
  )`
  yield* sql`CREATE INDEX secret_references_secret ON secret_references (secret_id)`
})

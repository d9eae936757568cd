import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/**
 * What a write has to know of an environment besides the secrets that it concerns: how much stands there, and which
 * templates use which key. `counted_revision` is the revision that the totals and `secret_references` are of: an
 * earlier release moves `revision` alone, and the next write counts anew. `secrets.revision` is the environment's
 * revision that a secret was last written, deleted or restored by, in every revision after `tracked_from`.
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

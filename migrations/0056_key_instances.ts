import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/**
 * Keys of environments and secrets of webhooks whose contexts hold the id of the database (docs/security.md, "Keys"). It
 * only adds: existing keys stay as they are. A server makes keys with the id once no program without this migration can
 * start (`src/crypto/Instance.ts`), so that one can serve beside it until then.
 */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  yield* sql`ALTER TABLE data_keys ADD COLUMN bound boolean NOT NULL DEFAULT false`
  yield* sql`ALTER TABLE sealing_keys ADD COLUMN bound boolean NOT NULL DEFAULT false`
  yield* sql`ALTER TABLE webhook_secrets ADD COLUMN bound boolean NOT NULL DEFAULT false`
})

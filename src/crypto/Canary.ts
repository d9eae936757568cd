/**
 * Checks that the vault belongs to the database. A known text, wrapped by the vault and stored in the database, must
 * open. The vault must also have every root key that a row names.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Data from "effect/Data"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type { KeyContext } from "#schema/Vault.ts"
import * as Rows from "#src/database/Rows.ts"
import type { Vault } from "./Vault.ts"

/** The vault lacks the keys of this database. `rootKeyId` is the missing one; `heldId` is the vault's current one. */
class VaultForeign extends Data.TaggedError("VaultForeign")<{
  readonly rootKeyId: string
  readonly heldId: string
}> {}

const context: KeyContext = { purpose: "vault-canary", teamId: "", projectId: "", environmentId: "", keyId: "" }
const text = "ampoule vault canary"

const Row = Schema.Struct({ rootKeyId: Schema.String, canary: Schema.Uint8ArrayFromSelf })
const RootKeyIdRow = Schema.Struct({ rootKeyId: Schema.String })

export const read = Effect.flatMap(SqlClient.SqlClient, (sql) =>
  Rows.decodeFirst(Row, sql`SELECT root_key_id, canary FROM vault_canary WHERE id = 1`)
)

/**
 * Stores the canary at the first start. After a rotation it wraps the canary again, so that an old key alone cannot
 * start a server.
 */
export const check = Effect.fnUntraced(function* (vault: Vault["Type"]) {
  const sql = yield* SqlClient.SqlClient
  const { rootKeyId: heldId, rootKeyIds } = yield* vault.status
  const now = DateTime.toDate(yield* DateTime.now)
  const sealed = yield* vault.wrapBytes(context, Redacted.make(new TextEncoder().encode(text)))
  if ((yield* read) === undefined) {
    yield* sql`
        INSERT INTO vault_canary (id, root_key_id, canary, created_at)
        VALUES (1, ${sealed.rootKeyId}, ${sealed.wrapped}, ${now}) ON CONFLICT DO NOTHING`
  }
  const canary = yield* read
  if (canary === undefined) return yield* Effect.dieMessage("the vault canary vanished")
  yield* Effect.catchTag(
    vault.unwrapBytes(context, canary.canary, canary.rootKeyId),
    "INTEGRITY_FAILURE",
    () => new VaultForeign({ rootKeyId: canary.rootKeyId, heldId })
  )
  const rootKeyRows = yield* Rows.decodeAll(
    RootKeyIdRow,
    sql`
        SELECT root_key_id FROM data_keys UNION SELECT root_key_id FROM sealing_keys
        UNION SELECT root_key_id FROM service_keys UNION SELECT root_key_id FROM service_key_generations
        UNION SELECT root_key_id FROM webhook_secrets`
  )
  for (const { rootKeyId } of rootKeyRows) {
    if (!rootKeyIds.includes(rootKeyId)) return yield* new VaultForeign({ rootKeyId, heldId })
  }
  if (canary.rootKeyId !== sealed.rootKeyId) {
    yield* sql`
        UPDATE vault_canary SET root_key_id = ${sealed.rootKeyId}, canary = ${sealed.wrapped}, created_at = ${now}
        WHERE id = 1`
  }
})

/**
 * Whether a vault is the one that a database was set up with: a known text, wrapped by the vault and kept in the
 * database, has to open, and every root key that a row names has to be held.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Data from "effect/Data"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type { KeyContext } from "#schema/Vault.ts"
import type { Vault } from "./Vault.ts"

/**
 * The vault holds other keys than this database needs. `rootKeyId`: one that it lacks; `heldId`: the one it wraps with.
 */
export class VaultForeign extends Data.TaggedError("VaultForeign")<{
  readonly rootKeyId: string
  readonly heldId: string
}> {}

export const context: KeyContext = { purpose: "vault-canary", teamId: "", projectId: "", environmentId: "", keyId: "" }
const text = "ampoule vault canary"

const Row = Schema.Struct({ rootKeyId: Schema.String, canary: Schema.Uint8ArrayFromSelf })
const decodeRows = Schema.decodeUnknown(Schema.Array(Row))
const Named = Schema.Struct({ rootKeyId: Schema.String })
const decodeNamed = Schema.decodeUnknown(Schema.Array(Named))

export const read = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  return (yield* decodeRows(yield* sql`SELECT root_key_id, canary FROM vault_canary WHERE id = 1`)).at(0)
}).pipe(Effect.catchTag("ParseError", Effect.die))

/**
 * At the first start it sets the canary. After a rotation the canary follows, so that an old key alone starts no
 * server.
 */
export const check = Effect.fnUntraced(
  function* (vault: Vault["Type"]) {
    const sql = yield* SqlClient.SqlClient
    const { rootKeyId: heldId, rootKeyIds } = yield* vault.status
    const now = DateTime.toDate(yield* DateTime.now)
    const sealed = yield* vault.wrapBytes(context, Redacted.make(new TextEncoder().encode(text)))
    if ((yield* read) === undefined) {
      yield* sql`
        INSERT INTO vault_canary (id, root_key_id, canary, created_at)
        VALUES (1, ${sealed.rootKeyId}, ${sealed.wrapped}, ${now}) ON CONFLICT DO NOTHING`
    }
    const found = yield* read
    if (found === undefined) return yield* Effect.dieMessage("the vault canary vanished")
    yield* Effect.catchTag(
      vault.unwrapBytes(context, found.canary, found.rootKeyId),
      "INTEGRITY_FAILURE",
      () => new VaultForeign({ rootKeyId: found.rootKeyId, heldId })
    )
    const named = yield* decodeNamed(
      yield* sql`
        SELECT root_key_id FROM data_keys UNION SELECT root_key_id FROM sealing_keys
        UNION SELECT root_key_id FROM service_keys UNION SELECT root_key_id FROM webhook_secrets`
    )
    for (const { rootKeyId } of named) {
      if (!rootKeyIds.includes(rootKeyId)) return yield* new VaultForeign({ rootKeyId, heldId })
    }
    if (found.rootKeyId !== sealed.rootKeyId) {
      yield* sql`
        UPDATE vault_canary SET root_key_id = ${sealed.rootKeyId}, canary = ${sealed.wrapped}, created_at = ${now}
        WHERE id = 1`
    }
  },
  Effect.catchTag("ParseError", Effect.die)
)

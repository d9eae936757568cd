/** Rows of passkeys: public key, name, and signature counter. */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { PasskeyCopied, SecondFactorFailed } from "#schema/Errors.ts"
import { type UserId, UserIdOut } from "#schema/Ids.ts"
import type { RowSeal } from "#src/rows/RowSeal.ts"
import type { Crypto } from "#src/crypto/Crypto.ts"
import * as Rows from "#src/database/Rows.ts"
import type { Caller } from "#schema/Caller.ts"
import * as Authenticators from "./Authenticators.ts"
import type { NewPasskey } from "./PasskeyProof.ts"

interface Needs {
  readonly sql: SqlClient.SqlClient
  readonly crypto: Crypto
  readonly rowSeal: RowSeal
}

export const passkeysPerPerson = 20

const PasskeyRow = Schema.Struct({
  id: Schema.String,
  userId: UserIdOut,
  credentialId: Schema.String,
  publicKey: Schema.Uint8ArrayFromSelf,
  counter: Schema.Number,
  name: Schema.String,
  transports: Schema.Array(Schema.String),
  synced: Schema.Boolean,
  createdAt: Schema.DateFromSelf,
  lastUsedAt: Schema.NullOr(Schema.DateFromSelf),
  suspendedAt: Schema.NullOr(Schema.DateFromSelf),
  ...Authenticators.stateFields,
  mac: Schema.NullOr(Schema.Uint8ArrayFromSelf)
})
export type PasskeyRow = typeof PasskeyRow.Type

/** Row that a removal returns. */
export const NameRow = Schema.Struct({ name: Schema.String })

const columns = `id, user_id, credential_id, public_key, counter, name, transports, synced, created_at, last_used_at,
  suspended_at, young_until, closed_teams, mac`

/** The person's passkeys in use, newest first, without rows whose MAC fails. */
export const listOf = ({ rowSeal, sql }: Pick<Needs, "rowSeal" | "sql">, userId: UserId) =>
  Effect.zipWith(
    rowSeal.ready,
    Rows.findAll(
      PasskeyRow,
      sql`
        SELECT ${sql.literal(columns)} FROM passkeys WHERE user_id = ${userId} AND suspended_at IS NULL
        ORDER BY created_at DESC, id DESC LIMIT ${passkeysPerPerson}`
    ),
    (macs, rows) => rows.filter((row) => macs.isAuthentic("passkeys", row))
  )

/** The passkey, or undefined when none is in use or the MAC of its row fails. */
export const find = ({ rowSeal, sql }: Pick<Needs, "rowSeal" | "sql">, credentialId: string) =>
  Effect.zipWith(
    rowSeal.ready,
    Rows.findOne(
      PasskeyRow,
      sql`
        SELECT ${sql.literal(columns)} FROM passkeys WHERE credential_id = ${credentialId} AND suspended_at IS NULL`
    ),
    (macs, row) => (row !== undefined && macs.isAuthentic("passkeys", row) ? row : undefined)
  )

/** Part of the caller's transaction. False: the passkey is registered already, perhaps by another person. */
export const insert = Effect.fnUntraced(function* (
  { crypto, rowSeal, sql }: Needs,
  caller: Caller,
  userId: UserId,
  { counter, credentialId, publicKey, synced, transports }: NewPasskey,
  name: string
) {
  const now = yield* DateTime.nowAsDate
  const row = yield* rowSeal.values(
    "passkeys",
    { id: yield* crypto.uuid, userId, credentialId, publicKey, counter, ...Authenticators.newState(caller, now) },
    { name, transports, synced, created_at: now }
  )
  return yield* Rows.exists(sql`INSERT INTO passkeys ${row} ON CONFLICT DO NOTHING RETURNING id`)
})

/**
 * Part of the caller's transaction: stores the counter of a use. A counter that did not grow shows a copy (WebAuthn
 * 7.2, step 22): PASSKEY_COPIED. Synchronised passkeys do not count. `entered`: as in `Authenticators.proofOf`.
 */
export const use = Effect.fnUntraced(function* (
  { rowSeal, sql }: Pick<Needs, "rowSeal" | "sql">,
  passkey: PasskeyRow,
  counter: number,
  entered: boolean
) {
  const now = yield* DateTime.nowAsDate
  const isFree = sql`counter < ${counter} OR (counter = 0 AND ${counter}::bigint = 0)`
  const where = sql`id = ${passkey.id} AND suspended_at IS NULL AND (${isFree})`
  const used = yield* rowSeal.update("passkeys", where, () => ({ counter }), { last_used_at: now })
  if (used === 1) return yield* Authenticators.proofOf({ sql }, passkey.userId, passkey, { entered })
  const exists = yield* Rows.exists(sql`SELECT 1 FROM passkeys WHERE id = ${passkey.id} AND suspended_at IS NULL`)
  if (!exists) return yield* new SecondFactorFailed()
  yield* Effect.annotateLogs(Effect.logError("A passkey may have been copied: its counter did not grow"), {
    passkey: passkey.id
  })
  return yield* new PasskeyCopied()
})

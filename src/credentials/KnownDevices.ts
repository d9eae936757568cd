/**
 * Browsers that signed in to an account before. Each has attempts of its own to sign in, so that wrong passwords from
 * elsewhere cannot lock the person out. The cookie opens nothing; it ends 90 days after the last sign-in, and with the
 * password that it signed in with.
 */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type { UserId } from "#schema/Ids.ts"
import type { Crypto } from "#src/crypto/Crypto.ts"
import { days } from "#src/Days.ts"
import * as Rows from "#src/Rows.ts"
import { ProofRow } from "./Issue.ts"
import * as TokenText from "./TokenText.ts"

interface Needs {
  readonly sql: SqlClient.SqlClient
  readonly crypto: Crypto
}

export interface KnownDevice {
  readonly id: string
  readonly text: Redacted.Redacted
}

export const deviceLife = days(90)
/** The oldest of one account make room: signing in again and again does not fill the table. */
const devicesPerPerson = 32

const pattern = /^([0-9A-Za-z]{16})\.([0-9A-Za-z]{43})$/
const DeviceRow = Schema.Struct({ id: Schema.String, ...ProofRow.fields })

/** The device that a browser presents, when it signed in to the account with this address before. */
export const find = Effect.fnUntraced(function* ({ sql }: Needs, text: Redacted.Redacted | null, email: string) {
  const match = text === null ? null : pattern.exec(Redacted.value(text))
  if (text === null || match === null) return null
  const [, lookupId, secret] = match
  const row = yield* Rows.findOne(
    DeviceRow,
    sql`
      SELECT d.id, d.salt, d.hash FROM known_devices d JOIN users u ON u.id = d.user_id
      WHERE d.lookup_id = ${lookupId} AND u.email = ${email} AND d.expires_at > ${yield* DateTime.nowAsDate}`
  )
  if (!TokenText.verify(row, secret) || row === undefined) return null
  const device: KnownDevice = { id: row.id, text }
  return device
})

/** Part of the transaction that opens a session. Answers what the browser keeps. */
export const remember = Effect.fnUntraced(function* (
  { crypto, sql }: Needs,
  userId: UserId,
  known: KnownDevice | null
) {
  const now = yield* DateTime.nowAsDate
  const expiresAt = new Date(now.getTime() + deviceLife)
  const renewed =
    known !== null &&
    (yield* Rows.exists(sql`
      UPDATE known_devices SET expires_at = ${expiresAt} WHERE id = ${known.id} AND user_id = ${userId} RETURNING id`))
  if (renewed) return known.text
  const lookupId = yield* crypto.lookupId
  const secret = Redacted.value(yield* crypto.credentialSecret)
  const salt = yield* crypto.randomBytes(16)
  yield* Rows.run(sql`
    INSERT INTO known_devices (id, lookup_id, salt, hash, user_id, created_at, expires_at)
    VALUES (${yield* crypto.uuid}, ${lookupId}, ${salt}, ${TokenText.hash(salt, secret)}, ${userId}, ${now}, ${expiresAt})`)
  yield* Rows.run(sql`
    DELETE FROM known_devices WHERE user_id = ${userId} AND id NOT IN (
      SELECT id FROM known_devices WHERE user_id = ${userId} ORDER BY expires_at DESC, id DESC LIMIT ${devicesPerPerson})`)
  return Redacted.make(`${lookupId}.${secret}`)
})

/** A new password makes every device a stranger: one of them may be the thief's. */
export const forget = ({ sql }: Pick<Needs, "sql">, userId: UserId) =>
  Rows.run(sql`DELETE FROM known_devices WHERE user_id = ${userId}`)

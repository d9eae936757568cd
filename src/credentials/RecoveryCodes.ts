/**
 * Recovery codes: ten codes that replace a lost factor, each once. They are shown once and stored as hashes; each has
 * 100 bits.
 */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { UserId } from "#schema/Ids.ts"
import * as RowJournal from "#src/rows/RowJournal.ts"
import type { RowSeal } from "#src/rows/RowSeal.ts"
import type { Crypto } from "#src/crypto/Crypto.ts"
import * as Rows from "#src/database/Rows.ts"
import type { Caller } from "#schema/Caller.ts"
import * as Authenticators from "./Authenticators.ts"
import * as TokenText from "./TokenText.ts"

interface Needs {
  readonly sql: SqlClient.SqlClient
  readonly crypto: Crypto
  readonly rowSeal: RowSeal
}

const codeCount = 10
/** 32 letters and digits without look-alikes. */
const alphabet = "abcdefghjkmnpqrstuvwxyz023456789"
const length = 20

/** Accepts capitals, and any spaces or dashes. */
const canonical = (typed: string): string => typed.toLowerCase().replace(/[\s-]/g, "")
const format = (code: string): string => code.match(/.{5}/g)?.join("-") ?? code

const CodeRow = Schema.Struct({
  id: Schema.String,
  userId: Schema.String,
  ...TokenText.ProofRow.fields,
  ...Authenticators.stateFields,
  mac: Schema.NullOr(Schema.Uint8ArrayFromSelf)
})

/** Part of the caller's transaction. The new codes replace the earlier ones. */
export const renew = Effect.fnUntraced(function* (needs: Needs, caller: Caller, userId: UserId) {
  const { crypto, rowSeal, sql } = needs
  yield* remove(needs, userId)
  const macs = yield* rowSeal.ready
  const { closedTeams, youngUntil } = Authenticators.newState(caller, yield* DateTime.nowAsDate)
  const codes: Array<string> = []
  for (let n = 0; n < codeCount; n++) {
    const code = yield* crypto.randomText(alphabet, length)
    const salt = yield* crypto.randomBytes(16)
    const hash = TokenText.hash(macs, "rc", salt, code)
    const row = { id: yield* crypto.uuid, userId, hash, youngUntil, closedTeams }
    yield* Rows.run(sql`INSERT INTO recovery_codes ${yield* rowSeal.values("recovery_codes", row, { salt })}`)
    codes.push(format(code))
  }
  return codes
})

/** Part of the caller's transaction. */
export const remove = ({ sql }: Pick<Needs, "sql">, userId: UserId) =>
  RowJournal.remove(sql, "recovery_codes", sql`user_id = ${userId}`)

export const countUnused = ({ sql }: Pick<Needs, "sql">, userId: UserId) =>
  Rows.count(sql`SELECT count(*)::int AS n FROM recovery_codes WHERE user_id = ${userId} AND used_at IS NULL`)

/** Part of the caller's transaction: uses up the code, and returns it. Undefined: not an unused code of the person. */
export const use = Effect.fnUntraced(function* ({ rowSeal, sql }: Needs, userId: UserId, typed: string) {
  const code = canonical(typed)
  const macs = yield* rowSeal.ready
  const rows = yield* Rows.findAll(
    CodeRow,
    sql`
      SELECT id, user_id, salt, hash, young_until, closed_teams, mac FROM recovery_codes
      WHERE user_id = ${userId} AND used_at IS NULL ORDER BY id FOR UPDATE`
  )
  // Compares every code, so that time does not show which one matched.
  const matches = rows.filter(
    (row) => TokenText.verify(macs, "rc", row, code) && macs.isAuthentic("recovery_codes", row)
  )
  for (const { id } of matches) {
    yield* RowJournal.end(sql, "recovery_codes", { used_at: yield* DateTime.nowAsDate }, sql`id = ${id}`)
  }
  return matches[0]
})

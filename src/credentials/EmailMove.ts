/**
 * An account gets another e-mail address, whoever asks: the person (`EmailAddress.ts`) or the operator. Apart from the
 * former, since the operator's programs run where no package for passwords is installed.
 */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import { Forbidden, NameTaken } from "#schema/Errors.ts"
import type { UserId } from "#schema/Ids.ts"
import type { RowSeal } from "#src/rows/RowSeal.ts"
import type { Crypto } from "#src/crypto/Crypto.ts"
import * as Rows from "#src/database/Rows.ts"
import * as AccountNotices from "./AccountNotices.ts"

const taken = () => new NameTaken({ field: "email", message: "This address belongs to an account." })

const hasAccount = ({ sql }: { readonly sql: SqlClient.SqlClient }, email: string) =>
  Rows.exists(sql`SELECT 1 FROM users WHERE email = ${email}`)

interface MoveNeeds {
  readonly sql: SqlClient.SqlClient
  readonly crypto: Crypto
  readonly rowSeal: RowSeal
}
interface Move {
  readonly userId: UserId
  readonly from: string
  readonly to: string
}

/**
 * Part of the caller's transaction, with the account locked: the account has the other address, and the one before is
 * told. NAME_TAKEN when an account has it, also one that was made in the meantime: the update is a transaction of its
 * own, since the database refuses it then.
 */
export const move = Effect.fnUntraced(function* (needs: MoveNeeds, { from, to, userId }: Move) {
  const { rowSeal, sql } = needs
  if (yield* hasAccount(needs, to)) return yield* taken()
  const changed = yield* Effect.catchAllDefect(
    Rows.transaction(sql, function* () {
      const others = { updated_at: yield* DateTime.nowAsDate }
      return yield* rowSeal.update("users", sql`id = ${userId} AND email = ${from}`, () => ({ email: to }), others)
    }),
    (defect) => Effect.flatMap(hasAccount(needs, to), (isTaken) => (isTaken ? taken() : Effect.die(defect)))
  )
  // Another change won, or no server wrote the row.
  if (changed === 0) return yield* new Forbidden()
  yield* AccountNotices.record(needs, userId, "email_changed", from)
})

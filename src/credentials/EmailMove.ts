/**
 * Changes an account's e-mail address, for the person (`EmailAddress.ts`) or the operator. A file apart from the
 * former, since the operator's programs run without the password package.
 */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import { Forbidden, NameTaken } from "#schema/Errors.ts"
import type { UserId } from "#schema/Ids.ts"
import type { RowSeal } from "#src/rows/RowSeal.ts"
import type { Crypto } from "#src/crypto/Crypto.ts"
import * as Rows from "#src/database/Rows.ts"
import * as NewAddress from "./NewAddress.ts"
import * as AccountNotices from "./AccountNotices.ts"

const addressTaken = () => new NameTaken({ field: "email", message: "This address belongs to an account." })

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
 * Part of the caller's transaction, with the account locked: changes the address and notifies the old one. NAME_TAKEN
 * when another account has the address, even one made a moment ago. The update runs in a nested transaction, since the
 * database may refuse it.
 */
export const move = Effect.fnUntraced(function* (needs: MoveNeeds, { from, to, userId }: Move) {
  const { rowSeal, sql } = needs
  if (yield* hasAccount(needs, to)) return yield* addressTaken()
  yield* NewAddress.check(needs, to)
  const changed = yield* Effect.catchAllDefect(
    Rows.transaction(sql, function* () {
      const others = { updated_at: yield* DateTime.nowAsDate }
      return yield* rowSeal.update("users", sql`id = ${userId} AND email = ${from}`, () => ({ email: to }), others)
    }),
    (defect) => Effect.flatMap(hasAccount(needs, to), (isTaken) => (isTaken ? addressTaken() : Effect.die(defect)))
  )
  // Another change came first, or the MAC of the row fails.
  if (changed === 0) return yield* new Forbidden()
  yield* AccountNotices.record(needs, userId, "email_changed", from)
})

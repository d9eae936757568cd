/**
 * Changes an account's e-mail address, for the person (`EmailAddress.ts`) or the operator. A file apart from the
 * former, since the operator's programs run without the password package.
 */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import { Forbidden, NameTaken } from "#schema/Errors.ts"
import type { UserId } from "#schema/Ids.ts"
import { addressOf } from "#schema/Values.ts"
import type { RowSeal } from "#src/rows/RowSeal.ts"
import type { Crypto } from "#src/crypto/Crypto.ts"
import type { Audit } from "#src/trail/Audit.ts"
import * as Rows from "#src/database/Rows.ts"
import type { VouchedBy } from "./Accounts.ts"
import * as NewAddress from "./NewAddress.ts"
import * as AccountNotices from "./AccountNotices.ts"
import * as ProvisionalAccounts from "./ProvisionalAccounts.ts"

export const addressTaken = () => new NameTaken({ field: "email", message: "This address belongs to an account." })

interface MoveNeeds {
  readonly sql: SqlClient.SqlClient
  readonly crypto: Crypto
  readonly rowSeal: RowSeal
  readonly audit: Audit
}
interface Move {
  readonly userId: UserId
  /** The name of the account before: its address, or "address (by Team)". */
  readonly from: string
  readonly to: string
  /** `none`: the person states the new address, and no witness vouches for it. */
  readonly vouchedBy: VouchedBy
}

/**
 * Part of the caller's transaction, with both addresses and the account locked: changes the address and notifies the old
 * one. NAME_TAKEN when a vouched account has the address, even one made a moment ago. The update runs in a nested
 * transaction, since the database may refuse it.
 */
export const move = Effect.fnUntraced(function* (needs: MoveNeeds, { from, to, userId, vouchedBy }: Move) {
  const { rowSeal, sql } = needs
  if (to === addressOf(from)) return yield* addressTaken()
  yield* Effect.catchTag(ProvisionalAccounts.makeWay(needs, to, { id: userId, vouchedBy }), "AddressHeld", addressTaken)
  yield* NewAddress.check(needs, to, vouchedBy !== "none")
  const values = { email: to, vouchedBy }
  const changed = yield* Effect.catchAllDefect(
    Rows.transaction(sql, function* () {
      const others = { updated_at: yield* DateTime.nowAsDate }
      return yield* rowSeal.update("users", sql`id = ${userId} AND email = ${from}`, () => values, others)
    }),
    (defect) => Effect.flatMap(isTaken(needs, to), (is) => (is ? addressTaken() : Effect.die(defect)))
  )
  // Another change came first, or the MAC of the row fails.
  if (changed === 0) return yield* new Forbidden()
  yield* ProvisionalAccounts.settle(needs, addressOf(from))
  yield* AccountNotices.record(needs, userId, "email_changed", addressOf(from))
})

/** Whether a row has this name: a server of the release before takes no lock. */
const isTaken = ({ sql }: Pick<MoveNeeds, "sql">, name: string) =>
  Rows.exists(sql`SELECT 1 FROM users WHERE email = ${name}`)

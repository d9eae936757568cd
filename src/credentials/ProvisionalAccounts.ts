/**
 * Accounts and their addresses (docs/sign-in.md, "Provisional accounts"). An account is provisional until a witness
 * vouches for its address. A provisional account never keeps another one from the address: the new account is named by
 * the address, and the provisional one by "address (by Team)".
 */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as Data from "effect/Data"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { Caller } from "#schema/Caller.ts"
import { ValidationFailed } from "#schema/Errors.ts"
import type { TeamId, UserId } from "#schema/Ids.ts"
import { addressOf } from "#schema/Values.ts"
import { sha256 } from "#src/crypto/Crypto.ts"
import * as Rows from "#src/database/Rows.ts"
import { type RateLimiter, signInPolicy } from "#src/limits/RateLimiter.ts"
import type { RowSeal } from "#src/rows/RowSeal.ts"
import type { Audit } from "#src/trail/Audit.ts"
import * as Accounts from "./Accounts.ts"
import * as NewAddress from "./NewAddress.ts"

interface Needs {
  readonly sql: SqlClient.SqlClient
  readonly rowSeal: RowSeal
  readonly audit: Audit
}

/** A vouched account has the address, or too many provisional ones do. */
class AddressHeld extends Data.TaggedError("AddressHeld") {}

/** For a password that another account of the address has: the sentence says no more than that. */
export const refusedPassword = (field: string) =>
  new ValidationFailed({ field, message: "This password cannot be used. Choose another one." })

/** A password is compared with those of the address's accounts, right or wrong: ten times in ten minutes. */
export const limitComparisons = (limiter: RateLimiter, address: string) =>
  limiter.take(`new-password:email:${sha256(address).toString("base64url")}`, signInPolicy)

interface NewAccount {
  readonly id: UserId
  readonly email: string
  readonly name: string
  /** Empty for an account that an issuer opens. */
  readonly passwordHash: string
  readonly vouchedBy: Accounts.VouchedBy
  readonly madeBy: TeamId | null
  readonly now: Date
}

const TeamNameRow = Schema.Struct({ name: Schema.String })

/** "address (by Team)", with a number where another account has this name. */
const labelOf = Effect.fnUntraced(function* ({ sql }: Needs, { email, id, madeBy }: Accounts.AccountRow) {
  const team = yield* Rows.findOne(TeamNameRow, sql`SELECT name FROM teams WHERE id = ${madeBy}`)
  const by = team === undefined ? "unconfirmed" : `by ${team.name}`
  const labels = Array.from(
    { length: Accounts.accountsPerAddress + 1 },
    (_, i) => `${addressOf(email)} (${by}${i === 0 ? "" : `, ${i + 1}`})`
  )
  const rows = yield* Rows.findAll(
    Schema.Struct({ email: Schema.String }),
    sql`SELECT u.email FROM users u WHERE ${Accounts.hasAddress(sql, addressOf(email))} AND u.id <> ${id}
      LIMIT ${Accounts.accountsPerAddress + 1}`
  )
  const names = new Set(rows.map((row) => row.email))
  return labels.find((label) => !names.has(label)) ?? `${addressOf(email)} (${id})`
})

const rename = Effect.fnUntraced(function* (needs: Needs, account: Accounts.AccountRow, email: string) {
  const { audit, rowSeal, sql } = needs
  const others = { updated_at: yield* DateTime.nowAsDate }
  yield* rowSeal.update("users", sql`id = ${account.id}`, () => ({ email }), others)
  const event = { actor: "system", action: "email.change", outcome: "allowed", reason: "PROVISIONAL" } as const
  const target = { type: "user", id: account.id, name: email } as const
  yield* audit.append(...Accounts.inEachTeam(account.memberships, { ...event, target }))
})

/**
 * Part of the caller's transaction, which holds the address's lock: makes way for another account at the address.
 * AddressHeld when a vouched account has it, or, for an account without a witness, when too many accounts do.
 */
export const makeWay = Effect.fnUntraced(function* (
  needs: Needs,
  address: string,
  { id, vouchedBy }: Pick<NewAccount, "id" | "vouchedBy">
) {
  const others = (yield* Accounts.atAddress(needs, address)).filter((one) => one.id !== id)
  const isFull = others.length >= Accounts.accountsPerAddress - 1 && vouchedBy === "none"
  if (isFull || others.some(Accounts.isVouched)) return yield* new AddressHeld()
  const holder = others.find((one) => one.email === address)
  if (holder !== undefined) yield* rename(needs, holder, yield* labelOf(needs, holder))
})

/**
 * Part of the caller's transaction, which holds the address's lock. The only statement that makes an account.
 * AddressHeld, or VALIDATION_FAILED for a look-alike address.
 */
export const insert = Effect.fnUntraced(function* (needs: Needs, account: NewAccount) {
  const { rowSeal, sql } = needs
  const { email, id, madeBy, name, now, passwordHash, vouchedBy } = account
  yield* makeWay(needs, email, account)
  yield* NewAddress.check({ sql }, email, vouchedBy !== "none")
  const row = yield* rowSeal.values(
    "users",
    { id, email, passwordHash, secondFactor: false, recovering: false, vouchedBy, madeBy },
    { name, created_at: now, updated_at: now }
  )
  const isNew = yield* Rows.exists(sql`INSERT INTO users ${row} ON CONFLICT (email) DO NOTHING RETURNING id`)
  // A server of the release before made an account a moment ago, or the row with the address is forged.
  if (!isNew) return yield* new AddressHeld()
})

/**
 * Part of the caller's transaction, which holds the address's lock, after an account left the address: the only
 * remaining one is named by it again.
 */
export const settle = Effect.fnUntraced(function* (needs: Needs, address: string) {
  const [account, ...others] = yield* Accounts.atAddress(needs, address)
  if (account === undefined || others.length > 0 || account.email === address) return
  yield* rename(needs, account, address)
})

/**
 * Part of the caller's transaction, whose first lock it takes: the account holds its address from now on. AddressHeld
 * when another vouched account does. Returns the account, or undefined when it is gone or has another address.
 */
export const vouch = Effect.fnUntraced(function* (
  needs: Needs,
  { address, id }: { readonly id: UserId; readonly address: string },
  vouchedBy: Exclude<Accounts.VouchedBy, "none">,
  actor: Caller | "system"
) {
  const { audit, rowSeal, sql } = needs
  yield* Accounts.lockAddresses(needs, address)
  const account = (yield* Accounts.atAddress(needs, address)).find((one) => one.id === id)
  if (account === undefined) return undefined
  yield* makeWay(needs, address, { id, vouchedBy })
  const others = { updated_at: yield* DateTime.nowAsDate }
  yield* rowSeal.update("users", sql`id = ${id}`, () => ({ email: address, vouchedBy }), others)
  const event = { actor, action: "email.confirm", outcome: "allowed", reason: vouchedBy.toUpperCase() } as const
  const target = { type: "user", id, name: address } as const
  yield* audit.append(...Accounts.inEachTeam(account.memberships, { ...event, target }))
  return { ...account, email: address, vouchedBy }
})

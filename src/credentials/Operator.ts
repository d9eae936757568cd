/**
 * Operator's actions on accounts, where no other person can help: an owner forgot the password, another person took an
 * address, or a person lost theirs. The trail of each of the person's teams records the action as the system's.
 */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as Data from "effect/Data"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { TeamIdOut, type UserId, UserIdOut, uuidPattern } from "#schema/Ids.ts"
import { Role } from "#schema/Scopes.ts"
import { addressOf } from "#schema/Values.ts"
import type { Audit } from "#src/trail/Audit.ts"
import * as RowJournal from "#src/rows/RowJournal.ts"
import type { RowSeal } from "#src/rows/RowSeal.ts"
import { removeApprover } from "#src/access/TeamRows.ts"
import type { Crypto } from "#src/crypto/Crypto.ts"
import * as Rows from "#src/database/Rows.ts"
import * as Accounts from "./Accounts.ts"
import { inEachTeam } from "./Accounts.ts"
import * as AccountNotices from "./AccountNotices.ts"
import * as EmailMove from "./EmailMove.ts"
import * as Factors from "./Factors.ts"
import * as NewPassword from "./NewPassword.ts"
import * as ProvisionalAccounts from "./ProvisionalAccounts.ts"
import { type Revocation, revocationEvents } from "./Revocation.ts"
import * as WaysIn from "./WaysIn.ts"

export interface Needs {
  readonly sql: SqlClient.SqlClient
  readonly crypto: Crypto
  readonly audit: Audit
  readonly revocation: Revocation
  readonly rowSeal: RowSeal
  readonly baseUrl: string
}

class AccountNotFound extends Data.TaggedError("AccountNotFound") {}
/** Names of the teams whose last active owner the person is. */
export class LastOwner extends Data.TaggedError("LastOwner")<{ readonly teams: ReadonlyArray<string> }> {}

/** Several accounts have the address, and no witness vouches for one of them. */
export class AccountAmbiguous extends Data.TaggedError("AccountAmbiguous")<{
  readonly accounts: ReadonlyArray<{ readonly id: UserId; readonly email: string }>
}> {}

const AccountRow = Schema.Struct({
  id: UserIdOut,
  email: Schema.String,
  name: Schema.String,
  vouchedBy: Schema.NullOr(Accounts.VouchedBy),
  /** Name of the team that made the account. */
  madeBy: Schema.NullOr(Schema.String),
  createdAt: Schema.DateFromSelf,
  memberships: Schema.Array(
    Schema.Struct({ teamId: TeamIdOut, teamName: Schema.String, role: Role, active: Schema.Boolean })
  )
})
export type Account = typeof AccountRow.Type

const columns = `
  u.id, u.email, u.name, u.created_at, u.vouched_by,
  (SELECT t.name FROM teams t WHERE t.id = u.made_by) AS made_by,
  (SELECT coalesce(json_agg(json_build_object('teamId', t.id, 'teamName', t.name, 'role', m.role, 'active', m.active)
      ORDER BY t.name, t.id), '[]'::json)
    FROM memberships m JOIN teams t ON t.id = m.team_id WHERE m.user_id = u.id) AS memberships
  FROM users u`

/** Address of a removed account: its row stays, since other rows refer to it. */
const removedDomain = "@removed.invalid"

export interface ListQuery {
  readonly search: string
  readonly limit: number
  /** Only accounts that no witness vouched for. */
  readonly unvouched: boolean
}

/** The installation's issuer vouches for the address of an account of before, by an identity with that address. */
const byIssuer = `
  EXISTS (SELECT 1 FROM sign_in_identities i
    WHERE i.user_id = u.id AND i.source = '' AND i.witness = 'address' AND i.suspended_at IS NULL)`

/** Accounts whose e-mail address contains `search`, by address. */
export const list = Effect.fn("Operator.list")(function* (
  { audit, sql }: Needs,
  { limit, search, unvouched }: ListQuery
) {
  yield* audit.record({ actor: "system", action: "member.list", outcome: "allowed", teamId: null })
  const isUnvouched = sql`(u.vouched_by = 'none' OR (u.vouched_by IS NULL AND NOT ${sql.literal(byIssuer)}))`
  return yield* Rows.findAll(
    AccountRow,
    sql`
      SELECT ${sql.literal(columns)}
      WHERE u.email <> u.id::text || ${removedDomain} AND position(lower(${search}) in lower(u.email)) > 0
        AND ${unvouched ? isUnvouched : sql`true`}
      ORDER BY u.email LIMIT ${limit}`
  )
})

/**
 * Finds an account by its id, by its name ("address (by Team)") or by its address, and locks the address. AccountAmbiguous
 * when several have the address and none is vouched for.
 */
export const lookUp = Effect.fnUntraced(function* (
  needs: Pick<Needs, "sql" | "rowSeal">,
  text: string,
  /** A further address to lock. */
  ...also: ReadonlyArray<string>
) {
  const byId = uuidPattern.test(text) ? yield* Accounts.find(needs, UserIdOut.make(text)) : undefined
  const address = addressOf(byId?.email ?? text)
  yield* Accounts.lockAddresses(needs, address, ...also)
  const accounts = yield* Accounts.atAddress(needs, address)
  if (byId !== undefined) return accounts.find(({ id }) => id === byId.id) ?? (yield* new AccountNotFound())
  if (text !== address) return accounts.find(({ email }) => email === text) ?? (yield* new AccountNotFound())
  const account = accounts.find(Accounts.isVouched) ?? accounts[0]
  if (account === undefined) return yield* new AccountNotFound()
  if (accounts.length > 1 && !Accounts.isVouched(account)) return yield* new AccountAmbiguous({ accounts })
  return account
})

/** Locks the account's address, its teams, then its row, in the lock order of membership changes. */
const lock = Effect.fnUntraced(function* (needs: Needs, text: string) {
  const { sql } = needs
  const { id } = yield* lookUp(needs, text)
  yield* Rows.run(sql`
    SELECT t.id FROM teams t JOIN memberships m ON m.team_id = t.id
    WHERE m.user_id = ${id} ORDER BY t.id FOR NO KEY UPDATE OF t`)
  const account = yield* Rows.findOne(
    AccountRow,
    sql`SELECT ${sql.literal(columns)} WHERE u.id = ${id} FOR NO KEY UPDATE OF u`
  )
  return account ?? (yield* new AccountNotFound())
})

const eventBase = (account: Account) =>
  ({
    actor: "system",
    outcome: "allowed",
    target: { type: "user", id: account.id, name: account.email }
  }) as const

const teamsOf = (account: Account) => account.memberships.map(({ teamId }) => ({ id: teamId }))

/** A link for a new password, good for a day. */
export const resetLink = Effect.fn("Operator.resetLink")((needs: Needs, email: string) =>
  Rows.transaction(needs.sql, function* () {
    const account = yield* lock(needs, email)
    const link = yield* NewPassword.createLink(needs, { userId: account.id, createdBy: null })
    yield* needs.audit.append(...inEachTeam(teamsOf(account), { ...eventBase(account), action: "password.reset_link" }))
    return link
  })
)

/** For a person who cannot change the address themselves. The operator vouches for the new one. */
export const changeEmail = Effect.fn("Operator.changeEmail")((needs: Needs, text: string, to: string) =>
  Rows.transaction(needs.sql, function* () {
    const { id } = yield* lookUp(needs, text, to)
    const account = yield* lock(needs, id)
    yield* EmailMove.move(needs, { userId: id, from: account.email, to, vouchedBy: "operator" })
    yield* needs.revocation.sessionsOf(account.id)
    const target = { type: "user", id: account.id, name: to } as const
    yield* needs.audit.append(
      ...inEachTeam(teamsOf(account), { ...eventBase(account), action: "email.change", target })
    )
    return { ...account, email: to }
  })
)

/** The account holds its address from now on. AddressHeld when another vouched account does. */
export const vouch = Effect.fn("Operator.vouch")((needs: Needs, text: string) =>
  Rows.transaction(needs.sql, function* () {
    const account = yield* lock(needs, text)
    const address = addressOf(account.email)
    yield* ProvisionalAccounts.vouch(needs, { id: account.id, address }, "operator", "system")
    return { ...account, email: address, vouchedBy: "operator" } satisfies Account
  })
)

/** For a person without their second factor and its recovery codes. All sessions end. */
export const removeFactor = Effect.fn("Operator.removeFactor")((needs: Needs, email: string) =>
  Rows.transaction(needs.sql, function* () {
    const account = yield* lock(needs, email)
    yield* needs.revocation.sessionsOf(account.id)
    yield* Factors.removeAll(needs, account.id)
    yield* AccountNotices.record(
      needs,
      account.id,
      "factor_removed",
      "every second factor, by the operator of the server"
    )
    yield* needs.audit.append(...inEachTeam(teamsOf(account), { ...eventBase(account), action: "factor.remove" }))
    return account
  })
)

/**
 * Deactivates the person in all teams, as an admin does in one, and signs them out; or activates them again.
 * `evenLastOwner`: also when a team keeps no active owner.
 */
export const setActive = Effect.fn("Operator.setActive")(
  (needs: Needs, email: string, active: boolean, options: { readonly evenLastOwner: boolean }) =>
    Rows.transaction(needs.sql, function* () {
      const { audit, rowSeal, sql } = needs
      const account = yield* lock(needs, email)
      const { id } = account
      const ownerless = active ? [] : yield* teamsWithoutAnotherOwner(needs, id)
      if (ownerless.length > 0 && !options.evenLastOwner) return yield* new LastOwner({ teams: ownerless })
      const now = yield* DateTime.nowAsDate
      const changes = { active, deactivatedAt: active ? null : now, updatedAt: now }
      yield* rowSeal.update("memberships", sql`user_id = ${id} AND active <> ${active}`, () => changes)
      if (!active) {
        yield* WaysIn.end(needs, "operator", { person: id, teamId: null })
      }
      const changed = account.memberships.filter((membership) => membership.active !== active)
      const teams = changed.map(({ teamId }) => ({ id: teamId }))
      yield* audit.append(...inEachTeam(teams, { ...eventBase(account), action: "member.update" }))
      return { ...account, memberships: account.memberships.map((one) => ({ ...one, active })) }
    })
)

const TeamNameRow = Schema.Struct({ name: Schema.String })

const teamsWithoutAnotherOwner = ({ sql }: Needs, userId: UserId) =>
  Effect.map(
    Rows.findAll(
      TeamNameRow,
      sql`
        SELECT t.name FROM memberships m JOIN teams t ON t.id = m.team_id
        WHERE m.user_id = ${userId} AND m.role = 'owner' AND m.active AND NOT EXISTS (
          SELECT 1 FROM memberships o
          WHERE o.team_id = m.team_id AND o.user_id <> m.user_id AND o.role = 'owner' AND o.active)
        ORDER BY t.name LIMIT 100`
    ),
    (rows) => rows.map((row) => row.name)
  )

/** Ends the account's credentials and rights, and frees its address. The row stays for the rows that refer to it. */
const end = Effect.fnUntraced(function* (needs: Needs, account: Account) {
  const { rowSeal, sql } = needs
  const { id } = account
  yield* RowJournal.remove(sql, "memberships", sql`user_id = ${id}`)
  yield* RowJournal.remove(sql, "access_grants", sql`user_id = ${id}`)
  yield* removeApprover({ rowSeal, sql }, id, null)
  const { tokens: revoked } = yield* WaysIn.end(needs, "account_removal", { person: id, teamId: null })
  yield* Factors.removeAll({ rowSeal, sql }, id)
  const values = { email: `${id}${removedDomain}`, passwordHash: "", recovering: false }
  yield* rowSeal.update("users", sql`id = ${id}`, () => values, {
    name: "Removed",
    updated_at: yield* DateTime.nowAsDate
  })
  yield* ProvisionalAccounts.settle(needs, addressOf(account.email))
  return revoked
})

/** `evenLastOwner`: also when a team keeps no active owner. */
export const removeUser = Effect.fn("Operator.removeUser")(
  (needs: Needs, email: string, options: { readonly evenLastOwner: boolean }) =>
    Rows.transaction(needs.sql, function* () {
      const account = yield* lock(needs, email)
      const teams = yield* teamsWithoutAnotherOwner(needs, account.id)
      if (teams.length > 0 && !options.evenLastOwner) return yield* new LastOwner({ teams })
      const revoked = yield* end(needs, account)
      yield* needs.audit.append(
        ...inEachTeam(teamsOf(account), { ...eventBase(account), action: "member.remove" }),
        ...revocationEvents("system", revoked)
      )
      return account
    })
)

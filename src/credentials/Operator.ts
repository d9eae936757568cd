/**
 * Operator's actions on accounts, where no other person can help: an owner forgot the password, another person took an
 * address, or a person lost theirs. The trail of each of the person's teams records the action as the system's.
 */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as Data from "effect/Data"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { TeamIdOut, type UserId, UserIdOut } from "#schema/Ids.ts"
import { Role } from "#schema/Scopes.ts"
import type { Audit } from "#src/trail/Audit.ts"
import * as RowJournal from "#src/rows/RowJournal.ts"
import type { RowSeal } from "#src/rows/RowSeal.ts"
import { removeApprover } from "#src/access/TeamRows.ts"
import type { Crypto } from "#src/crypto/Crypto.ts"
import * as Rows from "#src/database/Rows.ts"
import { inEachTeam } from "./Accounts.ts"
import * as AccountNotices from "./AccountNotices.ts"
import * as EmailMove from "./EmailMove.ts"
import * as Factors from "./Factors.ts"
import * as NewPassword from "./NewPassword.ts"
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

export class AccountNotFound extends Data.TaggedError("AccountNotFound") {}
/** Names of the teams whose last active owner the person is. */
export class LastOwner extends Data.TaggedError("LastOwner")<{ readonly teams: ReadonlyArray<string> }> {}

const AccountRow = Schema.Struct({
  id: UserIdOut,
  email: Schema.String,
  name: Schema.String,
  createdAt: Schema.DateFromSelf,
  memberships: Schema.Array(
    Schema.Struct({ teamId: TeamIdOut, teamName: Schema.String, role: Role, active: Schema.Boolean })
  )
})
export type Account = typeof AccountRow.Type

const columns = `
  u.id, u.email, u.name, u.created_at,
  (SELECT coalesce(json_agg(json_build_object('teamId', t.id, 'teamName', t.name, 'role', m.role, 'active', m.active)
      ORDER BY t.name, t.id), '[]'::json)
    FROM memberships m JOIN teams t ON t.id = m.team_id WHERE m.user_id = u.id) AS memberships
  FROM users u`

/** Address of a removed account: its row stays, since other rows refer to it. */
const removedDomain = "@removed.invalid"

/** Accounts whose e-mail address contains `search`, by address. */
export const list = Effect.fn("Operator.list")(function* (
  { audit, sql }: Needs,
  { limit, search }: { readonly search: string; readonly limit: number }
) {
  yield* audit.record({ actor: "system", action: "member.list", outcome: "allowed", teamId: null })
  return yield* Rows.findAll(
    AccountRow,
    sql`
      SELECT ${sql.literal(columns)}
      WHERE u.email <> u.id::text || ${removedDomain} AND position(lower(${search}) in lower(u.email)) > 0
      ORDER BY u.email LIMIT ${limit}`
  )
})

/** Locks the account's teams, then its row, in the lock order of membership changes. */
const lock = Effect.fnUntraced(function* ({ sql }: Needs, email: string) {
  yield* Rows.run(sql`
    SELECT t.id FROM teams t JOIN memberships m ON m.team_id = t.id JOIN users u ON u.id = m.user_id
    WHERE u.email = ${email} ORDER BY t.id FOR NO KEY UPDATE OF t`)
  const account = yield* Rows.findOne(
    AccountRow,
    sql`SELECT ${sql.literal(columns)} WHERE u.email = ${email} FOR NO KEY UPDATE OF u`
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

/** For a person who cannot change the address themselves: an issuer vouches for it, or they mistyped it. */
export const changeEmail = Effect.fn("Operator.changeEmail")((needs: Needs, email: string, to: string) =>
  Rows.transaction(needs.sql, function* () {
    const account = yield* lock(needs, email)
    yield* EmailMove.move(needs, { userId: account.id, from: email, to })
    yield* needs.revocation.sessionsOf(account.id)
    const target = { type: "user", id: account.id, name: to } as const
    yield* needs.audit.append(
      ...inEachTeam(teamsOf(account), { ...eventBase(account), action: "email.change", target })
    )
    return { ...account, email: to }
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

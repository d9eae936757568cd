/**
 * What the operator of a server may do to accounts, where no other person can: for an owner who forgot the password,
 * and for an address that another person took, or that a person has no more. The trail records it as done by the system, in every team that the
 * person belongs to.
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
import { forgetDevices, inEachTeam } from "./Accounts.ts"
import * as AccountNotices from "./AccountNotices.ts"
import * as EmailMove from "./EmailMove.ts"
import * as Factors from "./Factors.ts"
import * as NewPassword from "./NewPassword.ts"
import { type Revocation, revocationEvents } from "./Revocation.ts"

export interface Needs {
  readonly sql: SqlClient.SqlClient
  readonly crypto: Crypto
  readonly audit: Audit
  readonly revocation: Revocation
  readonly rowSeal: RowSeal
  readonly baseUrl: string
}

export class AccountNotFound extends Data.TaggedError("AccountNotFound") {}
/** The person is the last active owner of these teams. */
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

/** What an account without a person is called: its row stays, since others name it. */
const removedDomain = "@removed.invalid"

/** Accounts whose e-mail address contains `search`, in the order of their addresses. */
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

/** Locked: the account's teams, then its memberships, in the order in which members change. */
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

const about = (account: Account) =>
  ({
    actor: "system",
    outcome: "allowed",
    target: { type: "user", id: account.id, name: account.email }
  }) as const

const teamsOf = (account: Account) => account.memberships.map(({ teamId }) => ({ id: teamId }))

/** A link that sets the person's password, for a day. */
export const resetLink = Effect.fn("Operator.resetLink")((needs: Needs, email: string) =>
  Rows.transaction(needs.sql, function* () {
    const account = yield* lock(needs, email)
    const link = yield* NewPassword.createLink(needs, { userId: account.id, createdBy: null })
    yield* needs.audit.append(...inEachTeam(teamsOf(account), { ...about(account), action: "password.reset_link" }))
    return link
  })
)

/** For a person who has another address, and cannot change it: an issuer vouched for it, or they mistyped it. */
export const changeEmail = Effect.fn("Operator.changeEmail")((needs: Needs, email: string, to: string) =>
  Rows.transaction(needs.sql, function* () {
    const account = yield* lock(needs, email)
    yield* EmailMove.move(needs, { userId: account.id, from: email, to })
    yield* needs.revocation.sessionsOf(account.id)
    const target = { type: "user", id: account.id, name: to } as const
    yield* needs.audit.append(...inEachTeam(teamsOf(account), { ...about(account), action: "email.change", target }))
    return { ...account, email: to }
  })
)

/** For a person who lost the second factor and its recovery codes. Sessions that were opened with it end. */
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
    yield* needs.audit.append(...inEachTeam(teamsOf(account), { ...about(account), action: "factor.remove" }))
    return account
  })
)

/**
 * Deactivated in all teams, as an admin does it in one, and signed out everywhere; or active again in all of them.
 * `evenLastOwner`: also when a team is left without an active owner.
 */
export const setActive = Effect.fn("Operator.setActive")(
  (needs: Needs, email: string, active: boolean, options: { readonly evenLastOwner: boolean }) =>
    Rows.transaction(needs.sql, function* () {
      const { audit, revocation, rowSeal, sql } = needs
      const account = yield* lock(needs, email)
      const { id } = account
      const last = active ? [] : yield* teamsWithoutAnotherOwner(needs, id)
      if (last.length > 0 && !options.evenLastOwner) return yield* new LastOwner({ teams: last })
      const now = yield* DateTime.nowAsDate
      const changes = { active, deactivatedAt: active ? null : now, updatedAt: now }
      yield* rowSeal.update("memberships", sql`user_id = ${id} AND active <> ${active}`, () => changes)
      if (!active) {
        yield* revocation.linksBy(id, null)
        yield* revocation.resetLinksOf(id)
        yield* revocation.sessionsOf(id)
        yield* revocation.grantsOf(id)
      }
      const changed = account.memberships.filter((membership) => membership.active !== active)
      const teams = changed.map(({ teamId }) => ({ id: teamId }))
      yield* audit.append(...inEachTeam(teams, { ...about(account), action: "member.update" }))
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

/** Ends everything that the account gave, and frees its address. The row stays, for what it once made. */
const end = Effect.fnUntraced(function* ({ revocation, rowSeal, sql }: Needs, account: Account) {
  const { id } = account
  yield* RowJournal.remove(sql, "memberships", sql`user_id = ${id}`)
  yield* RowJournal.remove(sql, "access_grants", sql`user_id = ${id}`)
  yield* removeApprover({ rowSeal, sql }, id, null)
  yield* revocation.linksBy(id, null)
  yield* revocation.resetLinksOf(id)
  yield* revocation.sessionsOf(id)
  const revoked = yield* revocation.tokensOf(id, null)
  yield* revocation.grantsOf(id)
  yield* forgetDevices({ sql }, id)
  yield* RowJournal.remove(sql, "sign_in_identities", sql`user_id = ${id}`)
  yield* Factors.removeAll({ rowSeal, sql }, id)
  const gone = { email: `${id}${removedDomain}`, passwordHash: "" }
  yield* rowSeal.update("users", sql`id = ${id}`, () => gone, {
    name: "Removed",
    updated_at: yield* DateTime.nowAsDate
  })
  return revoked
})

/** `evenLastOwner`: also when a team is left without an active owner. */
export const removeUser = Effect.fn("Operator.removeUser")(
  (needs: Needs, email: string, options: { readonly evenLastOwner: boolean }) =>
    Rows.transaction(needs.sql, function* () {
      const account = yield* lock(needs, email)
      const teams = yield* teamsWithoutAnotherOwner(needs, account.id)
      if (teams.length > 0 && !options.evenLastOwner) return yield* new LastOwner({ teams })
      const revoked = yield* end(needs, account)
      yield* needs.audit.append(
        ...inEachTeam(teamsOf(account), { ...about(account), action: "member.remove" }),
        ...revocationEvents("system", revoked)
      )
      return account
    })
)

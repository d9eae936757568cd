/**
 * Identities at issuers, linked to accounts by `iss` and `sub` only. An e-mail address never links an account: its
 * person does, in a session.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { type Caller, CurrentCaller } from "#schema/Caller.ts"
import { Forbidden, GrantNotFound, NameTaken, ValidationFailed } from "#schema/Errors.ts"
import { type TeamId, TeamIdOut, type UserId, UserIdOut } from "#schema/Ids.ts"
import { addressOf, Email } from "#schema/Values.ts"
import type { MySignIn } from "#schema/SignInApi.ts"
import { Audit } from "#src/trail/Audit.ts"
import * as RowJournal from "#src/rows/RowJournal.ts"
import * as TeamRows from "#src/access/TeamRows.ts"
import { RowSeal } from "#src/rows/RowSeal.ts"
import * as AccountNotices from "#src/credentials/AccountNotices.ts"
import * as Accounts from "#src/credentials/Accounts.ts"
import * as ProvisionalAccounts from "#src/credentials/ProvisionalAccounts.ts"
import { Witness } from "#src/credentials/IdentityState.ts"
import { accountOf, checkRecent } from "#src/credentials/FactorChanges.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { methods } from "#src/Methods.ts"
import * as Rows from "#src/database/Rows.ts"
import { SignInIssuers } from "./IssuerRows.ts"
import type { Claims, Issuer } from "./Protocol.ts"

const services = Effect.all({
  sql: SqlClient.SqlClient,
  crypto: Crypto,
  audit: Audit,
  rowSeal: RowSeal,
  issuers: SignInIssuers
})
export type Needs = Effect.Effect.Success<typeof services>
type RowNeeds = Pick<Needs, "sql" | "crypto" | "rowSeal">

/** An abuse limit; a list shows all. */
const identitiesPerPerson = 50

const IdentityRow = Schema.Struct({
  id: Schema.String,
  source: Schema.String,
  issuer: Schema.String,
  subject: Schema.String,
  userId: UserIdOut,
  createdAt: Rows.Iso,
  lastUsedAt: Schema.NullOr(Rows.Iso),
  suspendedAt: Schema.NullOr(Schema.DateFromSelf),
  closedTeams: Schema.NullOr(Schema.Array(TeamIdOut)),
  confirmedTeams: Schema.NullOr(Schema.Array(TeamIdOut)),
  witness: Schema.NullOr(Witness),
  mac: Schema.NullOr(Schema.Uint8ArrayFromSelf)
})
export type IdentityRow = typeof IdentityRow.Type
const columns = (sql: SqlClient.SqlClient) =>
  sql.literal(
    "id, source, issuer, subject, user_id, created_at, last_used_at, suspended_at, closed_teams, confirmed_teams, witness, mac"
  )

/** Source of an identity: each team's issuer has its own, the server's issuers share one. */
const sourceOf = ({ key, teamId }: Issuer): string => (teamId === null ? "" : key)

/** The identity, or undefined when none exists or the MAC of its row fails. */
export const find = Effect.fnUntraced(function* (
  { rowSeal, sql }: Pick<Needs, "rowSeal" | "sql">,
  issuer: Issuer,
  { iss, sub }: Claims
) {
  const macs = yield* rowSeal.ready
  const row = yield* Rows.findOne(
    IdentityRow,
    sql`
      SELECT ${columns(sql)} FROM sign_in_identities
      WHERE source = ${sourceOf(issuer)} AND issuer = ${iss} AND subject = ${sub}`
  )
  return row !== undefined && macs.isAuthentic("sign_in_identities", row) ? row : undefined
})

const decodeEmail = Schema.decodeUnknownOption(Email)

/** The address, if the issuer states that it verified it, or the operator trusts the issuer's addresses. */
export const verifiedEmail = (issuer: Issuer, claims: Claims): string | undefined =>
  claims["email_verified"] === true || (issuer.trustsEmail && claims["email_verified"] === undefined)
    ? Option.getOrUndefined(decodeEmail(claims["email"]))
    : undefined

/** Names of the claims for `verifiedEmail`. */
export const emailClaims = ["email", "email_verified"] as const

/** Address that the issuer states, verified or not, for the owner who confirms the identity. */
const statedAddress = (claim: unknown): string | null =>
  typeof claim === "string" && /^[^\p{Cc}\p{Cs}]{1,254}$/u.test(claim) ? claim : null

const witnessOf = (caller: Caller, account: Accounts.AccountRow, issuer: Issuer, claims: Claims): Witness =>
  verifiedEmail(issuer, claims) === addressOf(account.email)
    ? "address"
    : caller.issuer === issuer.key && caller.confirmedTeams === null
      ? "session"
      : "none"

/**
 * Part of the caller's transaction. Returns whether the identity is new. `closedTeams`: teams that the session that links
 * it does not open.
 */
export const insert = Effect.fnUntraced(function* (
  { crypto, rowSeal, sql }: RowNeeds,
  issuer: Issuer,
  { email, iss, sub }: Claims,
  userId: UserId,
  { closedTeams, witness }: { readonly closedTeams: ReadonlyArray<TeamId> | null; readonly witness: Witness }
) {
  const state = { suspendedAt: null, closedTeams, confirmedTeams: null, witness }
  const row = yield* rowSeal.values(
    "sign_in_identities",
    { id: yield* crypto.uuid, source: sourceOf(issuer), issuer: iss, subject: sub, userId, ...state },
    { created_at: yield* DateTime.nowAsDate, address: statedAddress(email) }
  )
  return yield* Rows.exists(sql`
    INSERT INTO sign_in_identities ${row} ON CONFLICT (source, issuer, subject) DO NOTHING RETURNING id`)
})

/** Part of the caller's transaction: a verified address that is the account's witnesses an identity that had none. */
export const recordUse = Effect.fnUntraced(function* (
  { rowSeal, sql }: Pick<Needs, "rowSeal" | "sql">,
  { id, witness }: IdentityRow,
  { claims, isAccounts, now }: { readonly claims: Claims; readonly isAccounts: boolean; readonly now: Date }
) {
  const address = statedAddress(claims["email"])
  yield* Rows.run(sql`UPDATE sign_in_identities SET last_used_at = ${now}, address = ${address} WHERE id = ${id}`)
  if (isAccounts && (witness === null || witness === "none")) {
    yield* rowSeal.update("sign_in_identities", sql`id = ${id}`, () => ({ witness: "address" }))
  }
})

/** Whether the installation's issuer witnesses the address of this provisional account. */
export const witnesses = (
  issuer: Issuer,
  claims: Claims,
  { email, vouchedBy }: Pick<Accounts.AccountRow, "email" | "vouchedBy">
): boolean => vouchedBy === "none" && issuer.teamId === null && verifiedEmail(issuer, claims) === addressOf(email)

/**
 * Part of the caller's transaction, whose first lock it takes: the installation's issuer vouches for the address of a
 * provisional account that its identity opens.
 */
export const vouch = Effect.fnUntraced(function* (
  needs: Pick<Needs, "sql" | "rowSeal" | "audit">,
  issuer: Issuer,
  claims: Claims,
  account: Accounts.AccountRow
) {
  if (!witnesses(issuer, claims, account)) return
  // Another account that a witness vouches for keeps the address.
  const address = addressOf(account.email)
  const work = ProvisionalAccounts.vouch(needs, { id: account.id, address }, "issuer", "system")
  yield* Effect.catchTag(work, "AddressHeld", () => Effect.void)
})

/** Checks that the caller may link another identity now; STEP_UP_REQUIRED without a recent proof. */
export const checkMayLink = Effect.fnUntraced(function* (
  needs: Pick<Needs, "rowSeal" | "sql">,
  caller: Caller,
  issuer: Issuer
) {
  yield* checkRecent(caller)
  const account = yield* accountOf(needs, caller)
  yield* TeamRows.checkReach(caller, issuer.teamId)
  if (issuer.teamId !== null && !account.memberships.some(({ active, id }) => active && id === issuer.teamId)) {
    return yield* new Forbidden()
  }
  return account
})

const targetOf = (id: string, issuer: string) => ({ type: "sign_in_identity", id, name: issuer })

/** Links the identity to the caller's account; one of another account stays there. */
export const link = Effect.fnUntraced(function* (
  needs: Pick<Needs, "sql" | "crypto" | "audit" | "rowSeal">,
  caller: Caller,
  issuer: Issuer,
  claims: Claims
) {
  const { audit, sql } = needs
  const account = yield* checkMayLink(needs, caller, issuer)
  yield* Rows.transaction(sql, function* () {
    yield* vouch(needs, issuer, claims, account)
    yield* Rows.run(sql`SELECT id FROM users WHERE id = ${account.id} FOR NO KEY UPDATE`)
    if (yield* Accounts.hasEnded(needs, caller.credentialId)) return yield* new Forbidden()
    const n = yield* Rows.count(sql`SELECT count(*) AS n FROM sign_in_identities WHERE user_id = ${account.id}`)
    if (n >= identitiesPerPerson) return yield* new Forbidden({ message: "The account has too many sign-ins." })
    const before = yield* find(needs, issuer, claims)
    // One of the account's own that is out of use is linked anew, as any other.
    if (before !== undefined && before.suspendedAt !== null && before.userId === account.id) {
      yield* RowJournal.remove(sql, "sign_in_identities", sql`id = ${before.id}`)
    }
    const witness = witnessOf(caller, account, issuer, claims)
    const isNew = yield* insert(needs, issuer, claims, account.id, { closedTeams: caller.closedTeams, witness })
    const row = yield* find(needs, issuer, claims)
    if (row?.userId !== account.id) {
      return yield* new NameTaken({ message: "This sign-in belongs to another account." })
    }
    if (!isNew) return
    // Notified, since a thief of the password could add a lasting sign-in.
    yield* AccountNotices.record(needs, account.id, "sign_in_linked", issuer.name)
    const event = { actor: caller, action: "identity.link", outcome: "allowed" } as const
    yield* audit.append(...Accounts.inEachTeam(account.memberships, { ...event, target: targetOf(row.id, claims.iss) }))
  })
})

/** Identities in use. */
const ownRows = Effect.fnUntraced(function* ({ rowSeal, sql }: Pick<Needs, "rowSeal" | "sql">, userId: UserId) {
  const macs = yield* rowSeal.ready
  const rows = yield* Rows.findAll(
    IdentityRow,
    sql`
      SELECT ${columns(sql)} FROM sign_in_identities WHERE user_id = ${userId}
      ORDER BY id LIMIT ${identitiesPerPerson}`
  )
  return rows.filter((row) => macs.isAuthentic("sign_in_identities", row) && row.suspendedAt === null)
})

/** Tests whether the person has an identity of an issuer. */
export const linkedSources = (needs: Pick<Needs, "rowSeal" | "sql">, userId: UserId) =>
  Effect.map(
    ownRows(needs, userId),
    (rows) =>
      (issuer: Issuer): boolean =>
        rows.some((row) => row.source === sourceOf(issuer) && new URL(row.issuer).href === new URL(issuer.issuer).href)
  )

const recordOf =
  (nameOf: (row: IdentityRow) => string) =>
  (row: IdentityRow): MySignIn => ({
    id: row.id,
    name: nameOf(row),
    issuer: row.issuer,
    subject: row.subject,
    createdAt: row.createdAt,
    lastUsedAt: row.lastUsedAt
  })

/** Identities of the caller. */
const list = Effect.fn("Identities.list")(function* (needs: Needs) {
  const { user } = yield* CurrentCaller
  if (user === null) return yield* new Forbidden()
  const rows = yield* ownRows(needs, user.id)
  const names = new Map<string, string>()
  for (const { source } of rows) {
    const issuer = source === "" ? undefined : yield* needs.issuers.find(source)
    if (issuer !== undefined) names.set(source, issuer.name)
  }
  const ofInstallation = new Map(needs.issuers.needs.installation.map((one) => [new URL(one.issuer).href, one.name]))
  const nameOf = ({ issuer, source }: IdentityRow) =>
    (source === "" ? ofInstallation.get(new URL(issuer).href) : names.get(source)) ?? issuer
  return rows.map(recordOf(nameOf))
})

/** Removes an identity and ends its sessions. The only sign-in of an account stays. */
const remove = Effect.fn("Identities.remove")(function* (needs: Needs, id: string) {
  const { audit, sql } = needs
  const caller = yield* CurrentCaller
  yield* checkRecent(caller)
  const account = yield* accountOf(needs, caller)
  yield* Rows.transaction(sql, function* () {
    yield* Rows.run(sql`SELECT id FROM users WHERE id = ${account.id} FOR NO KEY UPDATE`)
    const rows = yield* ownRows(needs, account.id)
    const row = rows.find((one) => one.id === id)
    if (row === undefined) return yield* new GrantNotFound({ message: "No such sign-in." })
    if (rows.length === 1 && account.passwordHash === "") {
      return yield* new ValidationFailed({ message: "It is the only way into this account. Set a password first." })
    }
    yield* RowJournal.remove(sql, "sign_in_identities", sql`id = ${id}`)
    yield* Accounts.endSessions(
      { sql },
      sql`user_id = ${account.id} AND issuer IS NOT NULL AND issuer_subject = ${row.subject}
        AND id <> ${caller.credentialId}`
    )
    const event = { actor: caller, action: "identity.unlink", outcome: "allowed" } as const
    yield* audit.append(...Accounts.inEachTeam(account.memberships, { ...event, target: targetOf(id, row.issuer) }))
  })
})

export class Identities extends Effect.Service<Identities>()("openid/Identities", {
  effect: Effect.map(services, (needs) => methods(needs, { list, remove }))
}) {}

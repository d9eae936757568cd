/**
 * A new password, set with the current one or with a reset link that opens the whole account. A person with the old
 * password or an open session may have made credentials with it. `WaysIn.ts` says which of them end, on every process,
 * with the next request.
 */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type { Caller } from "#schema/Caller.ts"
import { CredentialExpired, CredentialInvalid, CredentialRevoked, SignInFailed } from "#schema/Errors.ts"
import { TeamIdOut, type UserId, UserIdOut } from "#schema/Ids.ts"
import { addressOf } from "#schema/Values.ts"
import type { ChangePassword, ResetPassword } from "#schema/SessionApi.ts"
import type { Audit } from "#src/trail/Audit.ts"
import { RequestInfo } from "#src/database/RequestInfo.ts"
import * as RowJournal from "#src/rows/RowJournal.ts"
import type { RowSeal } from "#src/rows/RowSeal.ts"
import type { Crypto } from "#src/crypto/Crypto.ts"
import { days } from "#src/Days.ts"
import { addressBucket } from "#src/limits/AddressBucket.ts"
import * as Attempts from "#src/limits/Attempts.ts"
import { type RateLimiter, signInPolicy } from "#src/limits/RateLimiter.ts"
import * as Rows from "#src/database/Rows.ts"
import * as AccountNotices from "./AccountNotices.ts"
import * as Accounts from "./Accounts.ts"
import type { Passwords } from "./Passwords.ts"
import * as ProvisionalAccounts from "./ProvisionalAccounts.ts"
import { type Revocation, revocationEvents } from "./Revocation.ts"
import * as Recovery from "./RecoveryRows.ts"
import * as TokenText from "./TokenText.ts"
import * as WaysIn from "./WaysIn.ts"

interface Needs {
  readonly sql: SqlClient.SqlClient
  readonly crypto: Crypto
  readonly passwords: Passwords
  readonly limiter: RateLimiter
  readonly audit: Audit
  readonly revocation: Revocation
  readonly rowSeal: RowSeal
}

/**
 * Part of the caller's transaction: sets the hash and ends what the way out ends. Undefined: the password is no longer
 * `expected`. After a reset link the person chooses first which authenticators and identities come back.
 */
const setPassword = Effect.fnUntraced(function* (
  needs: Needs,
  wayOut: "password_change" | "reset_link",
  userId: UserId,
  phc: string,
  expected: string | null
) {
  const { revocation, rowSeal, sql } = needs
  const now = yield* DateTime.nowAsDate
  // Links come before the account in the order of locks.
  yield* revocation.linksBy(userId, null)
  yield* revocation.resetLinksOf(userId)
  const recovers = wayOut === "reset_link" && (yield* Recovery.hasAny({ sql }, userId))
  const changed = yield* rowSeal.update(
    "users",
    sql`id = ${userId} AND (${expected}::text IS NULL OR password_hash = ${expected})`,
    (before) => ({ passwordHash: phc, recovering: wayOut === "reset_link" ? recovers : before.recovering }),
    { updated_at: now }
  )
  if (changed === 0) return undefined
  return yield* WaysIn.end(needs, wayOut, { person: userId, teamId: null })
})

/**
 * Hash of a new password for the account, which no other provisional account of its address has. It is not compared with
 * the password of a vouched account: the refusal would tell a stranger's account what that password is. The sign-in
 * tries the vouched account first. Constant work: one computation, and one comparison with all the others.
 */
const hashOfNew = Effect.fnUntraced(function* (
  needs: Needs,
  { email, id }: Pick<Accounts.AccountRow, "id" | "email">,
  password: Redacted.Redacted
) {
  const address = addressOf(email)
  const accounts = yield* Accounts.atAddress(needs, address)
  // Nobody else of the address uses up the tries of the account that a witness vouched for.
  const holder = accounts.find((one) => one.id === id && Accounts.isVouched(one))
  yield* holder === undefined
    ? ProvisionalAccounts.limitComparisons(needs.limiter, address)
    : needs.limiter.take(`new-password:account:${id}`, signInPolicy)
  const others = accounts.filter((one) => one.id !== id)
  const passwordHash = yield* needs.passwords.hash(
    password,
    "newPassword",
    others.find((one) => one.passwordHash !== "")?.passwordHash
  )
  const compared = others.filter((one) => !Accounts.isVouched(one)).map((one) => one.passwordHash)
  const { index } = yield* needs.passwords.find(compared, password)
  return index === undefined ? passwordHash : yield* ProvisionalAccounts.refusedPassword("newPassword")
})

const wrongPassword = (field: string) => new SignInFailed({ field, message: "The current password is wrong." })

/**
 * Attempts count per session, and per person and address. Neither wrong passwords at the sign-in nor a thief with a
 * stolen session block a change from another session.
 */
export const verifyCurrent = Effect.fnUntraced(function* (
  { limiter, passwords }: Pick<Needs, "limiter" | "passwords">,
  caller: Caller,
  account: Accounts.AccountRow,
  current: Redacted.Redacted,
  field: string
) {
  const { ip } = yield* RequestInfo
  const buckets = [
    `password-change:session:${caller.credentialId}`,
    `password-change:${account.id}:${addressBucket(ip)}`
  ]
  return yield* Attempts.attempt(
    limiter,
    { buckets, policy: signInPolicy },
    Effect.filterOrFail(
      passwords.verify(account.passwordHash, current),
      ({ matches }) => matches,
      () => wrongPassword(field)
    ),
    Predicate.isTagged(SignInFailed.code)
  )
})

/** Returns the session that replaces the caller's, and what ended. */
export const changePassword = Effect.fn("Sessions.changePassword")(function* (
  needs: Needs,
  caller: Caller,
  input: ChangePassword
) {
  const { audit, sql } = needs
  const account = caller.user === null ? undefined : yield* Accounts.find(needs, caller.user.id)
  if (account === undefined) return yield* new SignInFailed()
  const verified = verifyCurrent(needs, caller, account, input.currentPassword, "currentPassword")
  yield* Effect.tapErrorTag(verified, SignInFailed.code, (error) =>
    audit.record(
      ...Accounts.inEachTeam(account.memberships, {
        actor: caller,
        action: "password.change",
        outcome: "denied",
        reason: error._tag
      })
    )
  )
  const phc = yield* hashOfNew(needs, account, input.newPassword)
  return yield* Rows.transaction(sql, function* () {
    const activeTeam = yield* Accounts.activeTeamOf(needs, caller.credentialId)
    const revoked = yield* setPassword(needs, "password_change", account.id, phc, account.passwordHash)
    // Another change came first, so the checked password is no longer current.
    if (revoked === undefined) return yield* new SignInFailed()
    const session = yield* Accounts.openSession(needs, account.id, activeTeam, {
      proof: Accounts.proofOf(caller),
      by: yield* Accounts.sourceOf(needs, caller)
    })
    yield* audit.append(
      ...Accounts.inEachTeam(account.memberships, { actor: caller, action: "password.change", outcome: "allowed" }),
      ...revocationEvents(caller, revoked.tokens)
    )
    return { session, ended: revoked.ways }
  })
})

/** Short, since the link opens an account. */
const linkLife = days(1)

/** Part of the caller's transaction; earlier links of the person stop working. `createdBy`: null for the operator. */
export const createLink = Effect.fnUntraced(function* (
  needs: Pick<Needs, "sql" | "crypto" | "revocation" | "rowSeal"> & { readonly baseUrl: string },
  link: { readonly userId: UserId; readonly createdBy: UserId | null }
) {
  const { baseUrl, crypto, revocation, rowSeal, sql } = needs
  const now = yield* DateTime.nowAsDate
  const expiresAt = new Date(now.getTime() + linkLife)
  const { proof, text } = yield* TokenText.issue(needs, "pr")
  yield* revocation.resetLinksOf(link.userId)
  const { hash, lookupId, salt } = proof
  const row = yield* rowSeal.values(
    "password_resets",
    { id: yield* crypto.uuid, lookupId, hash, ...link, expiresAt },
    { salt, created_at: now }
  )
  yield* Rows.run(sql`INSERT INTO password_resets ${row}`)
  return { url: Redacted.make(`${baseUrl}/reset?code=${Redacted.value(text)}`), expiresAt }
})

const ResetRow = Schema.Struct({
  id: Schema.String,
  lookupId: Schema.String,
  mac: Schema.NullOr(Schema.Uint8ArrayFromSelf),
  ...TokenText.ProofRow.fields,
  userId: UserIdOut,
  /** Null: the operator made the link. */
  createdBy: Schema.NullOr(UserIdOut),
  email: Schema.String,
  expiresAt: Schema.DateFromSelf,
  usedAt: Schema.NullOr(Schema.DateFromSelf),
  teams: Schema.Array(Schema.Struct({ id: TeamIdOut }))
})

const openReset = Effect.fnUntraced(function* (needs: Needs, code: Redacted.Redacted) {
  const reset = yield* TokenText.prove(needs, "pr", code, (id) =>
    Rows.findOne(
      ResetRow,
      needs.sql`
      SELECT r.id, r.lookup_id, r.mac, r.salt, r.hash, r.user_id, r.created_by, u.email, r.expires_at, r.used_at,
        (SELECT coalesce(json_agg(json_build_object('id', m.team_id) ORDER BY m.team_id), '[]'::json)
          FROM memberships m WHERE m.user_id = r.user_id) AS teams
      FROM password_resets r JOIN users u ON u.id = r.user_id WHERE r.lookup_id = ${id}`
    )
  )
  if (reset === undefined) return yield* new CredentialInvalid()
  if (reset.usedAt !== null) return yield* new CredentialRevoked()
  if (!(yield* needs.rowSeal.ready).isAuthentic("password_resets", reset)) return yield* new CredentialInvalid()
  if (reset.expiresAt.getTime() <= (yield* Clock.currentTimeMillis)) return yield* new CredentialExpired()
  return reset
})

export const resetPassword = Effect.fn("Sessions.resetPassword")(function* (needs: Needs, input: ResetPassword) {
  const { audit, revocation, sql } = needs
  const reset = yield* openReset(needs, input.code)
  const phc = yield* hashOfNew(needs, { id: reset.userId, email: reset.email }, input.newPassword)
  return yield* Rows.transaction(sql, function* () {
    const now = yield* DateTime.nowAsDate
    const used = yield* Rows.exists(
      RowJournal.noteEnds(sql, "password_resets")`
          UPDATE password_resets SET used_at = ${now}, mac = '' WHERE id = ${reset.id} AND used_at IS NULL RETURNING id`
    )
    if (!used) return yield* new CredentialRevoked()
    // The person may have gained a role or a team since: a link made for a member must open no owner.
    if (reset.createdBy !== null && !(yield* revocation.manages(reset.createdBy, reset.userId))) {
      return yield* new CredentialRevoked()
    }
    const revoked = yield* setPassword(needs, "reset_link", reset.userId, phc, null)
    if (revoked === undefined) return yield* new CredentialRevoked()
    yield* AccountNotices.record(needs, reset.userId, "password_reset")
    const actor = { userId: reset.userId, email: reset.email }
    yield* audit.append(
      ...Accounts.inEachTeam(reset.teams, { actor, action: "password.reset", outcome: "allowed" }),
      ...revocationEvents(actor, revoked.tokens)
    )
    return { ended: revoked.ways }
  })
})

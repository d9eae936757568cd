/**
 * A person's second factor: adding, removing, and proving it again. Every change needs a recent proof that the person is
 * there, is in the trail, and ends the person's other sessions.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import * as Redacted from "effect/Redacted"
import type { Caller } from "#schema/Caller.ts"
import { Forbidden, SecondFactorFailed, SignInFailed, StepUpRequired, ValidationFailed } from "#schema/Errors.ts"
import type { UserId } from "#schema/Ids.ts"
import { Audit, type AuditEvent } from "#src/access/Audit.ts"
import * as Policy from "#src/access/Policy.ts"
import { RowSeal } from "#src/access/RowSeal.ts"
import { AppConfig } from "#src/AppConfig.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import * as Envelope from "#src/crypto/Envelope.ts"
import { ServiceKeys } from "#src/crypto/ServiceKeys.ts"
import { RateLimiter } from "#src/limits/RateLimiter.ts"
import { methods } from "#src/Methods.ts"
import * as Rows from "#src/Rows.ts"
import * as Accounts from "./Accounts.ts"
import * as Factors from "./Factors.ts"
import { verifyCurrent } from "./NewPassword.ts"
import { Passwords } from "./Passwords.ts"
import * as RecoveryCodes from "./RecoveryCodes.ts"
import { Revocation } from "./Revocation.ts"
import type { PresentedCookies } from "./Sessions.ts"
import * as SignInSteps from "./SignInSteps.ts"
import * as Totp from "./Totp.ts"

const services = Effect.all({
  sql: SqlClient.SqlClient,
  crypto: Crypto,
  keys: ServiceKeys,
  passwords: Passwords,
  limiter: RateLimiter,
  audit: Audit,
  revocation: Revocation,
  rowSeal: RowSeal,
  issuer: Effect.map(AppConfig, ({ baseUrl }) => `Ampoule ${new URL(baseUrl).hostname}`)
})
type Needs = Effect.Effect.Success<typeof services>

const accountOf = Effect.fnUntraced(function* (needs: Needs, caller: Caller) {
  const account = caller.user === null ? undefined : yield* Accounts.find(needs, "id", caller.user.id)
  return account ?? (yield* new Forbidden())
})

/** STEP_UP_REQUIRED unless the person signed in, or proved the factor again, a short time ago. */
const checkRecent = Effect.fnUntraced(function* (caller: Caller) {
  if (!Policy.hasRecentProof(caller, yield* Clock.currentTimeMillis)) return yield* new StepUpRequired()
})

/** What the page of a person's sign-in shows. */
const status = Effect.fn("SecondFactor.status")(function* (needs: Needs, caller: Caller) {
  const account = yield* accountOf(needs, caller)
  const app = yield* Factors.totpOf(needs, account.id, true)
  return {
    isOn: account.secondFactor,
    app: app === undefined ? null : { createdAt: app.createdAt, lastUsedAt: app.lastUsedAt },
    codesLeft: yield* RecoveryCodes.left(needs, account.id)
  }
})

/** Makes a secret for an app. It counts for nothing until a code of it was typed. */
const beginApp = Effect.fn("SecondFactor.beginApp")(function* (needs: Needs, caller: Caller) {
  const { crypto, issuer, rowSeal, sql } = needs
  yield* checkRecent(caller)
  const { email, id: userId } = yield* accountOf(needs, caller)
  const key = yield* Factors.keyOf(needs)
  const secret = yield* crypto.randomBytes(Totp.secretLength)
  const id = yield* crypto.uuid
  const sealed = Factors.seal(key, { id, userId }, secret, yield* crypto.randomBytes(Envelope.saltLength))
  const row = yield* rowSeal.values(
    "totp_factors",
    { id, userId, sealed, confirmed: false, usedStep: 0 },
    { created_at: yield* DateTime.nowAsDate }
  )
  yield* Rows.transaction(sql, function* () {
    yield* Rows.run(sql`SELECT id FROM users WHERE id = ${userId} FOR NO KEY UPDATE`)
    yield* Rows.run(sql`DELETE FROM totp_factors WHERE user_id = ${userId} AND NOT confirmed`)
    yield* Rows.run(sql`INSERT INTO totp_factors ${row}`)
  })
  const made = { text: Redacted.make(Totp.base32Of(secret)), uri: Redacted.make(Totp.uriOf(secret, email, issuer)) }
  secret.fill(0)
  return made
})

/** The same again, for the page that is shown once more. Undefined: there is none that waits. */
const waitingApp = Effect.fn("SecondFactor.waitingApp")(function* (needs: Needs, caller: Caller) {
  yield* checkRecent(caller)
  const { email, id } = yield* accountOf(needs, caller)
  const row = yield* Factors.totpOf(needs, id, false)
  if (row === undefined) return undefined
  const secret = yield* Factors.open(yield* Factors.keyOf(needs), row)
  return {
    text: Redacted.make(Totp.base32Of(secret)),
    uri: Redacted.make(Totp.uriOf(secret, email, needs.issuer))
  }
})

const eventOf = (caller: Caller, action: AuditEvent["action"], name: string): Omit<AuditEvent, "teamId"> => ({
  actor: caller,
  action,
  outcome: "allowed",
  target: { type: "second_factor", id: name, name }
})

/** Locked to the end: a change of the password or of a factor comes before this, or after and sees it. */
const lockAccount = Effect.fnUntraced(function* (needs: Needs, caller: Caller, userId: UserId) {
  yield* Rows.run(needs.sql`SELECT id FROM users WHERE id = ${userId} FOR NO KEY UPDATE`)
  if (yield* Accounts.hasEnded(needs, caller.credentialId)) return yield* new Forbidden()
})

/**
 * Part of the caller's transaction: all sessions end, and who is here gets a new one. `factorAt` is that of the person
 * from now on; none when the last factor went.
 */
const startAgain = Effect.fnUntraced(function* (
  needs: Needs,
  caller: Caller,
  account: Accounts.AccountRow,
  { factorAt, known }: { readonly factorAt: Date | null; readonly known: Accounts.KnownDevice | null }
) {
  const activeTeam = yield* Accounts.activeTeamOf(needs, caller.credentialId)
  yield* SignInSteps.endOf(needs, account.id)
  yield* needs.revocation.sessionsOf(account.id)
  return yield* Accounts.openSession(needs, account.id, activeTeam, { factorAt, known })
})

/** Turns the factor on with its first code. Answers recovery codes when the person had no factor before. */
const confirmApp = Effect.fn("SecondFactor.confirmApp")(function* (
  needs: Needs,
  caller: Caller,
  code: Redacted.Redacted,
  presented: PresentedCookies
) {
  const { audit, rowSeal, sql } = needs
  yield* checkRecent(caller)
  const account = yield* accountOf(needs, caller)
  const key = yield* Factors.keyOf(needs)
  const known = yield* Accounts.findDevice(needs, presented.device, account.email)
  const work = Rows.transaction(sql, function* () {
    yield* lockAccount(needs, caller, account.id)
    const row = yield* Factors.totpOf(needs, account.id, false)
    if (row === undefined)
      return yield* new ValidationFailed({ field: "code", message: "Start again with a new secret." })
    const step = yield* Factors.stepOf(key, row, code)
    if (step === undefined) return yield* new SecondFactorFailed()
    const now = yield* DateTime.nowAsDate
    yield* Rows.run(sql`DELETE FROM totp_factors WHERE user_id = ${account.id} AND confirmed`)
    yield* rowSeal.update("totp_factors", sql`id = ${row.id}`, () => ({ confirmed: true, usedStep: step }), {
      last_used_at: now
    })
    const codes = account.secondFactor ? [] : yield* RecoveryCodes.renew(needs, account.id)
    yield* rowSeal.update("users", sql`id = ${account.id}`, () => ({ secondFactor: true }))
    const session = yield* startAgain(needs, caller, account, { factorAt: now, known })
    yield* audit.append(...Accounts.inEachTeam(account.memberships, eventOf(caller, "factor.add", "authenticator app")))
    return { session, codes }
  })
  return yield* Factors.attempt(needs, account.id, { device: null, session: caller.credentialId }, code, work)
})

/** The last factor takes the recovery codes with it. */
const removeApp = Effect.fn("SecondFactor.removeApp")(function* (
  needs: Needs,
  caller: Caller,
  presented: PresentedCookies
) {
  const { audit, sql } = needs
  yield* checkRecent(caller)
  const account = yield* accountOf(needs, caller)
  const known = yield* Accounts.findDevice(needs, presented.device, account.email)
  return yield* Rows.transaction(sql, function* () {
    yield* lockAccount(needs, caller, account.id)
    yield* Factors.removeAll(needs, account.id)
    const session = yield* startAgain(needs, caller, account, { factorAt: null, known })
    const event = eventOf(caller, "factor.remove", "authenticator app")
    yield* audit.append(...Accounts.inEachTeam(account.memberships, event))
    return session
  })
})

/** Ten new recovery codes; the earlier ones are good for nothing any more. */
const renewCodes = Effect.fn("SecondFactor.renewCodes")(function* (needs: Needs, caller: Caller) {
  yield* checkRecent(caller)
  const account = yield* accountOf(needs, caller)
  if (!account.secondFactor) return yield* new Forbidden()
  return yield* Rows.transaction(needs.sql, function* () {
    yield* lockAccount(needs, caller, account.id)
    const codes = yield* RecoveryCodes.renew(needs, account.id)
    const event = eventOf(caller, "factor.recovery_codes", "recovery codes")
    yield* needs.audit.append(...Accounts.inEachTeam(account.memberships, event))
    return codes
  })
})

/** What a person shows again: a code where they have a second factor, else the password. */
type Proof = { readonly code: Redacted.Redacted } | { readonly password: Redacted.Redacted }

const proveBy = (needs: Needs, caller: Caller, account: Accounts.AccountRow, proof: Proof) =>
  Effect.gen(function* () {
    if (account.secondFactor !== "code" in proof) return yield* new SecondFactorFailed()
    if ("password" in proof) {
      yield* verifyCurrent(needs, caller, account, proof.password, "password")
      return { from: undefined, use: Effect.succeed(null) }
    }
    const key = yield* Factors.keyOf(needs)
    const use = Effect.zipRight(Factors.use(needs, key, account.id, proof.code), DateTime.nowAsDate)
    return { from: proof.code, use }
  })

/**
 * The person is there again. The session that proves it is a new one, so that whoever has the text of the one before has
 * nothing of it.
 */
const confirm = Effect.fn("SecondFactor.confirm")(function* (
  needs: Needs,
  caller: Caller,
  proof: Proof,
  presented: PresentedCookies
) {
  const { audit, sql } = needs
  const account = yield* accountOf(needs, caller)
  const known = yield* Accounts.findDevice(needs, presented.device, account.email)
  const work = Effect.flatMap(proveBy(needs, caller, account, proof), ({ from, use }) => {
    const open = Rows.transaction(sql, function* () {
      yield* lockAccount(needs, caller, account.id)
      const factorAt = yield* use
      const activeTeam = yield* Accounts.activeTeamOf(needs, caller.credentialId)
      yield* Accounts.endSessions(needs, sql`id = ${caller.credentialId}`)
      const session = yield* Accounts.openSession(needs, account.id, activeTeam, { factorAt, known })
      yield* audit.append(
        ...Accounts.inEachTeam(caller.teams, { actor: caller, action: "factor.confirm", outcome: "allowed" })
      )
      return session
    })
    const own = { device: null, session: caller.credentialId }
    return from === undefined ? open : Factors.attempt(needs, account.id, own, from, open)
  })
  const isWrong = Predicate.or(Predicate.isTagged(SecondFactorFailed.code), Predicate.isTagged(SignInFailed.code))
  return yield* Effect.tapError(work, (error) =>
    isWrong(error)
      ? audit.record(
          ...Accounts.inEachTeam(caller.teams, {
            actor: caller,
            action: "factor.confirm",
            outcome: "denied",
            reason: error._tag
          })
        )
      : Effect.void
  )
})

export class SecondFactor extends Effect.Service<SecondFactor>()("credentials/SecondFactor", {
  effect: Effect.map(services, (needs) =>
    methods(needs, { status, beginApp, waitingApp, confirmApp, removeApp, renewCodes, confirm })
  )
}) {}

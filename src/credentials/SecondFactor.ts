/**
 * A person's second factor: adding, removing and confirming it. Every change needs a recent proof, adds an entry to the
 * trail, and ends the person's other sessions.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import type { Caller } from "#schema/Caller.ts"
import { Forbidden, SecondFactorFailed, ValidationFailed } from "#schema/Errors.ts"
import { Audit } from "#src/trail/Audit.ts"
import * as RowJournal from "#src/rows/RowJournal.ts"
import { RowSeal } from "#src/rows/RowSeal.ts"
import { AppConfig } from "#src/AppConfig.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import * as Envelope from "#src/crypto/Envelope.ts"
import { ServiceKeys } from "#src/crypto/ServiceKeys.ts"
import { RateLimiter } from "#src/limits/RateLimiter.ts"
import { methods } from "#src/Methods.ts"
import * as Rows from "#src/database/Rows.ts"
import * as AccountNotices from "./AccountNotices.ts"
import * as Accounts from "./Accounts.ts"
import {
  accountOf,
  checkRecent,
  confirmWith,
  eventOf,
  lockAccount,
  proofOfNew,
  replaceSessions,
  recordFailure,
  tooYoung
} from "./FactorChanges.ts"
import * as Authenticators from "./Authenticators.ts"
import * as Factors from "./Factors.ts"
import { verifyCurrent } from "./NewPassword.ts"
import { Passwords } from "./Passwords.ts"
import * as RecoveryCodes from "./RecoveryCodes.ts"
import { Revocation } from "./Revocation.ts"
import type { PresentedCookies } from "./SessionOpening.ts"
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

/** State for the page of a person's sign-in. */
const status = Effect.fn("SecondFactor.status")(function* (needs: Needs, caller: Caller) {
  const account = yield* accountOf(needs, caller)
  const app = yield* Factors.totpOf(needs, account.id, true)
  return {
    isOn: account.secondFactor,
    app:
      app === undefined
        ? null
        : {
            id: app.id,
            createdAt: app.createdAt,
            lastUsedAt: app.lastUsedAt,
            isYoung: Authenticators.isYoung(app, yield* Clock.currentTimeMillis)
          },
    codesLeft: yield* RecoveryCodes.countUnused(needs, account.id),
    /** All authenticators are younger than a day: the password or issuer, entered again, is the proof. */
    allYoung: account.secondFactor && !(yield* Authenticators.hasOlder(needs, account.id))
  }
})

/** Creates a secret for an app. It counts only after a code from it is entered. */
const beginApp = Effect.fn("SecondFactor.beginApp")(function* (needs: Needs, caller: Caller) {
  const { crypto, issuer, rowSeal, sql } = needs
  yield* checkRecent(caller)
  const { email, id: userId } = yield* accountOf(needs, caller)
  const key = yield* Factors.keyOf(needs)
  const secret = yield* crypto.randomBytes(Totp.secretLength)
  const id = yield* crypto.uuid
  const sealed = Factors.seal(key, { id, userId }, secret, yield* crypto.randomBytes(Envelope.saltLength))
  const now = yield* DateTime.nowAsDate
  const row = yield* rowSeal.values(
    "totp_factors",
    { id, userId, sealed, confirmed: false, usedStep: 0, ...Authenticators.newState(caller, now) },
    { created_at: now }
  )
  yield* Rows.transaction(sql, function* () {
    yield* Rows.run(sql`SELECT id FROM users WHERE id = ${userId} FOR NO KEY UPDATE`)
    yield* RowJournal.remove(sql, "totp_factors", sql`user_id = ${userId} AND NOT confirmed`)
    yield* Rows.run(sql`INSERT INTO totp_factors ${row}`)
  })
  const enrolment = {
    text: Redacted.make(Totp.base32Of(secret)),
    uri: Redacted.make(Totp.uriOf(secret, email, issuer))
  }
  secret.fill(0)
  return enrolment
})

/** The unconfirmed secret again, for a reload of the page; undefined when none waits. */
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

/** Turns the factor on with its first code. Returns recovery codes when the person had no factor before. */
const confirmApp = Effect.fn("SecondFactor.confirmApp")(function* (
  needs: Needs,
  caller: Caller,
  code: Redacted.Redacted,
  cookies: PresentedCookies
) {
  const { audit, rowSeal, sql } = needs
  yield* checkRecent(caller)
  const account = yield* accountOf(needs, caller)
  const key = yield* Factors.keyOf(needs)
  const device = yield* Accounts.findDevice(needs, cookies.device, account.id)
  const work = Rows.transaction(sql, function* () {
    yield* lockAccount(needs, caller, account.id)
    const row = yield* Factors.totpOf(needs, account.id, false)
    if (row === undefined)
      return yield* new ValidationFailed({ field: "code", message: "Start again with a new secret." })
    const step = yield* Factors.stepOf(key, row, code)
    if (step === undefined) return yield* new SecondFactorFailed()
    const now = yield* DateTime.nowAsDate
    yield* RowJournal.remove(sql, "totp_factors", sql`user_id = ${account.id} AND confirmed`)
    yield* rowSeal.update(
      "totp_factors",
      sql`id = ${row.id}`,
      () => ({ confirmed: true, usedStep: step, ...Authenticators.newState(caller, now) }),
      {
        created_at: now,
        last_used_at: now
      }
    )
    const codes = account.secondFactor ? [] : yield* RecoveryCodes.renew(needs, caller, account.id)
    yield* rowSeal.update("users", sql`id = ${account.id}`, () => ({ secondFactor: true }))
    const session = yield* replaceSessions(needs, caller, account, { proof: proofOfNew(caller, now), device })
    yield* audit.append(...Accounts.inEachTeam(account.memberships, eventOf(caller, "factor.add", "authenticator app")))
    return { session, codes }
  })
  return yield* Factors.attempt(needs, account.id, { device: null, session: caller.credentialId }, code, work)
})

/** Removing the last factor removes the recovery codes too. */
const removeApp = Effect.fn("SecondFactor.removeApp")(function* (
  needs: Needs,
  caller: Caller,
  cookies: PresentedCookies
) {
  const { audit, sql } = needs
  yield* checkRecent(caller)
  const account = yield* accountOf(needs, caller)
  const device = yield* Accounts.findDevice(needs, cookies.device, account.id)
  return yield* Rows.transaction(sql, function* () {
    yield* lockAccount(needs, caller, account.id)
    yield* RowJournal.remove(sql, "totp_factors", sql`user_id = ${account.id}`)
    const hasFactor = yield* Factors.finishRemoval(needs, account.id)
    const session = yield* replaceSessions(needs, caller, account, {
      proof: hasFactor ? Accounts.proofOf(caller) : Accounts.noFactor,
      device
    })
    yield* AccountNotices.record(needs, account.id, "factor_removed", "authenticator app")
    const event = eventOf(caller, "factor.remove", "authenticator app")
    yield* audit.append(...Accounts.inEachTeam(account.memberships, event))
    return session
  })
})

/** Ten new recovery codes; earlier ones stop working. */
const renewCodes = Effect.fn("SecondFactor.renewCodes")(function* (needs: Needs, caller: Caller) {
  yield* checkRecent(caller)
  const account = yield* accountOf(needs, caller)
  if (!account.secondFactor) return yield* new Forbidden()
  return yield* Rows.transaction(needs.sql, function* () {
    yield* lockAccount(needs, caller, account.id)
    const codes = yield* RecoveryCodes.renew(needs, caller, account.id)
    const event = eventOf(caller, "factor.recovery_codes", "recovery codes")
    yield* needs.audit.append(...Accounts.inEachTeam(account.memberships, event))
    return codes
  })
})

/** Proof for a confirmation: a code with a second factor older than a day, else the password. */
type Proof = { readonly code: Redacted.Redacted } | { readonly password: Redacted.Redacted }

/** Refuses the proof of an authenticator that is younger than a day. */
const refuseYoung = <E>(use: Effect.Effect<Accounts.FactorProof, E>) =>
  Effect.filterOrFail(use, ({ provedAt }) => provedAt === null, tooYoung)

const proveBy = (needs: Needs, caller: Caller, account: Accounts.AccountRow, proof: Proof) =>
  Effect.gen(function* () {
    const older = account.secondFactor && (yield* Authenticators.hasOlder(needs, account.id))
    if ("password" in proof) {
      if (older) return yield* new SecondFactorFailed()
      yield* verifyCurrent(needs, caller, account, proof.password, "password")
      const provedAt = yield* DateTime.nowAsDate
      const entered: Accounts.FactorProof = { factorAt: caller.factorAt, provedAt, closedTeams: null }
      return { from: undefined, use: Effect.succeed(account.secondFactor ? entered : Accounts.noFactor) }
    }
    if (!account.secondFactor) return yield* new SecondFactorFailed()
    if (!older) return yield* tooYoung()
    const key = yield* Factors.keyOf(needs)
    return { from: proof.code, use: refuseYoung(Factors.use(needs, key, account.id, proof.code, false)) }
  })

/** Confirms the person again: by a code with a second factor older than a day, else by the password. */
const confirm = Effect.fn("SecondFactor.confirm")(function* (
  needs: Needs,
  caller: Caller,
  proof: Proof,
  cookies: PresentedCookies
) {
  const account = yield* accountOf(needs, caller)
  const work = Effect.flatMap(proveBy(needs, caller, account, proof), ({ from, use }) => {
    const open = confirmWith(needs, caller, account, cookies, use)
    const own = { device: null, session: caller.credentialId }
    return from === undefined ? open : Factors.attempt(needs, account.id, own, from, open)
  })
  return yield* recordFailure(needs, caller, work)
})

/** Confirms a young passkey or app, after an older one proved the person in this session. */
const confirmYoung = Effect.fn("SecondFactor.confirmYoung")(function* (
  needs: Needs,
  caller: Caller,
  kind: "passkey" | "app",
  id: string
) {
  yield* checkRecent(caller)
  const account = yield* accountOf(needs, caller)
  yield* Rows.transaction(needs.sql, function* () {
    yield* lockAccount(needs, caller, account.id)
    yield* Authenticators.confirmYoung(needs, caller, account.id, kind === "app" ? "totp_factors" : "passkeys", id)
    yield* needs.audit.append(...Accounts.inEachTeam(account.memberships, eventOf(caller, "factor.vouch", kind)))
  })
})

export class SecondFactor extends Effect.Service<SecondFactor>()("credentials/SecondFactor", {
  effect: Effect.map(services, (needs) =>
    methods(needs, { status, beginApp, waitingApp, confirmApp, removeApp, renewCodes, confirm, confirmYoung })
  )
}) {}

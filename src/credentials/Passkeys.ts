/**
 * Passkeys (WebAuthn), for a whole sign-in, its second step, or a confirmation. Adding and removing follow the rules of
 * every factor (`FactorChanges.ts`).
 */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { Caller } from "#schema/Caller.ts"
import {
  CredentialExpired,
  Forbidden,
  GrantNotFound,
  PasskeyCopied,
  SecondFactorFailed,
  SignInFailed,
  ValidationFailed
} from "#schema/Errors.ts"
import type { UserId } from "#schema/Ids.ts"
import { Audit } from "#src/trail/Audit.ts"
import { RequestInfo } from "#src/database/RequestInfo.ts"
import * as RowJournal from "#src/rows/RowJournal.ts"
import { RowSeal } from "#src/rows/RowSeal.ts"
import { AppConfig } from "#src/AppConfig.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { addressBucket } from "#src/limits/AddressBucket.ts"
import * as Attempts from "#src/limits/Attempts.ts"
import { RateLimiter, signInPolicy } from "#src/limits/RateLimiter.ts"
import { methods } from "#src/Methods.ts"
import * as Rows from "#src/database/Rows.ts"
import * as AccountNotices from "./AccountNotices.ts"
import * as Accounts from "./Accounts.ts"
import * as Authenticators from "./Authenticators.ts"
import * as FactorChanges from "./FactorChanges.ts"
import * as Factors from "./Factors.ts"
import * as Challenges from "./PasskeyChallenges.ts"
import * as Proof from "./PasskeyProof.ts"
import * as PasskeyRows from "./PasskeyRows.ts"
import * as RecoveryCodes from "./RecoveryCodes.ts"
import { Revocation } from "./Revocation.ts"
import { isShutOut, openChecked, type PresentedCookies, recordRefusal } from "./SessionOpening.ts"
import * as SignInSteps from "./SignInSteps.ts"

const services = Effect.all({
  sql: SqlClient.SqlClient,
  crypto: Crypto,
  limiter: RateLimiter,
  audit: Audit,
  revocation: Revocation,
  rowSeal: RowSeal,
  rp: Effect.map(AppConfig, ({ baseUrl }) => Proof.relyingParty(baseUrl))
})
type Needs = Effect.Effect.Success<typeof services>

/** Pages offer no passkey on a server without a host name. */
const rpOf = ({ rp }: Pick<Needs, "rp">) =>
  rp === null
    ? new ValidationFailed({ message: "Passkeys need a server with a host name. This server's address is a number." })
    : Effect.succeed(rp)

const isAvailable = ({ rp }: Needs) => Effect.succeed(rp !== null)

const list = Effect.fn("Passkeys.list")(function* (needs: Needs, caller: Caller) {
  const { id } = yield* FactorChanges.accountOf(needs, caller)
  const rows = yield* PasskeyRows.listOf(needs, id)
  const now = yield* Clock.currentTimeMillis
  return rows.map((row) => ({
    id: row.id,
    name: row.name,
    synced: row.synced,
    createdAt: row.createdAt,
    lastUsedAt: row.lastUsedAt,
    isYoung: Authenticators.isYoung(row, now)
  }))
})

// --- adding and removing ---

const addPurpose = (userId: UserId, caller: Caller) =>
  ({ purpose: "add", userId, boundTo: caller.credentialId }) as const

const beginAdd = Effect.fn("Passkeys.beginAdd")(function* (needs: Needs, caller: Caller, cookies: PresentedCookies) {
  const rp = yield* rpOf(needs)
  yield* FactorChanges.checkRecent(caller)
  const account = yield* FactorChanges.accountOf(needs, caller)
  const { browser, challenge } = yield* Challenges.begin(needs, addPurpose(account.id, caller), cookies.passkey)
  const passkeys = yield* PasskeyRows.listOf(needs, account.id)
  return { browser, options: yield* Proof.attestationOptions(rp, account, challenge, passkeys) }
})

const attestationRefused = () => new ValidationFailed({ message: "The passkey was not accepted. Start again." })

/** Returns recovery codes when the person had no factor before. */
const add = Effect.fn("Passkeys.add")(function* (
  needs: Needs,
  caller: Caller,
  { answer, name }: { readonly answer: Proof.Attestation; readonly name: string },
  cookies: PresentedCookies
) {
  const { audit, rowSeal, sql } = needs
  const rp = yield* rpOf(needs)
  yield* FactorChanges.checkRecent(caller)
  const account = yield* FactorChanges.accountOf(needs, caller)
  const challenge = yield* Challenges.take(needs, addPurpose(account.id, caller), cookies.passkey, answer)
  const passkey = challenge === undefined ? undefined : yield* Proof.verifyAttestation(rp, challenge, answer)
  if (passkey === undefined) return yield* attestationRefused()
  const device = yield* Accounts.findDevice(needs, cookies.device, account.id)
  return yield* Rows.transaction(sql, function* () {
    yield* FactorChanges.lockAccount(needs, caller, account.id)
    const n = yield* Rows.count(sql`SELECT count(*)::int AS n FROM passkeys WHERE user_id = ${account.id}`)
    if (n >= PasskeyRows.passkeysPerPerson) {
      return yield* new ValidationFailed({ message: `You have ${n} passkeys: remove one first.` })
    }
    if (!(yield* PasskeyRows.insert(needs, caller, account.id, passkey, name))) {
      return yield* new ValidationFailed({ message: "This passkey is registered already." })
    }
    const codes = account.secondFactor ? [] : yield* RecoveryCodes.renew(needs, caller, account.id)
    yield* rowSeal.update("users", sql`id = ${account.id}`, () => ({ secondFactor: true }))
    const proof = FactorChanges.proofOfNew(caller, yield* DateTime.nowAsDate)
    const session = yield* FactorChanges.replaceSessions(needs, caller, account, { proof, device })
    const event = FactorChanges.eventOf(caller, "factor.add", `passkey ${name}`)
    yield* audit.append(...Accounts.inEachTeam(account.memberships, event))
    return { session, codes }
  })
})

const passkeyNotFound = () => new GrantNotFound({ message: "This passkey no longer exists." })

/** Changes the name only; no check depends on it. */
const rename = Effect.fn("Passkeys.rename")(function* (needs: Needs, caller: Caller, id: string, name: string) {
  const account = yield* FactorChanges.accountOf(needs, caller)
  const exists = yield* Rows.exists(needs.sql`
    UPDATE passkeys SET name = ${name} WHERE id = ${id} AND user_id = ${account.id} RETURNING id`)
  if (!exists) return yield* passkeyNotFound()
})

/** Removing the last factor removes the recovery codes too. */
const remove = Effect.fn("Passkeys.remove")(function* (
  needs: Needs,
  caller: Caller,
  id: string,
  cookies: PresentedCookies
) {
  const { audit, sql } = needs
  yield* FactorChanges.checkRecent(caller)
  const account = yield* FactorChanges.accountOf(needs, caller)
  const device = yield* Accounts.findDevice(needs, cookies.device, account.id)
  return yield* Rows.transaction(sql, function* () {
    yield* FactorChanges.lockAccount(needs, caller, account.id)
    const row = yield* Rows.findOne(
      PasskeyRows.NameRow,
      RowJournal.noteEnds(
        sql,
        "passkeys"
      )`DELETE FROM passkeys WHERE id = ${id} AND user_id = ${account.id} RETURNING id, name`
    )
    if (row === undefined) return yield* passkeyNotFound()
    const hasFactor = yield* Factors.finishRemoval(needs, account.id)
    const proof = hasFactor ? Accounts.proofOf(caller) : Accounts.noFactor
    const session = yield* FactorChanges.replaceSessions(needs, caller, account, { proof, device })
    const about = `passkey ${row.name}`
    yield* AccountNotices.record(needs, account.id, "factor_removed", about)
    const event = FactorChanges.eventOf(caller, "factor.remove", about)
    yield* audit.append(...Accounts.inEachTeam(account.memberships, event))
    return session
  })
})

// --- proving ---

/** The named passkey, and its new counter when its response answers the challenge. */
const check = Effect.fnUntraced(function* (
  needs: Needs,
  purpose: Challenges.Purpose,
  answer: Proof.Assertion,
  cookies: PresentedCookies
) {
  const rp = yield* rpOf(needs)
  const challenge = yield* Challenges.take(needs, purpose, cookies.passkey, answer)
  const passkey = yield* PasskeyRows.find(needs, answer.id)
  if (challenge === undefined || passkey === undefined) return { passkey, counter: undefined }
  const isOwn = purpose.userId === null || purpose.userId === passkey.userId
  const result = isOwn ? yield* Proof.verifyAssertion(rp, challenge, passkey, answer) : undefined
  return { passkey, counter: result?.counter }
})

/**
 * Limits the work of checking signatures and the entries of failures; a signature itself cannot be guessed. Failures
 * count per credential: those of one person stop nobody else behind the same address. Each challenge is good for one
 * answer. Answers of unknown credentials count per address, and stop no known one.
 */
const limitAttempts = <A, E, R>(
  { limiter }: Needs,
  device: Accounts.KnownDevice | null,
  passkey: PasskeyRows.PasskeyRow | undefined,
  work: Effect.Effect<A, E, R>
) =>
  Effect.flatMap(RequestInfo, ({ ip }) =>
    Attempts.attempt(
      limiter,
      {
        buckets: [
          device !== null
            ? `passkey:device:${device.id}`
            : passkey === undefined
              ? `passkey:unknown:${addressBucket(ip)}`
              : `passkey:credential:${passkey.id}`
        ],
        policy: signInPolicy
      },
      work,
      (error) => error instanceof SignInFailed || error instanceof SecondFactorFailed
    )
  )

const isRecorded = (error: unknown): error is SignInFailed | SecondFactorFailed | PasskeyCopied =>
  error instanceof SignInFailed || error instanceof SecondFactorFailed || error instanceof PasskeyCopied

const assertionRefused = () => new SecondFactorFailed({ message: "The passkey was not accepted. Try again." })
const signInPurpose = { purpose: "sign-in", userId: null, boundTo: null } as const

const beginSignIn = Effect.fn("Passkeys.beginSignIn")(function* (needs: Needs, cookies: PresentedCookies) {
  const rp = yield* rpOf(needs)
  const { browser, challenge } = yield* Challenges.begin(needs, signInPurpose, cookies.passkey)
  return { browser, options: yield* Proof.assertionOptions(rp, challenge, []) }
})

/** A passkey alone signs in: the device's user verification is the second factor. */
const signIn = Effect.fn("Passkeys.signIn")(function* (
  needs: Needs,
  answer: Proof.Assertion,
  cookies: PresentedCookies
) {
  const notAccepted = () => new SignInFailed({ message: "This passkey does not sign in here." })
  const row = yield* PasskeyRows.find(needs, answer.id)
  const account = row === undefined ? undefined : yield* Accounts.find(needs, row.userId)
  const device = account === undefined ? null : yield* Accounts.findDevice(needs, cookies.device, account.id)
  const work = Effect.gen(function* () {
    const { counter, passkey } = yield* check(needs, signInPurpose, answer, cookies)
    if (account === undefined || passkey === undefined || counter === undefined || isShutOut(account)) {
      return yield* notAccepted()
    }
    const result = yield* openChecked(
      needs,
      account,
      { session: cookies.session, device },
      { prove: PasskeyRows.use(needs, passkey, counter, false) }
    )
    return Option.isSome(result) ? result.value : yield* notAccepted()
  })
  return yield* Effect.tapError(limitAttempts(needs, device, row, work), (error) =>
    isRecorded(error) ? recordRefusal(needs, account, error._tag) : Effect.void
  )
})

const tooLate = () => new CredentialExpired({ message: "This sign-in took too long. Start again." })

const stepOf = Effect.fnUntraced(function* (needs: Needs, cookies: PresentedCookies) {
  const step = yield* SignInSteps.find(needs, cookies.step)
  const account = step === undefined ? undefined : yield* Accounts.find(needs, step.userId)
  if (step === undefined || account === undefined || isShutOut(account)) return yield* tooLate()
  return { step, account, purpose: { purpose: "second-step", userId: account.id, boundTo: step.id } as const }
})

/** Whether the person of the sign-in step has a passkey. */
const isOfStep = Effect.fn("Passkeys.isOfStep")(function* (needs: Needs, cookies: PresentedCookies) {
  const { account } = yield* stepOf(needs, cookies)
  return needs.rp !== null && (yield* PasskeyRows.listOf(needs, account.id)).length > 0
})

const beginStep = Effect.fn("Passkeys.beginStep")(function* (needs: Needs, cookies: PresentedCookies) {
  const rp = yield* rpOf(needs)
  const { account, purpose } = yield* stepOf(needs, cookies)
  const { browser, challenge } = yield* Challenges.begin(needs, purpose, cookies.passkey)
  const passkeys = yield* PasskeyRows.listOf(needs, account.id)
  return { browser, options: yield* Proof.assertionOptions(rp, challenge, passkeys) }
})

/** Finishes the second step, in place of a code. */
const finishStep = Effect.fn("Passkeys.finishStep")(function* (
  needs: Needs,
  answer: Proof.Assertion,
  cookies: PresentedCookies
) {
  const { account, step, purpose } = yield* stepOf(needs, cookies)
  const row = yield* PasskeyRows.find(needs, answer.id)
  const device = yield* Accounts.findDevice(needs, cookies.device, account.id)
  const work = Effect.gen(function* () {
    const { counter, passkey } = yield* check(needs, purpose, answer, cookies)
    if (passkey === undefined || counter === undefined) return yield* assertionRefused()
    const use = PasskeyRows.use(needs, passkey, counter, true)
    const result = yield* openChecked(
      needs,
      account,
      { session: cookies.session, device },
      { prove: Effect.if(SignInSteps.end(needs, step.id), { onTrue: () => use, onFalse: tooLate }), by: step }
    )
    return Option.isSome(result) ? result.value : yield* tooLate()
  })
  return yield* Effect.tapError(limitAttempts(needs, device, row, work), (error) =>
    isRecorded(error) ? recordRefusal(needs, account, error._tag) : Effect.void
  )
})

const confirmPurpose = (account: Accounts.AccountRow, caller: Caller) =>
  ({ purpose: "confirm", userId: account.id, boundTo: caller.credentialId }) as const

const beginConfirm = Effect.fn("Passkeys.beginConfirm")(function* (
  needs: Needs,
  caller: Caller,
  cookies: PresentedCookies
) {
  const rp = yield* rpOf(needs)
  const account = yield* FactorChanges.accountOf(needs, caller)
  const { browser, challenge } = yield* Challenges.begin(needs, confirmPurpose(account, caller), cookies.passkey)
  const passkeys = yield* PasskeyRows.listOf(needs, account.id)
  if (passkeys.length === 0) return yield* new Forbidden()
  return { browser, options: yield* Proof.assertionOptions(rp, challenge, passkeys) }
})

/** Confirms the person again with a passkey. */
const confirm = Effect.fn("Passkeys.confirm")(function* (
  needs: Needs,
  caller: Caller,
  answer: Proof.Assertion,
  cookies: PresentedCookies
) {
  const account = yield* FactorChanges.accountOf(needs, caller)
  const device = yield* Accounts.findDevice(needs, cookies.device, account.id)
  const work = Effect.gen(function* () {
    const { counter, passkey } = yield* check(needs, confirmPurpose(account, caller), answer, cookies)
    if (passkey === undefined || counter === undefined) return yield* assertionRefused()
    if (Authenticators.isYoung(passkey, yield* Clock.currentTimeMillis)) return yield* FactorChanges.tooYoung()
    const use = PasskeyRows.use(needs, passkey, counter, false)
    return yield* FactorChanges.confirmWith(needs, caller, account, cookies, use)
  })
  return yield* FactorChanges.recordFailure(
    needs,
    caller,
    limitAttempts(needs, device, yield* PasskeyRows.find(needs, answer.id), work)
  )
})

/** Whether to propose a passkey: to people without a factor who have not declined. */
const proposal = Effect.fn("Passkeys.proposal")(function* ({ rp, sql }: Needs, caller: Caller) {
  if (rp === null || caller.user === null || caller.factorAt !== null) return false
  return yield* Rows.exists(sql`
    SELECT 1 FROM users WHERE id = ${caller.user.id} AND NOT second_factor AND NOT proposal_declined`)
})
const declineProposal = Effect.fn("Passkeys.declineProposal")(({ sql }: Needs, caller: Caller) =>
  Rows.run(sql`UPDATE users SET proposal_declined = true WHERE id = ${caller.user?.id ?? null}`)
)

export class Passkeys extends Effect.Service<Passkeys>()("credentials/Passkeys", {
  effect: Effect.map(services, (needs) =>
    methods(needs, {
      isAvailable,
      list,
      beginAdd,
      add,
      rename,
      remove,
      beginSignIn,
      signIn,
      isOfStep,
      beginStep,
      finishStep,
      beginConfirm,
      confirm,
      proposal,
      declineProposal
    })
  )
}) {}

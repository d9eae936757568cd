/**
 * Passkeys of people (WebAuthn): the whole sign-in, its second step, or a confirmation. Enrolment and removal follow the rules
 * of every factor (`FactorChanges.ts`).
 */
import * as SqlClient from "@effect/sql/SqlClient"
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
import * as FactorChanges from "./FactorChanges.ts"
import * as Factors from "./Factors.ts"
import * as Challenges from "./PasskeyChallenges.ts"
import * as Proof from "./PasskeyProof.ts"
import * as PasskeyRows from "./PasskeyRows.ts"
import * as RecoveryCodes from "./RecoveryCodes.ts"
import { Revocation } from "./Revocation.ts"
import { isShutOut, openChecked, type PresentedCookies, refused } from "./SessionOpening.ts"
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

/** Where passkeys cannot be, no page offers one. */
const rpOf = ({ rp }: Pick<Needs, "rp">) =>
  rp === null
    ? new ValidationFailed({ message: "Passkeys need an address with a name: this server is reached by a number." })
    : Effect.succeed(rp)

const isAvailable = ({ rp }: Needs) => Effect.succeed(rp !== null)

const list = Effect.fn("Passkeys.list")(function* (needs: Needs, caller: Caller) {
  const { id } = yield* FactorChanges.accountOf(needs, caller)
  const rows = yield* PasskeyRows.listOf(needs, id)
  return rows.map(({ createdAt, id, lastUsedAt, name, synced }) => ({ id, name, synced, createdAt, lastUsedAt }))
})

// --- adding and removing ---

const adding = (userId: UserId, caller: Caller) => ({ purpose: "add", userId, boundTo: caller.credentialId }) as const

const beginAdd = Effect.fn("Passkeys.beginAdd")(function* (needs: Needs, caller: Caller, presented: PresentedCookies) {
  const rp = yield* rpOf(needs)
  yield* FactorChanges.checkRecent(caller)
  const account = yield* FactorChanges.accountOf(needs, caller)
  const begun = yield* Challenges.begin(needs, adding(account.id, caller), presented.passkey)
  const known = yield* PasskeyRows.listOf(needs, account.id)
  return { browser: begun.browser, options: yield* Proof.attestationOptions(rp, account, begun.challenge, known) }
})

const refusedPasskey = () => new ValidationFailed({ message: "The passkey was not accepted. Start again." })

/** Answers recovery codes when the person had no factor before. */
const add = Effect.fn("Passkeys.add")(function* (
  needs: Needs,
  caller: Caller,
  { answer, name }: { readonly answer: Proof.Attestation; readonly name: string },
  presented: PresentedCookies
) {
  const { audit, rowSeal, sql } = needs
  const rp = yield* rpOf(needs)
  yield* FactorChanges.checkRecent(caller)
  const account = yield* FactorChanges.accountOf(needs, caller)
  const challenge = yield* Challenges.take(needs, adding(account.id, caller), presented.passkey, answer)
  const made = challenge === undefined ? undefined : yield* Proof.attested(rp, challenge, answer)
  if (made === undefined) return yield* refusedPasskey()
  const known = yield* Accounts.findDevice(needs, presented.device, account.email)
  return yield* Rows.transaction(sql, function* () {
    yield* FactorChanges.lockAccount(needs, caller, account.id)
    const n = yield* Rows.count(sql`SELECT count(*)::int AS n FROM passkeys WHERE user_id = ${account.id}`)
    if (n >= PasskeyRows.passkeysPerPerson) {
      return yield* new ValidationFailed({ message: `You have ${n} passkeys: remove one first.` })
    }
    if (!(yield* PasskeyRows.insert(needs, account.id, made, name))) {
      return yield* new ValidationFailed({ message: "This passkey is registered already." })
    }
    const codes = account.secondFactor ? [] : yield* RecoveryCodes.renew(needs, account.id)
    yield* rowSeal.update("users", sql`id = ${account.id}`, () => ({ secondFactor: true }))
    const factorAt = yield* DateTime.nowAsDate
    const session = yield* FactorChanges.startAgain(needs, caller, account, { factorAt, known })
    const event = FactorChanges.eventOf(caller, "factor.add", `passkey ${name}`)
    yield* audit.append(...Accounts.inEachTeam(account.memberships, event))
    return { session, codes }
  })
})

const gone = () => new GrantNotFound({ message: "This passkey is not there any more." })

/** What it is called; decides nothing. */
const rename = Effect.fn("Passkeys.rename")(function* (needs: Needs, caller: Caller, id: string, name: string) {
  const account = yield* FactorChanges.accountOf(needs, caller)
  const renamed = yield* Rows.exists(needs.sql`
    UPDATE passkeys SET name = ${name} WHERE id = ${id} AND user_id = ${account.id} RETURNING id`)
  if (!renamed) return yield* gone()
})

/** The last factor takes the recovery codes with it. */
const remove = Effect.fn("Passkeys.remove")(function* (
  needs: Needs,
  caller: Caller,
  id: string,
  presented: PresentedCookies
) {
  const { audit, sql } = needs
  yield* FactorChanges.checkRecent(caller)
  const account = yield* FactorChanges.accountOf(needs, caller)
  const known = yield* Accounts.findDevice(needs, presented.device, account.email)
  return yield* Rows.transaction(sql, function* () {
    yield* FactorChanges.lockAccount(needs, caller, account.id)
    const removed = yield* Rows.findOne(
      PasskeyRows.NameRow,
      RowJournal.ending(
        sql,
        "passkeys"
      )`DELETE FROM passkeys WHERE id = ${id} AND user_id = ${account.id} RETURNING id, name`
    )
    if (removed === undefined) return yield* gone()
    const stays = yield* Factors.settle(needs, account.id)
    const factorAt = stays ? caller.factorAt : null
    const session = yield* FactorChanges.startAgain(needs, caller, account, { factorAt, known })
    const about = `passkey ${removed.name}`
    yield* AccountNotices.record(needs, account.id, "factor_removed", about)
    const event = FactorChanges.eventOf(caller, "factor.remove", about)
    yield* audit.append(...Accounts.inEachTeam(account.memberships, event))
    return session
  })
})

// --- proving ---

/** A passkey of the person's that answered the challenge, and what it counts now. */
const proved = Effect.fnUntraced(function* (
  needs: Needs,
  purpose: Challenges.Purpose,
  answer: Proof.Assertion,
  presented: PresentedCookies
) {
  const rp = yield* rpOf(needs)
  const challenge = yield* Challenges.take(needs, purpose, presented.passkey, answer)
  const passkey = yield* PasskeyRows.find(needs, answer.id)
  if (challenge === undefined || passkey === undefined) return { passkey, counter: undefined }
  const isOwn = purpose.userId === null || purpose.userId === passkey.userId
  const result = isOwn ? yield* Proof.asserted(rp, challenge, passkey, answer) : undefined
  return { passkey, counter: result?.counter }
})

/** Signatures are not guessed: what is bounded is the work of checking them, and the entries that failures leave. */
const bounded = <A, E, R>({ limiter }: Needs, device: Accounts.KnownDevice | null, work: Effect.Effect<A, E, R>) =>
  Effect.flatMap(RequestInfo, ({ ip }) =>
    Attempts.attempt(
      limiter,
      {
        buckets: [device === null ? `passkey:${addressBucket(ip)}` : `passkey:device:${device.id}`],
        policy: signInPolicy
      },
      work,
      (error) => error instanceof SignInFailed || error instanceof SecondFactorFailed
    )
  )

const isForTrail = (error: unknown): error is SignInFailed | SecondFactorFailed | PasskeyCopied =>
  error instanceof SignInFailed || error instanceof SecondFactorFailed || error instanceof PasskeyCopied

const failed = () => new SecondFactorFailed({ message: "The passkey was not accepted. Try again." })
const alone = { purpose: "sign-in", userId: null, boundTo: null } as const

const beginSignIn = Effect.fn("Passkeys.beginSignIn")(function* (needs: Needs, presented: PresentedCookies) {
  const rp = yield* rpOf(needs)
  const begun = yield* Challenges.begin(needs, alone, presented.passkey)
  return { browser: begun.browser, options: yield* Proof.assertionOptions(rp, begun.challenge, []) }
})

/** A passkey is the whole sign-in: what the device verified is the second factor. */
const signIn = Effect.fn("Passkeys.signIn")(function* (
  needs: Needs,
  answer: Proof.Assertion,
  presented: PresentedCookies
) {
  const wrong = () => new SignInFailed({ message: "This passkey does not sign in here." })
  const named = yield* PasskeyRows.find(needs, answer.id)
  const account = named === undefined ? undefined : yield* Accounts.find(needs, "id", named.userId)
  const device = account === undefined ? null : yield* Accounts.findDevice(needs, presented.device, account.email)
  const work = Effect.gen(function* () {
    const { counter, passkey } = yield* proved(needs, alone, answer, presented)
    if (account === undefined || passkey === undefined || counter === undefined || isShutOut(account)) {
      return yield* wrong()
    }
    const opened = yield* openChecked(
      needs,
      account,
      { session: presented.session, device },
      { prove: PasskeyRows.use(needs, passkey, counter) }
    )
    return Option.isSome(opened) ? opened.value : yield* wrong()
  })
  return yield* Effect.tapError(bounded(needs, device, work), (error) =>
    isForTrail(error) ? refused(needs, account, error._tag) : Effect.void
  )
})

const tooLate = () => new CredentialExpired({ message: "This sign-in took too long. Start again." })

const stepOf = Effect.fnUntraced(function* (needs: Needs, presented: PresentedCookies) {
  const begun = yield* SignInSteps.find(needs, presented.step)
  const account = begun === undefined ? undefined : yield* Accounts.find(needs, "id", begun.userId)
  if (begun === undefined || account === undefined || isShutOut(account)) return yield* tooLate()
  return { begun, account, purpose: { purpose: "second-step", userId: account.id, boundTo: begun.id } as const }
})

/** Whether the person who is between the steps has one. */
const isOfStep = Effect.fn("Passkeys.isOfStep")(function* (needs: Needs, presented: PresentedCookies) {
  const { account } = yield* stepOf(needs, presented)
  return needs.rp !== null && (yield* PasskeyRows.listOf(needs, account.id)).length > 0
})

const beginStep = Effect.fn("Passkeys.beginStep")(function* (needs: Needs, presented: PresentedCookies) {
  const rp = yield* rpOf(needs)
  const { account, purpose } = yield* stepOf(needs, presented)
  const begun = yield* Challenges.begin(needs, purpose, presented.passkey)
  const known = yield* PasskeyRows.listOf(needs, account.id)
  return { browser: begun.browser, options: yield* Proof.assertionOptions(rp, begun.challenge, known) }
})

/** After the password, in place of a code. */
const finishStep = Effect.fn("Passkeys.finishStep")(function* (
  needs: Needs,
  answer: Proof.Assertion,
  presented: PresentedCookies
) {
  const { account, begun, purpose } = yield* stepOf(needs, presented)
  const device = yield* Accounts.findDevice(needs, presented.device, account.email)
  const work = Effect.gen(function* () {
    const { counter, passkey } = yield* proved(needs, purpose, answer, presented)
    if (passkey === undefined || counter === undefined) return yield* failed()
    const use = PasskeyRows.use(needs, passkey, counter)
    const opened = yield* openChecked(
      needs,
      account,
      { session: presented.session, device },
      { prove: Effect.if(SignInSteps.end(needs, begun.id), { onTrue: () => use, onFalse: tooLate }), by: begun }
    )
    return Option.isSome(opened) ? opened.value : yield* tooLate()
  })
  return yield* Effect.tapError(bounded(needs, device, work), (error) =>
    isForTrail(error) ? refused(needs, account, error._tag) : Effect.void
  )
})

const confirming = (account: Accounts.AccountRow, caller: Caller) =>
  ({ purpose: "confirm", userId: account.id, boundTo: caller.credentialId }) as const

const beginConfirm = Effect.fn("Passkeys.beginConfirm")(function* (
  needs: Needs,
  caller: Caller,
  presented: PresentedCookies
) {
  const rp = yield* rpOf(needs)
  const account = yield* FactorChanges.accountOf(needs, caller)
  const begun = yield* Challenges.begin(needs, confirming(account, caller), presented.passkey)
  const known = yield* PasskeyRows.listOf(needs, account.id)
  if (known.length === 0) return yield* new Forbidden()
  return { browser: begun.browser, options: yield* Proof.assertionOptions(rp, begun.challenge, known) }
})

/** The person is there again, by a passkey. */
const confirm = Effect.fn("Passkeys.confirm")(function* (
  needs: Needs,
  caller: Caller,
  answer: Proof.Assertion,
  presented: PresentedCookies
) {
  const account = yield* FactorChanges.accountOf(needs, caller)
  const device = yield* Accounts.findDevice(needs, presented.device, account.email)
  const work = Effect.gen(function* () {
    const { counter, passkey } = yield* proved(needs, confirming(account, caller), answer, presented)
    if (passkey === undefined || counter === undefined) return yield* failed()
    const use = PasskeyRows.use(needs, passkey, counter)
    return yield* FactorChanges.confirmed(needs, caller, account, presented, use)
  })
  return yield* FactorChanges.tellingFailure(needs, caller, bounded(needs, device, work))
})

/** Whether this person may be asked whether they want one: once, and not who has a factor. */
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

/** Dashboard sessions: sign-in, active team, and sign-out. */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import type * as Redacted from "effect/Redacted"
import type { Caller } from "#schema/Caller.ts"
import {
  CredentialExpired,
  type RateLimited,
  SecondFactorFailed,
  SecondFactorRequired,
  SignInFailed
} from "#schema/Errors.ts"
import type { TeamId } from "#schema/Ids.ts"
import type { SignIn } from "#schema/SessionApi.ts"
import { Audit } from "#src/trail/Audit.ts"
import { RequestInfo } from "#src/database/RequestInfo.ts"
import { RowSeal } from "#src/rows/RowSeal.ts"
import { Crypto, sha256 } from "#src/crypto/Crypto.ts"
import { ServiceKeys } from "#src/crypto/ServiceKeys.ts"
import { addressBucket } from "#src/limits/AddressBucket.ts"
import * as Attempts from "#src/limits/Attempts.ts"
import { RateLimiter, signInPolicy } from "#src/limits/RateLimiter.ts"
import { methods } from "#src/Methods.ts"
import * as Rows from "#src/database/Rows.ts"
import * as Accounts from "./Accounts.ts"
import * as Authenticators from "./Authenticators.ts"
import * as Factors from "./Factors.ts"
import * as NewPassword from "./NewPassword.ts"
import { Passwords } from "./Passwords.ts"
import { Revocation } from "./Revocation.ts"
import {
  isShutOut,
  openChecked,
  type SignInResult,
  type CheckedCookies,
  type PresentedCookies,
  recordRefusal,
  recordRefusals
} from "./SessionOpening.ts"
import * as SignInSteps from "./SignInSteps.ts"

export type { OpenedSession } from "./Accounts.ts"
export type { PresentedCookies } from "./SessionOpening.ts"

const services = Effect.all({
  sql: SqlClient.SqlClient,
  crypto: Crypto,
  keys: ServiceKeys,
  passwords: Passwords,
  limiter: RateLimiter,
  audit: Audit,
  revocation: Revocation,
  rowSeal: RowSeal
})
type Needs = Effect.Effect.Success<typeof services>

/** Buckets that count wrong passwords, 10 per 10 minutes: the known device, or else the address and the e-mail. */
const signInBuckets = Effect.fnUntraced(function* (email: string, device: Accounts.KnownDevice | null) {
  if (device !== null) return [`sign-in:device:${device.id}`]
  const { ip } = yield* RequestInfo
  return [`sign-in:${addressBucket(ip)}`, `sign-in:email:${sha256(email).toString("base64url")}`]
})

/** Opens with a code of the second factor; wrong codes count, and the trail records them. */
const withCode = <E>(
  needs: Needs,
  account: Accounts.AccountRow,
  { device }: CheckedCookies,
  code: Redacted.Redacted,
  open: (
    prove: Effect.Effect<Accounts.FactorProof, SecondFactorFailed>
  ) => Effect.Effect<Option.Option<SignInResult>, E | SecondFactorFailed>
) =>
  Effect.gen(function* () {
    const key = yield* Factors.keyOf(needs)
    const prove = Factors.use(needs, key, account.id, code, true)
    const from = { device: device?.id ?? null }
    return yield* Effect.tapError(Factors.attempt(needs, account.id, from, code, open(prove)), (error) =>
      error instanceof SecondFactorFailed ? recordRefusal(needs, account, error._tag) : Effect.void
    )
  })

/**
 * Checks the password once, against all `accounts` of the address: it opens the account that it belongs to. `ofFactor`:
 * the next step for an account with a second factor. None: the password changed during the check.
 */
const attempt = <A, E>(
  needs: Needs,
  accounts: ReadonlyArray<Accounts.AccountRow>,
  input: SignIn,
  cookies: CheckedCookies,
  ofFactor: (account: Accounts.AccountRow) => Effect.Effect<Option.Option<A>, E>
) =>
  Effect.gen(function* () {
    const { passwords } = needs
    const hashes = accounts.map((one) => one.passwordHash)
    const { index, stale } = yield* passwords.find(hashes, input.password)
    const account = index === undefined ? undefined : accounts[index]
    if (account === undefined || isShutOut(account)) {
      // An unknown address leaves an entry too, so that neither time nor work shows who has an account.
      const attempted = account === undefined ? accounts.slice(0, refusalsPerAttempt) : [account]
      yield* recordRefusals(needs, attempted, SignInFailed.code)
      return yield* new SignInFailed()
    }
    if (account.secondFactor && !account.recovering && !(yield* Authenticators.hasAny(needs, account.id))) {
      yield* recordRefusals(needs, [account], SecondFactorFailed.code)
      return yield* new SecondFactorFailed({
        message:
          "Your passkeys and codes were put out of use. Ask an owner or admin of your team for a link to set a new password."
      })
    }
    const rehash = passwords.rehash(input.password, account.passwordHash)
    const next: Effect.Effect<Option.Option<A | SignInResult>, E> = account.secondFactor || account.recovering
      ? ofFactor(account)
      : Effect.flatMap(stale ? rehash : Effect.succeed(undefined), (renewedHash) =>
          openChecked(needs, account, cookies, { prove: Effect.succeed(Accounts.noFactor), renewedHash })
        )
    return yield* next
  })

/** Accounts of one address whose trails a wrong password is written to. */
const refusalsPerAttempt = 10

/**
 * Ends the session that the browser still presents, against session fixation. A known device has its own count of wrong
 * passwords for its account alone; the other accounts of the address come after it, with the count of the address.
 */
const byPassword = <A, E>(
  needs: Needs,
  input: SignIn,
  cookies: PresentedCookies,
  ofFactor: (account: Accounts.AccountRow, cookies: CheckedCookies) => Effect.Effect<Option.Option<A>, E>
) =>
  Effect.gen(function* () {
    const accounts = yield* Accounts.atAddress(needs, input.email)
    const device = yield* Accounts.findDevice(needs, cookies.device, ...accounts.map((one) => one.id))
    const attemptAt = (isCandidate: (account: Accounts.AccountRow) => boolean, device: Accounts.KnownDevice | null) =>
      Effect.gen(function* () {
        const browser = { session: cookies.session, device }
        const once = Effect.flatMap(Accounts.atAddress(needs, input.email), (rows) =>
          attempt(needs, rows.filter(isCandidate), input, browser, (account) => ofFactor(account, browser))
        )
        // The repetition serves two simultaneous sign-ins that both renew the hash of one password.
        const work = Effect.repeat(once, { until: Option.isSome, times: 1 }).pipe(
          Effect.flatten,
          Effect.catchTag("NoSuchElementException", () => new SignInFailed())
        )
        const limit = { buckets: yield* signInBuckets(input.email, device), policy: signInPolicy }
        return yield* Attempts.attempt(needs.limiter, limit, work, Predicate.isTagged(SignInFailed.code))
      })
    if (device === null) return yield* attemptAt(() => true, null)
    const isDevices = ({ id }: Accounts.AccountRow) => id === device.userId
    const ofDevice = attemptAt(isDevices, device)
    if (accounts.every(isDevices)) return yield* ofDevice
    return yield* Effect.catchTag(ofDevice, SignInFailed.code, () => attemptAt((account) => !isDevices(account), null))
  })

/** Signs in with one request, which has the code when the account has a second factor. */
const signIn = Effect.fn("Sessions.signIn")((needs: Needs, input: SignIn, cookies: PresentedCookies) =>
  byPassword<SignInResult, SecondFactorRequired | SecondFactorFailed | RateLimited>(
    needs,
    input,
    cookies,
    (account, browser) =>
      account.recovering
        ? Effect.fail(
            new SecondFactorRequired({
              message: "The password is right. Sign in on the dashboard, and confirm there what else signs you in."
            })
          )
        : input.code === undefined
          ? Effect.fail(new SecondFactorRequired())
          : withCode(needs, account, browser, input.code, (prove) => openChecked(needs, account, browser, { prove }))
  )
)

/**
 * Signs in with two steps, as pages do. Returns a session, or the step that the second factor finishes. `recovery`: the
 * step chooses what comes back instead.
 */
const begin = Effect.fn("Sessions.begin")((needs: Needs, input: SignIn, cookies: PresentedCookies) =>
  byPassword(needs, input, cookies, (account) =>
    Effect.map(SignInSteps.begin(needs, account.id, { recovery: account.recovering }), (step) =>
      Option.some({ step, recovery: account.recovering })
    )
  )
)

const tooLate = () => new CredentialExpired({ message: "This sign-in took too long. Start again." })

/** The second step, good once. */
const finish = Effect.fn("Sessions.finish")(function* (
  needs: Needs,
  step: Redacted.Redacted | null,
  code: Redacted.Redacted,
  cookies: PresentedCookies
) {
  const signInStep = yield* SignInSteps.find(needs, step)
  const account = signInStep === undefined ? undefined : yield* Accounts.find(needs, signInStep.userId)
  if (signInStep === undefined || account === undefined || isShutOut(account)) return yield* tooLate()
  const device = yield* Accounts.findDevice(needs, cookies.device, account.id)
  const browser = { session: cookies.session, device }
  const result = yield* withCode(needs, account, browser, code, (prove) =>
    openChecked(needs, account, browser, {
      by: signInStep,
      prove: Effect.if(SignInSteps.end(needs, signInStep.id), { onTrue: () => prove, onFalse: tooLate })
    })
  )
  return Option.isSome(result) ? result.value : yield* tooLate()
})

const isBegun = (needs: Needs, step: Redacted.Redacted | null) =>
  Effect.map(SignInSteps.find(needs, step), (signInStep) => signInStep !== undefined)

/** Signs out: ends the caller's session, from the next request on every process. */
const end = Effect.fn("Sessions.end")(({ audit, sql }: Needs, caller: Caller) =>
  Rows.transaction(sql, function* () {
    const ids = yield* Accounts.endSessions({ sql }, sql`id = ${caller.credentialId}`)
    if (ids.length === 0) return
    yield* audit.append(
      ...Accounts.inEachTeam(caller.teams, { actor: caller, action: "session.end", outcome: "allowed" })
    )
  })
)

/** The active team of the dashboard; the first one when the chosen one is gone. */
const activeTeam = Effect.fnUntraced(function* (needs: Needs, caller: Caller) {
  const first = caller.teams[0]?.id ?? null
  if (caller.kind !== "session") return caller.teams.length === 1 ? first : null
  const activeId = yield* Accounts.activeTeamOf(needs, caller.credentialId)
  return caller.teams.find((team) => team.id === activeId)?.id ?? first
})

/** Sets the active team; ignores a team that is not the caller's. */
const chooseTeam = Effect.fn("Sessions.chooseTeam")(function* ({ sql }: Needs, caller: Caller, teamId: TeamId) {
  if (caller.kind !== "session" || !caller.teams.some((team) => team.id === teamId)) return
  yield* Rows.run(sql`UPDATE sessions SET active_team_id = ${teamId} WHERE id = ${caller.credentialId}`)
})

export class Sessions extends Effect.Service<Sessions>()("credentials/Sessions", {
  effect: Effect.map(services, (needs) =>
    methods(needs, {
      open: Accounts.openSession,
      signIn,
      begin,
      finish,
      isBegun,
      end,
      activeTeam,
      chooseTeam,
      changePassword: NewPassword.changePassword,
      resetPassword: NewPassword.resetPassword
    })
  )
}) {}

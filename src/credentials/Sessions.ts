/** Dashboard sessions: how they are opened, which team they work in, and how they end. */
import * as SqlClient from "@effect/sql/SqlClient"
import * as DateTime from "effect/DateTime"
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
import * as Factors from "./Factors.ts"
import * as NewPassword from "./NewPassword.ts"
import { Passwords } from "./Passwords.ts"
import { Revocation } from "./Revocation.ts"
import {
  isShutOut,
  openChecked,
  type Opened,
  type Presented,
  type PresentedCookies,
  refused
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

/** Where a wrong password counts: 10 per 10 minutes for a known device; for all others, per address and per e-mail. */
const signInBuckets = Effect.fnUntraced(function* (email: string, device: Accounts.KnownDevice | null) {
  if (device !== null) return [`sign-in:device:${device.id}`]
  const { ip } = yield* RequestInfo
  return [`sign-in:${addressBucket(ip)}`, `sign-in:email:${sha256(email).toString("base64url")}`]
})

/** With a code of the second factor: wrong ones count, and are told in the trail. */
const withCode = <E>(
  needs: Needs,
  account: Accounts.AccountRow,
  { device }: Presented,
  code: Redacted.Redacted,
  open: (prove: Effect.Effect<Date, SecondFactorFailed>) => Effect.Effect<Option.Option<Opened>, E | SecondFactorFailed>
) =>
  Effect.gen(function* () {
    const key = yield* Factors.keyOf(needs)
    const prove = Effect.zipRight(Factors.use(needs, key, account.id, code), DateTime.nowAsDate)
    const from = { device: device?.id ?? null }
    return yield* Effect.tapError(Factors.attempt(needs, account.id, from, code, open(prove)), (error) =>
      error instanceof SecondFactorFailed ? refused(needs, account, error._tag) : Effect.void
    )
  })

/**
 * One look at the person and their password. `ofFactor`: what follows for an account with a second factor. None: the
 * password changed while it was checked.
 */
const checked = <A, E>(
  needs: Needs,
  input: SignIn,
  presented: Presented,
  ofFactor: (account: Accounts.AccountRow) => Effect.Effect<Option.Option<A>, E>
) =>
  Effect.gen(function* () {
    const { passwords } = needs
    const account = yield* Accounts.find(needs, "email", input.email)
    const { matches, stale } = yield* passwords.verify(account?.passwordHash, input.password)
    if (account === undefined || !matches || isShutOut(account)) {
      // An unknown address leaves an entry too, so that neither time nor work shows who has an account.
      yield* refused(needs, account, SignInFailed.code)
      return yield* new SignInFailed()
    }
    const further: Effect.Effect<Option.Option<A | Opened>, E> = account.secondFactor
      ? ofFactor(account)
      : Effect.flatMap(stale ? passwords.rehash(input.password) : Effect.succeed(undefined), (renewedHash) =>
          openChecked(needs, account, presented, { prove: Effect.succeed(null), renewedHash })
        )
    return yield* further
  })

/** The session that the browser still presents ends (session fixation). */
const byPassword = <A, E>(
  needs: Needs,
  input: SignIn,
  presented: PresentedCookies,
  ofFactor: (account: Accounts.AccountRow, presented: Presented) => Effect.Effect<Option.Option<A>, E>
) =>
  Effect.gen(function* () {
    const device = yield* Accounts.findDevice(needs, presented.device, input.email)
    const known = { session: presented.session, device }
    // The second look is for the same password under a new hash: two sign-ins at once that both renewed it.
    const work = Effect.repeat(
      checked(needs, input, known, (account) => ofFactor(account, known)),
      { until: Option.isSome, times: 1 }
    ).pipe(
      Effect.flatten,
      Effect.catchTag("NoSuchElementException", () => new SignInFailed())
    )
    const limit = { buckets: yield* signInBuckets(input.email, device), policy: signInPolicy }
    return yield* Attempts.attempt(needs.limiter, limit, work, Predicate.isTagged(SignInFailed.code))
  })

/** In one request: with the code of the second factor, where the account has one. */
const signIn = Effect.fn("Sessions.signIn")((needs: Needs, input: SignIn, presented: PresentedCookies) =>
  byPassword<Opened, SecondFactorRequired | SecondFactorFailed | RateLimited>(
    needs,
    input,
    presented,
    (account, known) =>
      input.code === undefined
        ? Effect.fail(new SecondFactorRequired())
        : withCode(needs, account, known, input.code, (prove) => openChecked(needs, account, known, { prove }))
  )
)

/** In two steps, as pages ask: answers a session, or the step that the second factor finishes. */
const begin = Effect.fn("Sessions.begin")((needs: Needs, input: SignIn, presented: PresentedCookies) =>
  byPassword(needs, input, presented, (account) =>
    Effect.map(SignInSteps.begin(needs, account.id), (step) => Option.some({ step }))
  )
)

const tooLate = () => new CredentialExpired({ message: "This sign-in took too long. Start again." })

/** The second step. Nothing of the first one is good for anything else, and it is good once. */
const finish = Effect.fn("Sessions.finish")(function* (
  needs: Needs,
  step: Redacted.Redacted | null,
  code: Redacted.Redacted,
  presented: PresentedCookies
) {
  const begun = yield* SignInSteps.find(needs, step)
  const account = begun === undefined ? undefined : yield* Accounts.find(needs, "id", begun.userId)
  if (begun === undefined || account === undefined || isShutOut(account)) return yield* tooLate()
  const device = yield* Accounts.findDevice(needs, presented.device, account.email)
  const known = { session: presented.session, device }
  const opened = yield* withCode(needs, account, known, code, (prove) =>
    openChecked(needs, account, known, {
      by: begun,
      prove: Effect.if(SignInSteps.end(needs, begun.id), { onTrue: () => prove, onFalse: tooLate })
    })
  )
  return Option.isSome(opened) ? opened.value : yield* tooLate()
})

/** Whether the browser is between the two steps. */
const isBegun = (needs: Needs, step: Redacted.Redacted | null) =>
  Effect.map(SignInSteps.find(needs, step), (begun) => begun !== undefined)

/** Sign out: the caller's own session, from the next request on every process. */
const end = Effect.fn("Sessions.end")(({ audit, sql }: Needs, caller: Caller) =>
  Rows.transaction(sql, function* () {
    const ended = yield* Accounts.endSessions({ sql }, sql`id = ${caller.credentialId}`)
    if (ended.length === 0) return
    yield* audit.append(
      ...Accounts.inEachTeam(caller.teams, { actor: caller, action: "session.end", outcome: "allowed" })
    )
  })
)

/** The team that the dashboard works in; the first one when the chosen one is gone. */
const activeTeam = Effect.fnUntraced(function* (needs: Needs, caller: Caller) {
  const first = caller.teams[0]?.id ?? null
  if (caller.kind !== "session") return caller.teams.length === 1 ? first : null
  const chosen = yield* Accounts.activeTeamOf(needs, caller.credentialId)
  return caller.teams.find((team) => team.id === chosen)?.id ?? first
})

/** Chooses one of the caller's own teams; any other changes nothing. */
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

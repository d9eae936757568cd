/**
 * Common parts of all changes of a person's factors: a recent proof, an entry in the trail, and the end of sessions.
 */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { Caller } from "#schema/Caller.ts"
import { Forbidden, PasskeyCopied, SecondFactorFailed, SignInFailed, StepUpRequired } from "#schema/Errors.ts"
import type { UserId } from "#schema/Ids.ts"
import type { Audit } from "#src/trail/Audit.ts"
import type { AuditEvent } from "#src/trail/Entry.ts"
import * as Policy from "#src/access/Policy.ts"
import type { RowSeal } from "#src/rows/RowSeal.ts"
import type { Crypto } from "#src/crypto/Crypto.ts"
import * as Rows from "#src/database/Rows.ts"
import * as Accounts from "./Accounts.ts"
import type { Revocation } from "./Revocation.ts"
import type { PresentedCookies } from "./SessionOpening.ts"
import * as SignInSteps from "./SignInSteps.ts"

interface Needs {
  readonly sql: SqlClient.SqlClient
  readonly crypto: Crypto
  readonly rowSeal: RowSeal
  readonly audit: Audit
  readonly revocation: Revocation
}

export const accountOf = Effect.fnUntraced(function* (needs: Pick<Needs, "rowSeal" | "sql">, caller: Caller) {
  const account = caller.user === null ? undefined : yield* Accounts.find(needs, caller.user.id)
  if (account === undefined || !Accounts.coversAccount(caller, account)) return yield* new Forbidden()
  return account
})

/** STEP_UP_REQUIRED unless the person signed in, or confirmed a factor, a short time ago. */
export const checkRecent = Effect.fnUntraced(function* (caller: Caller) {
  if (!Policy.hasRecentProof(caller, yield* Clock.currentTimeMillis)) return yield* new StepUpRequired()
})

export const eventOf = (caller: Caller, action: AuditEvent["action"], name: string): Omit<AuditEvent, "teamId"> => ({
  actor: caller,
  action,
  outcome: "allowed",
  target: { type: "second_factor", id: name, name }
})

/**
 * Locks the account to the end of the transaction, so that changes of the password and of factors run one after
 * another.
 */
export const lockAccount = Effect.fnUntraced(function* (needs: Pick<Needs, "sql">, caller: Caller, userId: UserId) {
  yield* Rows.run(needs.sql`SELECT id FROM users WHERE id = ${userId} FOR NO KEY UPDATE`)
  if (yield* Accounts.hasEnded(needs, caller.credentialId)) return yield* new Forbidden()
})

/** Proof of the session that added an authenticator: its use counts as a factor, and not as a second proof. */
export const proofOfNew = ({ createdAt, factorAt, provedAt }: Caller, now: Date): Accounts.FactorProof => ({
  factorAt: now,
  provedAt: provedAt ?? factorAt ?? createdAt,
  closedTeams: null
})

export const tooYoung = () =>
  new SecondFactorFailed({
    message: "This was added less than a day ago. Confirm with an older one, or with your password if you have none."
  })

/**
 * Part of the caller's transaction: ends all sessions and opens a new one for the caller. `proof`: the proof that the
 * new session has; none when the last factor was removed.
 */
export const replaceSessions = Effect.fnUntraced(function* (
  needs: Needs,
  caller: Caller,
  account: Accounts.AccountRow,
  { proof, device }: { readonly proof: Accounts.FactorProof; readonly device: Accounts.KnownDevice | null }
) {
  const activeTeam = yield* Accounts.activeTeamOf(needs, caller.credentialId)
  yield* SignInSteps.endOf(needs, account.id)
  yield* needs.revocation.sessionsOf(account.id)
  return yield* Accounts.openSession(needs, account.id, activeTeam, {
    proof,
    device,
    by: yield* Accounts.sourceOf(needs, caller)
  })
})

/**
 * Confirms the person again, and replaces the session, so that a stolen text of the old one gains nothing. `use`: the
 * proof, as part of the transaction.
 */
export const confirmWith = <E>(
  needs: Needs,
  caller: Caller,
  account: Accounts.AccountRow,
  cookies: PresentedCookies,
  use: Effect.Effect<Accounts.FactorProof, E>
) =>
  Effect.flatMap(Accounts.findDevice(needs, cookies.device, account.id), (device) =>
    Rows.transaction(needs.sql, function* () {
      yield* lockAccount(needs, caller, account.id)
      const proof = yield* use
      const activeTeam = yield* Accounts.activeTeamOf(needs, caller.credentialId)
      yield* Accounts.endSessions(needs, needs.sql`id = ${caller.credentialId}`)
      const session = yield* Accounts.openSession(needs, account.id, activeTeam, {
        proof,
        device,
        by: yield* Accounts.sourceOf(needs, caller)
      })
      yield* needs.audit.append(
        ...Accounts.inEachTeam(caller.teams, { actor: caller, action: "factor.confirm", outcome: "allowed" })
      )
      return session
    })
  )

const isWrong = (error: unknown) =>
  error instanceof SecondFactorFailed || error instanceof SignInFailed || error instanceof PasskeyCopied

/** Records a failed confirmation in the trail. */
export const recordFailure = <A, E extends { readonly _tag: string }, R>(
  { audit }: Pick<Needs, "audit">,
  caller: Caller,
  work: Effect.Effect<A, E, R>
) =>
  Effect.tapError(work, (error) =>
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

/**
 * The first sign-in after a reset link: the new password alone opens a step that is good for nothing but choosing, one by
 * one, which authenticators and identities come back. The others are deleted.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import { CredentialExpired, ValidationFailed } from "#schema/Errors.ts"
import { Audit } from "#src/trail/Audit.ts"
import type { AuditEvent } from "#src/trail/Entry.ts"
import { RowSeal } from "#src/rows/RowSeal.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { methods } from "#src/Methods.ts"
import * as Rows from "#src/database/Rows.ts"
import * as Accounts from "./Accounts.ts"
import * as Factors from "./Factors.ts"
import * as RecoveryRows from "./RecoveryRows.ts"
import { isShutOut, openChecked, type PresentedCookies } from "./SessionOpening.ts"
import * as SignInSteps from "./SignInSteps.ts"

const services = Effect.all({ sql: SqlClient.SqlClient, crypto: Crypto, audit: Audit, rowSeal: RowSeal })
type Needs = Effect.Effect.Success<typeof services>

const tooLate = () => new CredentialExpired({ message: "This sign-in took too long. Start again." })

const stepOf = Effect.fnUntraced(function* (needs: Needs, text: Redacted.Redacted | null) {
  const step = yield* SignInSteps.find(needs, text, true)
  const account = step === undefined ? undefined : yield* Accounts.find(needs, step.userId)
  if (step === undefined || account === undefined || isShutOut(account) || !account.recovering) return yield* tooLate()
  return { step, account }
})

const isBegun = (needs: Needs, text: Redacted.Redacted | null) =>
  Effect.map(SignInSteps.find(needs, text, true), (step) => step !== undefined)

/** Items to decide about, each with the day it was added. */
const list = Effect.fn("Recovery.list")(function* (needs: Needs, cookies: PresentedCookies) {
  const { account } = yield* stepOf(needs, cookies.step)
  return yield* RecoveryRows.listOf(needs, account.id)
})

/** A decision about each item: an item without one is an error, so that nothing comes back by default. */
interface Decisions {
  readonly keep: ReadonlyArray<string>
  readonly remove: ReadonlyArray<string>
}

const eventOf = (
  { kind, name, id }: RecoveryRows.Item,
  account: Accounts.AccountRow,
  kept: boolean
): Omit<AuditEvent, "teamId"> => ({
  actor: { userId: account.id, email: account.email },
  action: kept ? "factor.vouch" : kind === "identity" ? "identity.unlink" : "factor.remove",
  outcome: "allowed",
  target: kind === "identity" ? { type: "sign_in_identity", id, name } : { type: "second_factor", id: kind, name }
})

const missing = () => new ValidationFailed({ message: "Choose for each of them: keep it, or remove it." })

/** Returns a session, or the step for a second factor that came back. */
const finish = Effect.fn("Recovery.finish")(function* (
  needs: Needs,
  { keep, remove }: Decisions,
  cookies: PresentedCookies
) {
  const { audit, rowSeal, sql } = needs
  const { account, step } = yield* stepOf(needs, cookies.step)
  const hasFactor = yield* Rows.transaction(sql, function* () {
    yield* Rows.run(sql`SELECT id FROM users WHERE id = ${account.id} FOR NO KEY UPDATE`)
    const items = yield* RecoveryRows.listOf(needs, account.id)
    if (items.some(({ id }) => keep.includes(id) === remove.includes(id))) return yield* missing()
    if (!(yield* SignInSteps.end(needs, step.id))) return yield* tooLate()
    const kept = items.filter(({ id }) => keep.includes(id))
    yield* RecoveryRows.restore(needs, account.id, kept)
    yield* RecoveryRows.removeRest(needs, account.id)
    yield* rowSeal.update("users", sql`id = ${account.id}`, () => ({ recovering: false }))
    yield* audit.append(
      ...items.flatMap((item) => Accounts.inEachTeam(account.memberships, eventOf(item, account, kept.includes(item))))
    )
    return yield* Factors.finishRemoval(needs, account.id)
  })
  const after = yield* Accounts.find(needs, account.id)
  if (after === undefined) return yield* tooLate()
  if (hasFactor) return { step: yield* SignInSteps.begin(needs, account.id) }
  const device = yield* Accounts.findDevice(needs, cookies.device, account.id)
  const browser = { session: cookies.session, device }
  const result = yield* openChecked(needs, after, browser, { prove: Effect.succeed(Accounts.noFactor) })
  return Option.isSome(result) ? { session: result.value.session } : yield* tooLate()
})

export class Recovery extends Effect.Service<Recovery>()("credentials/Recovery", {
  effect: Effect.map(services, (needs) => methods(needs, { isBegun, list, finish }))
}) {}

/**
 * A person's e-mail address: it signs them in, and identifies them to their teams. A change needs the password, ends the
 * other sessions, and notifies the old address and each team. The account is provisional afterwards, until a witness
 * vouches for the new address.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import type { Caller } from "#schema/Caller.ts"
import { Forbidden, ValidationFailed } from "#schema/Errors.ts"
import type { Person } from "#schema/IdentityApi.ts"
import type { ChangeEmail } from "#schema/SessionApi.ts"
import { addressOf } from "#schema/Values.ts"
import { Access } from "#src/access/Access.ts"
import { Audit } from "#src/trail/Audit.ts"
import * as Policy from "#src/access/Policy.ts"
import { RowSeal } from "#src/rows/RowSeal.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import * as Attempts from "#src/limits/Attempts.ts"
import { RateLimiter, takenEmailPolicy } from "#src/limits/RateLimiter.ts"
import { methods } from "#src/Methods.ts"
import * as Rows from "#src/database/Rows.ts"
import * as Accounts from "./Accounts.ts"
import * as EmailMove from "./EmailMove.ts"
import { accountOf, checkRecent, lockAccount, replaceSessions } from "./FactorChanges.ts"
import { verifyCurrent } from "./NewPassword.ts"
import { Passwords } from "./Passwords.ts"
import { Revocation } from "./Revocation.ts"
import type { PresentedCookies } from "./SessionOpening.ts"

const services = Effect.all({
  sql: SqlClient.SqlClient,
  access: Access,
  crypto: Crypto,
  passwords: Passwords,
  limiter: RateLimiter,
  audit: Audit,
  revocation: Revocation,
  rowSeal: RowSeal
})
type Needs = Effect.Effect.Success<typeof services>

/**
 * The address concerns all teams, so each of them must accept the session. An account without a password keeps the
 * address that its issuer vouches for.
 */
const checkMayChange = Effect.fnUntraced(function* (caller: Caller, account: Accounts.AccountRow) {
  if (account.passwordHash === "") {
    return yield* new Forbidden({
      message: "An issuer vouches for your address, and you have no password. Ask the operator of the server."
    })
  }
  if (account.memberships.some((team) => team.active && !Policy.letsIn(caller, team))) {
    return yield* new Forbidden({
      message:
        "One of your teams does not accept this session. Sign in the way that team requires, then change your address."
    })
  }
  if (account.secondFactor) yield* checkRecent(caller)
})

/** Refusals that may answer a guess: of the password, or of an existing account's address. */
const isGuess = Predicate.or(Predicate.isTagged("SIGN_IN_FAILED"), Predicate.isTagged("NAME_TAKEN"))

/** Returns the person, and the session that replaces the caller's. The account's other sessions end. */
const change = Effect.fn("EmailAddress.change")(function* (
  needs: Needs,
  { currentPassword, email }: ChangeEmail,
  cookies: PresentedCookies
) {
  const { access, audit, limiter, sql } = needs
  const caller = yield* access.allTeams("identity:read", { audit: "email.change" })
  const account = yield* accountOf(needs, caller)
  yield* checkMayChange(caller, account)
  if (email === addressOf(account.email)) {
    return yield* new ValidationFailed({ field: "email", message: "This is your address already." })
  }
  const event = { actor: caller, action: "email.change" } as const
  const device = yield* Accounts.findDevice(needs, cookies.device, account.id)
  const work = Rows.transaction(sql, function* () {
    yield* Accounts.lockAddresses(needs, addressOf(account.email), email)
    yield* lockAccount(needs, caller, account.id)
    // A statement alone displaces no account, not even a provisional one.
    if ((yield* Accounts.atAddress(needs, email)).length > 0) return yield* EmailMove.addressTaken()
    yield* EmailMove.move(needs, { userId: account.id, from: account.email, to: email, vouchedBy: "none" })
    const session = yield* replaceSessions(needs, caller, account, { proof: Accounts.proofOf(caller), device })
    const target = { type: "user", id: account.id, name: email } as const
    yield* audit.append(...Accounts.inEachTeam(account.memberships, { ...event, outcome: "allowed", target }))
    const user: Person = { id: account.id, email, name: account.name }
    return { user, session }
  })
  const limit = { buckets: [`email-taken:${account.id}`], policy: takenEmailPolicy }
  return yield* verifyCurrent(needs, caller, account, currentPassword, "currentPassword").pipe(
    Effect.zipRight(Attempts.attempt(limiter, limit, work, Predicate.isTagged("NAME_TAKEN"))),
    Effect.tapError((error) =>
      isGuess(error)
        ? audit.record(...Accounts.inEachTeam(account.memberships, { ...event, outcome: "denied", reason: error._tag }))
        : Effect.void
    )
  )
})

export class EmailAddress extends Effect.Service<EmailAddress>()("credentials/EmailAddress", {
  effect: Effect.map(services, (needs) => methods(needs, { change }))
}) {}

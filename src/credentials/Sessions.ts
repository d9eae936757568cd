/** Dashboard sessions: how they are opened, which team they work in, and how they end. */
import * as SqlClient from "@effect/sql/SqlClient"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import type * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type { Caller } from "#schema/Caller.ts"
import { SignInFailed } from "#schema/Errors.ts"
import type { MyTeam, Person } from "#schema/IdentityApi.ts"
import type { TeamId } from "#schema/Ids.ts"
import type { SignIn } from "#schema/SessionApi.ts"
import { Audit } from "#src/access/Audit.ts"
import { RequestInfo } from "#src/access/RequestInfo.ts"
import { RowSeal } from "#src/access/RowSeal.ts"
import { Crypto, sha256 } from "#src/crypto/Crypto.ts"
import { addressBucket } from "#src/limits/AddressBucket.ts"
import * as Attempts from "#src/limits/Attempts.ts"
import { RateLimiter, signInPolicy } from "#src/limits/RateLimiter.ts"
import { methods } from "#src/Methods.ts"
import * as Rows from "#src/Rows.ts"
import * as Accounts from "./Accounts.ts"
import * as NewPassword from "./NewPassword.ts"
import { Passwords } from "./Passwords.ts"
import { Revocation } from "./Revocation.ts"
import * as TokenText from "./TokenText.ts"

export type { OpenedSession } from "./Accounts.ts"

/** What a browser presents before it signs in, valid or not. */
export interface PresentedCookies {
  readonly session: Redacted.Redacted | null
  readonly device: Redacted.Redacted | null
}

const services = Effect.all({
  sql: SqlClient.SqlClient,
  crypto: Crypto,
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

const SessionProofRow = Schema.Struct({ id: Schema.String, ...TokenText.ProofRow.fields })

const endText = Effect.fnUntraced(function* (needs: Needs, text: Redacted.Redacted | null, now: Date) {
  const { sql } = needs
  const row = yield* TokenText.prove(needs, "ss", text, (id) =>
    Rows.findOne(
      SessionProofRow,
      sql`SELECT id, salt, hash FROM sessions WHERE lookup_id = ${id} AND revoked_at IS NULL`
    )
  )
  if (row !== undefined) yield* Rows.run(sql`UPDATE sessions SET revoked_at = ${now}, mac = '' WHERE id = ${row.id}`)
})

/** None: the password that was checked is not the person's any more. */
const openChecked = (
  needs: Needs,
  account: Accounts.AccountRow,
  renewedHash: string | undefined,
  presented: { readonly session: Redacted.Redacted | null; readonly device: Accounts.KnownDevice | null }
) =>
  Rows.transaction(needs.sql, function* () {
    const { audit, rowSeal, sql } = needs
    // Locked to the end: a change of the password comes before this and is seen, or after and ends the session.
    const isCurrent = yield* Rows.exists(sql`
      SELECT 1 FROM users WHERE id = ${account.id} AND password_hash = ${account.passwordHash} FOR NO KEY UPDATE`)
    if (!isCurrent) return Option.none()
    if (renewedHash !== undefined) {
      yield* rowSeal.update("users", sql`id = ${account.id}`, () => ({ passwordHash: renewedHash }))
    }
    yield* endText(needs, presented.session, yield* DateTime.nowAsDate)
    const last = yield* Accounts.lastActiveTeam(needs, account.id)
    const teams = account.memberships
      .filter((team) => team.active)
      .map(({ id, name, plan, role }): MyTeam => ({ id, name, role, plan }))
    const active = teams.find((team) => team.id === last) ?? teams[0]
    const session = yield* Accounts.openSession(needs, account.id, active?.id ?? null, presented.device)
    const person: Person = { id: account.id, email: account.email, name: account.name }
    yield* audit.append(
      ...Accounts.inEachTeam(teams, {
        actor: { userId: account.id, email: account.email },
        action: "session.create",
        outcome: "allowed"
      })
    )
    return Option.some({ user: person, teams, session })
  })

/** One look at the person and their password. None: the password changed while it was checked. */
const checked = Effect.fnUntraced(function* (
  needs: Needs,
  input: SignIn,
  presented: { readonly session: Redacted.Redacted | null; readonly device: Accounts.KnownDevice | null }
) {
  const { audit, passwords } = needs
  const account = yield* Accounts.find(needs, "email", input.email)
  const { matches, stale } = yield* passwords.verify(account?.passwordHash, input.password)
  // A person who was deactivated in every team was signed out for good; one who belongs to no team may make one.
  const shutOut =
    account !== undefined && account.memberships.length > 0 && !account.memberships.some((team) => team.active)
  if (account === undefined || !matches || shutOut) {
    // An unknown address leaves an entry too, so that neither time nor work shows who has an account.
    yield* audit.record(
      ...Accounts.inEachTeam(account?.memberships ?? [], {
        actor: account === undefined ? "system" : { userId: account.id, email: account.email },
        action: "session.create",
        outcome: "denied",
        reason: SignInFailed.code
      })
    )
    return yield* new SignInFailed()
  }
  const renewedHash = stale ? yield* passwords.rehash(input.password) : undefined
  return yield* openChecked(needs, account, renewedHash, presented)
})

/** The session that the browser still presents ends (session fixation). */
const signIn = Effect.fn("Sessions.signIn")(function* (needs: Needs, input: SignIn, presented: PresentedCookies) {
  const device = yield* Accounts.findDevice(needs, presented.device, input.email)
  // The second look is for the same password under a new hash: two sign-ins at once that both renewed it.
  const work = Effect.repeat(checked(needs, input, { session: presented.session, device }), {
    until: Option.isSome,
    times: 1
  }).pipe(
    Effect.flatten,
    Effect.catchTag("NoSuchElementException", () => new SignInFailed())
  )
  const limit = { buckets: yield* signInBuckets(input.email, device), policy: signInPolicy }
  return yield* Attempts.attempt(needs.limiter, limit, work, Predicate.isTagged(SignInFailed.code))
})

/** Sign out: the caller's own session, from the next request on every process. */
const end = Effect.fn("Sessions.end")(({ audit, sql }: Needs, caller: Caller) =>
  Rows.transaction(sql, function* () {
    const now = yield* DateTime.nowAsDate
    const ended = yield* Rows.exists(sql`
      UPDATE sessions SET revoked_at = ${now}, mac = '' WHERE id = ${caller.credentialId} AND revoked_at IS NULL RETURNING id`)
    if (!ended) return
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
      end,
      activeTeam,
      chooseTeam,
      changePassword: NewPassword.changePassword,
      resetPassword: NewPassword.resetPassword
    })
  )
}) {}

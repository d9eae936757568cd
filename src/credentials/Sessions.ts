/** Dashboard sessions and the passwords that open them (decisions 2 and 9). */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Redacted from "effect/Redacted"
import type { Caller } from "#schema/Caller.ts"
import { CredentialExpired, CredentialInvalid, CredentialRevoked, SignInFailed } from "#schema/Errors.ts"
import type { MyTeam, Person } from "#schema/IdentityApi.ts"
import type { TeamId, UserId } from "#schema/Ids.ts"
import type { Plan, Role } from "#schema/Scopes.ts"
import type { ChangePassword, ResetPassword, SignIn } from "#schema/SessionApi.ts"
import { Audit, type AuditEvent } from "#src/access/Audit.ts"
import { RequestInfo } from "#src/access/RequestInfo.ts"
import { Crypto, sha256 } from "#src/crypto/Crypto.ts"
import { addressBucket } from "#src/limits/AddressBucket.ts"
import { RateLimiter, signInPolicy } from "#src/limits/RateLimiter.ts"
import { issue } from "./Issue.ts"
import { sessionLife } from "./Liveness.ts"
import { Passwords } from "./Passwords.ts"
import { Revocation, revocationEvents } from "./Revocation.ts"
import * as TokenText from "./TokenText.ts"

/** How long an address or a browser is remembered is of no use beyond this. */
const maxUserAgent = 256

/** A fresh session: the cookie's text and its absolute end. */
export interface OpenedSession {
  readonly text: Redacted.Redacted
  readonly expiresAt: Date
}

interface UserRow {
  readonly id: UserId
  readonly email: string
  readonly name: string
  readonly passwordHash: string
  readonly memberships: ReadonlyArray<{
    readonly id: TeamId
    readonly name: string
    readonly plan: Plan
    readonly role: Role
    readonly active: boolean
  }>
}

/** An event of the person shows in the trail of each of their teams. */
export const inEachTeam = (
  teamIds: ReadonlyArray<TeamId>,
  event: Omit<AuditEvent, "teamId">
): ReadonlyArray<AuditEvent> =>
  teamIds.length === 0 ? [{ ...event, teamId: null }] : teamIds.map((teamId) => ({ ...event, teamId }))

export class Sessions extends Effect.Service<Sessions>()("credentials/Sessions", {
  effect: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const crypto = yield* Crypto
    const passwords = yield* Passwords
    const limiter = yield* RateLimiter
    const audit = yield* Audit
    const revocation = yield* Revocation

    const userBy = (column: "email" | "id", value: string) =>
      Effect.map(
        sql<UserRow>`
          SELECT u.id, u.email, u.name, u.password_hash,
            (SELECT coalesce(json_agg(json_build_object('id', t.id, 'name', t.name, 'plan', t.plan, 'role', m.role,
                'active', m.active) ORDER BY t.id), '[]'::json)
              FROM memberships m JOIN teams t ON t.id = m.team_id WHERE m.user_id = u.id) AS memberships
          FROM users u WHERE ${sql(column)} = ${value}`,
        (rows): UserRow | undefined => rows[0]
      )

    /** A new session row; in the caller's transaction. */
    const open = Effect.fnUntraced(function* (userId: UserId, activeTeamId: TeamId | null) {
      const now = yield* Clock.currentTimeMillis
      const { ip, userAgent } = yield* RequestInfo
      const { proof, text } = yield* issue(crypto, "ss")
      const expiresAt = new Date(now + sessionLife)
      yield* sql`INSERT INTO sessions ${sql.insert({
        id: yield* crypto.uuid,
        lookup_id: proof.lookupId,
        salt: proof.salt,
        hash: proof.hash,
        user_id: userId,
        active_team_id: activeTeamId,
        created_at: new Date(now),
        expires_at: expiresAt,
        last_used_at: new Date(now),
        last_used_ip: ip,
        last_used_user_agent: userAgent?.slice(0, maxUserAgent) ?? null
      })}`
      const opened: OpenedSession = { text, expiresAt }
      return opened
    }, Effect.orDie)

    /**
     * `check`, as an attempt: "sign-in 10 per 10 min per e-mail and per address" (decisions 7); every check of a password
     * counts. A refused one counts in neither, so that an address that is out of tries cannot use up other people's.
     */
    const attempt = Effect.fnUntraced(function* <A, E, R>(email: string, check: Effect.Effect<A, E, R>) {
      const { ip } = yield* RequestInfo
      const address = `sign-in:${addressBucket(ip)}`
      const person = `sign-in:email:${sha256(email).toString("base64url")}`
      yield* limiter.take(address, signInPolicy)
      yield* Effect.tapError(limiter.take(person, signInPolicy), () => limiter.giveBack(address))
      return yield* Effect.tapError(check, (error) =>
        Predicate.isTagged(error, "RATE_LIMITED")
          ? Effect.zipRight(limiter.giveBack(address), limiter.giveBack(person))
          : Effect.void
      )
    })

    /** One look at the person and their password. None: the password that was just checked is not theirs any more. */
    const checked = Effect.fnUntraced(function* (input: SignIn, replaces: Redacted.Redacted | null) {
      const user = yield* Effect.orDie(userBy("email", input.email))
      const { matches, stale } = yield* passwords.verify(user?.passwordHash, input.password)
      // Someone who was deactivated in every team was signed out for good; who belongs to no team may make one.
      const shutOut = user !== undefined && user.memberships.length > 0 && !user.memberships.some((m) => m.active)
      if (user === undefined || !matches || shutOut) {
        // An unknown address leaves an entry too, so that neither time nor work tells who has an account.
        yield* audit.record(
          ...inEachTeam(user?.memberships.map((m) => m.id) ?? [], {
            actor: user === undefined ? "system" : { userId: user.id, email: user.email },
            action: "session.create",
            outcome: "denied",
            reason: SignInFailed.code
          })
        )
        return yield* new SignInFailed()
      }
      const renewed = stale ? yield* passwords.rehash(input.password) : undefined
      const person: Person = { id: user.id, email: user.email, name: user.name }
      const teams = user.memberships
        .filter((m) => m.active)
        .map(({ id, name, plan, role }): MyTeam => ({ id, name, role, plan }))
      return yield* sql
        .withTransaction(
          Effect.gen(function* () {
            // Held to the end: a change of the password comes before this and is seen, or after and ends the session.
            const current = yield* sql`
              SELECT 1 FROM users WHERE id = ${user.id} AND password_hash = ${user.passwordHash} FOR NO KEY UPDATE`
            if (current.length === 0) return Option.none()
            if (renewed !== undefined) yield* sql`UPDATE users SET password_hash = ${renewed} WHERE id = ${user.id}`
            const now = yield* DateTime.nowAsDate
            yield* endText(replaces, now)
            const last = yield* sql<{ readonly activeTeamId: TeamId | null }>`
              SELECT active_team_id FROM sessions WHERE user_id = ${user.id} ORDER BY created_at DESC LIMIT 1`
            const active = teams.find((team) => team.id === last[0]?.activeTeamId) ?? teams[0]
            const session = yield* open(user.id, active?.id ?? null)
            yield* audit.append(
              ...inEachTeam(
                teams.map((team) => team.id),
                { actor: { userId: user.id, email: user.email }, action: "session.create", outcome: "allowed" }
              )
            )
            return Option.some({ user: person, teams, session })
          })
        )
        .pipe(Effect.orDie)
    })

    /** `replaces`: the session that the browser still presents; it ends (session fixation). */
    const signIn = Effect.fn("Sessions.signIn")(function* (input: SignIn, replaces: Redacted.Redacted | null) {
      // The second look is for the same password under a new hash: two sign-ins at once that both renewed it.
      const looked = Effect.repeat(checked(input, replaces), { until: Option.isSome, times: 1 })
      return yield* attempt(input.email, looked).pipe(
        Effect.flatten,
        Effect.catchTag("NoSuchElementException", () => new SignInFailed())
      )
    })

    const endText = (text: Redacted.Redacted | null, now: Date) => {
      const token = text === null ? undefined : TokenText.parse(Redacted.value(text))
      if (token?.kind !== "ss") return Effect.void
      return Effect.gen(function* () {
        const rows = yield* sql<{ readonly id: string; readonly salt: Buffer; readonly hash: Buffer }>`
          SELECT id, salt, hash FROM sessions WHERE lookup_id = ${token.id} AND revoked_at IS NULL`
        if (TokenText.verify(rows[0], token.secret)) {
          yield* sql`UPDATE sessions SET revoked_at = ${now} WHERE id = ${rows[0].id}`
        }
      })
    }

    /** Sign out: the caller's own session, from the next request on every process. */
    const end = Effect.fn("Sessions.end")(function* (caller: Caller) {
      yield* sql
        .withTransaction(
          Effect.gen(function* () {
            const now = yield* DateTime.nowAsDate
            const ended = yield* sql`
            UPDATE sessions SET revoked_at = ${now} WHERE id = ${caller.credentialId} AND revoked_at IS NULL RETURNING id`
            if (ended.length === 0) return
            yield* audit.append(
              ...inEachTeam(
                caller.teams.map((team) => team.id),
                { actor: caller, action: "session.end", outcome: "allowed" }
              )
            )
          })
        )
        .pipe(Effect.orDie)
    })

    /** The team that the dashboard works in; the first one when the chosen one is gone. */
    const activeTeam = Effect.fnUntraced(function* (caller: Caller) {
      const first = caller.teams[0]?.id ?? null
      if (caller.kind !== "session") return caller.teams.length === 1 ? first : null
      const rows = yield* sql<{ readonly activeTeamId: TeamId | null }>`
        SELECT active_team_id FROM sessions WHERE id = ${caller.credentialId}`
      return caller.teams.find((team) => team.id === rows[0]?.activeTeamId)?.id ?? first
    }, Effect.orDie)

    /** Of one of the caller's own teams; anything else changes nothing. */
    const chooseTeam = Effect.fn("Sessions.chooseTeam")(function* (caller: Caller, teamId: TeamId) {
      if (caller.kind !== "session" || !caller.teams.some((team) => team.id === teamId)) return
      yield* sql`UPDATE sessions SET active_team_id = ${teamId} WHERE id = ${caller.credentialId}`
    }, Effect.orDie)

    /**
     * A new password: links to the account are void, other sessions end, tokens of the person's making are revoked.
     * Sessions before tokens: a token that one of them is just creating is then seen by the later statement. False =
     * the password is not `expected` any more.
     */
    const setPassword = Effect.fnUntraced(function* (
      userId: UserId,
      phc: string,
      options: { readonly expected: string | null; readonly keepSession: string | null }
    ) {
      const now = yield* DateTime.nowAsDate
      // Whoever knew the old password, or sat at a session, may have handed out links in the person's name.
      yield* revocation.linksBy(userId, null)
      yield* revocation.resetLinksOf(userId)
      const changed = yield* sql`
        UPDATE users SET password_hash = ${phc}, updated_at = ${now}
        WHERE id = ${userId} AND (${options.expected}::text IS NULL OR password_hash = ${options.expected}) RETURNING id`
      if (changed.length === 0) return false
      yield* revocation.sessionsOf(userId, options.keepSession)
      return yield* revocation.tokensOf(userId, null)
    })

    const changePassword = Effect.fn("Sessions.changePassword")(function* (caller: Caller, input: ChangePassword) {
      const user = caller.user === null ? undefined : yield* Effect.orDie(userBy("id", caller.user.id))
      if (user === undefined) return yield* new SignInFailed()
      const teamIds = user.memberships.map((m) => m.id)
      const { matches } = yield* attempt(user.email, passwords.verify(user.passwordHash, input.currentPassword))
      if (!matches) {
        yield* audit.record(
          ...inEachTeam(teamIds, {
            actor: caller,
            action: "password.change",
            outcome: "denied",
            reason: SignInFailed.code
          })
        )
        return yield* new SignInFailed({ field: "currentPassword", message: "The current password is wrong." })
      }
      const phc = yield* passwords.hash(input.newPassword, "newPassword")
      yield* sql
        .withTransaction(
          Effect.gen(function* () {
            const options = { expected: user.passwordHash, keepSession: caller.credentialId }
            const revoked = yield* setPassword(user.id, phc, options)
            // Another change won: what was checked above is not the current password any more.
            if (revoked === false) return yield* new SignInFailed()
            yield* audit.append(
              ...inEachTeam(teamIds, { actor: caller, action: "password.change", outcome: "allowed" }),
              ...revocationEvents(caller, revoked)
            )
          })
        )
        .pipe(Effect.catchTag("SqlError", Effect.die))
    })

    interface ResetRow {
      readonly id: string
      readonly salt: Buffer
      readonly hash: Buffer
      readonly userId: UserId
      readonly createdBy: UserId
      readonly email: string
      readonly expiresAt: Date
      readonly usedAt: Date | null
      readonly teamIds: ReadonlyArray<TeamId>
    }

    /** "Ends sessions, grants and OAuth grants, revokes tokens" (decisions 9). */
    const resetPassword = Effect.fn("Sessions.resetPassword")(function* (input: ResetPassword) {
      const token = TokenText.parse(Redacted.value(input.code))
      if (token?.kind !== "pr") return yield* new CredentialInvalid()
      const rows = yield* Effect.orDie(sql<ResetRow>`
        SELECT r.id, r.salt, r.hash, r.user_id, r.created_by, u.email, r.expires_at, r.used_at,
          array(SELECT m.team_id FROM memberships m WHERE m.user_id = r.user_id ORDER BY 1) AS team_ids
        FROM password_resets r JOIN users u ON u.id = r.user_id WHERE r.lookup_id = ${token.id}`)
      const reset: ResetRow | undefined = rows[0]
      if (!TokenText.verify(reset, token.secret) || reset === undefined) return yield* new CredentialInvalid()
      if (reset.usedAt !== null) return yield* new CredentialRevoked()
      if (reset.expiresAt.getTime() <= (yield* Clock.currentTimeMillis)) return yield* new CredentialExpired()
      const phc = yield* passwords.hash(input.newPassword, "newPassword")
      yield* sql
        .withTransaction(
          Effect.gen(function* () {
            const now = yield* DateTime.nowAsDate
            const used = yield* sql`
            UPDATE password_resets SET used_at = ${now} WHERE id = ${reset.id} AND used_at IS NULL RETURNING id`
            if (used.length === 0) return yield* new CredentialRevoked()
            // The person may have risen, or joined another team, since: a link made for a member opens no owner.
            if (!(yield* revocation.manages(reset.createdBy, reset.userId))) return yield* new CredentialRevoked()
            const revoked = yield* setPassword(reset.userId, phc, { expected: null, keepSession: null })
            if (revoked === false) return yield* new CredentialRevoked()
            yield* revocation.grantsOf(reset.userId)
            const actor = { userId: reset.userId, email: reset.email }
            yield* audit.append(
              ...inEachTeam(reset.teamIds, { actor, action: "password.reset", outcome: "allowed" }),
              ...revocationEvents(actor, revoked)
            )
          })
        )
        .pipe(Effect.catchTag("SqlError", Effect.die))
    })

    return { open, signIn, end, activeTeam, chooseTeam, changePassword, resetPassword } as const
  })
}) {}

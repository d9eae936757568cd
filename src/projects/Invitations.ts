/** One-time links into a team (decisions 9): no mail server, whoever invites hands the link over. */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import type { Caller } from "#schema/Caller.ts"
import {
  CredentialExpired,
  CredentialInvalid,
  CredentialRevoked,
  Forbidden,
  GrantNotFound,
  NameTaken,
  PlanLimitReached,
  Unauthenticated,
  ValidationFailed
} from "#schema/Errors.ts"
import type { MyTeam, Person } from "#schema/IdentityApi.ts"
import { type TeamId, type UserId, UserIdOut } from "#schema/Ids.ts"
import type { Plan, Role } from "#schema/Scopes.ts"
import type { AcceptInvitation, Invitation, Invite } from "#schema/TeamsApi.ts"
import { days } from "#src/Days.ts"
import { Audit } from "#src/access/Audit.ts"
import { change } from "#src/access/Change.ts"
import type { TeamPermit } from "#src/access/Permit.ts"
import { AppConfig } from "#src/AppConfig.ts"
import { issue } from "#src/credentials/Issue.ts"
import { Passwords } from "#src/credentials/Passwords.ts"
import { type OpenedSession, Sessions } from "#src/credentials/Sessions.ts"
import * as TokenText from "#src/credentials/TokenText.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import * as Plans from "#src/limits/Plans.ts"

const invitationLife = days(7)

/** The sentence of a member that the shape requires: whether these are needed shows only when the person is looked up. */
const missing = (field: string) => new ValidationFailed({ field, message: "This member is required." })

interface InvitationRow {
  readonly id: string
  readonly salt: Buffer
  readonly hash: Buffer
  readonly teamId: TeamId
  readonly email: string
  readonly role: Role
  readonly expiresAt: Date
  readonly acceptedAt: Date | null
  readonly revokedAt: Date | null
}
/** An invitation that waits for its person. The link itself is kept nowhere. */
export interface OpenInvitation {
  readonly id: string
  readonly email: string
  readonly role: Role
  readonly invitedBy: string
  readonly createdAt: string
  readonly expiresAt: string
}
interface OpenRow {
  readonly id: string
  readonly email: string
  readonly role: Role
  readonly invitedBy: string
  readonly createdAt: Date
  readonly expiresAt: Date
}
interface UserRow {
  readonly id: UserId
  readonly email: string
  readonly name: string
}

export class Invitations extends Effect.Service<Invitations>()("projects/Invitations", {
  effect: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const crypto = yield* Crypto
    const config = yield* AppConfig
    const audit = yield* Audit
    const passwords = yield* Passwords
    const sessions = yield* Sessions
    const services = { sql, audit }

    /** The team's lock, and the role that the acting person has under it: one lost on the way here does not count. */
    const actingRole = Effect.fnUntraced(function* (permit: TeamPermit<"members:manage">) {
      const { user } = permit.caller
      const { teamId } = permit.target
      yield* sql`SELECT id FROM teams WHERE id = ${teamId} FOR NO KEY UPDATE`
      const self = yield* sql<{ readonly role: Role }>`
        SELECT role FROM memberships WHERE team_id = ${teamId} AND user_id = ${user?.id ?? null}::uuid AND active`
      return self.at(0)?.role
    })

    /** "Only owners manage owners" (decisions 9): also before they have joined. */
    const mayInvite = (acting: Role | undefined, role: Role) =>
      acting === "owner" || (acting === "admin" && role !== "owner")

    /** NAME_TAKEN for a member, active or not; a new invitation of the same person replaces the one before. */
    const invite = Effect.fn("Invitations.invite")(function* (
      permit: TeamPermit<"members:manage">,
      input: typeof Invite.Type
    ) {
      const { teamId } = permit.target
      const { user } = permit.caller
      if (user === null) return yield* new Forbidden()
      return yield* change(
        services,
        permit.event({ target: { type: "invitation", id: "", name: input.email } }),
        Effect.gen(function* () {
          const acting = yield* actingRole(permit)
          if (!mayInvite(acting, input.role)) return yield* new Forbidden()
          const now = yield* DateTime.nowAsDate
          const replaced = yield* sql<{ readonly role: Role }>`
            SELECT role FROM invitations
            WHERE team_id = ${teamId} AND email = ${input.email} AND accepted_at IS NULL AND revoked_at IS NULL
              AND expires_at > ${now}`
          // Replacing takes it back, too.
          if (replaced.some(({ role }) => !mayInvite(acting, role))) return yield* new Forbidden()
          const [counts] = yield* sql<{ readonly members: number; readonly open: number; readonly known: boolean }>`
            SELECT
              (SELECT count(*)::int FROM memberships WHERE team_id = ${teamId}) AS members,
              (SELECT count(*)::int FROM invitations WHERE team_id = ${teamId} AND accepted_at IS NULL
                AND revoked_at IS NULL AND expires_at > ${now}) AS open,
              EXISTS (SELECT 1 FROM memberships m JOIN users u ON u.id = m.user_id
                WHERE m.team_id = ${teamId} AND u.email = ${input.email}) AS known`
          if (counts.known) return yield* new NameTaken({ field: "email", message: "The person is a member already." })
          if (counts.members + counts.open >= Plans.membersPerTeam) {
            return yield* new PlanLimitReached()
          }
          yield* sql`
            UPDATE invitations SET revoked_at = ${now}
            WHERE team_id = ${teamId} AND email = ${input.email} AND accepted_at IS NULL AND revoked_at IS NULL`
          const id = yield* crypto.uuid
          const { proof, text } = yield* issue(crypto, "iv")
          const expiresAt = new Date(now.getTime() + invitationLife)
          yield* sql`INSERT INTO invitations ${sql.insert({
            id,
            lookup_id: proof.lookupId,
            salt: proof.salt,
            hash: proof.hash,
            team_id: teamId,
            email: input.email,
            role: input.role,
            invited_by: user.id,
            created_at: now,
            expires_at: expiresAt
          })}`
          yield* audit.append(permit.event({ target: { type: "invitation", id, name: input.email } }))
          const invitation: Invitation = {
            id,
            inviteUrl: `${config.baseUrl}/invite?code=${Redacted.value(text)}`,
            expiresAt: expiresAt.toISOString()
          }
          return invitation
        })
      )
    })

    /** Newest first: those whose links still work. */
    const list = Effect.fn("Invitations.list")(function* (permit: TeamPermit<"members:manage">) {
      const rows = yield* sql<OpenRow>`
        SELECT i.id, i.email, i.role, u.email AS invited_by, i.created_at, i.expires_at
        FROM invitations i JOIN users u ON u.id = i.invited_by
        WHERE i.team_id = ${permit.target.teamId} AND i.accepted_at IS NULL AND i.revoked_at IS NULL
          AND i.expires_at > ${yield* DateTime.nowAsDate}
        ORDER BY i.id DESC LIMIT ${Plans.membersPerTeam}`
      return rows.map((row): OpenInvitation => ({
        ...row,
        createdAt: row.createdAt.toISOString(),
        expiresAt: row.expiresAt.toISOString()
      }))
    }, Effect.orDie)

    /**
     * Takes an open invitation back: its link is then as unknown as one that never was. GRANT_NOT_FOUND for one that is
     * not open any more; FORBIDDEN for one that the person could not have made.
     */
    const withdraw = Effect.fn("Invitations.withdraw")(function* (permit: TeamPermit<"members:manage">, id: string) {
      const { teamId } = permit.target
      const event = (name: string) => permit.event({ target: { type: "invitation", id, name } })
      yield* change(
        services,
        event(""),
        Effect.gen(function* () {
          const acting = yield* actingRole(permit)
          const [found] = yield* sql<{ readonly email: string; readonly role: Role }>`
            SELECT email, role FROM invitations
            WHERE id = ${id} AND team_id = ${teamId} AND accepted_at IS NULL AND revoked_at IS NULL
              AND expires_at > ${yield* DateTime.nowAsDate}`
          if (found === undefined) return yield* new GrantNotFound({ message: "This invitation is not open any more." })
          if (!mayInvite(acting, found.role)) return yield* new Forbidden()
          yield* sql`DELETE FROM invitations WHERE id = ${id}`
          yield* audit.append(event(found.email))
        })
      )
    })

    const userWith = (email: string) =>
      Effect.map(sql<UserRow>`SELECT id, email, name FROM users WHERE email = ${email}`, (rows) => rows.at(0))

    /** An invitation that still works. Used, replaced and withdrawn ones: CREDENTIAL_REVOKED. */
    const find = Effect.fnUntraced(function* (code: Redacted.Redacted) {
      const token = TokenText.parse(Redacted.value(code))
      if (token?.kind !== "iv") return yield* new CredentialInvalid()
      const rows = yield* Effect.orDie(sql<InvitationRow>`
        SELECT id, salt, hash, team_id, email, role, expires_at, accepted_at, revoked_at
        FROM invitations WHERE lookup_id = ${token.id}`)
      const invitation: InvitationRow | undefined = rows[0]
      if (!TokenText.verify(invitation, token.secret) || invitation === undefined) return yield* new CredentialInvalid()
      if (invitation.acceptedAt !== null || invitation.revokedAt !== null) return yield* new CredentialRevoked()
      if (invitation.expiresAt.getTime() <= (yield* Clock.currentTimeMillis)) return yield* new CredentialExpired()
      return invitation
    })

    /** What the page of a link shows before anything is accepted: whom it is for, and into which team. */
    const preview = Effect.fn("Invitations.preview")(function* (code: Redacted.Redacted) {
      const invitation = yield* find(code)
      const [team] = yield* Effect.orDie(sql<{ readonly name: string }>`
        SELECT name FROM teams WHERE id = ${invitation.teamId}`)
      const known = (yield* Effect.orDie(userWith(invitation.email))) !== undefined
      return { email: invitation.email, role: invitation.role, teamName: team.name, known }
    })

    const invited = Effect.fnUntraced(function* (
      invitation: InvitationRow,
      input: AcceptInvitation,
      signedIn: Caller | null
    ) {
      const user = yield* Effect.orDie(userWith(invitation.email))
      if (user !== undefined) {
        if (signedIn?.user === undefined || signedIn.user === null) return yield* new Unauthenticated()
        if (signedIn.user.id !== user.id) {
          return yield* new Forbidden({ message: "The invitation is for another person." })
        }
        return { user, passwordHash: null }
      }
      if (input.name === undefined) return yield* missing("name")
      if (input.password === undefined) return yield* missing("password")
      const passwordHash = yield* passwords.hash(input.password, "password")
      const id = UserIdOut.make(yield* crypto.uuid)
      return { user: { id, email: invitation.email, name: input.name }, passwordHash }
    })

    /**
     * A new person is created and signed in; a person who exists must be signed in as themselves (UNAUTHENTICATED), and
     * someone else must not be (FORBIDDEN). The link works once, however many try at the same time.
     */
    const accept = Effect.fn("Invitations.accept")(function* (input: AcceptInvitation, signedIn: Caller | null) {
      const invitation = yield* find(input.code)
      const { passwordHash, user } = yield* invited(invitation, input, signedIn)
      const { teamId } = invitation
      const actor = { userId: user.id, email: user.email }
      return yield* change(
        services,
        { actor, action: "member.join", outcome: "allowed", teamId },
        Effect.gen(function* () {
          const now = yield* DateTime.nowAsDate
          yield* sql`SELECT id FROM teams WHERE id = ${teamId} FOR NO KEY UPDATE`
          const won = yield* sql`
            UPDATE invitations SET accepted_at = ${now}
            WHERE id = ${invitation.id} AND accepted_at IS NULL AND revoked_at IS NULL RETURNING id`
          if (won.length === 0) return yield* new CredentialRevoked()
          if (passwordHash !== null) {
            const created = yield* sql`
              INSERT INTO users (id, email, name, password_hash, created_at, updated_at)
              VALUES (${user.id}, ${user.email}, ${user.name}, ${passwordHash}, ${now}, ${now})
              ON CONFLICT (email) DO NOTHING RETURNING id`
            // Another invitation made the person a moment ago: they sign in and accept this one then.
            if (created.length === 0) return yield* new Unauthenticated()
          }
          const joined = yield* sql`
            INSERT INTO memberships (team_id, user_id, role, created_at, updated_at)
            VALUES (${teamId}, ${user.id}, ${invitation.role}, ${now}, ${now})
            ON CONFLICT (team_id, user_id) DO NOTHING RETURNING user_id`
          const teams = yield* sql<{
            readonly id: TeamId
            readonly name: string
            readonly role: Role
            readonly plan: Plan
          }>`
            SELECT t.id, t.name, m.role, t.plan FROM memberships m JOIN teams t ON t.id = m.team_id
            WHERE m.user_id = ${user.id} AND m.active ORDER BY t.id`
          // Who is a member already stays what they are; an old link does not bring a deactivated member back.
          if (!teams.some((team) => team.id === teamId)) return yield* new Forbidden()
          const session: Option.Option<OpenedSession> =
            passwordHash === null ? Option.none() : Option.some(yield* sessions.open(user.id, teamId))
          yield* audit.append(
            ...(joined.length === 0
              ? []
              : [
                  {
                    actor,
                    action: "member.join",
                    outcome: "allowed",
                    teamId,
                    target: { type: "invitation", id: invitation.id, name: invitation.email }
                  } as const
                ]),
            ...(Option.isNone(session)
              ? []
              : [{ actor, action: "session.create", outcome: "allowed", teamId } as const])
          )
          const person: Person = { id: user.id, email: user.email, name: user.name }
          const mine: ReadonlyArray<MyTeam> = teams
          return { user: person, teams: mine, session }
        })
      )
    })

    return { invite, list, withdraw, preview, accept } as const
  })
}) {}

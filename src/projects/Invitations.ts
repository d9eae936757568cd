/**
 * One-time links into a team (docs/contract/session-routes.md). A server may have no mail, so the inviting person
 * passes the link on.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as Data from "effect/Data"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
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
import type { Person } from "#schema/IdentityApi.ts"
import { type TeamId, TeamIdOut, UserIdOut } from "#schema/Ids.ts"
import { Plan, Role } from "#schema/Scopes.ts"
import { addressOf } from "#schema/Values.ts"
import type { AcceptInvitation, Invitation, Invite } from "#schema/TeamsApi.ts"
import { Access } from "#src/access/Access.ts"
import { Audit } from "#src/trail/Audit.ts"
import { change } from "#src/access/Change.ts"
import type { TeamPermit } from "#src/access/Permit.ts"
import { manages, orWaits, SecondPerson } from "#src/access/SecondPerson.ts"
import * as RowJournal from "#src/rows/RowJournal.ts"
import { RowSeal } from "#src/rows/RowSeal.ts"
import * as TeamRows from "#src/access/TeamRows.ts"
import { AppConfig } from "#src/AppConfig.ts"
import * as Accounts from "#src/credentials/Accounts.ts"
import * as NewAddress from "#src/credentials/NewAddress.ts"
import * as ProvisionalAccounts from "#src/credentials/ProvisionalAccounts.ts"
import { Passwords } from "#src/credentials/Passwords.ts"
import { type OpenedSession, Sessions } from "#src/credentials/Sessions.ts"
import * as TokenText from "#src/credentials/TokenText.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import * as Plans from "#src/limits/Plans.ts"
import { RateLimiter } from "#src/limits/RateLimiter.ts"
import { days } from "#src/Days.ts"
import { methods } from "#src/Methods.ts"
import * as Rows from "#src/database/Rows.ts"

const services = Effect.all({
  access: Access,
  sql: SqlClient.SqlClient,
  crypto: Crypto,
  baseUrl: Effect.map(AppConfig, (config) => config.baseUrl),
  audit: Audit,
  limiter: RateLimiter,
  passwords: Passwords,
  rowSeal: RowSeal,
  secondPerson: SecondPerson,
  sessions: Sessions
})
type Needs = Effect.Effect.Success<typeof services>

const invitationLife = days(7)

const InvitationRow = Schema.Struct({
  id: Schema.String,
  lookupId: Schema.String,
  ...TokenText.ProofRow.fields,
  teamId: TeamIdOut,
  email: Schema.String,
  role: Role,
  expiresAt: Schema.DateFromSelf,
  acceptedAt: Schema.NullOr(Schema.DateFromSelf),
  revokedAt: Schema.NullOr(Schema.DateFromSelf),
  mac: Schema.NullOr(Schema.Uint8ArrayFromSelf)
})
type InvitationRow = typeof InvitationRow.Type

/** An invitation that is neither accepted, withdrawn nor expired. Its link is never stored. */
const OpenInvitation = Schema.Struct({
  id: Schema.String,
  email: Schema.String,
  role: Role,
  invitedBy: Schema.String,
  createdAt: Rows.Iso,
  expiresAt: Rows.Iso
})
export type OpenInvitation = typeof OpenInvitation.Type

const RoleRow = Schema.Struct({ role: Role })
const RecipientRow = Schema.Struct({ email: Schema.String, role: Role })
const PlacesRow = Schema.Struct({ members: Schema.Number, open: Schema.Number, isMember: Schema.Boolean })
const UserRow = Schema.Struct({ id: UserIdOut, email: Schema.String, name: Schema.String })
type UserRow = typeof UserRow.Type
const TeamNameRow = Schema.Struct({ name: Schema.String })
const MyTeamRow = Schema.Struct({ id: TeamIdOut, name: Schema.String, role: Role, plan: Plan })

const lockTeam = ({ sql }: Needs, teamId: TeamId) =>
  Rows.run(sql`SELECT id FROM teams WHERE id = ${teamId} FOR NO KEY UPDATE`)

/** Locks the team, and returns the acting person's current role: one lost since the permit does not count. */
const lockedRoleOf = Effect.fnUntraced(function* (needs: Needs, { caller, target }: TeamPermit<"members:manage">) {
  yield* lockTeam(needs, target.teamId)
  const self = yield* Rows.findOne(
    RoleRow,
    needs.sql`
      SELECT role FROM memberships
      WHERE team_id = ${target.teamId} AND user_id = ${caller.user?.id ?? null}::uuid AND active`
  )
  return self?.role
})

/** "Only owners manage owners" (docs/contract/session-routes.md), also before they join. */
const mayInvite = (acting: Role | undefined, role: Role) =>
  acting === "owner" || (acting === "admin" && role !== "owner")

const eventAbout = (permit: TeamPermit<"members:manage">, id: string, email: string) =>
  permit.event({ target: { type: "invitation", id, name: email } })

/** Refuses an invitation that the acting person may not make, or that exceeds the team's places. */
const checkInvite = Effect.fnUntraced(function* (
  needs: Needs,
  permit: TeamPermit<"members:manage">,
  { email, role }: typeof Invite.Type,
  now: Date
) {
  const { sql } = needs
  const { teamId } = permit.target
  const acting = yield* lockedRoleOf(needs, permit)
  if (!mayInvite(acting, role)) return yield* new Forbidden()
  const refusal = manages(role) ? permit.refusalOf("members:raise") : undefined
  if (refusal !== undefined) return yield* refusal
  const openInvitations = yield* Rows.findAll(
    RoleRow,
    sql`
      SELECT role FROM invitations
      WHERE team_id = ${teamId} AND email = ${email} AND accepted_at IS NULL AND revoked_at IS NULL
        AND expires_at > ${now}`
  )
  // Replacing an invitation also withdraws it.
  if (openInvitations.some((one) => !mayInvite(acting, one.role))) return yield* new Forbidden()
  const places = yield* Rows.single(
    PlacesRow,
    sql`
      SELECT
        (SELECT count(*) FROM memberships WHERE team_id = ${teamId}) AS members,
        (SELECT count(*) FROM invitations WHERE team_id = ${teamId} AND accepted_at IS NULL
          AND revoked_at IS NULL AND expires_at > ${now}) AS open,
        EXISTS (SELECT 1 FROM memberships m JOIN users u ON u.id = m.user_id
          WHERE m.team_id = ${teamId} AND ${Accounts.hasAddress(sql, email)}) AS is_member`
  )
  if ((yield* Accounts.atAddress(needs, email)).length === 0) yield* NewAddress.check(needs, email, false)
  if (places.isMember) return yield* new NameTaken({ field: "email", message: "The person is a member already." })
  if (places.members + places.open >= Plans.membersPerTeam) return yield* new PlanLimitReached()
})

/** NAME_TAKEN for a member, active or not. Replaces an earlier invitation of the same person. */
const invite = Effect.fn("Invitations.invite")(function* (needs: Needs, teamId: TeamId, input: typeof Invite.Type) {
  const { audit, baseUrl, crypto, rowSeal, sql } = needs
  const permit = yield* needs.access.team("members:manage", teamId, { audit: "member.invite" })
  const { user } = permit.caller
  if (user === null) return yield* new Forbidden()
  const work = change(needs, eventAbout(permit, "", input.email), function* () {
    const now = yield* DateTime.nowAsDate
    yield* checkInvite(needs, permit, input, now)
    const about = `an invitation of ${input.email} as ${input.role}`
    const waits = manages(input.role)
      ? yield* needs.secondPerson.check(permit, { kind: "invitation", input }, about)
      : undefined
    if (waits !== undefined) return waits
    yield* RowJournal.end(
      sql,
      "invitations",
      { revoked_at: now },
      sql`team_id = ${teamId} AND email = ${input.email} AND accepted_at IS NULL AND revoked_at IS NULL`
    )
    const id = yield* crypto.uuid
    const { proof, text } = yield* TokenText.issue(needs, "iv")
    const expiresAt = new Date(now.getTime() + invitationLife)
    const { hash, lookupId, salt } = proof
    const { email, role } = input
    const row = yield* rowSeal.values(
      "invitations",
      { id, lookupId, hash, teamId, email, role, expiresAt },
      { salt, invited_by: user.id, created_at: now }
    )
    yield* Rows.run(sql`INSERT INTO invitations ${row}`)
    yield* audit.append(eventAbout(permit, id, input.email))
    const invitation: Invitation = {
      id,
      inviteUrl: `${baseUrl}/invite?code=${Redacted.value(text)}`,
      expiresAt: expiresAt.toISOString()
    }
    return invitation
  })
  return yield* orWaits(work)
})

/** Open invitations, newest first. */
const list = Effect.fn("Invitations.list")(function* ({ access, sql }: Needs, teamId: TeamId) {
  yield* access.team("members:manage", teamId, { audit: "member.list" })
  return yield* Rows.findAll(
    OpenInvitation,
    sql`
      SELECT i.id, i.email, i.role, u.email AS invited_by, i.created_at, i.expires_at
      FROM invitations i JOIN users u ON u.id = i.invited_by
      WHERE i.team_id = ${teamId} AND i.accepted_at IS NULL AND i.revoked_at IS NULL
        AND i.expires_at > ${yield* DateTime.nowAsDate}
      ORDER BY i.id DESC LIMIT ${Plans.membersPerTeam}`
  )
})

/**
 * Withdraws an open invitation, whose link is then unknown. GRANT_NOT_FOUND for one that is not open; FORBIDDEN for one
 * that the person could not have made.
 */
const withdraw = Effect.fn("Invitations.withdraw")(function* (needs: Needs, teamId: TeamId, id: string) {
  const { access, audit, sql } = needs
  const permit = yield* access.team("members:manage", teamId, { audit: "member.invite_withdraw" })
  yield* change(needs, eventAbout(permit, id, ""), function* () {
    const acting = yield* lockedRoleOf(needs, permit)
    const invitation = yield* Rows.findOne(
      RecipientRow,
      sql`
          SELECT email, role FROM invitations
          WHERE id = ${id} AND team_id = ${teamId} AND accepted_at IS NULL AND revoked_at IS NULL
            AND expires_at > ${yield* DateTime.nowAsDate}`
    )
    if (invitation === undefined) {
      return yield* new GrantNotFound({ message: "This invitation is no longer open." })
    }
    if (!mayInvite(acting, invitation.role)) return yield* new Forbidden()
    yield* RowJournal.remove(sql, "invitations", sql`id = ${id}`)
    yield* audit.append(eventAbout(permit, id, invitation.email))
  })
})

/** An open invitation of a code. CREDENTIAL_REVOKED for a used, replaced or withdrawn one. */
const find = Effect.fnUntraced(function* (needs: Needs, code: Redacted.Redacted) {
  const { sql } = needs
  const invitation = yield* TokenText.prove(needs, "iv", code, (id) =>
    Rows.findOne(
      InvitationRow,
      sql`
      SELECT id, lookup_id, salt, hash, team_id, email, role, expires_at, accepted_at, revoked_at, mac
      FROM invitations WHERE lookup_id = ${id}`
    )
  )
  if (invitation === undefined) return yield* new CredentialInvalid()
  if (invitation.acceptedAt !== null || invitation.revokedAt !== null) return yield* new CredentialRevoked()
  if (!(yield* needs.rowSeal.ready).isAuthentic("invitations", invitation)) return yield* new CredentialInvalid()
  if (invitation.expiresAt.getTime() <= (yield* Clock.currentTimeMillis)) return yield* new CredentialExpired()
  return invitation
})

/** Data for the page of a link. It hides whether the address has an account. */
const preview = Effect.fn("Invitations.preview")(function* (needs: Needs, code: Redacted.Redacted) {
  const { email, role, teamId } = yield* find(needs, code)
  const team = yield* Rows.single(TeamNameRow, needs.sql`SELECT name FROM teams WHERE id = ${teamId}`)
  return { email, role, teamName: team.name }
})

/** Refusal of a missing member: only a signed-in person may omit it. */
const missing = (field: string) => new ValidationFailed({ field, message: "This member is required." })

/**
 * Whether an account keeps a new one from the address: a witness vouches for it, or it is in the team already. Any other
 * provisional account makes way.
 */
const blocks =
  (teamId: TeamId) =>
  (account: Accounts.AccountRow): boolean =>
    Accounts.isVouched(account) || account.memberships.some(({ id }) => id === teamId)

interface AcceptingPerson {
  readonly user: UserRow
  /** A new account: its hash, and the hashes of the accounts that its password was compared with. */
  readonly account: { readonly passwordHash: string; readonly others: ReadonlyArray<string> } | null
}

/**
 * The accepting person. Every refusal before the last step is the same, and takes the same time, whether or not the
 * address has an account. A complete attempt does reveal one that a witness vouches for. Such an address gets 401. Any
 * other gets 200, which uses up the link and makes an account (docs/security.md).
 */
const personFor = Effect.fnUntraced(function* (
  needs: Needs,
  { email, teamId }: InvitationRow,
  input: AcceptInvitation,
  currentUser: Caller["user"]
) {
  if (currentUser !== null) {
    if (addressOf(currentUser.email) !== email) {
      return yield* new Forbidden({
        message: "The invitation is for another person. Sign out, then open the link again."
      })
    }
    const person: AcceptingPerson = { user: currentUser, account: null }
    return person
  }
  if (input.name === undefined) return yield* missing("name")
  if (input.password === undefined) return yield* missing("password")
  yield* ProvisionalAccounts.limitComparisons(needs.limiter, email)
  const accounts = yield* Accounts.atAddress(needs, email)
  const others = accounts.map((one) => one.passwordHash)
  const passwordHash = yield* needs.passwords.hash(
    input.password,
    "password",
    others.find((hash) => hash !== "")
  )
  const { index } = yield* needs.passwords.find(others, input.password)
  if (accounts.some(blocks(teamId))) return yield* signInFirst()
  if (index !== undefined) return yield* ProvisionalAccounts.refusedPassword("password")
  const id = UserIdOut.make(yield* needs.crypto.uuid)
  const person: AcceptingPerson = { user: { id, email, name: input.name }, account: { passwordHash, others } }
  return person
})

const signInFirst = () =>
  new Unauthenticated({ message: "This address has an account. Sign in, then open the link again." })

/** Between the comparison of a password and the transaction, another account of the address came or changed. */
class AccountsChanged extends Data.TaggedError("AccountsChanged") {}

const createUser = Effect.fnUntraced(function* (
  needs: Needs,
  { email, id, name }: UserRow,
  { others, passwordHash }: NonNullable<AcceptingPerson["account"]>,
  { now, teamId }: { readonly teamId: TeamId; readonly now: Date }
) {
  const accounts = yield* Accounts.atAddress(needs, email)
  if (accounts.some(blocks(teamId))) return yield* signInFirst()
  if (accounts.some((one) => !others.includes(one.passwordHash))) return yield* new AccountsChanged()
  const account = { id, email, name, passwordHash, vouchedBy: "none", madeBy: teamId, now } as const
  yield* Effect.catchTag(ProvisionalAccounts.insert(needs, account), "AddressHeld", signInFirst)
})

/** Makes the person a member, once per link. Returns whether they are new to the team, and their teams. */
const join = Effect.fnUntraced(function* (
  needs: Needs,
  invitation: InvitationRow,
  { id: userId }: UserRow,
  by: Caller | null,
  now: Date
) {
  const { sql } = needs
  const { id, role, teamId } = invitation
  const isNew = yield* TeamRows.join(needs, { by, teamId, userId, role, now })
  const teams = yield* Rows.findAll(
    MyTeamRow,
    sql`
      SELECT t.id, t.name, m.role, t.plan FROM memberships m JOIN teams t ON t.id = m.team_id
      WHERE m.user_id = ${userId} AND m.active ORDER BY t.id`
  )
  // A member keeps their current role; an old link does not reactivate a deactivated member.
  if (!teams.some((team) => team.id === teamId)) return yield* new Forbidden()
  const target = { type: "invitation", id, name: invitation.email } as const
  return { isNew, teams, target }
})

/** One attempt. AccountsChanged: it decides again, from the start. */
const acceptOnce = Effect.fnUntraced(function* (needs: Needs, input: AcceptInvitation, caller: Caller | null) {
  const { audit, sessions, sql } = needs
  const invitation = yield* find(needs, input.code)
  const { teamId } = invitation
  const { account, user } = yield* personFor(needs, invitation, input, caller?.user ?? null)
  const actor = { userId: user.id, email: user.email }
  const event = { actor, action: "member.join", outcome: "allowed", teamId } as const
  return yield* change(needs, event, function* () {
    const now = yield* DateTime.nowAsDate
    yield* Accounts.lockAddresses(needs, invitation.email)
    yield* lockTeam(needs, teamId)
    const isFirst = yield* Rows.exists(
      RowJournal.noteEnds(sql, "invitations")`
        UPDATE invitations SET accepted_at = ${now}, mac = ''
        WHERE id = ${invitation.id} AND accepted_at IS NULL AND revoked_at IS NULL RETURNING id`
    )
    if (!isFirst) return yield* new CredentialRevoked()
    if (account !== null) yield* createUser(needs, user, account, { teamId, now })
    const { isNew, target, teams } = yield* join(needs, invitation, user, caller, now)
    const session: Option.Option<OpenedSession> =
      account === null ? Option.none() : Option.some(yield* sessions.open(user.id, teamId))
    yield* audit.append(
      ...(isNew ? [{ ...event, target }] : []),
      ...(Option.isNone(session) ? [] : [{ ...event, action: "session.create" } as const])
    )
    const person: Person = { id: user.id, email: user.email, name: user.name }
    return { user: person, teams, session }
  })
})

/** Attempts of one request, while other accounts of the address come or change. */
const attemptsPerRequest = 5

/**
 * Creates and signs in a new person, whose account is provisional. A person with a vouched account must be signed in to
 * it (UNAUTHENTICATED), and no other person may be (FORBIDDEN). The link works once, even for simultaneous attempts.
 */
const accept = Effect.fn("Invitations.accept")((needs: Needs, input: AcceptInvitation, caller: Caller | null) =>
  acceptOnce(needs, input, caller).pipe(
    Effect.retry({ times: attemptsPerRequest, while: Predicate.isTagged("AccountsChanged") }),
    Effect.catchTag("AccountsChanged", Effect.die)
  )
)

export class Invitations extends Effect.Service<Invitations>()("projects/Invitations", {
  effect: Effect.map(services, (needs) => methods(needs, { invite, list, withdraw, preview, accept }))
}) {}

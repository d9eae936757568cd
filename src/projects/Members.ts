/**
 * Members of a team, and the end of their credentials when they leave (docs/contract/credentials.md, "What ends a credential",
 * docs/contract/session-routes.md).
 */
import * as SqlClient from "@effect/sql/SqlClient"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { Forbidden, GrantNotFound, MemberNotFound } from "#schema/Errors.ts"
import { AccessGrantIdOut, EnvironmentIdOut, ProjectIdOut, type TeamId, type UserId, UserIdOut } from "#schema/Ids.ts"
import type { EndAccess, EndedAccess } from "#schema/PersonAccessApi.ts"
import { GrantLevel, Role } from "#schema/Scopes.ts"
import type { Member, UpdateMember } from "#schema/TeamsApi.ts"
import { addressOf } from "#schema/Values.ts"
import type { EndedWay } from "#schema/WaysIn.ts"
import { Access } from "#src/access/Access.ts"
import { Audit } from "#src/trail/Audit.ts"
import type { AuditEvent } from "#src/trail/Entry.ts"
import { change } from "#src/access/Change.ts"
import type { TeamPermit } from "#src/access/Permit.ts"
import * as Actions from "#src/access/Actions.ts"
import * as Policy from "#src/access/Policy.ts"
import { orWaits, SecondPerson } from "#src/access/SecondPerson.ts"
import * as RowJournal from "#src/rows/RowJournal.ts"
import { RowSeal } from "#src/rows/RowSeal.ts"
import { removeApprover } from "#src/access/TeamRows.ts"
import { membershipFields, isMembershipAuthentic } from "#src/access/VerifiedRows.ts"
import { AppConfig } from "#src/AppConfig.ts"
import { endOneOf } from "#src/credentials/MemberCredentials.ts"
import { createLink } from "#src/credentials/NewPassword.ts"
import { endedEvents, Revocation, revocationEvents } from "#src/credentials/Revocation.ts"
import * as WaysIn from "#src/credentials/WaysIn.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import * as Plans from "#src/limits/Plans.ts"
import { methods } from "#src/Methods.ts"
import * as Rows from "#src/database/Rows.ts"

const services = Effect.all({
  access: Access,
  sql: SqlClient.SqlClient,
  crypto: Crypto,
  baseUrl: Effect.map(AppConfig, (config) => config.baseUrl),
  audit: Audit,
  revocation: Revocation,
  rowSeal: RowSeal,
  secondPerson: SecondPerson
})
type Needs = Effect.Effect.Success<typeof services>

type Manage = TeamPermit<"members:manage" | "members:raise">

const MemberRow = Schema.Struct({
  userId: UserIdOut,
  email: Schema.String,
  name: Schema.String,
  ...membershipFields,
  secondFactor: Schema.Boolean
})
type MemberRow = typeof MemberRow.Type

const recordOf = ({ active, email, name, role, userId }: MemberRow): Member => ({ userId, email, name, role, active })
const managers: ReadonlySet<Role> = new Set<Role>(["owner", "admin"])

/** Members of the team, without rows whose MAC fails. */
const membersOf = ({ rowSeal, sql }: Needs, teamId: TeamId) =>
  Effect.zipWith(
    rowSeal.ready,
    Rows.findAll(
      MemberRow,
      sql`
        SELECT m.user_id, u.email, u.name, m.role, m.active, m.deactivated_at, m.updated_at, m.ruled_by,
          m.role_limit, m.break_glass, m.mac, u.second_factor
        FROM memberships m JOIN users u ON u.id = m.user_id
        WHERE m.team_id = ${teamId} ORDER BY u.email LIMIT ${Plans.membersPerTeam + 1}`
    ),
    (macs, rows) => rows.filter((row) => isMembershipAuthentic(macs, teamId, row.userId, row))
  )

/** Members under the team's lock: changes run one after another, so that an owner always remains. */
const lockedMembersOf = (needs: Needs, teamId: TeamId) =>
  Effect.zipRight(
    Rows.run(needs.sql`SELECT id FROM teams WHERE id = ${teamId} FOR NO KEY UPDATE`),
    membersOf(needs, teamId)
  )

/** The acting person's current membership: a role lost since the permit does not count. */
const actingMember = (permit: Manage, members: ReadonlyArray<MemberRow>) => {
  const self = members.find((m) => m.userId === permit.caller.user?.id)
  return self !== undefined && self.active && managers.has(self.role) ? Effect.succeed(self) : new Forbidden()
}

const memberWithId = (members: ReadonlyArray<MemberRow>, userId: UserId) => {
  const member = members.find((m) => m.userId === userId)
  return member === undefined ? new MemberNotFound() : Effect.succeed(member)
}

/** "A team keeps at least one active owner" (docs/contract/session-routes.md). */
const keepsAnOwner = (members: ReadonlyArray<MemberRow>, without: UserId) =>
  members.some((m) => m.role === "owner" && m.active && m.userId !== without)
    ? Effect.void
    : new Forbidden({ message: "A team keeps at least one active owner." })

const onlyOwnersManageOwners = () => new Forbidden({ message: "Only owners manage owners." })

const eventAbout = (permit: Manage, userId: UserId, email = "") =>
  permit.event({ target: { type: "user", id: userId, name: email } })

const list = Effect.fn("Members.list")(function* (needs: Needs, teamId: TeamId) {
  const permit = yield* needs.access.team("members:read", teamId, { audit: "member.list" })
  const role = Policy.teamOf(permit.caller, teamId)?.role ?? null
  const manages = role !== null && Actions.byRole[role].has("members:manage")
  const members = yield* membersOf(needs, teamId)
  return members.map((row): Member => ({ ...recordOf(row), ...(manages ? { secondFactor: row.secondFactor } : {}) }))
})

const ruleFor = (ruledBy: string, role: Role) =>
  role === "owner" ? { ruledBy: null, roleLimit: null } : { ruledBy, roleLimit: role }

/**
 * Stores the new role and state, and revokes credentials that depended on the old ones. Returns the entries of those
 * revocations.
 */
const applyChange = Effect.fnUntraced(function* (
  { revocation, rowSeal, sql }: Needs,
  permit: Manage,
  before: MemberRow,
  after: Pick<MemberRow, "role" | "active">
) {
  const { teamId } = permit.target
  const { userId } = before
  const now = yield* DateTime.nowAsDate
  const deactivatedAt = after.active ? null : (before.deactivatedAt ?? now)
  const { active, role } = after
  const { ruledBy } = before
  // Sign-in rules give no more than a person chose, and nothing to an owner.
  const rule = ruledBy === null || role === before.role ? {} : ruleFor(ruledBy, role)
  const breakGlass = before.breakGlass && role === "owner" && active
  const changes = { role, active, deactivatedAt, updatedAt: now, breakGlass, ...rule }
  yield* rowSeal.update("memberships", sql`team_id = ${teamId} AND user_id = ${userId}`, () => changes)
  const isDeactivated = !after.active && before.active
  yield* revocation.linksBy(userId, teamId)
  if (isDeactivated) yield* revocation.sessionsWithoutTeam(userId)
  const revoked =
    after.role !== before.role
      ? yield* revocation.tokensOf(userId, teamId)
      : after.active && !before.active
        ? yield* revocation.tokensPastGrace(userId, teamId, before.deactivatedAt)
        : []
  if (isDeactivated) yield* revocation.grantsInTeam(userId, teamId)
  return revocationEvents(permit.caller, revoked)
})

const ranks: Readonly<Record<Role, number>> = { viewer: 0, member: 1, admin: 2, owner: 3 }
/** Whether the person may do more afterwards than before. */
const isRaised = (before: Pick<MemberRow, "role" | "active">, after: Pick<MemberRow, "role" | "active">): boolean =>
  after.active && (!before.active || ranks[after.role] > ranks[before.role])

/** An unchanged role and state revokes nothing and adds no entry. */
const update = Effect.fn("Members.update")(function* (
  needs: Needs,
  teamId: TeamId,
  userId: UserId,
  input: UpdateMember
) {
  const permit = yield* needs.access.team("members:manage", teamId, { audit: "member.update" })
  const work = change(needs, eventAbout(permit, userId), function* () {
    const members = yield* lockedMembersOf(needs, teamId)
    const member = yield* memberWithId(members, userId)
    const self = yield* actingMember(permit, members)
    const { active = member.active, role = member.role } = input
    if ((member.role === "owner" || role === "owner") && self.role !== "owner") return yield* onlyOwnersManageOwners()
    if (role === member.role && active === member.active) return recordOf(member)
    if (role !== "owner" || !active) yield* keepsAnOwner(members, userId)
    if (isRaised(member, { role, active })) {
      const refusal = permit.refusalOf("members:raise")
      if (refusal !== undefined) return yield* refusal
      const about = `${member.email} made ${role}`
      const waits = managers.has(role)
        ? yield* needs.secondPerson.check(permit, { kind: "member", userId, input }, about)
        : undefined
      if (waits !== undefined) return waits
    }
    const revocations = yield* applyChange(needs, permit, member, { role, active })
    yield* needs.audit.append(eventAbout(permit, userId, member.email), ...revocations)
    if (member.active && !(active && managers.has(role))) yield* needs.secondPerson.alarmIfAlone(permit, member)
    return recordOf({ ...member, role, active })
  })
  return yield* orWaits(work)
})

/**
 * Part of the caller's transaction: removes the person from the team. Returns the entries of the revocations, and what
 * happened to each way in.
 */
const removeMember = Effect.fnUntraced(function* (
  needs: Needs,
  permit: TeamPermit<"members:manage" | "members:raise" | "members:read">,
  member: MemberRow,
  options: { readonly signOut: boolean }
) {
  const { revocation, rowSeal, sql } = needs
  const { teamId } = permit.target
  const now = yield* DateTime.nowAsDate
  yield* RowJournal.remove(sql, "memberships", sql`team_id = ${teamId} AND user_id = ${member.userId}`)
  yield* RowJournal.remove(sql, "access_grants", sql`team_id = ${teamId} AND user_id = ${member.userId}`)
  yield* removeApprover({ rowSeal, sql }, member.userId, teamId)
  // An open invitation of the person would let them in again.
  yield* RowJournal.end(
    sql,
    "invitations",
    { revoked_at: now },
    sql`team_id = ${teamId} AND email = ${addressOf(member.email)} AND accepted_at IS NULL AND revoked_at IS NULL`
  )
  // Links come before sessions in the order of locks.
  yield* revocation.linksBy(member.userId, teamId)
  const sessions = options.signOut ? yield* revocation.sessionsWithoutTeam(member.userId) : []
  const { tokens, ways } = yield* WaysIn.end(needs, "removal", { person: member.userId, teamId })
  const waysIn = ways.map((one): EndedWay =>
    one.way === "sessions" && sessions.length > 0 ? { ...one, ending: "ended", count: sessions.length } : one
  )
  return { revocations: revocationEvents(permit.caller, tokens), waysIn }
})

/** Returns what happened to each way in. */
const remove = Effect.fn("Members.remove")(function* (needs: Needs, teamId: TeamId, userId: UserId) {
  const permit = yield* needs.access.team("members:manage", teamId, { audit: "member.remove" })
  return yield* change(needs, eventAbout(permit, userId), function* () {
    const members = yield* lockedMembersOf(needs, teamId)
    const member = yield* memberWithId(members, userId)
    const self = yield* actingMember(permit, members)
    if (member.role === "owner" && self.role !== "owner") return yield* onlyOwnersManageOwners()
    yield* keepsAnOwner(members, userId)
    const { revocations, waysIn } = yield* removeMember(needs, permit, member, { signOut: true })
    yield* needs.audit.append(eventAbout(permit, userId, member.email), ...revocations)
    if (member.active) yield* needs.secondPerson.alarmIfAlone(permit, member)
    return waysIn
  })
})

/**
 * The person stays signed in, even without a team: they can create one or accept an invitation. Returns what happened to
 * each way in.
 */
const leave = Effect.fn("Members.leave")(function* (needs: Needs, teamId: TeamId) {
  const permit = yield* needs.access.team("members:read", teamId, { audit: "team.leave" })
  return yield* change(needs, permit.event(), function* () {
    const members = yield* lockedMembersOf(needs, teamId)
    const self = members.find((m) => m.userId === permit.caller.user?.id)
    if (self === undefined) return yield* new Forbidden()
    yield* keepsAnOwner(members, self.userId)
    const { revocations, waysIn } = yield* removeMember(needs, permit, self, { signOut: false })
    yield* needs.audit.append(permit.event(), ...revocations)
    return waysIn
  })
})

/**
 * A link that sets the person's password, which opens the whole account. The caller must therefore manage the person in
 * all of their teams. Earlier links stop working.
 */
const passwordResetLink = Effect.fn("Members.passwordResetLink")(function* (
  needs: Needs,
  teamId: TeamId,
  userId: UserId
) {
  const { audit, revocation } = needs
  const permit = yield* needs.access.team("members:raise", teamId, { audit: "password.reset_link" })
  const work = change(needs, eventAbout(permit, userId), function* () {
    const members = yield* lockedMembersOf(needs, teamId)
    const member = yield* memberWithId(members, userId)
    const self = yield* actingMember(permit, members)
    if (!(yield* revocation.manages(self.userId, userId))) {
      return yield* new Forbidden({
        message: "You can make a password link only for a person whom you manage in all of their teams."
      })
    }
    const about = `a link for a new password of ${member.email}`
    const waits = managers.has(member.role)
      ? yield* needs.secondPerson.check(permit, { kind: "password", userId }, about)
      : undefined
    if (waits !== undefined) return waits
    const link = yield* createLink(needs, { userId, createdBy: self.userId })
    yield* audit.append(eventAbout(permit, userId, member.email))
    return link.url
  })
  return yield* orWaits(work)
})

const EndedGrantRow = Schema.Struct({
  id: AccessGrantIdOut,
  level: GrantLevel,
  projectId: ProjectIdOut,
  environmentId: Schema.NullOr(EnvironmentIdOut),
  environment: Schema.NullOr(Schema.String)
})

/** Deletes the person's grants and pending requests in the team. Returns the entries, with their places. */
const endGrants = Effect.fnUntraced(function* ({ sql }: Needs, permit: Manage, { email, userId }: MemberRow) {
  const { teamId } = permit.target
  const grants = yield* Rows.findAll(
    EndedGrantRow,
    RowJournal.noteEnds(sql, "access_grants")`
      DELETE FROM access_grants g WHERE g.team_id = ${teamId} AND g.user_id = ${userId}
      RETURNING g.id, g.level, g.project_id, g.environment_id,
        (SELECT e.slug FROM environments e WHERE e.id = g.environment_id) AS environment`
  )
  yield* RowJournal.remove(
    sql,
    "access_requests",
    sql`team_id = ${teamId} AND user_id = ${userId} AND status = 'pending'`
  )
  yield* RowJournal.remove(
    sql,
    "second_person_requests",
    sql`team_id = ${teamId} AND user_id = ${userId} AND status = 'pending'`
  )
  return grants.map(({ environment, environmentId, id, level, projectId }): AuditEvent => ({
    ...permit.event({ audit: "access.end", target: { type: "access_grant", id, name: `${level}: ${email}` } }),
    projectId,
    ...(environmentId === null || environment === null ? {} : { environmentId, environment })
  }))
})

/**
 * Ends everything of the person in the team except the role, in one action: grants, pending requests, and what lets them
 * in (`WaysIn.ts`). If the caller manages the person in all of their teams, that covers the whole account.
 * `deactivate` ends the role too. An incident about the person ends their password too.
 */
const endAccess = Effect.fn("Members.endAccess")(function* (
  needs: Needs,
  teamId: TeamId,
  userId: UserId,
  { deactivate = false }: EndAccess,
  wayOut: "end_access" | "incident" = "end_access"
) {
  const { audit, revocation } = needs
  const permit = yield* needs.access.team("members:manage", teamId, { audit: "member.end_access" })
  return yield* change(needs, eventAbout(permit, userId), function* () {
    const members = yield* lockedMembersOf(needs, teamId)
    const member = yield* memberWithId(members, userId)
    const self = yield* actingMember(permit, members)
    if (member.role === "owner" && self.role !== "owner") return yield* onlyOwnersManageOwners()
    if (deactivate) yield* keepsAnOwner(members, userId)
    const isDeactivated = deactivate && member.active
    const grants = yield* endGrants(needs, permit, member)
    const isSignedOut = yield* revocation.manages(self.userId, userId)
    const out = yield* WaysIn.end(needs, wayOut, { person: userId, teamId: isSignedOut ? null : teamId })
    const role = isDeactivated ? yield* applyChange(needs, permit, member, { role: member.role, active: false }) : []
    yield* audit.append(
      eventAbout(permit, userId, member.email),
      ...(isDeactivated ? [{ ...eventAbout(permit, userId, member.email), action: "member.update" as const }] : []),
      ...role,
      ...grants,
      ...revocationEvents(permit.caller, out.tokens),
      ...endedEvents({ actor: permit.caller, teamId }, out.logins)
    )
    if (isDeactivated) yield* needs.secondPerson.alarmIfAlone(permit, member)
    const tokens = out.tokens.filter(({ type }) => type === "api_token").length
    const logins = out.logins.filter(({ type }) => type === "cli_grant").length
    const ended: EndedAccess = {
      grants: grants.length,
      tokens,
      rules: out.tokens.length - tokens,
      logins,
      agents: out.logins.length - logins,
      signedOut: isSignedOut,
      waysIn: out.ways,
      active: member.active && !deactivate
    }
    return ended
  })
})

const alreadyEnded = () => new GrantNotFound({ message: "This credential has ended already." })

/** Ends one credential from `GET …/access`, from the next request. */
const endCredential = Effect.fn("Members.endCredential")(function* (
  needs: Needs,
  teamId: TeamId,
  userId: UserId,
  id: string
) {
  const { audit } = needs
  const permit = yield* needs.access.team("members:manage", teamId, { audit: "member.end_access" })
  yield* change(needs, eventAbout(permit, userId), function* () {
    const members = yield* lockedMembersOf(needs, teamId)
    const member = yield* memberWithId(members, userId)
    const self = yield* actingMember(permit, members)
    if (member.role === "owner" && self.role !== "owner") return yield* onlyOwnersManageOwners()
    const ended = yield* endOneOf(needs, { actor: permit.caller, by: self.userId, teamId, userId }, id)
    if (ended.length === 0) return yield* alreadyEnded()
    yield* audit.append(...ended)
  })
})

export class Members extends Effect.Service<Members>()("projects/Members", {
  effect: Effect.map(services, (needs) =>
    methods(needs, { list, update, remove, leave, passwordResetLink, endAccess, endCredential })
  )
}) {}

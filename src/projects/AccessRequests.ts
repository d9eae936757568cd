/**
 * Requests for access to an environment (docs/contract/access.md): a person asks, owners, admins and the environment's
 * approvers decide, an approval makes a grant. A decided one stays until its own end, so that a second decision is told
 * of the first; a withdrawn one is deleted.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { AccessRequest, CreateAccessRequest } from "#schema/AccessRequestsApi.ts"
import type { AuditAction } from "#schema/Audit.ts"
import { type Caller, CurrentCaller } from "#schema/Caller.ts"
import { Forbidden, GrantAlreadyDecided, GrantNotFound, PlanLimitReached, ValidationFailed } from "#schema/Errors.ts"
import {
  type AccessRequestId,
  AccessRequestIdOut,
  type EnvironmentId,
  EnvironmentIdOut,
  ProjectIdOut,
  TeamIdOut,
  type UserId,
  UserIdOut
} from "#schema/Ids.ts"
import { GrantLevel, Readers, Role, Visibility } from "#schema/Scopes.ts"
import { Access, type Location } from "#src/access/Access.ts"
import { Audit } from "#src/trail/Audit.ts"
import { change } from "#src/access/Change.ts"
import type { EnvironmentPermit } from "#src/access/Permit.ts"
import * as Policy from "#src/access/Policy.ts"
import * as RowJournal from "#src/rows/RowJournal.ts"
import type { RowMac } from "#src/rows/RowMac.ts"
import { RowSeal } from "#src/rows/RowSeal.ts"
import type { EnvironmentTarget } from "#src/access/Target.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { days } from "#src/Days.ts"
import { methods } from "#src/Methods.ts"
import * as Rows from "#src/database/Rows.ts"
import * as AccessGrants from "./AccessGrants.ts"

const services = Effect.all({
  access: Access,
  sql: SqlClient.SqlClient,
  crypto: Crypto,
  audit: Audit,
  rowSeal: RowSeal
})
type Needs = Effect.Effect.Success<typeof services>

const life = days(7)
const hour = 3_600_000
/** Abuse limits, of what is pending in one environment; a list shows all. */
const requestsPerPerson = 3
const requestsPerEnvironment = 100
const listLimit = 500

const PersonRow = Schema.Struct({ id: UserIdOut, email: Schema.String })
const RequestRow = Schema.Struct({
  id: AccessRequestIdOut,
  teamId: TeamIdOut,
  projectId: ProjectIdOut,
  project: Schema.String,
  environmentId: EnvironmentIdOut,
  environment: Schema.String,
  user: PersonRow,
  level: GrantLevel,
  hours: Schema.Number,
  reason: Schema.String,
  approvals: Schema.Number,
  approvedBy: Schema.NullOr(PersonRow),
  createdAt: Rows.Iso,
  expiresAt: Rows.Iso,
  status: Schema.Literal("pending", "approved", "denied"),
  mac: Schema.NullOr(Schema.Uint8ArrayFromSelf),
  approvers: Schema.Array(UserIdOut),
  readers: Readers,
  visibility: Visibility
})
type RequestRow = typeof RequestRow.Type
const RoleRow = Schema.Struct({ userId: UserIdOut, role: Role })
const PendingRow = Schema.Struct({ ofPerson: Schema.Number, ofEnvironment: Schema.Number })

/** Requests of active members for live environments; two approvals count where changes are protected. */
const columns = (sql: SqlClient.SqlClient) =>
  sql.literal(`
    r.id, r.team_id, e.project_id, p.name AS project, r.environment_id, e.slug AS environment,
    json_build_object('id', u.id, 'email', u.email) AS "user", r.level, r.hours, r.reason,
    CASE WHEN e.protected THEN e.approvals ELSE 1 END AS approvals,
    CASE WHEN a.id IS NOT NULL THEN json_build_object('id', a.id, 'email', a.email) END AS approved_by,
    r.created_at, r.expires_at, r.status, r.mac, e.approvers, e.readers, p.visibility
    FROM access_requests r
    JOIN environments e ON e.id = r.environment_id AND e.deleted_at IS NULL
    JOIN projects p ON p.id = e.project_id AND p.deleted_at IS NULL
    JOIN memberships m ON m.team_id = r.team_id AND m.user_id = r.user_id AND m.active
    JOIN users u ON u.id = r.user_id
    LEFT JOIN users a ON a.id = r.approved_by`)

/** What the MAC is over; it is emptied by the decision, so that nobody without the key makes a request of it again. */
const isOwn = (macs: RowMac, row: RequestRow): boolean =>
  macs.holds("access_requests", {
    id: row.id,
    teamId: row.teamId,
    userId: row.user.id,
    environmentId: row.environmentId,
    level: row.level,
    hours: row.hours,
    status: row.status,
    approvedBy: row.approvedBy?.id ?? null,
    createdAt: new Date(row.createdAt),
    expiresAt: new Date(row.expiresAt),
    mac: row.mac
  })

const mayDecide = (caller: Caller, row: RequestRow): boolean => {
  const team = Policy.teamOf(caller, row.teamId)
  return team !== undefined && Policy.mayDecide(caller, team, row, { userId: row.user.id, level: row.level })
}

/** Members alone: what the policy reads of a row is not told. */
const recordOf = (caller: Caller, row: RequestRow): AccessRequest => {
  const { approvers: _approvers, mac: _mac, readers: _readers, status: _status, visibility: _visibility, ...told } = row
  return { ...told, mayDecide: mayDecide(caller, row) }
}

/** A request is seen by who asked, and by who decides about the environment's; to others it is not there. */
const sees = (caller: Caller, row: RequestRow): boolean => {
  const role = Policy.teamOf(caller, row.teamId)?.role ?? null
  const userId = caller.user?.id
  return (
    userId !== undefined &&
    role !== null &&
    Policy.environmentVisible(caller, row) &&
    (userId === row.user.id || Policy.decidesRequests(role, userId, row.approvers))
  )
}

const pending = Effect.fnUntraced(function* (
  { rowSeal, sql }: Needs,
  caller: Caller,
  environmentId: EnvironmentId | null
) {
  const macs = yield* rowSeal.ready
  const userId = caller.user?.id ?? null
  const all = caller.teams.filter(({ scopes }) => scopes === null || scopes.includes("secrets:read"))
  const managed = all.filter(({ role }) => role !== null && Policy.roleAllows(role, "access:manage"))
  const rows = yield* Rows.findAll(
    RequestRow,
    sql`
      SELECT ${columns(sql)}
      WHERE r.team_id = any(${all.map(({ id }) => id)}::uuid[]) AND r.status = 'pending'
        AND (${environmentId}::uuid IS NULL OR r.environment_id = ${environmentId})
        AND r.expires_at > ${new Date(yield* Clock.currentTimeMillis)}
        AND (r.user_id = ${userId} OR r.team_id = any(${managed.map(({ id }) => id)}::uuid[])
          OR ${userId}::uuid = any(e.approvers))
      ORDER BY r.id LIMIT ${listLimit}`
  )
  return { items: rows.filter((row) => isOwn(macs, row) && sees(caller, row)).map((row) => recordOf(caller, row)) }
})

const list = Effect.fn("AccessRequests.list")(function* (needs: Needs) {
  const { caller } = yield* needs.access.eachTeam("secrets:read", { audit: "access.list" })
  return yield* pending(needs, caller, null)
})

const listOfEnvironment = Effect.fn("AccessRequests.listOfEnvironment")(function* (needs: Needs, id: EnvironmentId) {
  const permit = yield* needs.access.environmentWithId("secrets:read", id, { audit: "access.list" })
  return yield* pending(needs, permit.caller, id)
})

const eventAbout = (
  permit: EnvironmentPermit<"secrets:read" | "access:decide">,
  about: { readonly id: string; readonly level: GrantLevel; readonly email: string; readonly reason?: string }
) => ({
  ...permit.event({ target: { type: "access_request", id: about.id, name: `${about.level}: ${about.email}` } }),
  ...(about.reason === undefined ? {} : { reason: about.reason })
})

/** A request that would promise what nobody gets. */
const aboveTheRole = ({ caller, target }: EnvironmentPermit<"secrets:read">, level: GrantLevel) => {
  const role = Policy.teamOf(caller, target.teamId)?.role ?? "viewer"
  return Policy.levelWithin(role, level)
    ? undefined
    : new ValidationFailed({ field: "level", message: `A ${role} cannot be granted this level.` })
}

const lacks = (caller: Caller, target: EnvironmentTarget, level: GrantLevel): boolean => {
  const team = Policy.teamOf(caller, target.teamId)
  return team !== undefined && Policy.lacksGrant(caller, team, target, level)
}

/** The above, and a request that would change nothing. */
const checkLevel = (permit: EnvironmentPermit<"secrets:read">, level: GrantLevel) =>
  aboveTheRole(permit, level) ??
  (lacks({ ...permit.caller, grants: [] }, permit.target, level)
    ? undefined
    : new ValidationFailed({ field: "level", message: "Your role gives you this here: no grant is needed." }))

/**
 * How it stands with a level at an environment: granted, asked for, or not asked for yet. An agent learns it; a person
 * asks, on the page of the environment.
 */
const standing = Effect.fn("AccessRequests.standing")(function* (needs: Needs, at: Location, level: GrantLevel) {
  const permit = yield* needs.access.environment("secrets:read", at, { audit: "access.list" })
  const { caller, target } = permit
  const problem = aboveTheRole(permit, level)
  if (problem !== undefined) return yield* problem
  if (!lacks(caller, target, level)) return { status: "granted" as const }
  const { items } = yield* pending(needs, caller, target.environmentId)
  const own = items.find((one) => one.user.id === caller.user?.id && one.level === level)
  return own === undefined ? { status: "unasked" as const, target } : { status: "pending" as const, request: own }
})

const create = Effect.fn("AccessRequests.create")(function* (
  needs: Needs,
  environmentId: EnvironmentId,
  input: CreateAccessRequest
) {
  const { access, audit, crypto, rowSeal, sql } = needs
  const permit = yield* access.environmentWithId("secrets:read", environmentId, { audit: "access.request" })
  const { caller, target } = permit
  const user = caller.user
  if (user === null) return yield* Effect.dieMessage("only a person asks for access")
  return yield* change(needs, permit.event(), function* () {
    const problem = checkLevel(permit, input.level)
    if (problem !== undefined) return yield* problem
    const now = yield* Clock.currentTimeMillis
    const { ofEnvironment, ofPerson } = yield* Rows.single(
      PendingRow,
      sql`
        SELECT count(*) FILTER (WHERE user_id = ${user.id}) AS of_person, count(*) AS of_environment
        FROM access_requests
        WHERE environment_id = ${environmentId} AND status = 'pending' AND expires_at > ${new Date(now)}`
    )
    if (ofPerson >= requestsPerPerson || ofEnvironment >= requestsPerEnvironment) return yield* new PlanLimitReached()
    const id = AccessRequestIdOut.make(yield* crypto.uuid)
    const { hours, level, reason } = input
    const row = {
      id,
      teamId: target.teamId,
      userId: user.id,
      environmentId,
      level,
      hours,
      status: "pending",
      approvedBy: null,
      createdAt: new Date(now),
      expiresAt: new Date(now + life)
    }
    yield* Rows.run(sql`INSERT INTO access_requests ${yield* rowSeal.values("access_requests", row, { reason })}`)
    yield* audit.append(eventAbout(permit, { id, level, email: user.email, reason }))
    return recordOf(caller, yield* Rows.single(RequestRow, sql`SELECT ${columns(sql)} WHERE r.id = ${id}`))
  })
})

// The same for one that is not there and one that is not shown.
const gone = () => new GrantNotFound({ message: "No such request for access." })
const over = () => new GrantAlreadyDecided({ message: "This request for access was already decided." })

/** A decided one only tells that it is; a pending one that no server wrote is not there. */
const find = Effect.fnUntraced(function* ({ rowSeal, sql }: Needs, id: AccessRequestId) {
  const macs = yield* rowSeal.ready
  const row = yield* Rows.findOne(
    RequestRow,
    sql`
      SELECT ${columns(sql)} WHERE r.id = ${id} AND r.expires_at > ${new Date(yield* Clock.currentTimeMillis)}`
  )
  return row !== undefined && (row.status !== "pending" || isOwn(macs, row)) ? row : yield* gone()
})

/** The request as the caller sees it. */
const seen = Effect.fnUntraced(function* (needs: Needs, id: AccessRequestId) {
  const row = yield* find(needs, id)
  return sees(yield* CurrentCaller, row) ? row : yield* gone()
})

const toDecide = Effect.fnUntraced(function* (needs: Needs, id: AccessRequestId, audit: AuditAction) {
  const row = yield* seen(needs, id)
  const permit = yield* Effect.catchTag(
    needs.access.environmentWithId("access:decide", row.environmentId, { audit }),
    "ENVIRONMENT_NOT_FOUND",
    gone
  )
  return { row, permit, event: eventAbout(permit, { id, level: row.level, email: row.user.email }) }
})

/** Roles now, which stay until the transaction ends. Memberships are locked before requests, as where members change. */
const lockedRoles = Effect.fnUntraced(function* ({ sql }: Needs, { teamId, user }: RequestRow, by: UserId) {
  const rows = yield* Rows.findAll(
    RoleRow,
    sql`
      SELECT user_id, role FROM memberships
      WHERE team_id = ${teamId} AND user_id = any(${[user.id, by]}::uuid[]) AND active
      ORDER BY user_id FOR SHARE`
  )
  return new Map(rows.map(({ role, userId }) => [userId, role]))
})

/**
 * The request under its lock, when it is still open and the person may decide now. FORBIDDEN for who asked, for who lost
 * the right since, and for a level that the asker's role does not allow any more.
 */
const deciding = Effect.fnUntraced(function* (needs: Needs, before: RequestRow, caller: Caller) {
  const { id, teamId } = before
  const by = caller.user?.id
  const team = Policy.teamOf(caller, teamId)
  if (by === undefined || team === undefined) return yield* new Forbidden()
  const roles = yield* lockedRoles(needs, before, by)
  yield* Rows.run(needs.sql`SELECT id FROM access_requests WHERE id = ${id} FOR UPDATE`)
  const row = yield* find(needs, id)
  if (row.status !== "pending") return yield* over()
  const role = roles.get(by) ?? null
  const asked = { userId: row.user.id, level: row.level }
  if (!Policy.mayDecide(caller, { ...team, role }, row, asked)) return yield* new Forbidden()
  const theirs = roles.get(row.user.id)
  if (theirs === undefined || !Policy.levelWithin(theirs, row.level)) {
    return yield* new Forbidden({ message: "The role of the person who asks does not allow this level any more." })
  }
  return { row, by }
})

const deny = Effect.fn("AccessRequests.deny")(function* (needs: Needs, id: AccessRequestId) {
  const { event, permit, row } = yield* toDecide(needs, id, "access.deny")
  return yield* change(needs, event, function* () {
    yield* deciding(needs, row, permit.caller)
    yield* RowJournal.end(needs.sql, "access_requests", { status: "denied" }, needs.sql`id = ${id}`)
    yield* needs.audit.append(event)
    return { status: "denied" as const }
  })
})

/** Whether the first of two who approved it could still do so. */
const stillApproved = Effect.fnUntraced(function* (
  { sql }: Needs,
  { approvedBy, approvers, level, teamId }: RequestRow
) {
  if (approvedBy === null) return false
  const member = yield* Rows.findOne(
    RoleRow,
    sql`SELECT user_id, role FROM memberships WHERE team_id = ${teamId} AND user_id = ${approvedBy.id} AND active`
  )
  if (member === undefined) return false
  return Policy.decidesRequests(member.role, approvedBy.id, approvers) && Policy.levelWithin(member.role, level)
})

const approve = Effect.fn("AccessRequests.approve")(function* (needs: Needs, id: AccessRequestId) {
  const { event, permit, row: before } = yield* toDecide(needs, id, "access.approve")
  const { audit, rowSeal, sql } = needs
  return yield* change(needs, event, function* () {
    const { by, row } = yield* deciding(needs, before, permit.caller)
    if (row.approvals > 1 && row.approvedBy?.id === by) {
      return yield* new GrantAlreadyDecided({
        message: "You approved it already. Another person has to approve it too."
      })
    }
    yield* audit.append(event)
    if (row.approvals > 1 && !(yield* stillApproved(needs, row))) {
      yield* rowSeal.update("access_requests", sql`id = ${id}`, () => ({ approvedBy: by }))
      return { status: "pending" as const }
    }
    yield* RowJournal.end(sql, "access_requests", { status: "approved" }, sql`id = ${id}`)
    const until = new Date((yield* Clock.currentTimeMillis) + row.hours * hour)
    const { level, reason, user } = row
    yield* AccessGrants.give(needs, permit, { user, level, until, reason, createdBy: by })
    return { status: "approved" as const }
  })
})

const withdraw = Effect.fn("AccessRequests.withdraw")(function* (needs: Needs, id: AccessRequestId) {
  const row = yield* seen(needs, id)
  const intent = { audit: "access.withdraw" } as const
  const permit = yield* Effect.catchTag(
    needs.access.environmentWithId("secrets:read", row.environmentId, intent),
    "ENVIRONMENT_NOT_FOUND",
    gone
  )
  const event = eventAbout(permit, { id, level: row.level, email: row.user.email })
  yield* change(needs, event, function* () {
    if (row.user.id !== permit.caller.user?.id) return yield* new Forbidden({ message: "Who asked can withdraw it." })
    const withdrawn = yield* Rows.exists(
      RowJournal.ending(needs.sql, "access_requests")`
      DELETE FROM access_requests WHERE id = ${id} AND status = 'pending' RETURNING id`
    )
    if (!withdrawn) return yield* over()
    yield* needs.audit.append(event)
  })
})

export class AccessRequests extends Effect.Service<AccessRequests>()("projects/AccessRequests", {
  effect: Effect.map(services, (needs) =>
    methods(needs, { list, listOfEnvironment, standing, create, approve, deny, withdraw })
  )
}) {}

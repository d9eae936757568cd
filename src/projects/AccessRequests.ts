/**
 * Requests for access to an environment (docs/contract/access.md). A person makes one; owners, admins and the
 * environment's approvers decide; an approval creates a grant. A decided request stays until its end, so that a second
 * decision is refused as such. A withdrawn one is deleted.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { AccessRequest, CreateAccessRequest } from "#schema/AccessRequestsApi.ts"
import type { AuditAction } from "#schema/Audit.ts"
import { type Caller } from "#schema/Caller.ts"
import { Forbidden, GrantAlreadyDecided, ValidationFailed } from "#schema/Errors.ts"
import { type AccessRequestId, AccessRequestIdOut, type EnvironmentId, type UserId, UserIdOut } from "#schema/Ids.ts"
import { GrantLevel, Readers, Role } from "#schema/Scopes.ts"
import { Access, type Location } from "#src/access/Access.ts"
import { Audit } from "#src/trail/Audit.ts"
import * as ApprovalRequests from "#src/access/ApprovalRequests.ts"
import { change } from "#src/access/Change.ts"
import type { EnvironmentPermit } from "#src/access/Permit.ts"
import * as Policy from "#src/access/Policy.ts"
import { manages, orWaits, SecondPerson, Waits } from "#src/access/SecondPerson.ts"
import * as RowJournal from "#src/rows/RowJournal.ts"
import type { RowMac } from "#src/rows/RowMac.ts"
import { RowSeal } from "#src/rows/RowSeal.ts"
import type { EnvironmentTarget } from "#src/access/Target.ts"
import * as PersonGrants from "#src/credentials/PersonGrants.ts"
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
  rowSeal: RowSeal,
  secondPerson: SecondPerson
})
type Needs = Effect.Effect.Success<typeof services>

const requestLife = days(7)
/** Milliseconds. */
const hour = 3_600_000
const requestsPerPerson = 3

const RequestRow = Schema.Struct({
  id: AccessRequestIdOut,
  ...ApprovalRequests.fields,
  level: GrantLevel,
  hours: Schema.Number,
  reason: Schema.String,
  approvals: Schema.Number,
  approvedBy: Schema.NullOr(ApprovalRequests.Person),
  mac: Schema.NullOr(Schema.Uint8ArrayFromSelf),
  readers: Readers
})
type RequestRow = typeof RequestRow.Type
const ApproverRow = Schema.Struct({
  role: Role,
  adminsNeedGrants: Schema.Boolean,
  personGrants: Schema.NullOr(Schema.String)
})
const RoleRow = Schema.Struct({ userId: UserIdOut, role: Role })

/** Protected environments may need two approvals. */
const columns = (sql: SqlClient.SqlClient) =>
  ApprovalRequests.columns(
    sql,
    "access_requests",
    `r.level, r.hours, r.reason, r.mac, e.readers,
      CASE WHEN e.protected THEN e.approvals ELSE 1 END AS approvals,
      CASE WHEN a.id IS NOT NULL THEN json_build_object('id', a.id, 'email', a.email) END AS approved_by`,
    "LEFT JOIN users a ON a.id = r.approved_by"
  )

/**
 * Whether the MAC of a request holds. The decision empties it, so that a writer of the database cannot reopen the
 * request.
 */
const isOwn = (macs: RowMac, row: RequestRow): boolean =>
  macs.isAuthentic("access_requests", {
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

/** The record for the caller, without the columns for the policy. */
const recordOf = (caller: Caller, row: RequestRow): AccessRequest => {
  const {
    approvers: _approvers,
    mac: _mac,
    readers: _readers,
    status: _status,
    visibility: _visibility,
    ...record
  } = row
  return { ...record, mayDecide: mayDecide(caller, row) }
}

const targetOf = (about: { readonly id: string; readonly level: GrantLevel; readonly email: string }) => ({
  type: "access_request",
  id: about.id,
  name: `${about.level}: ${about.email}`
})

const { find, list, listOfEnvironment, over, pending, withPermit, withdraw } = ApprovalRequests.make({
  name: "AccessRequests",
  noun: "request for access",
  audit: { list: "access.list", withdraw: "access.withdraw" },
  Row: RequestRow,
  columns,
  isOwn: ({ rowSeal }: Needs) => Effect.map(rowSeal.ready, (macs) => (row: RequestRow) => isOwn(macs, row)),
  recordOf,
  about: ({ id, level, user }) => ({ target: targetOf({ id, level, email: user.email }) }),
  remove: (sql, id) => RowJournal.noteEnds(sql, "access_requests")`
    DELETE FROM access_requests WHERE id = ${id} AND status = 'pending' RETURNING id`
})

/** Refuses a level above the caller's role, which no approval could grant. */
const levelProblem = ({ caller, target }: EnvironmentPermit<"secrets:read">, level: GrantLevel) => {
  const role = Policy.teamOf(caller, target.teamId)?.role ?? "viewer"
  return Policy.levelWithin(role, level)
    ? undefined
    : new ValidationFailed({ field: "level", message: `A ${role} cannot be granted this level.` })
}

const lacks = (caller: Caller, target: EnvironmentTarget, level: GrantLevel): boolean => {
  const team = Policy.teamOf(caller, target.teamId)
  return team !== undefined && Policy.lacksGrant(caller, team, target, level)
}

/** Refuses also a level that the caller's role gives already. */
const checkLevel = (permit: EnvironmentPermit<"secrets:read">, level: GrantLevel) =>
  levelProblem(permit, level) ??
  (lacks({ ...permit.caller, grants: [] }, permit.target, level)
    ? undefined
    : new ValidationFailed({ field: "level", message: "Your role gives you this here: no grant is needed." }))

/**
 * A caller's access to an environment at a level: granted, pending, not requested. Agents read it; a person requests
 * access on the environment's page.
 */
const accessAt = Effect.fn("AccessRequests.accessAt")(function* (needs: Needs, at: Location, level: GrantLevel) {
  const permit = yield* needs.access.environment("secrets:read", at, { audit: "access.list" })
  const { caller, target } = permit
  const problem = levelProblem(permit, level)
  if (problem !== undefined) return yield* problem
  if (!lacks(caller, target, level)) return { status: "granted" as const }
  const { items } = yield* pending(needs, caller, target.environmentId)
  const own = items.find((one) => one.user.id === caller.user?.id && one.level === level)
  return own === undefined ? { status: "not_requested" as const, target } : { status: "pending" as const, request: own }
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
    const at = { environmentId, userId: user.id, now: new Date(now) }
    yield* ApprovalRequests.checkLimits(sql, "access_requests", at, requestsPerPerson)
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
      expiresAt: new Date(now + requestLife)
    }
    yield* Rows.run(sql`INSERT INTO access_requests ${yield* rowSeal.values("access_requests", row, { reason })}`)
    yield* audit.append(permit.event({ target: targetOf({ id, level, email: user.email }), reason }))
    return recordOf(caller, yield* Rows.single(RequestRow, sql`SELECT ${columns(sql)} WHERE r.id = ${id}`))
  })
})

const toDecide = (needs: Needs, id: AccessRequestId, audit: AuditAction) =>
  withPermit(needs, id, audit, ({ environmentId }, intent) =>
    needs.access.environmentWithId(
      audit === "access.approve" ? "access:approve" : "access:decide",
      environmentId,
      intent
    )
  )

/**
 * Current roles of both people, locked to the end of the transaction. Memberships are locked before requests, in the
 * lock order of membership changes.
 */
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
 * The request, locked, while it is pending and the person may decide. FORBIDDEN for its author, for a person without
 * the right now, and for a level above the author's current role.
 */
const lockToDecide = Effect.fnUntraced(function* (
  needs: Needs,
  before: RequestRow,
  caller: Caller,
  mayDecideOwn = false
) {
  const { id, teamId } = before
  const by = caller.user?.id
  const team = Policy.teamOf(caller, teamId)
  if (by === undefined || team === undefined) return yield* new Forbidden()
  const roles = yield* lockedRoles(needs, before, by)
  yield* Rows.run(needs.sql`SELECT id FROM access_requests WHERE id = ${id} FOR UPDATE`)
  const row = yield* find(needs, id)
  if (row.status !== "pending") return yield* over()
  const role = roles.get(by) ?? null
  const request = { userId: row.user.id, level: row.level }
  const isOwn = mayDecideOwn && by === row.user.id && role !== null && manages(role)
  if (!isOwn && !Policy.mayDecide(caller, { ...team, role }, row, request)) return yield* new Forbidden()
  const authorRole = roles.get(row.user.id)
  if (authorRole === undefined || !Policy.levelWithin(authorRole, row.level)) {
    return yield* new Forbidden({ message: "The role of the person who made the request no longer allows this level." })
  }
  return { row, by }
})

const deny = Effect.fn("AccessRequests.deny")(function* (needs: Needs, id: AccessRequestId) {
  const { event, permit, row } = yield* toDecide(needs, id, "access.deny")
  return yield* change(needs, event, function* () {
    yield* lockToDecide(needs, row, permit.caller)
    yield* RowJournal.end(needs.sql, "access_requests", { status: "denied" }, needs.sql`id = ${id}`)
    yield* needs.audit.append(event)
    return { status: "denied" as const }
  })
})

/** Whether the earlier approver could still approve: with their role, their grants and the team's rules of now. */
const stillApproved = Effect.fnUntraced(function* ({ rowSeal, sql }: Needs, row: RequestRow) {
  const { approvedBy, level, teamId, user } = row
  if (approvedBy === null) return false
  const approver = yield* Rows.findOne(
    ApproverRow,
    sql`
      SELECT m.role, t.admins_need_grants, ${sql.literal(PersonGrants.column("m.user_id"))}
      FROM memberships m JOIN teams t ON t.id = m.team_id
      WHERE m.team_id = ${teamId} AND m.user_id = ${approvedBy.id} AND m.active`
  )
  if (approver === undefined) return false
  const { adminsNeedGrants, personGrants, role } = approver
  const grants =
    personGrants === null
      ? []
      : PersonGrants.inForce(personGrants, yield* Clock.currentTimeMillis, yield* rowSeal.ready)
  return Policy.mayDecide({ user: approvedBy, grants }, { role, adminsNeedGrants }, row, { userId: user.id, level })
})

/** Of an owner's or admin's own request: whether they may approve it, or the request for a second person. */
const ownDecision = (needs: Needs, permit: EnvironmentPermit<"access:approve" | "access:decide">, row: RequestRow) => {
  const role = Policy.teamOf(permit.caller, row.teamId)?.role ?? null
  if (role === null || !manages(role) || permit.caller.user?.id !== row.user.id) return Effect.succeed(false)
  const waiting = { kind: "access_request", requestId: row.id } as const
  const facts = [`for ${row.hours} h`, `reason: ${JSON.stringify(row.reason)}`]
  return needs.secondPerson.checkOwn(permit, waiting, `approving one's own request for ${row.level}`, facts)
}

const approve = Effect.fn("AccessRequests.approve")(function* (needs: Needs, id: AccessRequestId) {
  const { event, permit, row: before } = yield* toDecide(needs, id, "access.approve")
  const { audit, rowSeal, sql } = needs
  const work = change(needs, event, function* () {
    const own = yield* ownDecision(needs, permit, before)
    if (own instanceof Waits) return own
    const { by, row } = yield* lockToDecide(needs, before, permit.caller, own)
    const approvals = yield* needs.secondPerson.take
    if (row.approvals > 1 && row.approvedBy?.id === by) {
      return yield* new GrantAlreadyDecided({
        message: "You approved it already. Another person has to approve it too."
      })
    }
    yield* audit.append(...approvals, event)
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
  return yield* orWaits(work)
})

export class AccessRequests extends Effect.Service<AccessRequests>()("projects/AccessRequests", {
  effect: Effect.map(services, (needs) =>
    methods(needs, { list, listOfEnvironment, accessAt, create, approve, deny, withdraw })
  )
}) {}

/** A person's decision about a device. Viewing a request never approves it. */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import { type Caller, CurrentCaller, type Restrictions } from "#schema/Caller.ts"
import type { ApproveDevice, DeviceRequest } from "#schema/DeviceApi.ts"
import {
  EnvironmentNotFound,
  Forbidden,
  GrantAlreadyDecided,
  GrantNotFound,
  ProjectNotFound,
  StepUpRequired,
  TeamNotFound,
  ValidationFailed
} from "#schema/Errors.ts"
import { type TeamId, TeamIdOut, type UserId } from "#schema/Ids.ts"
import { Role, type Scope } from "#schema/Scopes.ts"
import type { Audit } from "#src/trail/Audit.ts"
import * as Actions from "#src/access/Actions.ts"
import * as Policy from "#src/access/Policy.ts"
import { RequestInfo } from "#src/database/RequestInfo.ts"
import type { RowSeal } from "#src/rows/RowSeal.ts"
import type { EventBus } from "#src/events/EventBus.ts"
import { addressBucket } from "#src/limits/AddressBucket.ts"
import * as Attempts from "#src/limits/Attempts.ts"
import { type RateLimiter, userCodePolicy } from "#src/limits/RateLimiter.ts"
import * as Rows from "#src/database/Rows.ts"
import * as Accounts from "./Accounts.ts"
import { hostOf } from "./CliGrants.ts"
import * as DeviceRequests from "./DeviceRequests.ts"
import { beyondTeams } from "./TokenRows.ts"
import * as UserCode from "./UserCode.ts"

export interface Needs {
  readonly sql: SqlClient.SqlClient
  readonly rowSeal: RowSeal
  readonly audit: Audit
  readonly limiter: RateLimiter
  readonly bus: typeof EventBus.Service
}

const findByCode = Effect.fnUntraced(function* (needs: Needs, typed: string) {
  const code = UserCode.canonical(typed)
  const row = code === undefined ? undefined : yield* DeviceRequests.byUserCode(needs, code)
  if (code === undefined || row === undefined) return yield* new GrantNotFound()
  // Only the person of the login may decide about its request for management.
  if (row.askedBy !== null && row.askedBy !== (yield* CurrentCaller).user?.id) return yield* new GrantNotFound()
  return { code, row }
})

/** The request of an entered user code. Wrong codes are limited per session and per address. */
export const requestOfCode = Effect.fnUntraced(function* (needs: Needs, typed: string) {
  const { credentialId } = yield* CurrentCaller
  const { ip } = yield* RequestInfo
  const buckets = [`user-code:session:${credentialId}`, `user-code:${addressBucket(ip)}`]
  const isWrong = Predicate.isTagged(GrantNotFound.code)
  return yield* Attempts.attempt(needs.limiter, { buckets, policy: userCodePolicy }, findByCode(needs, typed), isWrong)
})

export const targetOf = (row: DeviceRequests.RequestRow) => ({
  type: "device_request",
  id: row.id,
  name: row.hostname ?? ""
})

export const show = Effect.fn("DeviceGrants.show")(function* (needs: Needs, typed: string) {
  const caller = yield* CurrentCaller
  const { code, row } = yield* requestOfCode(needs, typed)
  const team = caller.teams.find(({ id }) => id === row.manages)
  const state = DeviceRequests.stateOf(row, yield* Clock.currentTimeMillis)
  yield* needs.audit.record({
    actor: caller,
    action: "device.view",
    outcome: "allowed",
    teamId: null,
    target: targetOf(row)
  })
  const request: DeviceRequest = {
    userCode: UserCode.print(code),
    createdAt: row.createdAt.toISOString(),
    expiresAt: row.expiresAt.toISOString(),
    ip: row.ip,
    host: hostOf(row),
    credentialProtection: row.credentialProtection,
    machineRequested: row.machineRequested,
    status: state === "consumed" ? "approved" : state,
    ...(team === undefined ? {} : { manages: { id: team.id, name: team.name } })
  }
  return request
})

/**
 * State of a request that the person decided: `consumed` once the device has its credential. Adds no entry, since the
 * trail has the decision. GRANT_NOT_FOUND for a request that is undecided or another person's.
 */
export const progress = Effect.fn("DeviceGrants.progress")(function* (needs: Needs, typed: string) {
  const { user } = yield* CurrentCaller
  const { row } = yield* requestOfCode(needs, typed)
  if (row.decidedBy === null || row.decidedBy !== user?.id) return yield* new GrantNotFound()
  return DeviceRequests.stateOf(row, yield* Clock.currentTimeMillis)
})

interface TeamScopes {
  readonly teamId: TeamId
  readonly scopes: ReadonlyArray<Scope>
}

interface Approval extends Restrictions {
  readonly status: "approved"
  /** Time of the person's last proof of a second factor. */
  readonly factorAt: Date | null
  readonly teams: ReadonlyArray<TeamScopes>
  readonly machine: boolean
}

/** Writes the decision while the request is pending. */
export const decide = Effect.fnUntraced(function* (
  needs: Needs,
  row: DeviceRequests.RequestRow,
  userId: UserId,
  decision: { readonly status: "denied" } | Approval
) {
  const now = new Date(yield* Clock.currentTimeMillis)
  const { rowSeal, sql } = needs
  const grant =
    decision.status === "approved"
      ? {
          machine: decision.machine,
          factorAt: decision.factorAt,
          teams: decision.teams,
          projectIds: decision.projectIds,
          environmentIds: decision.environmentIds
        }
      : {}
  const changed = yield* rowSeal.update(
    "device_requests",
    sql`id = ${row.id} AND status = 'pending' AND expires_at > ${now}`,
    () => ({ status: decision.status, decidedBy: userId, ...grant }),
    { decided_at: now }
  )
  if (changed > 0) return
  const current = yield* DeviceRequests.byId(needs, row.id)
  if (current === undefined || current.status === "pending") return yield* new GrantNotFound()
  return yield* new GrantAlreadyDecided()
})

/** A scope exceeds the person's role in this team. */
class AboveRole extends Data.TaggedError("AboveRole")<{ readonly teamId: TeamId }> {}

/** A person can approve only scopes of their own role. `roles`: by team, of the person's active memberships. */
const checkRoles = Effect.fnUntraced(function* (roles: ReadonlyMap<TeamId, Role>, teams: ReadonlyArray<TeamScopes>) {
  if (!teams.every(({ teamId }) => roles.has(teamId))) return yield* new TeamNotFound()
  for (const { scopes, teamId } of teams) {
    const role = roles.get(teamId) ?? "viewer"
    if (!scopes.every((scope) => Actions.byRole[role].has(scope))) return yield* new AboveRole({ teamId })
  }
})

const MembershipRow = Schema.Struct({ teamId: TeamIdOut, role: Role })

/**
 * Part of the approval's transaction: locks the memberships and the session to its end. A lost team or a new password
 * either precedes this check, or waits and then revokes the approval. Memberships come first, in the lock order of
 * membership changes.
 */
export const recheck = Effect.fnUntraced(function* (
  { sql }: Needs,
  caller: Caller,
  userId: UserId,
  teams: ReadonlyArray<TeamScopes>
) {
  const memberships = yield* Rows.findAll(
    MembershipRow,
    sql`
      SELECT team_id, role FROM memberships
      WHERE user_id = ${userId} AND active AND team_id = any(${teams.map((team) => team.teamId)}::uuid[])
      ORDER BY team_id FOR SHARE`
  )
  yield* checkRoles(new Map(memberships.map(({ role, teamId }) => [teamId, role])), teams)
  if (yield* Accounts.hasEnded({ sql }, caller.credentialId)) return yield* new Forbidden()
})

export const currentPerson = Effect.flatMap(CurrentCaller, (caller) =>
  caller.user === null ? Effect.dieMessage("a decision needs a person") : Effect.succeed({ caller, user: caller.user })
)

const approvalOf = (row: DeviceRequests.RequestRow, body: ApproveDevice, factorAt: Date | null): Approval => ({
  status: "approved",
  factorAt,
  teams: body.teams.map(({ scopes, teamId }) => ({ teamId, scopes: [...new Set<Scope>(scopes)] })),
  projectIds: body.projectIds === undefined ? null : [...new Set(body.projectIds)],
  environmentIds: body.environmentIds === undefined ? null : [...new Set(body.environmentIds)],
  // Only a request that asks for unattended use can get it; the approver may switch it off.
  machine: row.machineRequested && body.machine !== false
})

/** The device's next poll creates the credential. */
export const approve = Effect.fn("DeviceGrants.approve")(function* (needs: Needs, typed: string, body: ApproveDevice) {
  const { audit, sql } = needs
  const { caller, user } = yield* currentPerson
  // The API's decoder refuses duplicate teams; the page's form does not.
  if (new Set(body.teams.map(({ teamId }) => teamId)).size < body.teams.length) {
    return yield* new ValidationFailed({ field: "teams" })
  }
  const { row } = yield* requestOfCode(needs, typed)
  if (row.manages !== null) return yield* new GrantNotFound()
  const approval = approvalOf(row, body, caller.factorAt)
  const event = { actor: caller, action: "device.approve", target: targetOf(row) } as const
  const roles = new Map(caller.teams.map(({ id, role }) => [id, role ?? "viewer"]))
  if (!approval.teams.every(({ teamId }) => roles.has(teamId))) return yield* new TeamNotFound()
  const staleTeam = Policy.firstWithOldFactor(caller, approval.teams)
  if (staleTeam !== undefined) {
    yield* audit.record({ ...event, outcome: "denied", reason: StepUpRequired.code, teamId: staleTeam.id })
    return yield* new StepUpRequired()
  }
  const unreachable = yield* beyondTeams(needs, caller, [...roles.keys()], approval)
  if (unreachable !== undefined)
    return yield* unreachable === "projects" ? new ProjectNotFound() : new EnvironmentNotFound()
  yield* checkRoles(roles, approval.teams).pipe(
    Effect.zipRight(
      Rows.transaction(sql, function* () {
        yield* recheck(needs, caller, user.id, approval.teams)
        yield* decide(needs, row, user.id, approval)
        const teams = approval.teams.map(({ teamId }) => ({ id: teamId }))
        yield* audit.append(...Accounts.inEachTeam(teams, { ...event, outcome: "allowed" }))
      })
    ),
    Effect.catchTag("AboveRole", ({ teamId }) =>
      Effect.zipRight(audit.record({ ...event, outcome: "denied", reason: Forbidden.code, teamId }), new Forbidden())
    )
  )
  yield* DeviceRequests.announce(needs, row.id)
  return { status: "approved" as const }
})

export const deny = Effect.fn("DeviceGrants.deny")(function* (needs: Needs, typed: string) {
  const { audit, sql } = needs
  const { caller, user } = yield* currentPerson
  const { row } = yield* requestOfCode(needs, typed)
  yield* Rows.transaction(sql, function* () {
    yield* decide(needs, row, user.id, { status: "denied" })
    yield* audit.append({
      actor: caller,
      action: "device.deny",
      outcome: "allowed",
      teamId: null,
      target: targetOf(row)
    })
  })
  yield* DeviceRequests.announce(needs, row.id)
  return { status: "denied" as const }
})

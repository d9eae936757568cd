/**
 * THE RULES of docs/contract/credentials.md and docs/contract/session-routes.md, one named value per sentence, in order
 * of evaluation; the first denial wins. A rule is pure: (caller's standing in the target's team, target, action) to a
 * denial or nothing.
 */
import type { AuditAction } from "#schema/Audit.ts"
import type { Caller, CallerTeam, HeldGrant } from "#schema/Caller.ts"
import {
  ApiTokenNotScopedToProtectedEnvironment,
  ApiTokenReadOnly,
  EnvironmentNotGranted,
  Forbidden,
  ScopeMissing,
  StepUpRequired
} from "#schema/Errors.ts"
import type { EnvironmentId, ProjectId, TeamId, UserId } from "#schema/Ids.ts"
import type { GrantLevel, Role, Scope, Visibility } from "#schema/Scopes.ts"
import type { TeamCreation } from "#src/AppConfig.ts"
import type { EnvironmentTarget, Target } from "./Target.ts"

/** What can be done. The first block is the contract's scopes; the rest is for people only (dashboard sessions). */
export type Action =
  | Scope
  | "projects:manage"
  | "environments:manage"
  | "access:manage"
  | "access:decide"
  | "sealing-keys:manage"
  | "tokens:manage"
  | "members:read"
  | "members:manage"
  | "team:manage"
  | "plan:manage"
  | "team-rules:manage"
  | "audit-trail:read"
  | "management:begin"

export type Denial =
  | Forbidden
  | ScopeMissing
  | ApiTokenReadOnly
  | ApiTokenNotScopedToProtectedEnvironment
  | EnvironmentNotGranted

/**
 * What can deny an action: levels and protection concern writes only, grants concern values and writes, and what is for
 * people only needs no scope.
 */
export type DenialOf<A extends Action> = A extends "secrets:write"
  ? Denial
  : A extends "secrets:read_values" | "secrets:run"
    ? Forbidden | ScopeMissing | EnvironmentNotGranted
    : A extends Scope | "management:begin"
      ? Forbidden | ScopeMissing
      : Forbidden

interface AccessRequest {
  readonly caller: Caller
  readonly team: CallerTeam
  readonly target: Target
  readonly action: Action
}
type Rule = (request: AccessRequest) => Denial | undefined

/** What roles may (docs/contract/session-routes.md, "Teams and members"). */
const viewer: ReadonlyArray<Action> = [
  "identity:read",
  "projects:read",
  "secrets:read",
  "members:read",
  "access:decide"
]
const member: ReadonlyArray<Action> = [...viewer, "secrets:read_values", "secrets:run", "secrets:write"]
const admin: ReadonlyArray<Action> = [
  ...member,
  "audit:read",
  "audit-trail:read",
  "projects:manage",
  "environments:manage",
  "access:manage",
  "sealing-keys:manage",
  "tokens:manage",
  "members:manage",
  "team:manage",
  "management:begin"
]
const owner: ReadonlyArray<Action> = [...admin, "plan:manage", "team-rules:manage"]
const allowedTo: Record<Role, ReadonlySet<Action>> = {
  viewer: new Set(viewer),
  member: new Set(member),
  admin: new Set(admin),
  owner: new Set(owner)
}
export const roleAllows = (role: Role, action: Action): boolean => allowedTo[role].has(action)

const scopes: ReadonlySet<Action> = new Set<Scope>([
  "identity:read",
  "projects:read",
  "secrets:read",
  "secrets:read_values",
  "secrets:write",
  "secrets:run",
  "audit:read"
])
const isScope = (action: Action): action is Scope => scopes.has(action)

const changes: ReadonlySet<Action> = new Set<Action>([
  "secrets:write",
  "projects:manage",
  "environments:manage",
  "access:manage",
  "sealing-keys:manage",
  "tokens:manage",
  "members:manage",
  "team:manage",
  "plan:manage",
  "team-rules:manage"
])

/** A person may do what the role in the team allows now; whoever has no role manages nothing (FORBIDDEN). */
const rolesBoundWhatPeopleMay: Rule = ({ team, action }) => {
  if (team.role === null) return isScope(action) ? undefined : new Forbidden()
  return roleAllows(team.role, action) ? undefined : new Forbidden()
}

/** What a CLI grant does by its person's role, and with which scope: it cannot hold `audit:read`, and manages nothing. */
const ofLogins = new Map<Action, Scope>([
  ["audit:read", "secrets:read"],
  ["management:begin", "identity:read"]
])

/** A credential that holds scopes needs the one of the action, in the team that owns the resource (SCOPE_MISSING). */
const scopedCredentialsNeedTheScope: Rule = ({ caller, team, action }) => {
  if (team.scopes === null) return undefined
  const ofLogin = caller.kind === "cli_grant" ? ofLogins.get(action) : undefined
  if (ofLogin === undefined && !isScope(action)) return new Forbidden()
  const needed = ofLogin ?? (isScope(action) ? action : "identity:read")
  return team.scopes.includes(needed) ? undefined : new ScopeMissing({ requiredScope: needed })
}

/** A login that is restricted to projects or environments asks for no management of the team (FORBIDDEN). */
const narrowedLoginsDoNotManage: Rule = ({ action, caller: { restrictions } }) =>
  action === "management:begin" && (restrictions.projectIds !== null || restrictions.environmentIds !== null)
    ? new Forbidden({ message: "This login is restricted to a part of the team." })
    : undefined

/** What a management session is for. Values, names, rules of the team and the trail are not among it. */
const managed: ReadonlySet<Action> = new Set<Action>([
  "projects:manage",
  "environments:manage",
  "tokens:manage",
  "members:read",
  "members:manage"
])

/** "A management session manages, and does nothing else" (FORBIDDEN; docs/contract/management.md). */
const managementSessionsOnlyManage: Rule = ({ action, caller }) =>
  caller.kind === "management" && !managed.has(action) ? new Forbidden() : undefined

/** An API token reads who was handed what with the scope that it holds for agents, over REST too (SCOPE_MISSING). */
const tokensReadTheTrailByScope: Rule = ({ action, caller, team }) =>
  action === "audit:read" && caller.kind === "api_token" && team.scopes === null && !caller.mcpScopes.includes(action)
    ? new ScopeMissing({ requiredScope: action })
    : undefined

/** "`read` … refuses create, update, rotate, roll back and delete" (API_TOKEN_READ_ONLY). */
const readOnlyTokensNeverWrite: Rule = ({ caller, action }) =>
  caller.accessLevel === "read" && changes.has(action) ? new ApiTokenReadOnly() : undefined

/**
 * "A write token changes a protected environment only when it was created naming that environment"
 * (API_TOKEN_NOT_SCOPED_TO_PROTECTED_ENVIRONMENT).
 */
const protectedEnvironmentsNeedANamingToken: Rule = ({ caller, target, action }) =>
  caller.kind === "api_token" &&
  target.type === "environment" &&
  target.protected &&
  changes.has(action) &&
  !(caller.restrictions.environmentIds?.includes(target.environmentId) ?? false)
    ? new ApiTokenNotScopedToProtectedEnvironment()
    : undefined

/** Where an environment says so, what a person below admin writes waits until another person approves it. */
export const proposes = (caller: Caller, team: CallerTeam, target: Target): boolean =>
  target.type === "environment" &&
  target.changes === "proposed" &&
  caller.user !== null &&
  team.role !== null &&
  !manages(team.role)

/** "Protected environments accept changes from owners and admins only" (FORBIDDEN); others may propose one. */
const protectedEnvironmentsNeedOwnerOrAdmin: Rule = ({ caller, team, target, action }) =>
  target.type === "environment" &&
  target.protected &&
  changes.has(action) &&
  !(action === "secrets:write" && proposes(caller, team, target)) &&
  team.role !== null &&
  team.role !== "owner" &&
  team.role !== "admin"
    ? new Forbidden()
    : undefined

/** From the least to the most; each level includes those before it. */
const levels: ReadonlyArray<GrantLevel> = ["names", "run", "values", "write"]
const levelNeeded = new Map<Action, GrantLevel>([
  ["secrets:run", "run"],
  ["secrets:read_values", "values"],
  ["secrets:write", "write"]
])
const manages = (role: Role): boolean => role === "owner" || role === "admin"

const byRole: Readonly<Record<Role, GrantLevel>> = { viewer: "names", member: "write", admin: "write", owner: "write" }

/** What a role gives at an environment without any grant; undefined: nothing, not even names. */
export const levelByRole = (
  role: Role,
  { adminsNeedGrants }: Pick<CallerTeam, "adminsNeedGrants">,
  at: Pick<EnvironmentTarget, "protected" | "readers" | "visibility">
): GrantLevel | undefined => {
  const free = manages(role) && !adminsNeedGrants
  if (at.visibility === "granted" && !free) return manages(role) ? "names" : undefined
  if (at.readers === "granted" && !free) return "names"
  return role === "member" && at.protected ? "values" : byRole[role]
}

/** What the caller's grants give there: 0 = nothing, else one more than the index of the highest level. */
const granted = (caller: Caller, at: { readonly projectId: ProjectId; readonly environmentId: EnvironmentId }) =>
  caller.grants.reduce(
    (most, { environmentId, level, projectId }) =>
      projectId === at.projectId && (environmentId === null || environmentId === at.environmentId)
        ? Math.max(most, levels.indexOf(level) + 1)
        : most,
    0
  )

/** Whether the caller has less than this level at an environment where grants decide. */
export const lacksGrant = (
  caller: Caller,
  team: CallerTeam,
  at: Pick<EnvironmentTarget, "projectId" | "environmentId" | "readers" | "visibility">,
  level: GrantLevel
): boolean =>
  team.role !== null &&
  (at.readers === "granted" || at.visibility === "granted") &&
  (!manages(team.role) || team.adminsNeedGrants) &&
  granted(caller, at) <= levels.indexOf(level)

/**
 * A person below admin has values of a granted environment, and writes there, by a grant of that level; names are free
 * (ENVIRONMENT_NOT_GRANTED). A project that is granted makes its environments so. A team may bind its admins too.
 */
export const grantedEnvironmentsNeedAGrant: Rule = ({ caller, team, target, action }) => {
  const level = levelNeeded.get(action)
  return level !== undefined && target.type === "environment" && lacksGrant(caller, team, target, level)
    ? new EnvironmentNotGranted()
    : undefined
}

export const isAbove = (one: GrantLevel, other: GrantLevel): boolean => levels.indexOf(one) > levels.indexOf(other)

/** The grant that gives most; of equal ones the one that lasts longest. */
export const highest = <G extends { readonly level: GrantLevel; readonly until: string | null }>(
  grants: ReadonlyArray<G>
): G | undefined => {
  const lasts = ({ until }: G) => until ?? "9"
  return grants.toSorted((a, b) =>
    a.level === b.level ? (lasts(a) < lasts(b) ? 1 : -1) : isAbove(b.level, a.level) ? 1 : -1
  )[0]
}

/** Whether a role may be granted a level: grants narrow, so one above the role would promise what nobody gets. */
export const levelWithin = (role: Role, level: GrantLevel): boolean =>
  [...levelNeeded].every(
    ([action, needed]) => levels.indexOf(needed) > levels.indexOf(level) || roleAllows(role, action)
  )

/** Who decides about requests for access to an environment: owners, admins and the approvers that it names. */
export const decidesRequests = (role: Role, userId: UserId, approvers: ReadonlyArray<UserId>): boolean =>
  manages(role) || approvers.includes(userId)

/** A request is decided by another person than the one who asks, and never above that person's own standing. */
export const mayDecide = (
  caller: Caller,
  team: CallerTeam,
  at: Parameters<typeof lacksGrant>[2] & { readonly approvers: ReadonlyArray<UserId> },
  asked: { readonly userId: UserId; readonly level: GrantLevel }
): boolean =>
  caller.user !== null &&
  team.role !== null &&
  caller.user.id !== asked.userId &&
  decidesRequests(team.role, caller.user.id, at.approvers) &&
  levelWithin(team.role, asked.level) &&
  (manages(team.role) || !lacksGrant(caller, team, at, asked.level))

/**
 * A change is approved by another person than its author, one who could write it: an owner or admin, or an approver of
 * the environment, who is not kept from it by protection. It is written as theirs.
 */
export const decideApproval = (
  request: { readonly caller: Caller; readonly team: CallerTeam },
  target: EnvironmentTarget,
  approvers: ReadonlyArray<UserId>,
  author: UserId
): DenialOf<"secrets:write"> | undefined => {
  const { caller, team } = request
  if (caller.user === null || caller.user.id === author || team.role === null) return new Forbidden()
  if (!decidesRequests(team.role, caller.user.id, approvers)) return new Forbidden()
  const open = { ...target, changes: "direct", protected: target.protected && manages(team.role) } as const
  return decide({ ...request, action: "secrets:write", target: open })
}

/** Whether the caller may have values of the target: read them, or run programs with them. */
export const mayHaveValues = (caller: Caller, target: EnvironmentTarget): boolean => {
  const team = teamOf(caller, target.teamId)
  const may = (action: Action) => team !== undefined && decide({ caller, team, target, action }) === undefined
  return may("secrets:read_values") || may("secrets:run")
}

/**
 * A caller that may not have a value may not move it to where others have it: the source of a copy needs a right to
 * values,
 * `secrets:run` or `secrets:read_values`. Values leave a protected environment for an unprotected one only by an owner or
 * admin (FORBIDDEN).
 */
export const decideCopy = (
  request: { readonly caller: Caller; readonly team: CallerTeam },
  source: EnvironmentTarget,
  into: EnvironmentTarget
): DenialOf<"secrets:run"> | undefined => {
  if (!mayHaveValues(request.caller, source)) return decide({ ...request, target: source, action: "secrets:run" })
  const { role } = request.team
  return source.protected && !into.protected && role !== "owner" && role !== "admin" ? new Forbidden() : undefined
}

/** In order of evaluation (docs/contract/errors.md, "Order of checks": role, scope, level, protected, grant). */
const rules: ReadonlyArray<Rule> = [
  rolesBoundWhatPeopleMay,
  managementSessionsOnlyManage,
  scopedCredentialsNeedTheScope,
  narrowedLoginsDoNotManage,
  tokensReadTheTrailByScope,
  readOnlyTokensNeverWrite,
  protectedEnvironmentsNeedANamingToken,
  protectedEnvironmentsNeedOwnerOrAdmin,
  grantedEnvironmentsNeedAGrant
]

export const decide = <A extends Action>(request: AccessRequest & { readonly action: A }): DenialOf<A> | undefined => {
  for (const rule of rules) {
    const denial = rule(request)
    // `DenialOf` says which rules can deny which action; test/access/Policy.test.ts goes through all of them.
    if (denial !== undefined) return denial as DenialOf<A>
  }
  return undefined
}

const asAgain: ReadonlySet<AuditAction> = new Set<AuditAction>([
  "token.create",
  "token.rotate",
  "token.set_addresses",
  "machine.rule_create",
  "access.approve",
  "management.approve"
])
const givesValues: ReadonlySet<Action> = new Set<Action>(["secrets:read_values", "secrets:run"])

/**
 * Values of a protected environment, a new token, the approval of a request and the team's rules ask a session for the
 * second factor again when the last proof is older than the team allows (STEP_UP_REQUIRED). It comes after the rules: who
 * may not do it is not asked.
 */
export const asksAgain = ({ action, target, team }: AccessRequest, audit: AuditAction): StepUpRequired | undefined =>
  team.factorIsOld &&
  (asAgain.has(audit) ||
    action === "team-rules:manage" ||
    (givesValues.has(action) && target.type === "environment" && target.protected))
    ? new StepUpRequired()
    : undefined

/** Factors, and management from the command line, need a proof that the person is there: at most this old. */
const recentMillis = 15 * 60_000

/** Whether the person signed in, or confirmed, a short time ago. */
export const hasRecentProof = ({ createdAt, factorAt }: Pick<Caller, "createdAt" | "factorAt">, now: number): boolean =>
  now - (factorAt ?? createdAt).getTime() <= recentMillis

/** A login or an agent of these teams is approved with a recent proof too. */
export const firstWithOldFactor = (
  caller: Caller,
  teams: ReadonlyArray<{ readonly teamId: TeamId }>
): CallerTeam | undefined =>
  caller.teams.find(({ factorIsOld, id }) => factorIsOld && teams.some((one) => one.teamId === id))

/** By whom a person was signed in: an issuer of OpenID Connect, which may be good for one team; null: a password. */
interface SignedBy {
  readonly issuer: string | null
  readonly onlyTeam: TeamId | null
}
interface Entrance {
  readonly id: TeamId
  readonly role: Role
  /** The issuers that alone let people in; null: a password does too. */
  readonly signInOnly: ReadonlyArray<string> | null
  /** Of an owner: a password lets them in all the same, and raises an alarm. */
  readonly breakGlass: boolean
}

/** The sign-in of an owner whom the team lets in with a password, though it takes issuers alone. */
export const breaksGlass = ({ issuer }: SignedBy, { breakGlass, role, signInOnly }: Entrance): boolean =>
  signInOnly !== null && issuer === null && breakGlass && role === "owner"

/**
 * A team may take issuers alone. The session of a team's own issuer is good for that team alone: its owners choose who
 * that issuer says somebody is.
 */
export const letsIn = (by: SignedBy, team: Entrance): boolean =>
  (by.onlyTeam === null || by.onlyTeam === team.id) &&
  (team.signInOnly === null || team.signInOnly.some((issuer) => issuer === by.issuer) || breaksGlass(by, team))

/** Who may create a team is the operator's choice: everybody who is signed in, the owners of a team, or no person here. */
export const mayCreateTeam = (caller: Caller, creation: TeamCreation): boolean =>
  creation === "everyone" || (creation === "owners" && caller.teams.some((team) => team.role === "owner"))

/** The caller's standing in a team; undefined = the team is not visible. */
export const teamOf = (caller: Caller, teamId: TeamId): CallerTeam | undefined =>
  caller.teams.find((team) => team.id === teamId)

/** A granted project is seen by owners, admins and who holds a grant in it; API tokens over REST keep their own reach. */
const hidden = (team: CallerTeam, visibility: Visibility): boolean =>
  visibility === "granted" && team.role !== null && !manages(team.role)

/** "Narrowing is checked on every request": an environment is visible when nothing narrows it away or hides it. */
export const environmentVisible = (
  caller: Caller,
  at: {
    readonly teamId: TeamId
    readonly projectId: ProjectId
    readonly environmentId: EnvironmentId
    readonly visibility: Visibility
  }
): boolean => {
  const team = teamOf(caller, at.teamId)
  return team !== undefined && (!hidden(team, at.visibility) || granted(caller, at) > 0) && notNarrowedAway(caller, at)
}

const notNarrowedAway = (
  caller: Caller,
  at: { readonly projectId: ProjectId; readonly environmentId: EnvironmentId }
): boolean =>
  (caller.restrictions.projectIds === null || caller.restrictions.projectIds.includes(at.projectId)) &&
  (caller.restrictions.environmentIds === null || caller.restrictions.environmentIds.includes(at.environmentId))

/**
 * "Projects without a reached environment are hidden" from a credential that is narrowed to environments
 * (docs/contract/device-authorization.md).
 */
export const projectVisible = (
  caller: Caller,
  at: {
    readonly teamId: TeamId
    readonly projectId: ProjectId
    readonly environmentIds: ReadonlyArray<EnvironmentId>
    readonly visibility: Visibility
  }
): boolean => {
  const { environmentIds, projectIds } = caller.restrictions
  const team = teamOf(caller, at.teamId)
  const reached = ({ environmentId }: HeldGrant) =>
    environmentId === null || environmentIds === null || environmentIds.includes(environmentId)
  return (
    team !== undefined &&
    (!hidden(team, at.visibility) ||
      caller.grants.some((grant) => grant.projectId === at.projectId && reached(grant))) &&
    (projectIds === null || projectIds.includes(at.projectId)) &&
    (environmentIds === null || at.environmentIds.some((id) => environmentIds.includes(id)))
  )
}

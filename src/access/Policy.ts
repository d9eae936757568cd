/**
 * The rules of docs/contract/credentials.md and docs/contract/session-routes.md, one named value per sentence, in order
 * of evaluation. The first denial wins. A rule is a pure function of the caller, the team, the target and the action.
 */
import type { Caller, CallerTeam, ActiveGrant } from "#schema/Caller.ts"
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
import { type Action, byRole, changingActions, effectOf, managementActions, scopeOf } from "./Actions.ts"
import type { EnvironmentTarget, Target } from "./Target.ts"

export type Denial =
  | Forbidden
  | ScopeMissing
  | ApiTokenReadOnly
  | ApiTokenNotScopedToProtectedEnvironment
  | EnvironmentNotGranted

/**
 * The possible denials of an action. Levels and protection concern writes only; grants concern values and writes.
 * Actions for people only need no scope.
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

/** A person may do what the role in the team allows now. A caller without a role manages nothing (FORBIDDEN). */
const rolesBoundWhatPeopleMay: Rule = ({ team, action }) => {
  if (team.role === null) return scopeOf.has(action) ? undefined : new Forbidden()
  return byRole[team.role].has(action) ? undefined : new Forbidden()
}

/** Actions of a CLI login that need another scope. A login cannot hold `audit:read`, and manages nothing itself. */
const scopeForLogins = new Map<Action, Scope>([
  ["audit:read", "secrets:read"],
  ["management:begin", "identity:read"]
])

/** A credential with scopes needs the scope of the action, in the team that owns the resource (SCOPE_MISSING). */
const scopedCredentialsNeedTheScope: Rule = ({ caller, team, action }) => {
  if (team.scopes === null) return undefined
  const loginScope = caller.kind === "cli_grant" ? scopeForLogins.get(action) : undefined
  const needed = loginScope ?? scopeOf.get(action)
  if (needed === undefined) return new Forbidden()
  return team.scopes.includes(needed) ? undefined : new ScopeMissing({ requiredScope: needed })
}

/** A login that is restricted to projects or environments cannot request management of the team (FORBIDDEN). */
const narrowedLoginsDoNotManage: Rule = ({ action, caller: { restrictions } }) =>
  action === "management:begin" && (restrictions.projectIds !== null || restrictions.environmentIds !== null)
    ? new Forbidden({ message: "This login is restricted to a part of the team." })
    : undefined

/** "A management session manages, and does nothing else" (FORBIDDEN; docs/contract/management.md). */
const managementSessionsOnlyManage: Rule = ({ action, caller }) =>
  caller.kind === "management" && !managementActions.has(action) ? new Forbidden() : undefined

/**
 * An API token needs its agent scope `audit:read` to list who received which version, over REST too (SCOPE_MISSING).
 */
const tokensReadTheTrailByScope: Rule = ({ action, caller, team }) =>
  action === "audit:read" && caller.kind === "api_token" && team.scopes === null && !caller.mcpScopes.includes(action)
    ? new ScopeMissing({ requiredScope: action })
    : undefined

/** "`read` … refuses create, update, rotate, roll back and delete" (API_TOKEN_READ_ONLY). */
const readOnlyTokensNeverWrite: Rule = ({ caller, action }) =>
  caller.accessLevel === "read" && changingActions.has(action) ? new ApiTokenReadOnly() : undefined

/**
 * "A write token changes a protected environment only when it was created naming that environment"
 * (API_TOKEN_NOT_SCOPED_TO_PROTECTED_ENVIRONMENT).
 */
const protectedEnvironmentsNeedANamingToken: Rule = ({ caller, target, action }) =>
  caller.kind === "api_token" &&
  target.type === "environment" &&
  target.protected &&
  changingActions.has(action) &&
  !(caller.restrictions.environmentIds?.includes(target.environmentId) ?? false)
    ? new ApiTokenNotScopedToProtectedEnvironment()
    : undefined

/** In an environment with approval of changes, a write by a person below admin waits for another person's approval. */
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
  changingActions.has(action) &&
  !(action === "secrets:write" && proposes(caller, team, target)) &&
  team.role !== null &&
  team.role !== "owner" &&
  team.role !== "admin"
    ? new Forbidden()
    : undefined

/** From the least to the most. Each level includes the levels before it. */
const levels: ReadonlyArray<GrantLevel> = ["names", "run", "values", "write"]
const levelNeeded = new Map<Action, GrantLevel>([
  ["secrets:run", "run"],
  ["secrets:read_values", "values"],
  ["secrets:write", "write"]
])
const manages = (role: Role): boolean => role === "owner" || role === "admin"

const levelOfRole: Readonly<Record<Role, GrantLevel>> = {
  viewer: "names",
  member: "write",
  admin: "write",
  owner: "write"
}

/** The level that a role gives without any grant. Undefined: nothing, not even names. */
export const levelByRole = (
  role: Role,
  { adminsNeedGrants }: Pick<CallerTeam, "adminsNeedGrants">,
  at: Pick<EnvironmentTarget, "protected" | "readers" | "visibility">
): GrantLevel | undefined => {
  const free = manages(role) && !adminsNeedGrants
  if (at.visibility === "granted" && !free) return manages(role) ? "names" : undefined
  if (at.readers === "granted" && !free) return "names"
  return role === "member" && at.protected ? "values" : levelOfRole[role]
}

/** The rank of the caller's highest grant there: 0 for none, else one more than the index of its level. */
const grantRank = (
  caller: Pick<Caller, "grants">,
  at: { readonly projectId: ProjectId; readonly environmentId: EnvironmentId }
) =>
  caller.grants.reduce(
    (most, { environmentId, level, projectId }) =>
      projectId === at.projectId && (environmentId === null || environmentId === at.environmentId)
        ? Math.max(most, levels.indexOf(level) + 1)
        : most,
    0
  )

/** Whether the caller's grants give less than this level, in an environment that requires grants. */
export const lacksGrant = (
  caller: Pick<Caller, "grants">,
  team: Pick<CallerTeam, "role" | "adminsNeedGrants">,
  at: Pick<EnvironmentTarget, "projectId" | "environmentId" | "readers" | "visibility">,
  level: GrantLevel
): boolean =>
  team.role !== null &&
  (at.readers === "granted" || at.visibility === "granted") &&
  (!manages(team.role) || team.adminsNeedGrants) &&
  grantRank(caller, at) <= levels.indexOf(level)

/**
 * In a granted environment, a person below admin needs a grant of the level to use values or to write. Names need no
 * grant (ENVIRONMENT_NOT_GRANTED). A granted project makes its environments granted. A team may bind its admins too.
 */
const grantedEnvironmentsNeedAGrant: Rule = ({ caller, team, target, action }) => {
  const level = levelNeeded.get(action)
  return level !== undefined && target.type === "environment" && lacksGrant(caller, team, target, level)
    ? new EnvironmentNotGranted()
    : undefined
}

export const isAbove = (one: GrantLevel, other: GrantLevel): boolean => levels.indexOf(one) > levels.indexOf(other)

/** The grant with the highest level; of equal ones, the one that lasts longest. */
export const highest = <G extends { readonly level: GrantLevel; readonly until: string | null }>(
  grants: ReadonlyArray<G>
): G | undefined => {
  const lasts = ({ until }: G) => until ?? "9"
  return grants.toSorted((a, b) =>
    a.level === b.level ? (lasts(a) < lasts(b) ? 1 : -1) : isAbove(b.level, a.level) ? 1 : -1
  )[0]
}

/**
 * Whether a role may receive a grant of this level. Grants only narrow, so a level above the role would promise too
 * much.
 */
export const levelWithin = (role: Role, level: GrantLevel): boolean =>
  [...levelNeeded].every(
    ([action, requiredLevel]) => levels.indexOf(requiredLevel) > levels.indexOf(level) || byRole[role].has(action)
  )

/** Owners, admins and the environment's approvers decide requests for access to it. */
export const decidesRequests = (role: Role, userId: UserId, approvers: ReadonlyArray<UserId>): boolean =>
  manages(role) || approvers.includes(userId)

/** Another person than the requester decides a request, and grants no more than that person may do. */
export const mayDecide = (
  caller: { readonly user: Pick<NonNullable<Caller["user"]>, "id"> | null } & Pick<Caller, "grants">,
  team: Pick<CallerTeam, "role" | "adminsNeedGrants">,
  at: Parameters<typeof lacksGrant>[2] & { readonly approvers: ReadonlyArray<UserId> },
  request: { readonly userId: UserId; readonly level: GrantLevel }
): boolean =>
  caller.user !== null &&
  team.role !== null &&
  caller.user.id !== request.userId &&
  decidesRequests(team.role, caller.user.id, at.approvers) &&
  levelWithin(team.role, request.level) &&
  (manages(team.role) || !lacksGrant(caller, team, at, request.level))

/**
 * Another person than the author approves a change, and must be able to write it. Owners and admins can; so can the
 * environment's approvers, even if it is protected. The approver becomes the author of the write. Without an author the
 * change is one's own, and a second person decides about that.
 */
export const decideApproval = (
  request: { readonly caller: Caller; readonly team: CallerTeam },
  target: EnvironmentTarget,
  approvers: ReadonlyArray<UserId>,
  author: UserId | null
): DenialOf<"secrets:write"> | undefined => {
  const { caller, team } = request
  if (caller.user === null || caller.user.id === author || team.role === null) return new Forbidden()
  if (!decidesRequests(team.role, caller.user.id, approvers)) return new Forbidden()
  const open = { ...target, changes: "direct", protected: target.protected && manages(team.role) } as const
  return decide({ ...request, action: "secrets:write", target: open })
}

/** Whether the caller may have values of the target, by reading them or by running programs with them. */
export const mayHaveValues = (caller: Caller, target: EnvironmentTarget): boolean => {
  const team = teamOf(caller, target.teamId)
  const may = (action: Action) => team !== undefined && decide({ caller, team, target, action }) === undefined
  return may("secrets:read_values") || may("secrets:run")
}

/**
 * A caller without a right to a value may not copy it to where others have it. The source of a copy needs `secrets:run`
 * or `secrets:read_values`. Only an owner or admin copies values from a protected to an unprotected environment
 * (FORBIDDEN).
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
    // `DenialOf` lists the rules that can deny each action; test/access/Policy.test.ts checks all of them.
    if (denial !== undefined) return denial as DenialOf<A>
  }
  return undefined
}

const valueActions: ReadonlySet<Action> = new Set<Action>(["secrets:read_values", "secrets:run"])

/**
 * An action that widens or destroys, and values of a protected environment, need a fresh second factor, if the last proof
 * is older than the team allows (STEP_UP_REQUIRED). The check follows the rules: a denied caller is not asked to prove a
 * factor.
 */
export const needsStepUp = ({
  action,
  target,
  team
}: Pick<AccessRequest, "action" | "target" | "team">): StepUpRequired | undefined =>
  team.factorIsOld &&
  (effectOf(action) !== "plain" || (valueActions.has(action) && target.type === "environment" && target.protected))
    ? new StepUpRequired()
    : undefined

/** Maximum age of the last proof of presence, for changes of factors and for management from the command line. */
const recentMillis = 15 * 60_000

/** Whether the person signed in, or proved a factor, recently. */
export const hasRecentProof = (
  { createdAt, factorAt, provedAt }: Pick<Caller, "createdAt" | "factorAt" | "provedAt">,
  now: number
): boolean => now - (provedAt ?? factorAt ?? createdAt).getTime() <= recentMillis

/** The first of these teams that needs a fresh factor before a login or an agent for it is approved. */
export const firstWithOldFactor = (
  caller: Caller,
  teams: ReadonlyArray<{ readonly teamId: TeamId }>
): CallerTeam | undefined =>
  caller.teams.find(({ factorIsOld, id }) => factorIsOld && teams.some((one) => one.teamId === id))

/** The source of a sign-in: an OpenID Connect issuer, perhaps for one team only, or a password (null). */
interface SignInSource {
  readonly issuer: string | null
  readonly onlyTeam: TeamId | null
  /** Teams that the authenticator or identity does not open until an owner confirms it; null: none. */
  readonly closedTeams: ReadonlyArray<TeamId> | null
  /** The only teams that require this issuer and that the identity opens; null: all of them. */
  readonly confirmedTeams: ReadonlyArray<TeamId> | null
}
interface SignInRules {
  readonly id: TeamId
  readonly role: Role
  /** The only issuers that let people in. Null: a password does too. */
  readonly signInOnly: ReadonlyArray<string> | null
  /** Whether this owner may still use a password; each such sign-in raises an alarm. */
  readonly breakGlass: boolean
}

/** Whether an owner uses a password in a team that otherwise accepts issuers only. */
export const breaksGlass = (
  { issuer }: Pick<SignInSource, "issuer">,
  { breakGlass, role, signInOnly }: SignInRules
): boolean => signInOnly !== null && issuer === null && breakGlass && role === "owner"

const opensByIssuer = ({ confirmedTeams, issuer }: SignInSource, { id, signInOnly }: SignInRules): boolean =>
  (signInOnly?.some((one) => one === issuer) ?? false) && (confirmedTeams === null || confirmedTeams.includes(id))

/**
 * The one check of a sign-in by a team's own issuer: it is good for that team alone, since its owners decide which
 * person the issuer names. `teamId`: the team whose things it reaches; null: things of the installation.
 */
export const reaches = ({ onlyTeam }: Pick<SignInSource, "onlyTeam">, teamId: TeamId | null): boolean =>
  onlyTeam === null || onlyTeam === teamId

/**
 * A team may accept issuers only, and an issuer may be good for one team. An identity opens a team that requires its issuer only if a witness says that it is the
 * account's person.
 */
export const letsIn = (by: SignInSource, team: SignInRules): boolean =>
  reaches(by, team.id) &&
  !(by.closedTeams?.includes(team.id) ?? false) &&
  (team.signInOnly === null || opensByIssuer(by, team) || breaksGlass(by, team))

/** The operator chooses who creates teams: every signed-in person, owners of a team, or no person. */
export const mayCreateTeam = (caller: Caller, creation: TeamCreation): boolean =>
  creation === "everyone" || (creation === "owners" && caller.teams.some((team) => team.role === "owner"))

/** The caller's membership in a team. Undefined: the team is not visible. */
export const teamOf = (caller: Caller, teamId: TeamId): CallerTeam | undefined =>
  caller.teams.find((team) => team.id === teamId)

/** Owners and admins see granted projects without a grant. API tokens over REST keep their own reach. */
export const seesGrantedProjects = ({ role }: CallerTeam): boolean => role === null || manages(role)

/** Others see a granted project with a grant only. */
const isHidden = (team: CallerTeam, visibility: Visibility): boolean =>
  visibility === "granted" && !seesGrantedProjects(team)

/**
 * "Narrowing is checked on every request": an environment is visible unless a restriction excludes it or its project
 * hides it.
 */
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
  return (
    team !== undefined &&
    (!isHidden(team, at.visibility) || grantRank(caller, at) > 0) &&
    isWithinRestrictions(caller, at)
  )
}

const isWithinRestrictions = (
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
  const isReached = ({ environmentId }: ActiveGrant) =>
    environmentId === null || environmentIds === null || environmentIds.includes(environmentId)
  return (
    team !== undefined &&
    (!isHidden(team, at.visibility) ||
      caller.grants.some((grant) => grant.projectId === at.projectId && isReached(grant))) &&
    (projectIds === null || projectIds.includes(at.projectId)) &&
    (environmentIds === null || at.environmentIds.some((id) => environmentIds.includes(id)))
  )
}

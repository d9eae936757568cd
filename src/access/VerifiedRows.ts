/**
 * Teams, memberships, and the environment that a request names, with its project: their columns, and the check of their
 * MACs. Rows of environments are typed at the statement, without a decoder: they are read before every request, and
 * their columns allow no other types.
 */
import * as Schema from "effect/Schema"
import type { NamedEnvironment } from "#schema/Caller.ts"
import type { EnvironmentId, ProjectId, TeamId, UserId } from "#schema/Ids.ts"
import { type Changes, type Readers, Role, type Visibility } from "#schema/Scopes.ts"
import type { AuthorizationRow } from "#src/rows/AuthorizationRows.ts"
import type { RowMac, StoredMac } from "#src/rows/RowMac.ts"

export interface EnvironmentRow {
  /** Null: no environment of this name. Undefined: no request of the batch named one. */
  readonly eTeamId: TeamId | null | undefined
  readonly eProjectId: ProjectId
  readonly eId: EnvironmentId
  readonly eSlug: string
  readonly eProtected: boolean
  readonly eRevision: number
  readonly eDescribed: number
  readonly eReaders: Readers
  readonly eChanges: Changes
  /** Separated by commas. */
  readonly eApprovers: string
  readonly eApprovals: number
  readonly eMac: StoredMac
  readonly pTeamId: TeamId
  readonly pSlug: string
  readonly pVisibility: Visibility
  readonly pMac: StoredMac
}

/** Columns of an environment `e` and of its project, which the statement names by `project`. */
export const columns = (project: "p" | "ep"): string => `
  e.team_id AS e_team_id, e.project_id AS e_project_id, e.id AS e_id, e.slug AS e_slug, e.protected AS e_protected,
  e.revision AS e_revision, e.described AS e_described, e.readers AS e_readers, e.changes AS e_changes,
  array_to_string(e.approvers, ',') AS e_approvers, e.approvals AS e_approvals, e.mac AS e_mac,
  ${project}.team_id AS p_team_id, ${project}.slug AS p_slug, ${project}.visibility AS p_visibility,
  ${project}.mac AS p_mac`

/**
 * Null if the MAC of the environment or of its project is invalid: then it does not exist. Member by member
 * (docs/architecture.md, "No request makes a hidden class").
 */
export const namedEnvironment = (row: EnvironmentRow, macs: RowMac): NamedEnvironment | null => {
  if (row.eTeamId === null || row.eTeamId === undefined) return null
  const environment = {
    id: row.eId,
    teamId: row.eTeamId,
    projectId: row.eProjectId,
    slug: row.eSlug,
    protected: row.eProtected,
    readers: row.eReaders,
    changes: row.eChanges,
    approvers: row.eApprovers,
    approvals: row.eApprovals,
    mac: row.eMac
  }
  if (!macs.isAuthentic("environments", environment)) return null
  const project = {
    id: row.eProjectId,
    teamId: row.pTeamId,
    slug: row.pSlug,
    visibility: row.pVisibility,
    mac: row.pMac
  }
  if (!macs.isAuthentic("projects", project)) return null
  return {
    teamId: row.eTeamId,
    projectId: row.eProjectId,
    environmentId: row.eId,
    slug: row.eSlug,
    protected: row.eProtected,
    revision: row.eRevision,
    described: row.eDescribed,
    readers: row.eReaders,
    changes: row.eChanges,
    visibility: row.pVisibility
  }
}

/** Columns of a membership under its MAC, without the team and person, and the MAC. */
export const membershipFields = {
  role: Role,
  active: Schema.Boolean,
  deactivatedAt: Schema.NullOr(Schema.DateFromSelf),
  updatedAt: Schema.DateFromSelf,
  ruledBy: Schema.NullOr(Schema.String),
  roleLimit: Schema.NullOr(Role),
  breakGlass: Schema.Boolean,
  mac: Schema.NullOr(Schema.Uint8ArrayFromSelf)
}

/**
 * Whether the MAC of the team's rules is valid, whatever other columns the row has. Copies member by member: spreading
 * a row of forty members takes longer than its MAC (docs/architecture.md, "The hot path").
 */
export const isTeamAuthentic = (
  macs: RowMac,
  id: TeamId,
  row: Omit<AuthorizationRow<"teams">, "id"> & { readonly teamMac: StoredMac }
): boolean =>
  macs.isAuthentic("teams", {
    id,
    plan: row.plan,
    adminsNeedGrants: row.adminsNeedGrants,
    tokensFollowCreators: row.tokensFollowCreators,
    secondFactorRequired: row.secondFactorRequired,
    stepUpMinutes: row.stepUpMinutes,
    leakedCredentials: row.leakedCredentials,
    signInOnly: row.signInOnly,
    suspended: row.suspended,
    sessionAddresses: row.sessionAddresses,
    secondPerson: row.secondPerson,
    allowedKeys: row.allowedKeys,
    mac: row.teamMac
  })

/** Whether the membership's MAC is valid. */
export const isMembershipAuthentic = (
  macs: RowMac,
  teamId: TeamId,
  userId: UserId,
  row: Omit<AuthorizationRow<"memberships">, "teamId" | "userId"> & { readonly mac: StoredMac }
): boolean =>
  macs.isAuthentic("memberships", {
    teamId,
    userId,
    role: row.role,
    active: row.active,
    deactivatedAt: row.deactivatedAt,
    updatedAt: row.updatedAt,
    ruledBy: row.ruledBy,
    roleLimit: row.roleLimit,
    breakGlass: row.breakGlass,
    mac: row.mac
  })

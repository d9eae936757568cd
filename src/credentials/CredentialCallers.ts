/** Callers from credential rows whose MACs hold: the person, the reach, and the life of each credential. */
import type { Caller, CallerTeam } from "#schema/Caller.ts"
import type { UserId } from "#schema/Ids.ts"
import type { Role } from "#schema/Scopes.ts"
import * as VerifiedRows from "#src/access/VerifiedRows.ts"
import * as Policy from "#src/access/Policy.ts"
import type { RowMac } from "#src/rows/RowMac.ts"
import type {
  AccessRow,
  CredentialRow,
  GrantRow,
  PersonRow,
  Present,
  SessionRow,
  TeamRow,
  TokenRow
} from "./CredentialRows.ts"
import * as PersonGrants from "./PersonGrants.ts"
import * as Liveness from "./Liveness.ts"

export interface Verified {
  readonly caller: Caller
  readonly life: Liveness.Life
  /** API token only: the creator's current role, which MCP checks too. */
  readonly creatorRole: Role | null
  /** True for credentials that only `/mcp` accepts: an OAuth access token, or an API token limited to it. */
  readonly mcpOnly: boolean
  /** OAuth access token only: its one resource (RFC 8707), and its client. */
  readonly audience: string | null
  readonly clientId: string | null
}

/** Teams of the person, without those whose own MAC or membership's MAC fails. */
const teamsOf = <Row extends TeamRow>(rows: ReadonlyArray<Row>, userId: UserId, macs: RowMac): ReadonlyArray<Row> =>
  rows.filter(
    (row) =>
      !row.suspended &&
      VerifiedRows.isMembershipAuthentic(macs, row.id, userId, row) &&
      VerifiedRows.isTeamAuthentic(macs, row.id, row)
  )
const callerTeam = (
  { adminsNeedGrants, allowedKeys, id, name, plan, role }: TeamRow,
  scopes: CallerTeam["scopes"],
  factorIsOld = false
): CallerTeam => ({ id, name, plan, role, scopes, adminsNeedGrants, factorIsOld, allowedKeys })

/** True when the team requires a second factor and the credential has no proof of one. */
const isWithheld =
  ({ factorAt }: PersonRow) =>
  ({ secondFactorRequired }: TeamRow): boolean =>
    secondFactorRequired && factorAt === null
const isReachable = (row: PersonRow) => {
  const withheld = isWithheld(row)
  return (team: TeamRow) => !withheld(team)
}
const isOld = ({ factorAt, provedAt }: SessionRow, { stepUpMinutes }: TeamRow, now: number): boolean =>
  factorAt !== null && now - (provedAt ?? factorAt).getTime() > stepUpMinutes * 60_000

const noGrants: Caller["grants"] = []
const unrestricted = { projectIds: null, environmentIds: null } as const

type OfRow = "credentialId" | "grants" | "createdAt" | "expiresAt" | "lastUsedAt" | "named"

/**
 * The caller of a row: members common to all kinds, and those of its kind. Listed one by one, as in all objects made
 * for each request (docs/architecture.md, "No request makes a hidden class").
 */
const callerOf = (
  row: Present<CredentialRow & { readonly expiresAt: Date | null }>,
  now: number,
  macs: RowMac,
  own: Omit<Caller, OfRow>
): Caller => ({
  kind: own.kind,
  credentialId: row.id,
  name: own.name,
  user: own.user,
  teams: own.teams,
  withheld: own.withheld,
  accessLevel: own.accessLevel,
  mcpScopes: own.mcpScopes,
  restrictions: own.restrictions,
  grants: row.personGrants === null ? noGrants : PersonGrants.inForce(row.personGrants, now, macs),
  machine: own.machine,
  factorAt: own.factorAt,
  provedAt: own.provedAt,
  issuer: own.issuer,
  onlyTeam: own.onlyTeam,
  closedTeams: own.closedTeams,
  confirmedTeams: own.confirmedTeams,
  createdAt: row.createdAt,
  expiresAt: row.expiresAt,
  lastUsedAt: row.lastUsedAt,
  named: VerifiedRows.namedEnvironment(row, macs)
})
/** Inputs for Liveness. */
const lifeInputs = (row: PersonRow, teams: ReadonlyArray<TeamRow>) => ({
  createdAt: row.createdAt,
  expiresAt: row.expiresAt,
  lastUsedAt: row.lastUsedAt,
  revokedAt: row.revokedAt,
  teams: teams.length
})
const personOf = (row: PersonRow) => ({ id: row.userId, email: row.email, name: row.userName })

/** The creator's membership; empty when its MAC fails. */
const creatorOf = (row: TokenRow, macs: RowMac) => {
  const none = { creatorActive: null, creatorDeactivatedAt: null, creatorRole: null }
  if (row.creatorActive === null) return none
  const membership = {
    role: row.creatorRole,
    active: row.creatorActive,
    deactivatedAt: row.creatorDeactivatedAt,
    updatedAt: row.creatorUpdatedAt,
    ruledBy: row.creatorRuledBy,
    roleLimit: row.creatorRoleLimit,
    breakGlass: row.creatorBreakGlass,
    mac: row.creatorMac
  }
  return VerifiedRows.isMembershipAuthentic(macs, row.teamId, row.createdBy, membership) ? row : none
}

/** Over REST the token's own reach decides, unless its team limits tokens to their creators' current rights. */
export const ofToken = (row: Present<TokenRow>, now: number, macs: RowMac): Verified | undefined => {
  // A revoked token has no MAC, and grants nothing.
  if (row.revokedAt === null && !macs.isAuthentic("api_tokens", row)) return undefined
  if (row.suspended || !VerifiedRows.isTeamAuthentic(macs, row.teamId, row)) return undefined
  const creator = creatorOf(row, macs)
  const { creatorActive } = creator
  const ofItself = {
    createdAt: row.createdAt,
    expiresAt: row.expiresAt,
    lastUsedAt: row.lastUsedAt,
    revokedAt: row.revokedAt,
    creatorActive: row.tokensFollowCreators && creatorActive !== true ? null : creatorActive,
    creatorDeactivatedAt: creator.creatorDeactivatedAt
  }
  const team: CallerTeam = {
    id: row.teamId,
    name: row.teamName,
    plan: row.plan,
    role: row.tokensFollowCreators ? creator.creatorRole : null,
    scopes: null,
    adminsNeedGrants: row.adminsNeedGrants,
    factorIsOld: false,
    allowedKeys: row.allowedKeys
  }
  const caller = callerOf(row, now, macs, {
    kind: "api_token",
    name: row.name,
    user: null,
    teams: [team],
    withheld: [],
    accessLevel: row.accessLevel,
    mcpScopes: row.mcpScopes,
    restrictions: { projectIds: row.projectIds, environmentIds: row.environmentIds },
    machine: true,
    factorAt: null,
    provedAt: null,
    issuer: null,
    onlyTeam: null,
    closedTeams: null,
    confirmedTeams: null
  })
  return {
    life: Liveness.ofToken(ofItself, now),
    creatorRole: creatorActive === true ? creator.creatorRole : null,
    mcpOnly: row.mcpOnly,
    audience: null,
    clientId: null,
    caller
  }
}

export const ofSession = (row: Present<SessionRow>, now: number, macs: RowMac): Verified | undefined => {
  if (row.revokedAt === null && !macs.isAuthentic("sessions", row)) return undefined
  const { manages } = row
  // A management session needs no check of the sign-in: a person whom the team accepts approved it.
  const teams = teamsOf(row.teams, row.userId, macs).filter((team) =>
    manages === null ? Policy.letsIn(row, team) : team.id === manages
  )
  const caller = callerOf(row, now, macs, {
    kind: manages === null ? "session" : "management",
    name: null,
    user: personOf(row),
    teams: teams.filter(isReachable(row)).map((team) => callerTeam(team, null, isOld(row, team, now))),
    withheld: teams.filter(isWithheld(row)).map(({ id, name }) => ({ id, name })),
    accessLevel: null,
    mcpScopes: [],
    restrictions: unrestricted,
    machine: false,
    factorAt: row.factorAt,
    provedAt: row.provedAt,
    issuer: row.issuer,
    onlyTeam: row.onlyTeam,
    closedTeams: row.closedTeams,
    confirmedTeams: row.confirmedTeams
  })
  const life =
    manages === null
      ? Liveness.ofSession(row, now)
      : Liveness.ofManagement(
          { loginLives: row.loginLives, ...lifeInputs(row, teams), lastUsedAt: row.lastUsedAt },
          now
        )
  return { life, creatorRole: null, mcpOnly: false, audience: null, clientId: null, caller }
}

export const ofGrant = (row: Present<GrantRow>, now: number, macs: RowMac): Verified | undefined => {
  if (row.revokedAt === null && !macs.isAuthentic("cli_grants", row)) return undefined
  const teams = teamsOf(row.teams.filter(isReachable(row)), row.userId, macs).filter(
    ({ id: teamId, scopes, grantTeamMac }) =>
      macs.isAuthentic("cli_grant_teams", { grantId: row.id, teamId, scopes, mac: grantTeamMac })
  )
  const caller = callerOf(row, now, macs, {
    kind: "cli_grant",
    name: null,
    user: personOf(row),
    teams: teams.map((team) => callerTeam(team, team.scopes)),
    withheld: [],
    accessLevel: null,
    mcpScopes: [],
    restrictions: { projectIds: row.projectIds, environmentIds: row.environmentIds },
    machine: row.machine,
    factorAt: null,
    provedAt: null,
    issuer: null,
    onlyTeam: null,
    closedTeams: null,
    confirmedTeams: null
  })
  const life = Liveness.ofGrant(lifeInputs(row, teams), now)
  return { life, creatorRole: null, mcpOnly: false, audience: null, clientId: null, caller }
}

const accessHolds = (row: Present<AccessRow>, macs: RowMac) =>
  macs.isAuthentic("oauth_access_tokens", {
    lookupId: row.lookupId,
    hash: row.hash,
    grantId: row.id,
    audience: row.audience,
    scopes: row.scopes,
    expiresAt: row.expiresAt,
    mac: row.mac
  }) &&
  (row.revokedAt !== null ||
    macs.isAuthentic("oauth_grants", {
      id: row.id,
      userId: row.userId,
      clientId: row.clientId,
      scopes: row.grantScopes,
      projectIds: row.projectIds,
      environmentIds: row.environmentIds,
      payload: row.grantPayload,
      createdAt: row.grantCreatedAt,
      expiresAt: row.grantExpiresAt,
      factorAt: row.factorAt,
      mac: row.grantMac
    }))

export const ofAccess = (row: Present<AccessRow>, now: number, macs: RowMac): Verified | undefined => {
  if (!accessHolds(row, macs)) return undefined
  const teams = teamsOf(row.teams.filter(isReachable(row)), row.userId, macs).filter(({ grantTeamMac, id: teamId }) =>
    macs.isAuthentic("oauth_grant_teams", { grantId: row.id, teamId, mac: grantTeamMac })
  )
  // The grant's id, not the token's: a new token replaces the old every 15 minutes.
  const caller = callerOf(row, now, macs, {
    kind: "oauth_token",
    name: row.clientName,
    user: personOf(row),
    teams: teams.map((team) => callerTeam(team, row.scopes)),
    withheld: [],
    accessLevel: null,
    mcpScopes: row.scopes,
    restrictions: { projectIds: row.projectIds, environmentIds: row.environmentIds },
    machine: true,
    factorAt: null,
    provedAt: null,
    issuer: null,
    onlyTeam: null,
    closedTeams: null,
    confirmedTeams: null
  })
  const life = Liveness.ofAccessToken(lifeInputs(row, teams), now)
  return { life, creatorRole: null, mcpOnly: true, audience: row.audience, clientId: row.clientId, caller }
}

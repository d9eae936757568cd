/**
 * Credential text to `Caller`, in one batched statement that also reads the environment the request names. No validity
 * is cached: revocation holds from the next request, on every process.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import type { SqlError } from "@effect/sql/SqlError"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { Caller, NamedEnvironment } from "#schema/Caller.ts"
import { CredentialExpired, CredentialInvalid, CredentialRevoked } from "#schema/Errors.ts"
import type { TeamId, UserId } from "#schema/Ids.ts"
import type { Role } from "#schema/Scopes.ts"
import * as Policy from "#src/access/Policy.ts"
import type { RowMac } from "#src/access/RowMac.ts"
import { RequestInfo } from "#src/access/RequestInfo.ts"
import { RowSeal } from "#src/access/RowSeal.ts"
import * as AddressRanges from "#src/net/AddressRanges.ts"
import {
  type AccessRow,
  accessTokenRows,
  type CredentialRow,
  type GrantRow,
  grantRows,
  type Named,
  type PersonRow,
  type SessionRow,
  sessionRows,
  type TeamRow,
  type TokenRow,
  tokenRows
} from "./CredentialRows.ts"
import { LastUse, type UsedTable } from "./LastUse.ts"
import * as HeldGrants from "./HeldGrants.ts"
import * as Liveness from "./Liveness.ts"
import * as LookUps from "./LookUps.ts"
import * as TokenText from "./TokenText.ts"

export interface Verified {
  readonly caller: Caller
  readonly life: Liveness.Life
  /** Of an API token: the creator's role now, which MCP checks too. */
  readonly creatorRole: Role | null
  /** Accepted at `/mcp` and nowhere else: an OAuth access token, and an API token that says so. */
  readonly mcpOnly: boolean
  /** Of an OAuth access token: the one resource it was issued for (RFC 8707), and the client that holds it. */
  readonly audience: string | null
  readonly clientId: string | null
}

/** An environment that no server wrote as it is, or whose project is not, is not there. */
const namedOf = (row: CredentialRow, macs: RowMac): NamedEnvironment | null => {
  if (row.eTeamId === null || row.eTeamId === undefined) return null
  const project = { id: row.eProjectId, teamId: row.pTeamId, slug: row.pSlug, visibility: row.eVisibility }
  const environment = {
    id: row.eId,
    teamId: row.eTeamId,
    projectId: row.eProjectId,
    slug: row.eSlug,
    protected: row.eProtected,
    readers: row.eReaders,
    changes: row.eChanges,
    approvers: row.eApprovers,
    approvals: row.eApprovals
  }
  if (!macs.holds("environments", { ...environment, mac: row.eMac })) return null
  if (!macs.holds("projects", { ...project, mac: row.pMac })) return null
  return {
    teamId: row.eTeamId,
    projectId: row.eProjectId,
    environmentId: row.eId,
    slug: row.eSlug,
    protected: row.eProtected,
    revision: row.eRevision,
    described: row.eDescribed,
    plan: row.ePlan,
    readers: row.eReaders,
    changes: row.eChanges,
    visibility: row.eVisibility
  }
}

/** Those of the person's teams that a server wrote as they are, membership and rules. */
const teamsOf = <Row extends TeamRow>(rows: ReadonlyArray<Row>, userId: UserId, macs: RowMac): ReadonlyArray<Row> =>
  rows.filter(
    (row) =>
      !row.suspended &&
      macs.holds("memberships", { ...row, teamId: row.id, userId }) &&
      macs.holds("teams", { ...row, mac: row.teamMac })
  )
const standing = ({ adminsNeedGrants, id, name, plan, role }: TeamRow) => ({
  id,
  name,
  plan,
  role,
  adminsNeedGrants,
  factorIsOld: false
})

/** A team that requires a second factor is reached by nothing that its person got without one. */
const isWithheld =
  ({ factorAt }: PersonRow) =>
  ({ secondFactorRequired }: TeamRow): boolean =>
    secondFactorRequired && factorAt === null
const reached = (row: PersonRow) => {
  const withheld = isWithheld(row)
  return (team: TeamRow) => !withheld(team)
}
const isOld = ({ factorAt }: PersonRow, { stepUpMinutes }: TeamRow, now: number): boolean =>
  factorAt !== null && now - factorAt.getTime() > stepUpMinutes * 60_000

/** What most credentials are not. */
const plain = { creatorRole: null, mcpOnly: false, audience: null, clientId: null }
const unrestricted = { projectIds: null, environmentIds: null } as const

/** What every credential's caller has from its row. */
const common = (row: CredentialRow & { readonly expiresAt: Date | null }, now: number, macs: RowMac) => ({
  grants: HeldGrants.inForce(row.held, now, macs),
  createdAt: row.createdAt,
  expiresAt: row.expiresAt,
  lastUsedAt: row.lastUsedAt,
  named: namedOf(row, macs),
  withheld: []
})
const personOf = (row: PersonRow) => ({ id: row.userId, email: row.email, name: row.userName })

/** The creator's membership as a server wrote it; else none. */
const creatorOf = (row: TokenRow, macs: RowMac) => {
  const { creatorActive: active, creatorDeactivatedAt: deactivatedAt, creatorRole: role } = row
  const { createdBy: userId, creatorMac: mac, creatorUpdatedAt: updatedAt, teamId } = row
  const { creatorBreakGlass: breakGlass, creatorRoleLimit: roleLimit, creatorRuledBy: ruledBy } = row
  const none = { creatorActive: null, creatorDeactivatedAt: null, creatorRole: null }
  if (active === null) return none
  const ruled = { ruledBy, roleLimit, breakGlass }
  return macs.holds("memberships", { teamId, userId, role, active, deactivatedAt, updatedAt, ...ruled, mac })
    ? row
    : none
}

/** Over REST a token's own reach decides, unless its team bounds tokens by what their creators may do now. */
const ofToken = (row: TokenRow, id: string, now: number, macs: RowMac): Verified | undefined => {
  // A token that was revoked gives nothing, whoever revoked it.
  if (row.revokedAt === null && !macs.holds("api_tokens", { ...row, id })) return undefined
  if (row.suspended || !macs.holds("teams", { ...row, id: row.teamId, mac: row.teamMac })) return undefined
  const creator = creatorOf(row, macs)
  const { creatorActive, creatorDeactivatedAt } = creator
  const follows = row.tokensFollowCreators && creatorActive !== true
  return {
    life: Liveness.ofToken({ ...row, creatorDeactivatedAt, creatorActive: follows ? null : creatorActive }, now),
    ...plain,
    creatorRole: creatorActive === true ? creator.creatorRole : null,
    mcpOnly: row.mcpOnly,
    caller: {
      ...common(row, now, macs),
      kind: "api_token",
      credentialId: id,
      name: row.name,
      user: null,
      teams: [
        {
          id: row.teamId,
          name: row.teamName,
          plan: row.plan,
          role: row.tokensFollowCreators ? creator.creatorRole : null,
          scopes: null,
          adminsNeedGrants: row.adminsNeedGrants,
          factorIsOld: false
        }
      ],
      accessLevel: row.accessLevel,
      mcpScopes: row.mcpScopes,
      restrictions: { projectIds: row.projectIds, environmentIds: row.environmentIds },
      machine: true,
      factorAt: null,
      issuer: null,
      onlyTeam: null
    }
  }
}

const ofSession = (row: SessionRow, id: string, now: number, macs: RowMac): Verified | undefined => {
  if (row.revokedAt === null && !macs.holds("sessions", { ...row, id })) return undefined
  const { manages } = row
  // A management session was approved by a person whom the team lets in.
  const teams = teamsOf(row.teams, row.userId, macs).filter((team) =>
    manages === null ? Policy.letsIn(row, team) : team.id === manages
  )
  return {
    life: manages === null ? Liveness.ofSession(row, now) : Liveness.ofManagement({ ...row, teams: teams.length }, now),
    ...plain,
    caller: {
      ...common(row, now, macs),
      kind: manages === null ? "session" : "management",
      credentialId: id,
      name: null,
      user: personOf(row),
      teams: teams
        .filter(reached(row))
        .map((team) => ({ ...standing(team), scopes: null, factorIsOld: isOld(row, team, now) })),
      withheld: teams.filter(isWithheld(row)).map(({ id, name }) => ({ id, name })),
      accessLevel: null,
      mcpScopes: [],
      restrictions: unrestricted,
      machine: false,
      factorAt: row.factorAt,
      issuer: row.issuer,
      onlyTeam: row.onlyTeam
    }
  }
}

const ofGrant = (row: GrantRow, id: string, now: number, macs: RowMac): Verified | undefined => {
  if (row.revokedAt === null && !macs.holds("cli_grants", { ...row, id })) return undefined
  const teams = teamsOf(row.teams.filter(reached(row)), row.userId, macs).filter(
    ({ id: teamId, scopes, grantTeamMac }) =>
      macs.holds("cli_grant_teams", { grantId: id, teamId, scopes, mac: grantTeamMac })
  )
  return {
    life: Liveness.ofGrant({ ...row, teams: teams.length }, now),
    ...plain,
    caller: {
      ...common(row, now, macs),
      kind: "cli_grant",
      credentialId: id,
      name: null,
      user: personOf(row),
      teams: teams.map((team) => ({ ...standing(team), scopes: team.scopes })),
      accessLevel: null,
      mcpScopes: [],
      restrictions: { projectIds: row.projectIds, environmentIds: row.environmentIds },
      machine: row.machine,
      factorAt: null,
      issuer: null,
      onlyTeam: null
    }
  }
}

const accessHolds = (row: AccessRow, id: string, macs: RowMac) =>
  macs.holds("oauth_access_tokens", { ...row, grantId: id }) &&
  (row.revokedAt !== null ||
    macs.holds("oauth_grants", {
      ...row,
      id,
      scopes: row.grantScopes,
      payload: row.grantPayload,
      createdAt: row.grantCreatedAt,
      expiresAt: row.grantExpiresAt,
      mac: row.grantMac
    }))

const ofAccess = (row: AccessRow, id: string, now: number, macs: RowMac): Verified | undefined => {
  if (!accessHolds(row, id, macs)) return undefined
  const teams = teamsOf(row.teams.filter(reached(row)), row.userId, macs).filter(({ grantTeamMac, id: teamId }) =>
    macs.holds("oauth_grant_teams", { grantId: id, teamId, mac: grantTeamMac })
  )
  return {
    life: Liveness.ofAccessToken({ ...row, teams: teams.length }, now),
    ...plain,
    mcpOnly: true,
    audience: row.audience,
    clientId: row.clientId,
    caller: {
      ...common(row, now, macs),
      kind: "oauth_token",
      // Of the grant, not of the token: tokens come and go every 15 minutes.
      credentialId: id,
      name: row.clientName,
      user: personOf(row),
      teams: teams.map((team) => ({ ...standing(team), scopes: row.scopes })),
      accessLevel: null,
      mcpScopes: row.scopes,
      restrictions: { projectIds: row.projectIds, environmentIds: row.environmentIds },
      machine: true,
      factorAt: null,
      issuer: null,
      onlyTeam: null
    }
  }
}

/** A token of a list of addresses is, from another address, as unknown as any other text. */
const tokenFrom = (row: TokenRow, verified: Verified, ip: string): Verified | undefined =>
  AddressRanges.holds(row.addresses, ip) ? verified : undefined

/** From another address than the team says, a person has nothing of it: signed in, or at the command line. */
const personFrom = (row: SessionRow | GrantRow, verified: Verified, ip: string): Verified => {
  const teams: ReadonlyArray<TeamRow> = row.teams
  const barred = teams.filter(({ sessionAddresses }) => !AddressRanges.holds(sessionAddresses, ip))
  if (barred.length === 0) return verified
  const isOpen = ({ id }: { readonly id: TeamId }) => !barred.some((team) => team.id === id)
  const { caller } = verified
  return {
    ...verified,
    caller: { ...caller, teams: caller.teams.filter(isOpen), withheld: caller.withheld.filter(isOpen) }
  }
}
/** Agents come from the addresses of whoever runs them. */
const fromAnywhere = (_: AccessRow, verified: Verified): Verified => verified

/**
 * The row of a credential text, described; CREDENTIAL_INVALID when there is none, when its secret is another, and when no
 * server wrote what counts in it: undefined.
 */
const verifier = <Row extends CredentialRow>(
  { ready }: RowSeal,
  find: (asked: LookUps.Asked) => Effect.Effect<LookUps.Found<Row, Verified>, SqlError>,
  from: (row: Row, verified: Verified, ip: string) => Verified | undefined
) =>
  Effect.fnUntraced(function* ({ id, kind, secret }: TokenText.TokenText, named: Named | undefined, now: number) {
    const macs = yield* ready
    const found = yield* Effect.orDie(find({ id, named, now }))
    const { ip } = yield* RequestInfo
    const { row } = found
    const isProved = TokenText.verify(macs, kind, row.id === null ? undefined : row, secret)
    const described = isProved ? found.described(macs) : undefined
    const verified = described === undefined ? undefined : from(row, described, ip)
    return verified === undefined ? yield* new CredentialInvalid() : verified
  })

const usedTables = {
  api_token: "api_tokens",
  cli_grant: "cli_grants",
  management: "sessions",
  oauth_token: "oauth_grants",
  session: "sessions"
} as const satisfies Record<Caller["kind"], UsedTable>

export class Authenticate extends Effect.Service<Authenticate>()("credentials/Authenticate", {
  effect: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const lastUse = yield* LastUse
    const rowSeal = yield* RowSeal
    const verifyToken = verifier(rowSeal, yield* LookUps.batched(tokenRows(sql), ofToken), tokenFrom)
    const verifySession = verifier(rowSeal, yield* LookUps.batched(sessionRows(sql), ofSession), personFrom)
    const verifyGrant = verifier(rowSeal, yield* LookUps.batched(grantRows(sql), ofGrant), personFrom)
    const verifyAccess = verifier(rowSeal, yield* LookUps.batched(accessTokenRows(sql), ofAccess), fromAnywhere)

    /** Text, or what was parsed of it, to a credential in any state of life; does not count as a use. */
    const verify = (
      presented: string | TokenText.TokenText | undefined,
      named?: Named
    ): Effect.Effect<Verified, CredentialInvalid> => {
      const token = typeof presented === "string" ? TokenText.parse(presented) : presented
      return Effect.flatMap(Clock.currentTimeMillis, (now) => {
        switch (token?.kind) {
          case "at":
            return verifyToken(token, named, now)
          case "ss":
            return verifySession(token, named, now)
          case "cg":
            return verifyGrant(token, named, now)
          case "oa":
            return verifyAccess(token, named, now)
          default:
            return new CredentialInvalid()
        }
      })
    }

    /** Only a live credential goes on; counts as its use. */
    const admit = (verified: Verified): Effect.Effect<Verified, CredentialRevoked | CredentialExpired> => {
      if (verified.life === "revoked") return new CredentialRevoked()
      if (verified.life === "expired") return new CredentialExpired()
      const { caller } = verified
      return Effect.as(lastUse.touch(usedTables[caller.kind], caller.credentialId, caller.lastUsedAt), verified)
    }

    /** A credential that may be used now. Counts as its use. */
    const authenticate = (text: string, named?: Named) => Effect.flatMap(verify(text, named), admit)

    return { verify, admit, authenticate } as const
  })
}) {}

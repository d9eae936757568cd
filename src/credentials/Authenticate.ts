/**
 * Credential text to `Caller`, in one batched statement that also reads the environment the request names. No validity
 * is cached: revocation holds from the next request, on every process.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import type { SqlError } from "@effect/sql/SqlError"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { Caller, CallerTeam, NamedEnvironment } from "#schema/Caller.ts"
import { CredentialExpired, CredentialInvalid, CredentialRevoked } from "#schema/Errors.ts"
import type { EnvironmentId, ProjectId, TeamId, UserId } from "#schema/Ids.ts"
import type { AccessLevel, GrantLevel, Plan, Readers, Role, Scope, Visibility } from "#schema/Scopes.ts"
import * as GroupCommit from "#src/access/GroupCommit.ts"
import type { RowMac } from "#src/access/RowMac.ts"
import { RowSeal } from "#src/access/RowSeal.ts"
import * as Metrics from "#src/telemetry/Metrics.ts"
import { LastUse, type UsedTable } from "./LastUse.ts"
import * as Liveness from "./Liveness.ts"
import * as TokenText from "./TokenText.ts"

// One statement for each kind, over all credentials that are presented at the same moment, with the environment that
// each request names. Every request waits for one of them: rows are typed at the statement, since decoding them with a
// schema would cost more than the rest of the check.

/** The environment a request's query names, when both members are well formed. */
export interface Named {
  readonly projectId: ProjectId
  readonly environment: string
}
interface Lookup {
  readonly id: string
  readonly named: Named | undefined
}

interface CredentialRow {
  readonly id: string | null
  readonly salt: Buffer
  readonly hash: Buffer
  readonly createdAt: Date
  readonly lastUsedAt: Date | null
  readonly revokedAt: Date | null
  readonly eTeamId: TeamId | null
  readonly eProjectId: ProjectId
  readonly eId: EnvironmentId
  readonly eSlug: string
  readonly eProtected: boolean
  readonly eRevision: number
  readonly ePlan: Plan
  readonly eReaders: Readers
  readonly eVisibility: Visibility
  /** Of the person, or of the creator of an API token; ended ones too, until they are swept. */
  readonly held: ReadonlyArray<{
    readonly projectId: ProjectId
    readonly environmentId: EnvironmentId | null
    readonly level: GrantLevel
    /** Milliseconds since 1970; null = until somebody ends it. */
    readonly until: number | null
  }> | null
}
interface TokenRow extends CredentialRow {
  readonly lookupId: string
  readonly mac: Buffer | null
  readonly createdBy: UserId
  readonly ruleId: string | null
  readonly expiresAt: Date | null
  readonly name: string
  readonly teamId: TeamId
  readonly teamName: string
  readonly plan: Plan
  readonly accessLevel: AccessLevel
  readonly projectIds: ReadonlyArray<ProjectId> | null
  readonly environmentIds: ReadonlyArray<EnvironmentId> | null
  readonly mcpScopes: ReadonlyArray<Scope>
  readonly mcpOnly: boolean
  readonly creatorActive: boolean | null
  readonly creatorDeactivatedAt: Date | null
  readonly creatorRole: Role | null
  readonly adminsNeedGrants: boolean
  /** The team bounds its tokens by what their creators may do now, over REST too. */
  readonly tokensFollowCreators: boolean
}
interface PersonRow extends CredentialRow {
  readonly expiresAt: Date
  readonly userId: UserId
  readonly email: string
  readonly userName: string
}
interface SessionRow extends PersonRow {
  readonly lastUsedAt: Date
  readonly teams: ReadonlyArray<{
    readonly id: TeamId
    readonly name: string
    readonly plan: Plan
    readonly role: Role
    readonly adminsNeedGrants: boolean
  }>
}
interface AccessRow extends PersonRow {
  readonly audience: string
  readonly scopes: ReadonlyArray<Scope>
  readonly clientId: string
  readonly clientName: string
  readonly projectIds: ReadonlyArray<ProjectId> | null
  readonly environmentIds: ReadonlyArray<EnvironmentId> | null
  readonly teams: ReadonlyArray<Omit<CallerTeam, "scopes">>
}
interface GrantRow extends PersonRow {
  readonly machine: boolean
  readonly projectIds: ReadonlyArray<ProjectId> | null
  readonly environmentIds: ReadonlyArray<EnvironmentId> | null
  readonly teams: ReadonlyArray<CallerTeam>
}

/** The look-ups of a batch, in their order. */
const lookups = (sql: SqlClient.SqlClient, batch: ReadonlyArray<Lookup>) => sql`
  unnest(
    ${batch.map((l) => l.id)}::text[],
    ${batch.map((l) => l.named?.projectId ?? null)}::uuid[],
    ${batch.map((l) => l.named?.environment ?? null)}::text[]
  ) WITH ORDINALITY AS q (lookup_id, project_id, slug, n)`
const namedColumns = `
  e.team_id AS e_team_id, e.project_id AS e_project_id, e.id AS e_id, e.slug AS e_slug, e.protected AS e_protected,
  e.revision AS e_revision, et.plan AS e_plan, e.readers AS e_readers, ep.visibility AS e_visibility`
const heldColumn = (userId: string) => `
  (SELECT json_agg(json_build_object('projectId', a.project_id, 'environmentId', a.environment_id, 'level', a.level,
      'until', extract(epoch FROM a.until) * 1000)) FROM access_grants a WHERE a.user_id = ${userId}) AS held`
const teamMembers = `'id', t.id, 'name', t.name, 'plan', t.plan, 'role', m.role,
        'adminsNeedGrants', t.admins_need_grants`
const namedJoin = `
  LEFT JOIN projects ep ON ep.id = q.project_id AND ep.deleted_at IS NULL
  LEFT JOIN environments e ON e.project_id = ep.id AND e.slug = q.slug AND e.deleted_at IS NULL
  LEFT JOIN teams et ON et.id = e.team_id`

const tokenRows = (sql: SqlClient.SqlClient) => (batch: ReadonlyArray<Lookup>) =>
  sql<TokenRow>`
  SELECT c.id, c.salt, c.hash, c.created_at, c.expires_at, c.last_used_at, c.revoked_at, c.name, c.team_id,
    t.name AS team_name, t.plan, c.access_level, c.project_ids, c.environment_ids, c.mcp_scopes, c.mcp_only,
    c.lookup_id, c.created_by, c.rule_id, c.mac,
    m.active AS creator_active, m.deactivated_at AS creator_deactivated_at, m.role AS creator_role,
    t.admins_need_grants, t.tokens_follow_creators, ${sql.literal(heldColumn("c.created_by"))},
    ${sql.literal(namedColumns)}
  FROM ${lookups(sql, batch)}
  LEFT JOIN api_tokens c ON c.lookup_id = q.lookup_id
  LEFT JOIN teams t ON t.id = c.team_id
  LEFT JOIN memberships m ON m.team_id = c.team_id AND m.user_id = c.created_by
  ${sql.literal(namedJoin)}
  ORDER BY q.n`

const sessionRows = (sql: SqlClient.SqlClient) => (batch: ReadonlyArray<Lookup>) =>
  sql<SessionRow>`
  SELECT c.id, c.salt, c.hash, c.created_at, c.expires_at, c.last_used_at, c.revoked_at,
    u.id AS user_id, u.email, u.name AS user_name,
    (SELECT coalesce(json_agg(json_build_object(${sql.literal(teamMembers)})
        ORDER BY t.id), '[]'::json)
      FROM memberships m JOIN teams t ON t.id = m.team_id WHERE m.user_id = u.id AND m.active) AS teams,
    ${sql.literal(heldColumn("u.id"))}, ${sql.literal(namedColumns)}
  FROM ${lookups(sql, batch)}
  LEFT JOIN sessions c ON c.lookup_id = q.lookup_id
  LEFT JOIN users u ON u.id = c.user_id
  ${sql.literal(namedJoin)}
  ORDER BY q.n`

const grantRows = (sql: SqlClient.SqlClient) => (batch: ReadonlyArray<Lookup>) =>
  sql<GrantRow>`
  SELECT c.id, c.salt, c.hash, c.created_at, c.expires_at, c.last_used_at, c.revoked_at, c.machine,
    c.project_ids, c.environment_ids, u.id AS user_id, u.email, u.name AS user_name,
    (SELECT coalesce(json_agg(json_build_object(${sql.literal(teamMembers)}, 'scopes', g.scopes) ORDER BY t.id), '[]'::json)
      FROM cli_grant_teams g
      JOIN teams t ON t.id = g.team_id
      JOIN memberships m ON m.team_id = g.team_id AND m.user_id = u.id AND m.active
      WHERE g.grant_id = c.id) AS teams,
    ${sql.literal(heldColumn("u.id"))}, ${sql.literal(namedColumns)}
  FROM ${lookups(sql, batch)}
  LEFT JOIN cli_grants c ON c.lookup_id = q.lookup_id
  LEFT JOIN users u ON u.id = c.user_id
  ${sql.literal(namedJoin)}
  ORDER BY q.n`

// A person's standing in a team carries a grant only as it was when they gave it: a change of role, leaving, being
// removed or deactivated takes the team from the grant, also when it is undone later.
const accessTokenRows = (sql: SqlClient.SqlClient) => (batch: ReadonlyArray<Lookup>) =>
  sql<AccessRow>`
  SELECT g.id, c.salt, c.hash, c.created_at, c.expires_at, g.last_used_at, g.revoked_at,
    c.audience, c.scopes, g.client_id, g.client_name, g.project_ids, g.environment_ids,
    u.id AS user_id, u.email, u.name AS user_name,
    (SELECT coalesce(json_agg(json_build_object(${sql.literal(teamMembers)})
        ORDER BY t.id), '[]'::json)
      FROM oauth_grant_teams o
      JOIN teams t ON t.id = o.team_id
      JOIN memberships m ON m.team_id = o.team_id AND m.user_id = u.id AND m.active AND m.updated_at <= g.created_at
      WHERE o.grant_id = g.id) AS teams,
    ${sql.literal(heldColumn("u.id"))}, ${sql.literal(namedColumns)}
  FROM ${lookups(sql, batch)}
  LEFT JOIN oauth_access_tokens c ON c.lookup_id = q.lookup_id
  LEFT JOIN oauth_grants g ON g.id = c.grant_id
  LEFT JOIN users u ON u.id = g.user_id
  ${sql.literal(namedJoin)}
  ORDER BY q.n`

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

const namedOf = (row: CredentialRow): NamedEnvironment | null =>
  row.eTeamId === null
    ? null
    : {
        teamId: row.eTeamId,
        projectId: row.eProjectId,
        environmentId: row.eId,
        slug: row.eSlug,
        protected: row.eProtected,
        revision: row.eRevision,
        plan: row.ePlan,
        readers: row.eReaders,
        visibility: row.eVisibility
      }

/** What most credentials are not. */
const plain = { creatorRole: null, mcpOnly: false, audience: null, clientId: null }
const unrestricted = { projectIds: null, environmentIds: null } as const

/** What every credential's caller has from its row. */
const common = (row: CredentialRow & { readonly expiresAt: Date | null }, now: number) => ({
  grants: (row.held ?? []).filter(({ until }) => until === null || until > now),
  createdAt: row.createdAt,
  expiresAt: row.expiresAt,
  lastUsedAt: row.lastUsedAt,
  named: namedOf(row)
})
const personOf = (row: PersonRow) => ({ id: row.userId, email: row.email, name: row.userName })

/** Over REST a token's own reach decides, unless its team bounds tokens by what their creators may do now. */
const ofToken = (row: TokenRow, id: string, now: number, macs: RowMac): Verified | undefined => {
  const creator = row.tokensFollowCreators && !row.creatorActive ? { ...row, creatorActive: null } : row
  const life = Liveness.ofToken(creator, now)
  // A token that was revoked gives nothing, whoever revoked it.
  if (row.revokedAt === null && !macs.holds("api_tokens", { ...row, id })) return undefined
  return {
    life,
    ...plain,
    creatorRole: row.creatorActive === true ? row.creatorRole : null,
    mcpOnly: row.mcpOnly,
    caller: {
      ...common(row, now),
      kind: "api_token",
      credentialId: id,
      name: row.name,
      user: null,
      teams: [
        {
          id: row.teamId,
          name: row.teamName,
          plan: row.plan,
          role: row.tokensFollowCreators ? row.creatorRole : null,
          scopes: null,
          adminsNeedGrants: row.adminsNeedGrants
        }
      ],
      accessLevel: row.accessLevel,
      mcpScopes: row.mcpScopes,
      restrictions: { projectIds: row.projectIds, environmentIds: row.environmentIds },
      machine: true
    }
  }
}

const ofSession = (row: SessionRow, id: string, now: number): Verified => ({
  life: Liveness.ofSession(row, now),
  ...plain,
  caller: {
    ...common(row, now),
    kind: "session",
    credentialId: id,
    name: null,
    user: personOf(row),
    teams: row.teams.map((team) => ({ ...team, scopes: null })),
    accessLevel: null,
    mcpScopes: [],
    restrictions: unrestricted,
    machine: false
  }
})

const ofGrant = (row: GrantRow, id: string, now: number): Verified => ({
  life: Liveness.ofGrant({ ...row, teams: row.teams.length }, now),
  ...plain,
  caller: {
    ...common(row, now),
    kind: "cli_grant",
    credentialId: id,
    name: null,
    user: personOf(row),
    teams: row.teams,
    accessLevel: null,
    mcpScopes: [],
    restrictions: { projectIds: row.projectIds, environmentIds: row.environmentIds },
    machine: row.machine
  }
})

const ofAccess = (row: AccessRow, id: string, now: number): Verified => ({
  life: Liveness.ofAccessToken({ ...row, teams: row.teams.length }, now),
  ...plain,
  mcpOnly: true,
  audience: row.audience,
  clientId: row.clientId,
  caller: {
    ...common(row, now),
    kind: "oauth_token",
    // Of the grant, not of the token: tokens come and go every 15 minutes.
    credentialId: id,
    name: row.clientName,
    user: personOf(row),
    teams: row.teams.map((team) => ({ ...team, scopes: row.scopes })),
    accessLevel: null,
    mcpScopes: row.scopes,
    restrictions: { projectIds: row.projectIds, environmentIds: row.environmentIds },
    machine: true
  }
})

/** Look-ups that come while a statement is under way share the next one, which asks for each of them once. */
const batched = <Row extends CredentialRow>(
  statement: (batch: ReadonlyArray<Lookup>) => Effect.Effect<ReadonlyArray<Row>, SqlError>
) => {
  const run = (batch: ReadonlyArray<Lookup>) => {
    Metrics.credentialsLookedUp(batch.length)
    const asked = new Map<string, number>()
    const distinct: Array<Lookup> = []
    const places = batch.map((lookup) => {
      const { id, named } = lookup
      const name = named === undefined ? id : `${id} ${named.projectId} ${named.environment}`
      const known = asked.get(name)
      if (known !== undefined) return known
      asked.set(name, distinct.length)
      return distinct.push(lookup) - 1
    })
    return Effect.map(statement(distinct), (rows) => places.map((place) => rows[place]))
  }
  return GroupCommit.make({ run, maxBatch: 128, maxInFlight: 1 })
}

/**
 * The row of a credential text, described; CREDENTIAL_INVALID when there is none, when its secret is another, and when no
 * server wrote what counts in it: undefined.
 */
const verifier =
  <Row extends CredentialRow>(
    { ready }: RowSeal,
    find: (lookup: Lookup) => Effect.Effect<Row, SqlError>,
    describe: (row: Row, id: string, now: number, macs: RowMac) => Verified | undefined
  ) =>
  (token: TokenText.TokenText, named: Named | undefined, now: number) =>
    Effect.flatMap(Effect.zip(ready, Effect.orDie(find({ id: token.id, named }))), ([macs, row]) => {
      const isProved = TokenText.verify(macs, token.kind, row.id === null ? undefined : row, token.secret)
      const verified = isProved && row.id !== null ? describe(row, row.id, now, macs) : undefined
      return verified === undefined ? new CredentialInvalid() : Effect.succeed(verified)
    })

const usedTables = {
  api_token: "api_tokens",
  cli_grant: "cli_grants",
  oauth_token: "oauth_grants",
  session: "sessions"
} as const satisfies Record<Caller["kind"], UsedTable>

export class Authenticate extends Effect.Service<Authenticate>()("credentials/Authenticate", {
  effect: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const lastUse = yield* LastUse
    const rowSeal = yield* RowSeal
    const verifyToken = verifier(rowSeal, yield* batched(tokenRows(sql)), ofToken)
    const verifySession = verifier(rowSeal, yield* batched(sessionRows(sql)), ofSession)
    const verifyGrant = verifier(rowSeal, yield* batched(grantRows(sql)), ofGrant)
    const verifyAccess = verifier(rowSeal, yield* batched(accessTokenRows(sql)), ofAccess)

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

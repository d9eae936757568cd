/**
 * The rows that a credential is verified by, and the statements that read them: one for each kind, over all credentials
 * that are presented at the same moment, with the environment that each request names. Every request waits for one of
 * them: rows are typed at the statement, since decoding them with a schema would cost more than the rest of the check.
 */
import type * as SqlClient from "@effect/sql/SqlClient"
import type { CallerTeam } from "#schema/Caller.ts"
import type { EnvironmentId, ProjectId, TeamId, UserId } from "#schema/Ids.ts"
import type { AccessLevel, Plan, Role, Scope } from "#schema/Scopes.ts"

/** The environment a request's query names, when both members are well formed. */
export interface Named {
  readonly projectId: ProjectId
  readonly environment: string
}
export interface Lookup {
  readonly id: string
  readonly named: Named | undefined
}

export interface CredentialRow {
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
}
export interface TokenRow extends CredentialRow {
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
}
export interface PersonRow extends CredentialRow {
  readonly expiresAt: Date
  readonly userId: UserId
  readonly email: string
  readonly userName: string
}
export interface SessionRow extends PersonRow {
  readonly lastUsedAt: Date
  readonly teams: ReadonlyArray<{
    readonly id: TeamId
    readonly name: string
    readonly plan: Plan
    readonly role: Role
  }>
}
export interface AccessRow extends PersonRow {
  readonly audience: string
  readonly scopes: ReadonlyArray<Scope>
  readonly clientId: string
  readonly clientName: string
  readonly projectIds: ReadonlyArray<ProjectId> | null
  readonly environmentIds: ReadonlyArray<EnvironmentId> | null
  readonly teams: ReadonlyArray<Omit<CallerTeam, "scopes">>
}
export interface GrantRow extends PersonRow {
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
  e.revision AS e_revision, et.plan AS e_plan`
const namedJoin = `
  LEFT JOIN projects ep ON ep.id = q.project_id AND ep.deleted_at IS NULL
  LEFT JOIN environments e ON e.project_id = ep.id AND e.slug = q.slug AND e.deleted_at IS NULL
  LEFT JOIN teams et ON et.id = e.team_id`

export const tokens = (sql: SqlClient.SqlClient) => (batch: ReadonlyArray<Lookup>) =>
  sql<TokenRow>`
  SELECT c.id, c.salt, c.hash, c.created_at, c.expires_at, c.last_used_at, c.revoked_at, c.name, c.team_id,
    t.name AS team_name, t.plan, c.access_level, c.project_ids, c.environment_ids, c.mcp_scopes, c.mcp_only,
    m.active AS creator_active, m.deactivated_at AS creator_deactivated_at, m.role AS creator_role, ${sql.literal(namedColumns)}
  FROM ${lookups(sql, batch)}
  LEFT JOIN api_tokens c ON c.lookup_id = q.lookup_id
  LEFT JOIN teams t ON t.id = c.team_id
  LEFT JOIN memberships m ON m.team_id = c.team_id AND m.user_id = c.created_by
  ${sql.literal(namedJoin)}
  ORDER BY q.n`

export const sessions = (sql: SqlClient.SqlClient) => (batch: ReadonlyArray<Lookup>) =>
  sql<SessionRow>`
  SELECT c.id, c.salt, c.hash, c.created_at, c.expires_at, c.last_used_at, c.revoked_at,
    u.id AS user_id, u.email, u.name AS user_name,
    (SELECT coalesce(json_agg(json_build_object('id', t.id, 'name', t.name, 'plan', t.plan, 'role', m.role)
        ORDER BY t.id), '[]'::json)
      FROM memberships m JOIN teams t ON t.id = m.team_id WHERE m.user_id = u.id AND m.active) AS teams,
    ${sql.literal(namedColumns)}
  FROM ${lookups(sql, batch)}
  LEFT JOIN sessions c ON c.lookup_id = q.lookup_id
  LEFT JOIN users u ON u.id = c.user_id
  ${sql.literal(namedJoin)}
  ORDER BY q.n`

export const grants = (sql: SqlClient.SqlClient) => (batch: ReadonlyArray<Lookup>) =>
  sql<GrantRow>`
  SELECT c.id, c.salt, c.hash, c.created_at, c.expires_at, c.last_used_at, c.revoked_at, c.machine,
    c.project_ids, c.environment_ids, u.id AS user_id, u.email, u.name AS user_name,
    (SELECT coalesce(json_agg(json_build_object('id', t.id, 'name', t.name, 'plan', t.plan, 'role', m.role,
        'scopes', g.scopes) ORDER BY t.id), '[]'::json)
      FROM cli_grant_teams g
      JOIN teams t ON t.id = g.team_id
      JOIN memberships m ON m.team_id = g.team_id AND m.user_id = u.id AND m.active
      WHERE g.grant_id = c.id) AS teams,
    ${sql.literal(namedColumns)}
  FROM ${lookups(sql, batch)}
  LEFT JOIN cli_grants c ON c.lookup_id = q.lookup_id
  LEFT JOIN users u ON u.id = c.user_id
  ${sql.literal(namedJoin)}
  ORDER BY q.n`

// A person's standing in a team carries a grant only as it was when they gave it: a change of role, leaving, being
// removed or deactivated takes the team from the grant, also when it is undone later.
export const accessTokens = (sql: SqlClient.SqlClient) => (batch: ReadonlyArray<Lookup>) =>
  sql<AccessRow>`
  SELECT g.id, c.salt, c.hash, c.created_at, c.expires_at, g.last_used_at, g.revoked_at,
    c.audience, c.scopes, g.client_id, g.client_name, g.project_ids, g.environment_ids,
    u.id AS user_id, u.email, u.name AS user_name,
    (SELECT coalesce(json_agg(json_build_object('id', t.id, 'name', t.name, 'plan', t.plan, 'role', m.role)
        ORDER BY t.id), '[]'::json)
      FROM oauth_grant_teams o
      JOIN teams t ON t.id = o.team_id
      JOIN memberships m ON m.team_id = o.team_id AND m.user_id = u.id AND m.active AND m.updated_at <= g.created_at
      WHERE o.grant_id = g.id) AS teams,
    ${sql.literal(namedColumns)}
  FROM ${lookups(sql, batch)}
  LEFT JOIN oauth_access_tokens c ON c.lookup_id = q.lookup_id
  LEFT JOIN oauth_grants g ON g.id = c.grant_id
  LEFT JOIN users u ON u.id = g.user_id
  ${sql.literal(namedJoin)}
  ORDER BY q.n`

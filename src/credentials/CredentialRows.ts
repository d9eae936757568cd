/**
 * Rows that prove a credential: one statement per kind, for all credentials presented at the same moment, with the
 * environment that each request names. Every request waits for one of them. The statement gives the rows their type,
 * since a schema decode would cost more than the rest of the check.
 */
import type * as SqlClient from "@effect/sql/SqlClient"
import type { EnvironmentId, ProjectId, TeamId, UserId } from "#schema/Ids.ts"
import type { AccessLevel, LeakRule, Plan, Role, Scope } from "#schema/Scopes.ts"
import * as VerifiedRows from "#src/access/VerifiedRows.ts"
import type { StoredMac } from "#src/rows/RowMac.ts"
import * as PersonGrants from "./PersonGrants.ts"

/** The environment in a request's query, when both of its parameters are well formed. */
export interface EnvironmentName {
  readonly projectId: ProjectId
  readonly environment: string
}
export interface Lookup {
  readonly id: string
  readonly named: EnvironmentName | undefined
}

export interface CredentialRow extends VerifiedRows.EnvironmentRow {
  readonly id: string | null
  readonly lookupId: string
  readonly salt: Buffer
  readonly hash: Buffer
  readonly mac: StoredMac
  readonly createdAt: Date
  readonly lastUsedAt: Date | null
  readonly revokedAt: Date | null
  /** Access grants of the person, or of the creator of an API token (`PersonGrants.ts`). */
  readonly personGrants: string | null
}
/** The row of an existing credential. */
export type Present<Row extends CredentialRow> = Row & { readonly id: string }

/** Rules of a team, and the MAC of its row. */
interface TeamRules {
  readonly adminsNeedGrants: boolean
  /** Limits the team's tokens, over REST too, to their creators' current rights. */
  readonly tokensFollowCreators: boolean
  readonly secondFactorRequired: boolean
  readonly stepUpMinutes: number
  readonly leakedCredentials: LeakRule
  /** Issuers that members must sign in with; null: a password works too. */
  readonly signInOnly: ReadonlyArray<string> | null
  /** By the operator: no credential reaches the team. */
  readonly suspended: boolean
  /** Addresses that members may use; null: any. */
  readonly sessionAddresses: ReadonlyArray<string> | null
  readonly secondPerson: boolean
  /** Keys and prefixes that secrets may have; null: any. */
  readonly allowedKeys: ReadonlyArray<string> | null
  readonly teamMac: StoredMac
}

/** A team with the person's membership, times in milliseconds since 1970. */
export interface TeamRow extends TeamRules {
  readonly id: TeamId
  readonly name: string
  readonly plan: Plan
  readonly role: Role
  readonly active: boolean
  readonly deactivatedAt: number | null
  readonly updatedAt: number
  readonly ruledBy: string | null
  readonly roleLimit: Role | null
  /** This member may sign in with a password despite `signInOnly`. */
  readonly breakGlass: boolean
  readonly mac: StoredMac
}
export interface TokenRow extends CredentialRow, TeamRules {
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
  readonly creatorUpdatedAt: Date | null
  readonly creatorRuledBy: string | null
  readonly creatorRoleLimit: Role | null
  readonly creatorBreakGlass: boolean | null
  readonly creatorMac: StoredMac
  /** Addresses that may use the token; null: any. */
  readonly addresses: ReadonlyArray<string> | null
}
export interface PersonRow extends CredentialRow {
  /** Time of the last proof of a second factor in this session, or before the approval of this login. */
  readonly factorAt: Date | null
  readonly expiresAt: Date
  readonly userId: UserId
  readonly email: string
  readonly userName: string
}
export interface SessionRow extends PersonRow {
  /** Issuer that signed the person in; null: a password. */
  readonly issuer: string | null
  /** Team that owns the issuer: the session reaches no other team. */
  readonly onlyTeam: TeamId | null
  readonly provedAt: Date | null
  readonly closedTeams: ReadonlyArray<TeamId> | null
  readonly confirmedTeams: ReadonlyArray<TeamId> | null
  readonly lastUsedAt: Date
  /** Management session only: its team, and the CLI login that started it, which may have ended. */
  readonly manages: TeamId | null
  readonly loginId: string | null
  readonly loginLives: boolean
  readonly teams: ReadonlyArray<TeamRow>
}
export interface AccessRow extends PersonRow {
  readonly audience: string
  readonly scopes: ReadonlyArray<Scope>
  readonly clientId: string
  readonly clientName: string
  readonly projectIds: ReadonlyArray<ProjectId> | null
  readonly environmentIds: ReadonlyArray<EnvironmentId> | null
  readonly grantScopes: ReadonlyArray<Scope>
  readonly grantPayload: object
  readonly grantCreatedAt: Date
  readonly grantExpiresAt: Date
  readonly grantMac: StoredMac
  readonly teams: ReadonlyArray<TeamRow & { readonly grantTeamMac: StoredMac }>
}
export interface GrantRow extends PersonRow {
  readonly machine: boolean
  readonly projectIds: ReadonlyArray<ProjectId> | null
  readonly environmentIds: ReadonlyArray<EnvironmentId> | null
  readonly teams: ReadonlyArray<TeamRow & { readonly scopes: ReadonlyArray<Scope>; readonly grantTeamMac: StoredMac }>
}

/** Sizes to which a small batch is padded. */
const paddedSizes = [2, 4, 8]

/**
 * Look-ups of a batch in their order, padded with empty ones. Postgres keeps a generic plan only if it seems no dearer
 * than a custom one. It assumes ten rows for an array of unknown length, so it would plan a small batch at each
 * execution. Planning takes ten times as long as the look-up. The LIMIT gives it the real size. A single look-up needs
 * no array, which saves a third.
 */
const lookups = (sql: SqlClient.SqlClient, batch: ReadonlyArray<Lookup>) => {
  const [{ id, named }] = batch
  if (batch.length === 1) {
    return sql`(SELECT ${id}::text, ${named?.projectId ?? null}::uuid, ${named?.environment ?? null}::text, 1)
      AS q (lookup_id, project_id, slug, n)`
  }
  const size = paddedSizes.find((limit) => batch.length <= limit)
  const padding = Array.from({ length: (size ?? 0) - batch.length }, () => null)
  return sql`(
    SELECT * FROM unnest(
      ${[...batch.map((l) => l.id), ...padding]}::text[],
      ${[...batch.map((l) => l.named?.projectId ?? null), ...padding]}::uuid[],
      ${[...batch.map((l) => l.named?.environment ?? null), ...padding]}::text[]
    ) WITH ORDINALITY ${size === undefined ? sql`` : sql`LIMIT ${sql.literal(String(size))}`}
  ) AS q (lookup_id, project_id, slug, n)`
}
/** The columns of grants, by the column with the person's id. */
const creatorGrants = PersonGrants.column("c.created_by")
const personGrants = PersonGrants.column("u.id")
const namedColumns = `, ${VerifiedRows.columns("ep")}`
const millis = (column: string) => `extract(epoch FROM ${column}) * 1000`
const teamMembers = `'id', t.id, 'name', t.name, 'plan', t.plan, 'role', m.role,
        'adminsNeedGrants', t.admins_need_grants, 'tokensFollowCreators', t.tokens_follow_creators,
        'secondFactorRequired', t.second_factor_required, 'stepUpMinutes', t.step_up_minutes,
        'leakedCredentials', t.leaked_credentials,
        'signInOnly', t.sign_in_only, 'suspended', t.suspended, 'ruledBy', m.ruled_by, 'roleLimit', m.role_limit, 'breakGlass', m.break_glass,
        'sessionAddresses', t.session_addresses, 'secondPerson', t.second_person, 'allowedKeys', t.allowed_keys,
        'teamMac', encode(t.mac, 'hex'), 'active', m.active, 'deactivatedAt', ${millis("m.deactivated_at")},
        'updatedAt', ${millis("m.updated_at")}, 'mac', encode(m.mac, 'hex')`
const namedJoins = `
  LEFT JOIN projects ep ON ep.id = q.project_id AND ep.deleted_at IS NULL
  LEFT JOIN environments e ON e.project_id = ep.id AND e.slug = q.slug AND e.deleted_at IS NULL`

/** Columns and joins of the environments that a batch names; empty when it names none. */
const environmentsOf = (sql: SqlClient.SqlClient, batch: ReadonlyArray<Lookup>) => {
  const isNamed = batch.some(({ named }) => named !== undefined)
  return { columns: sql.literal(isNamed ? namedColumns : ""), joins: sql.literal(isNamed ? namedJoins : "") }
}

export const tokenRows = (sql: SqlClient.SqlClient) => (batch: ReadonlyArray<Lookup>) => {
  const environments = environmentsOf(sql, batch)
  return sql<TokenRow>`
  SELECT c.id, c.salt, c.hash, c.created_at, c.expires_at, c.last_used_at, c.revoked_at, c.name, c.team_id,
    t.name AS team_name, t.plan, c.access_level, c.project_ids, c.environment_ids, c.mcp_scopes, c.mcp_only,
    c.lookup_id, c.created_by, c.rule_id, c.mac, t.mac AS team_mac, m.updated_at AS creator_updated_at,
    m.mac AS creator_mac, m.ruled_by AS creator_ruled_by, m.role_limit AS creator_role_limit,
    m.break_glass AS creator_break_glass,
    m.active AS creator_active, m.deactivated_at AS creator_deactivated_at, m.role AS creator_role,
    t.admins_need_grants, t.tokens_follow_creators, t.second_factor_required, t.step_up_minutes,
    t.leaked_credentials,
    t.sign_in_only, t.suspended,
    t.session_addresses, t.second_person, t.allowed_keys, c.addresses,
    ${sql.literal(creatorGrants)}${environments.columns}
  FROM ${lookups(sql, batch)}
  LEFT JOIN api_tokens c ON c.lookup_id = q.lookup_id
  LEFT JOIN teams t ON t.id = c.team_id
  LEFT JOIN memberships m ON m.team_id = c.team_id AND m.user_id = c.created_by
  ${environments.joins}
  ORDER BY q.n`
}

export const sessionRows = (sql: SqlClient.SqlClient) => (batch: ReadonlyArray<Lookup>) => {
  const environments = environmentsOf(sql, batch)
  return sql<SessionRow>`
  SELECT c.id, c.lookup_id, c.salt, c.hash, c.mac, c.created_at, c.expires_at, c.last_used_at, c.revoked_at,
    c.factor_at, c.manages, c.login_id, l.id IS NOT NULL AS login_lives, c.issuer, c.only_team,
    c.proved_at, c.closed_teams, c.confirmed_teams,
    u.id AS user_id, u.email, u.name AS user_name,
    (SELECT coalesce(json_agg(json_build_object(${sql.literal(teamMembers)})
        ORDER BY t.id), '[]'::json)
      FROM memberships m JOIN teams t ON t.id = m.team_id WHERE m.user_id = u.id AND m.active) AS teams,
    ${sql.literal(personGrants)}${environments.columns}
  FROM ${lookups(sql, batch)}
  LEFT JOIN sessions c ON c.lookup_id = q.lookup_id
  LEFT JOIN cli_grants l ON l.id = c.login_id AND l.revoked_at IS NULL
    AND EXISTS (SELECT 1 FROM cli_grant_teams lt WHERE lt.grant_id = l.id AND lt.team_id = c.manages)
  LEFT JOIN users u ON u.id = c.user_id
  ${environments.joins}
  ORDER BY q.n`
}

export const grantRows = (sql: SqlClient.SqlClient) => (batch: ReadonlyArray<Lookup>) => {
  const environments = environmentsOf(sql, batch)
  return sql<GrantRow>`
  SELECT c.id, c.lookup_id, c.salt, c.hash, c.mac, c.created_at, c.expires_at, c.last_used_at, c.revoked_at, c.machine,
    c.factor_at, c.project_ids, c.environment_ids, u.id AS user_id, u.email, u.name AS user_name,
    (SELECT coalesce(json_agg(json_build_object(${sql.literal(teamMembers)}, 'scopes', g.scopes,
        'grantTeamMac', encode(g.mac, 'hex')) ORDER BY t.id), '[]'::json)
      FROM cli_grant_teams g
      JOIN teams t ON t.id = g.team_id
      JOIN memberships m ON m.team_id = g.team_id AND m.user_id = u.id AND m.active
      WHERE g.grant_id = c.id) AS teams,
    ${sql.literal(personGrants)}${environments.columns}
  FROM ${lookups(sql, batch)}
  LEFT JOIN cli_grants c ON c.lookup_id = q.lookup_id
  LEFT JOIN users u ON u.id = c.user_id
  ${environments.joins}
  ORDER BY q.n`
}

// An agent's consent covers a team only while the membership is unchanged. A new role, a deactivation or a departure
// removes the team from the consent, even when it is undone later.
export const accessTokenRows = (sql: SqlClient.SqlClient) => (batch: ReadonlyArray<Lookup>) => {
  const environments = environmentsOf(sql, batch)
  return sql<AccessRow>`
  SELECT g.id, c.lookup_id, c.salt, c.hash, c.mac, c.created_at, c.expires_at, g.last_used_at, g.revoked_at,
    c.audience, c.scopes, g.factor_at, g.client_id, g.client_name, g.project_ids, g.environment_ids, g.scopes AS grant_scopes,
    g.payload AS grant_payload, g.created_at AS grant_created_at, g.expires_at AS grant_expires_at, g.mac AS grant_mac,
    u.id AS user_id, u.email, u.name AS user_name,
    (SELECT coalesce(json_agg(json_build_object(${sql.literal(teamMembers)}, 'grantTeamMac', encode(o.mac, 'hex'))
        ORDER BY t.id), '[]'::json)
      FROM oauth_grant_teams o
      JOIN teams t ON t.id = o.team_id
      JOIN memberships m ON m.team_id = o.team_id AND m.user_id = u.id AND m.active AND m.updated_at <= g.created_at
      WHERE o.grant_id = g.id) AS teams,
    ${sql.literal(personGrants)}${environments.columns}
  FROM ${lookups(sql, batch)}
  LEFT JOIN oauth_access_tokens c ON c.lookup_id = q.lookup_id
  LEFT JOIN oauth_grants g ON g.id = c.grant_id
  LEFT JOIN users u ON u.id = g.user_id
  ${environments.joins}
  ORDER BY q.n`
}

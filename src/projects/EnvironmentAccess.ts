/** People and credentials that reach an environment: the way, the end, and the last use (docs/contract/access.md). */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { EnvironmentAccess as EnvironmentAccessRecord, WayIn } from "#schema/EnvironmentAccessApi.ts"
import { readWays } from "#schema/ExposureWays.ts"
import { type EnvironmentId, UserIdOut } from "#schema/Ids.ts"
import { AccessLevel, type GrantLevel, Role, Scope } from "#schema/Scopes.ts"
import { Access } from "#src/access/Access.ts"
import type { EnvironmentPermit } from "#src/access/Permit.ts"
import * as Policy from "#src/access/Policy.ts"
import * as Liveness from "#src/credentials/Liveness.ts"
import * as Plans from "#src/limits/Plans.ts"
import { methods } from "#src/Methods.ts"
import * as Rows from "#src/database/Rows.ts"
import * as AccessGrants from "./AccessGrants.ts"
import { AccessRequests } from "./AccessRequests.ts"

const services = Effect.all({ access: Access, requests: AccessRequests, sql: SqlClient.SqlClient })
type Needs = Effect.Effect.Success<typeof services>
type At = EnvironmentPermit<"audit:read">

/** Most credentials in one response. */
const maxCredentials = 5_000

const PersonRow = Schema.Struct({
  id: UserIdOut,
  email: Schema.String,
  role: Role,
  active: Schema.Boolean,
  lastReadAt: Schema.NullOr(Rows.Iso)
})
type PersonRow = typeof PersonRow.Type

/** Members of the team, with their last read of a value there: by a session, a login or an agent. */
const people = ({ sql }: Needs, { target }: At) =>
  Rows.findAll(
    PersonRow,
    sql`
      WITH read AS (
        SELECT CASE WHEN r.actor_type = 'user' THEN r.actor_id ELSE o.owner_id END AS user_id, max(r.last_at) AS at
        FROM exposure_reads r
        LEFT JOIN exposure_credentials o ON o.id = r.actor_id AND o.owner_type = 'user'
          AND r.actor_type IN ('cli_grant', 'oauth_client')
        WHERE r.project_id = ${target.projectId} AND r.environment_id = ${target.environmentId}
          AND r.way = ANY(${readWays}::text[])
        GROUP BY 1
      )
      SELECT u.id, u.email, m.role, m.active, read.at AS last_read_at
      FROM memberships m JOIN users u ON u.id = m.user_id LEFT JOIN read ON read.user_id = u.id::text
      WHERE m.team_id = ${target.teamId} ORDER BY u.email LIMIT ${Plans.membersPerTeam + 1}`
  )

const CredentialRow = Schema.Struct({
  way: Schema.Literal("api_token", "machine_rule", "cli_grant", "oauth_grant"),
  id: Schema.String,
  name: Schema.NullOr(Schema.String),
  userId: UserIdOut,
  /** Set for a token or a rule. */
  accessLevel: Schema.NullOr(AccessLevel),
  /** True when the credential names the environment, not only its project or team. */
  namesIt: Schema.Boolean,
  /** Set for a login, an agent, and a token that only `/mcp` accepts. */
  scopes: Schema.NullOr(Schema.Array(Scope)),
  mcpOnly: Schema.Boolean,
  createdAt: Schema.DateFromSelf,
  expiresAt: Schema.NullOr(Schema.DateFromSelf),
  lastUsedAt: Schema.NullOr(Schema.DateFromSelf),
  creatorActive: Schema.Boolean,
  creatorDeactivatedAt: Schema.NullOr(Schema.DateFromSelf)
})
type CredentialRow = typeof CredentialRow.Type

/**
 * Credentials whose reach includes the environment. A job's token counts as its rule; a consent ends when its person's
 * role changes.
 */
const credentials = ({ sql }: Needs, { target }: At, now: number) => {
  const { environmentId, projectId, teamId } = target
  const here = sql`c.revoked_at IS NULL
    AND (c.project_ids IS NULL OR ${projectId}::uuid = any(c.project_ids))
    AND (c.environment_ids IS NULL OR ${environmentId}::uuid = any(c.environment_ids))`
  const at = new Date(now)
  return Rows.findAll(
    CredentialRow,
    sql`
      SELECT c.*, m.active AS creator_active, m.deactivated_at AS creator_deactivated_at FROM (
        SELECT 'api_token' AS way, c.id, c.name, c.created_by AS user_id, c.access_level, c.environment_ids IS NOT NULL AS names_it,
          CASE WHEN c.mcp_only THEN c.mcp_scopes END AS scopes, c.mcp_only, c.created_at, c.expires_at, c.last_used_at
        FROM api_tokens c WHERE c.team_id = ${teamId} AND c.rule_id IS NULL AND ${here}
        UNION ALL
        SELECT 'machine_rule', c.id, c.name, c.created_by, c.access_level, c.environment_ids IS NOT NULL, NULL, false,
          c.created_at, NULL, c.last_used_at
        FROM machine_rules c WHERE c.team_id = ${teamId} AND ${here}
        UNION ALL
        SELECT 'cli_grant', c.id, c.hostname, c.user_id, NULL, c.environment_ids IS NOT NULL, t.scopes, false,
          c.created_at, c.expires_at, c.last_used_at
        FROM cli_grants c JOIN cli_grant_teams t ON t.grant_id = c.id AND t.team_id = ${teamId} WHERE ${here}
        UNION ALL
        SELECT 'oauth_grant', c.id, c.client_name, c.user_id, NULL, c.environment_ids IS NOT NULL, c.scopes, false,
          c.created_at, c.expires_at, c.last_used_at
        FROM oauth_grants c JOIN oauth_grant_teams t ON t.grant_id = c.id AND t.team_id = ${teamId}
        JOIN memberships m ON m.team_id = t.team_id AND m.user_id = c.user_id AND m.updated_at <= c.created_at
        WHERE ${here}
      ) AS c
      JOIN memberships m ON m.team_id = ${teamId} AND m.user_id = c.user_id
      WHERE (c.expires_at IS NULL OR c.expires_at > ${at}) AND (m.active OR c.way IN ('api_token', 'machine_rule'))
      ORDER BY c.way, c.last_used_at DESC NULLS LAST, c.id LIMIT ${maxCredentials + 1}`
  )
}

const isLive = (row: CredentialRow, now: number): boolean => {
  switch (row.way) {
    case "machine_rule":
      return Liveness.ofRule({ ...row, revokedAt: null }, now) === "live"
    case "api_token":
      return Liveness.ofToken({ ...row, revokedAt: null }, now) === "live"
    case "cli_grant":
      return (
        row.expiresAt !== null &&
        Liveness.ofGrant({ ...row, expiresAt: row.expiresAt, revokedAt: null, teams: 1 }, now) === "live"
      )
    case "oauth_grant":
      return true
  }
}

const ofScope: ReadonlyArray<readonly [Scope, GrantLevel]> = [
  ["secrets:write", "write"],
  ["secrets:read_values", "values"],
  ["secrets:run", "run"]
]
const byScopes = (scopes: ReadonlyArray<Scope>): GrantLevel =>
  ofScope.find(([scope]) => scopes.includes(scope))?.[1] ?? "names"

/** By the contract: "A write token changes a protected environment only when it names that environment." */
const ownLevel = ({ accessLevel, namesIt, scopes }: CredentialRow, isProtected: boolean): GrantLevel => {
  const most = scopes === null ? "write" : byScopes(scopes)
  if (accessLevel === null) return most
  const own = accessLevel === "write" && (!isProtected || namesIt) ? "write" : "values"
  return Policy.isAbove(most, own) ? own : most
}

/** A person's level there, by role and grants. */
type Levels = ReadonlyMap<UserIdOut, GrantLevel | undefined>
type UserIdOut = typeof UserIdOut.Type

const atMost = (level: GrantLevel, person: GrantLevel): GrantLevel => (Policy.isAbove(level, person) ? person : level)

const wayOf = (
  row: CredentialRow,
  person: PersonRow,
  levels: Levels,
  at: { readonly isProtected: boolean; readonly tokensFollowCreators: boolean }
): ReadonlyArray<WayIn> => {
  const ofPerson = levels.get(person.id)
  const isBounded = row.accessLevel === null || row.mcpOnly || at.tokensFollowCreators
  if (isBounded && ofPerson === undefined) return []
  const own = ownLevel(row, at.isProtected)
  return [
    {
      way: row.way,
      id: row.id,
      name: row.name,
      person: { id: person.id, email: person.email },
      role: person.role,
      level: isBounded && ofPerson !== undefined ? atMost(own, ofPerson) : own,
      grant: null,
      mcpOnly: row.mcpOnly,
      until: row.expiresAt?.toISOString() ?? null,
      lastUsedAt: row.lastUsedAt?.toISOString() ?? null
    }
  ]
}

type Grant = Effect.Effect.Success<ReturnType<typeof AccessGrants.reachingTarget>>[number]

const waysOfPerson = (
  { email, id, lastReadAt, role }: PersonRow,
  byRole: GrantLevel | undefined,
  grants: ReadonlyArray<Grant>
): ReadonlyArray<WayIn> => {
  const way = { name: null, person: { id, email }, role, mcpOnly: false, lastUsedAt: lastReadAt }
  return [
    ...(byRole === undefined ? [] : [{ ...way, way: "role", id, level: byRole, grant: null, until: null }]),
    ...grants.map(({ createdBy, environmentId, id: grantId, level, reason, until }) => ({
      ...way,
      way: "grant",
      id: grantId,
      level,
      grant: { wholeProject: environmentId === null, givenBy: createdBy, reason },
      until
    }))
  ]
}

const RuleRow = Schema.Struct({ tokensFollowCreators: Schema.Boolean })

/**
 * For owners and admins: every person, token, rule, login and agent that reaches the environment, and the pending
 * requests.
 */
const show = Effect.fn("EnvironmentAccess.show")(function* (needs: Needs, id: EnvironmentId) {
  const { access, requests, sql } = needs
  const permit = yield* access.environmentWithId("audit:read", id, { audit: "access.list" })
  const { caller, target } = permit
  const now = yield* Clock.currentTimeMillis
  const members = yield* people(needs, permit)
  const grants = yield* AccessGrants.reachingTarget(sql, target, new Date(now))
  const rows = yield* credentials(needs, permit, now)
  const { tokensFollowCreators } = yield* Rows.single(
    RuleRow,
    sql`SELECT tokens_follow_creators FROM teams WHERE id = ${target.teamId}`
  )
  const adminsNeedGrants = Policy.teamOf(caller, target.teamId)?.adminsNeedGrants === true
  const grantsDecide = target.readers === "granted" || target.visibility === "granted"
  const grantsOf = (person: PersonRow) => grants.filter(({ userId }) => userId === person.id)
  const byRole = ({ active, role }: PersonRow) =>
    active ? Policy.levelByRole(role, { adminsNeedGrants }, target) : undefined
  const levels: Levels = new Map(
    members.map((person) => {
      const own = byRole(person)
      const best = person.active && grantsDecide ? Policy.highest(grantsOf(person)) : undefined
      const isMore = best !== undefined && (own === undefined || Policy.isAbove(best.level, own))
      return [person.id, isMore ? best.level : own]
    })
  )
  const byId = new Map(members.map((person) => [person.id, person]))
  const at = { isProtected: target.protected, tokensFollowCreators }
  const record: EnvironmentAccessRecord = {
    teamId: target.teamId,
    projectId: target.projectId,
    environmentId: target.environmentId,
    environment: target.slug,
    readers: target.readers,
    visibility: target.visibility,
    items: [
      ...members
        .filter(({ active }) => active)
        .flatMap((person) => waysOfPerson(person, byRole(person), grantsOf(person))),
      ...rows
        .slice(0, maxCredentials)
        .filter((row) => isLive(row, now))
        .flatMap((row) => {
          const person = byId.get(row.userId)
          return person === undefined ? [] : wayOf(row, person, levels, at)
        })
    ],
    hasMore: rows.length > maxCredentials,
    requests: (yield* requests.listOfEnvironment(id)).items
  }
  return record
})

export class EnvironmentAccess extends Effect.Service<EnvironmentAccess>()("projects/EnvironmentAccess", {
  effect: Effect.map(services, (needs) => methods(needs, { show }))
}) {}

/** API tokens as the database holds them, what they reach, and the records that people see of them. */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { ApiToken } from "#schema/ApiTokensApi.ts"
import type { Caller, Restrictions } from "#schema/Caller.ts"
import { EnvironmentNotGranted, ProjectNotFound, ValidationFailed } from "#schema/Errors.ts"
import {
  type EnvironmentId,
  EnvironmentIdOut,
  type ProjectId,
  ProjectIdOut,
  type RuleId,
  type TeamId,
  TeamIdOut,
  type TokenId,
  TokenIdOut,
  type UserId,
  UserIdOut
} from "#schema/Ids.ts"
import { AccessLevel, Readers, Scope, Visibility } from "#schema/Scopes.ts"
import * as Policy from "#src/access/Policy.ts"
import type { RowSeal } from "#src/rows/RowSeal.ts"
import type { Crypto } from "#src/crypto/Crypto.ts"
import * as Rows from "#src/database/Rows.ts"
import * as Liveness from "./Liveness.ts"
import * as TokenText from "./TokenText.ts"

interface Needs {
  readonly sql: SqlClient.SqlClient
}

const Time = Schema.NullOr(Schema.DateFromSelf)

export const TokenRow = Schema.Struct({
  id: TokenIdOut,
  teamId: TeamIdOut,
  name: Schema.String,
  accessLevel: AccessLevel,
  projectIds: Schema.NullOr(Schema.Array(ProjectIdOut)),
  environmentIds: Schema.NullOr(Schema.Array(EnvironmentIdOut)),
  mcpScopes: Schema.Array(Scope),
  mcpOnly: Schema.Boolean,
  addresses: Schema.NullOr(Schema.Array(Schema.String)),
  createdBy: UserIdOut,
  email: Schema.String,
  createdAt: Schema.DateFromSelf,
  expiresAt: Time,
  lastUsedAt: Time,
  lastUsedIp: Schema.NullOr(Schema.String),
  lastUsedUserAgent: Schema.NullOr(Schema.String),
  revokedAt: Time,
  creatorActive: Schema.NullOr(Schema.Boolean),
  creatorDeactivatedAt: Time
})
export type TokenRow = typeof TokenRow.Type

/** A list shows at most this many: active tokens are capped below it, expired ones add to them. */
const listLimit = 5_000

const columns = `
  c.id, c.team_id, c.name, c.access_level, c.project_ids, c.environment_ids, c.mcp_scopes, c.mcp_only, c.addresses, c.created_by,
  u.email, c.created_at, c.expires_at, c.last_used_at, c.last_used_ip, c.last_used_user_agent, c.revoked_at,
  m.active AS creator_active, m.deactivated_at AS creator_deactivated_at
  FROM api_tokens c
  JOIN users u ON u.id = c.created_by
  LEFT JOIN memberships m ON m.team_id = c.team_id AND m.user_id = c.created_by`

/** Everything that was not revoked, expired tokens included; newest first. */
export const ofTeam = ({ sql }: Needs, teamId: TeamId) =>
  Rows.findAll(
    TokenRow,
    sql`
      SELECT ${sql.literal(columns)} WHERE c.team_id = ${teamId} AND c.revoked_at IS NULL
      ORDER BY c.id DESC LIMIT ${listLimit}`
  )

export const find = ({ sql }: Needs, teamId: TeamId, tokenId: TokenId) =>
  Rows.findOne(TokenRow, sql`SELECT ${sql.literal(columns)} WHERE c.id = ${tokenId} AND c.team_id = ${teamId}`)

export const lock = ({ sql }: Needs, teamId: TeamId, tokenId: TokenId) =>
  Rows.findOne(
    TokenRow,
    sql`SELECT ${sql.literal(columns)} WHERE c.id = ${tokenId} AND c.team_id = ${teamId} FOR UPDATE OF c`
  )

const reread = ({ sql }: Needs, id: TokenId) =>
  Rows.single(TokenRow, sql`SELECT ${sql.literal(columns)} WHERE c.id = ${id}`)

/** Tokens that still work, as `Liveness.ofToken` sees them. Those of machines are counted on their own. */
export const countActive = ({ sql }: Needs, teamId: TeamId, now: number) =>
  Rows.count(sql`
    SELECT count(*) AS n
    FROM api_tokens c JOIN memberships m ON m.team_id = c.team_id AND m.user_id = c.created_by
    WHERE c.team_id = ${teamId} AND c.revoked_at IS NULL AND c.rule_id IS NULL
      AND (c.expires_at > ${new Date(now)}
        OR c.expires_at IS NULL AND coalesce(c.last_used_at, c.created_at) > ${new Date(now - Liveness.idleLimit)})
      AND (m.active OR m.deactivated_at > ${new Date(now - Liveness.creatorGrace)})`)

const ProjectRow = Schema.Struct({ id: ProjectIdOut, name: Schema.String })
const EnvironmentRow = Schema.Struct({ id: EnvironmentIdOut, slug: Schema.String, projectId: ProjectIdOut })

export const unique = <A>(items: ReadonlyArray<A>): ReadonlyArray<A> => [...new Set(items)]

const named = <K, V>(ids: ReadonlyArray<K> | null, by: ReadonlyMap<K, V>): ReadonlyArray<V> | null =>
  ids === null ? null : ids.flatMap((id) => by.get(id) ?? [])

/** What each row reaches, by name; what was deleted since is not reached and not shown. */
export const reachOf = Effect.fnUntraced(function* ({ sql }: Needs, rows: ReadonlyArray<Restrictions>) {
  const projectIds = unique(rows.flatMap((row) => row.projectIds ?? []))
  const environmentIds = unique(rows.flatMap((row) => row.environmentIds ?? []))
  const projects =
    projectIds.length === 0
      ? []
      : yield* Rows.findAll(
          ProjectRow,
          sql`SELECT id, name FROM projects WHERE id = any(${projectIds}::uuid[]) AND deleted_at IS NULL`
        )
  const environments =
    environmentIds.length === 0
      ? []
      : yield* Rows.findAll(
          EnvironmentRow,
          sql`
            SELECT e.id, e.slug, e.project_id
            FROM environments e JOIN projects p ON p.id = e.project_id AND p.deleted_at IS NULL
            WHERE e.id = any(${environmentIds}::uuid[]) AND e.deleted_at IS NULL`
        )
  const projectBy = new Map(projects.map((project) => [project.id, project]))
  const environmentBy = new Map(environments.map((environment) => [environment.id, environment]))
  return rows.map((row) => ({
    projects: named(row.projectIds, projectBy),
    environments: named(row.environmentIds, environmentBy)
  }))
})

/** Null when no projects are requested: all of the team, also later ones. */
export const projectsOf = Effect.fnUntraced(function* (
  { sql }: Needs,
  teamId: TeamId,
  requested: ReadonlyArray<ProjectId> | undefined
) {
  if (requested === undefined) return null
  const ids = unique(requested)
  const rows = yield* Rows.findAll(
    ProjectRow,
    sql`SELECT id, name FROM projects WHERE team_id = ${teamId} AND id = any(${ids}::uuid[]) AND deleted_at IS NULL`
  )
  const existing = new Set(rows.map((row) => row.id))
  const missing = requested.findIndex((id) => !existing.has(id))
  if (missing >= 0) return yield* new ProjectNotFound({ field: `projects.${missing}` })
  return ids
})

/** The environments that have the requested slugs now; later ones of the same slug are not reached. */
export const environmentsOf = Effect.fnUntraced(function* (
  { sql }: Needs,
  teamId: TeamId,
  projectIds: ReadonlyArray<ProjectId> | null,
  requested: ReadonlyArray<string> | undefined
) {
  if (requested === undefined) return null
  const rows = yield* Rows.findAll(
    EnvironmentRow,
    sql`
      SELECT e.id, e.slug, e.project_id
      FROM environments e JOIN projects p ON p.id = e.project_id AND p.deleted_at IS NULL
      WHERE e.team_id = ${teamId} AND e.slug = any(${unique(requested)}::text[]) AND e.deleted_at IS NULL
        AND (${projectIds}::uuid[] IS NULL OR e.project_id = any(${projectIds}::uuid[]))
      ORDER BY e.project_id, e.id`
  )
  const existing = new Set(rows.map((row) => row.slug))
  const missing = requested.findIndex((slug) => !existing.has(slug))
  if (missing >= 0) {
    return yield* new ValidationFailed({
      field: `environments.${missing}`,
      message: "No project of the token has an environment with this slug."
    })
  }
  return rows.map((row) => row.id)
})

const ReaderRow = Schema.Struct({
  environmentId: EnvironmentIdOut,
  projectId: ProjectIdOut,
  slug: Schema.String,
  readers: Readers,
  visibility: Visibility
})

/** Nobody makes a token that reads what they may not (docs/contract/access.md): ENVIRONMENT_NOT_GRANTED names it. */
export const checkReadable = Effect.fnUntraced(function* (
  { sql }: Needs,
  caller: Caller,
  teamId: TeamId,
  reach: Restrictions
) {
  const team = Policy.teamOf(caller, teamId)
  if (team?.adminsNeedGrants !== true) return
  const rows = yield* Rows.findAll(
    ReaderRow,
    sql`
      SELECT e.id AS environment_id, e.project_id, e.slug, e.readers, p.visibility
      FROM environments e JOIN projects p ON p.id = e.project_id AND p.deleted_at IS NULL
      WHERE e.team_id = ${teamId} AND e.deleted_at IS NULL
        AND (e.readers = 'granted' OR p.visibility = 'granted')
        AND (${reach.projectIds}::uuid[] IS NULL OR e.project_id = any(${reach.projectIds}::uuid[]))
        AND (${reach.environmentIds}::uuid[] IS NULL OR e.id = any(${reach.environmentIds}::uuid[]))`
  )
  const lacking = rows.find((row) => Policy.lacksGrant(caller, team, row, "values"))
  if (lacking === undefined) return
  return yield* new EnvironmentNotGranted({
    message: `The token would read ${lacking.slug}, which you were not granted. Grant it to yourself, or choose others.`
  })
})

const SeenProjectRow = Schema.Struct({ teamId: TeamIdOut, projectId: ProjectIdOut, visibility: Visibility })
const SeenEnvironmentRow = Schema.Struct({ ...SeenProjectRow.fields, environmentId: EnvironmentIdOut })

/** Which of the two lists is empty, or names what is deleted or belongs to none of these teams; undefined: neither. */
export const beyondTeams = Effect.fnUntraced(function* (
  { sql }: Needs,
  caller: Caller,
  teamIds: ReadonlyArray<TeamId>,
  { environmentIds, projectIds }: Restrictions
) {
  // What the person does not see is told as what does not exist.
  const lacks = (ids: ReadonlyArray<string>, seen: number) => ids.length === 0 || seen < new Set(ids).size
  if (projectIds !== null) {
    const rows = yield* Rows.findAll(
      SeenProjectRow,
      sql`
        SELECT team_id, id AS project_id, visibility FROM projects
        WHERE id = any(${projectIds}::uuid[]) AND team_id = any(${teamIds}::uuid[]) AND deleted_at IS NULL`
    )
    const seen = rows.filter((row) => Policy.projectVisible(caller, { ...row, environmentIds: [] }))
    if (lacks(projectIds, seen.length)) return "projects"
  }
  if (environmentIds !== null) {
    const rows = yield* Rows.findAll(
      SeenEnvironmentRow,
      sql`
        SELECT e.team_id, e.project_id, e.id AS environment_id, p.visibility
        FROM environments e JOIN projects p ON p.id = e.project_id AND p.deleted_at IS NULL
        WHERE e.id = any(${environmentIds}::uuid[]) AND e.team_id = any(${teamIds}::uuid[]) AND e.deleted_at IS NULL`
    )
    if (lacks(environmentIds, rows.filter((row) => Policy.environmentVisible(caller, row)).length))
      return "environments"
  }
  return undefined
})

export const records = Effect.fnUntraced(function* (needs: Needs, rows: ReadonlyArray<TokenRow>) {
  const reaches = yield* reachOf(needs, rows)
  return rows.map((row, i): ApiToken => ({
    id: row.id,
    teamId: row.teamId,
    name: row.name,
    accessLevel: row.accessLevel,
    projects: reaches[i]?.projects ?? null,
    environments: reaches[i]?.environments ?? null,
    mcpScopes: row.mcpScopes,
    mcpOnly: row.mcpOnly,
    addresses: row.addresses,
    createdBy: { id: row.createdBy, email: row.email },
    createdAt: row.createdAt.toISOString(),
    expiresAt: row.expiresAt?.toISOString() ?? null,
    lastUsedAt: row.lastUsedAt?.toISOString() ?? null,
    lastUsedIp: row.lastUsedIp,
    lastUsedUserAgent: row.lastUsedUserAgent
  }))
})

/** The record of a row that exists. */
export const record = Effect.fnUntraced(function* (needs: Needs, id: TokenId) {
  const [one] = yield* records(needs, [yield* reread(needs, id)])
  return one ?? (yield* Effect.dieMessage("a row without a record"))
})

export interface NewToken {
  readonly teamId: TeamId
  readonly name: string
  readonly accessLevel: AccessLevel
  readonly projectIds: ReadonlyArray<ProjectId> | null
  readonly environmentIds: ReadonlyArray<EnvironmentId> | null
  readonly mcpScopes: ReadonlyArray<Scope>
  /** Refused everywhere but at `/mcp`. */
  readonly mcpOnly?: boolean
  /** From where it is taken; absent: from anywhere. */
  readonly addresses?: ReadonlyArray<string> | null
  readonly createdBy: UserId
  readonly expiresAt: Date | null
  /** The trust rule by which a machine gets it. */
  readonly ruleId?: RuleId
}

/** Part of the caller's transaction. The text is shown once and stored nowhere. */
export const mint = Effect.fnUntraced(function* (
  needs: Needs & { readonly crypto: Crypto; readonly rowSeal: RowSeal },
  token: NewToken
) {
  const { crypto, rowSeal, sql } = needs
  const now = yield* DateTime.nowAsDate
  const id = TokenIdOut.make(yield* crypto.uuid)
  const { proof, text } = yield* TokenText.issue(needs, "at")
  const { accessLevel, createdBy, environmentIds, expiresAt, mcpScopes, projectIds, teamId } = token
  const { hash, lookupId, salt } = proof
  const row = yield* rowSeal.values(
    "api_tokens",
    {
      id,
      lookupId,
      hash,
      teamId,
      accessLevel,
      projectIds,
      environmentIds,
      mcpScopes,
      createdBy,
      expiresAt,
      createdAt: now,
      mcpOnly: token.mcpOnly ?? false,
      ruleId: token.ruleId ?? null,
      addresses: token.addresses ?? null
    },
    { salt, name: token.name }
  )
  yield* Rows.run(sql`INSERT INTO api_tokens ${row}`)
  return { id, text }
})

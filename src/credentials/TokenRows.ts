/** Rows of API tokens, their reach, and their records for people. */
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

/** Rows per list. The plan's limit of active tokens is lower; expired tokens add to them. */
const listLimit = 5_000

const columns = `
  c.id, c.team_id, c.name, c.access_level, c.project_ids, c.environment_ids, c.mcp_scopes, c.mcp_only, c.addresses, c.created_by,
  u.email, c.created_at, c.expires_at, c.last_used_at, c.last_used_ip, c.last_used_user_agent, c.revoked_at,
  m.active AS creator_active, m.deactivated_at AS creator_deactivated_at
  FROM api_tokens c
  JOIN users u ON u.id = c.created_by
  LEFT JOIN memberships m ON m.team_id = c.team_id AND m.user_id = c.created_by`

/** Tokens that are not revoked, expired ones included; newest first. */
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

/** Active tokens by the rules of `Liveness.ofToken`. Machines' tokens count separately. */
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

const pick = <K, V>(ids: ReadonlyArray<K> | null, by: ReadonlyMap<K, V>): ReadonlyArray<V> | null =>
  ids === null ? null : ids.flatMap((id) => by.get(id) ?? [])

/** Projects and environments that each row reaches, by name; deleted ones are omitted. */
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
    projects: pick(row.projectIds, projectBy),
    environments: pick(row.environmentIds, environmentBy)
  }))
})

/** Null when no projects are requested: the token reaches all projects, later ones too. */
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

/** Environments with the requested slugs now; a later environment with the same slug is not reached. */
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

/**
 * A token must not read more than its creator (docs/contract/access.md): ENVIRONMENT_NOT_GRANTED names the environment.
 */
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
  const unreadable = rows.find((row) => Policy.lacksGrant(caller, team, row, "values"))
  if (unreadable === undefined) return
  return yield* new EnvironmentNotGranted({
    message: `The token would read ${unreadable.slug}, which you were not granted. Grant it to yourself, or choose others.`
  })
})

const VisibleProjectRow = Schema.Struct({ teamId: TeamIdOut, projectId: ProjectIdOut, visibility: Visibility })
const VisibleEnvironmentRow = Schema.Struct({ ...VisibleProjectRow.fields, environmentId: EnvironmentIdOut })

/** The list that is empty, or names a deleted or foreign object; undefined: neither does. */
export const beyondTeams = Effect.fnUntraced(function* (
  { sql }: Needs,
  caller: Caller,
  teamIds: ReadonlyArray<TeamId>,
  { environmentIds, projectIds }: Restrictions
) {
  // An invisible object counts as a missing one.
  const isIncomplete = (ids: ReadonlyArray<string>, visible: number) => ids.length === 0 || visible < new Set(ids).size
  if (projectIds !== null) {
    const rows = yield* Rows.findAll(
      VisibleProjectRow,
      sql`
        SELECT team_id, id AS project_id, visibility FROM projects
        WHERE id = any(${projectIds}::uuid[]) AND team_id = any(${teamIds}::uuid[]) AND deleted_at IS NULL`
    )
    const visible = rows.filter((row) => Policy.projectVisible(caller, { ...row, environmentIds: [] }))
    if (isIncomplete(projectIds, visible.length)) return "projects"
  }
  if (environmentIds !== null) {
    const rows = yield* Rows.findAll(
      VisibleEnvironmentRow,
      sql`
        SELECT e.team_id, e.project_id, e.id AS environment_id, p.visibility
        FROM environments e JOIN projects p ON p.id = e.project_id AND p.deleted_at IS NULL
        WHERE e.id = any(${environmentIds}::uuid[]) AND e.team_id = any(${teamIds}::uuid[]) AND e.deleted_at IS NULL`
    )
    if (isIncomplete(environmentIds, rows.filter((row) => Policy.environmentVisible(caller, row)).length))
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

/** The record of an existing token. */
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
  /** Accepted only at `/mcp`. */
  readonly mcpOnly?: boolean
  /** Addresses that may use it; absent: any. */
  readonly addresses?: ReadonlyArray<string> | null
  readonly createdBy: UserId
  readonly expiresAt: Date | null
  /** Trust rule of a machine's token. */
  readonly ruleId?: RuleId
}

/** Part of the caller's transaction. The text is shown once and never stored. */
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

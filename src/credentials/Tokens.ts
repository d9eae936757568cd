/** API tokens of a team (interface 3 and 5, decisions 8): owners and admins make them, nothing ever widens them. */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import type { ApiToken, ApiTokenWithValue, CreateApiToken, UpdateApiToken } from "#schema/ApiTokensApi.ts"
import type { AuditAction } from "#schema/Audit.ts"
import type { Caller } from "#schema/Caller.ts"
import { Forbidden, PlanLimitReached, ProjectNotFound, TokenNotFound, ValidationFailed } from "#schema/Errors.ts"
import {
  type EnvironmentId,
  type ProjectId,
  type RuleId,
  type TeamId,
  type TokenId,
  TokenIdOut,
  type UserId
} from "#schema/Ids.ts"
import type { AccessLevel, Scope } from "#schema/Scopes.ts"
import { Audit } from "#src/access/Audit.ts"
import { change } from "#src/access/Change.ts"
import type { TeamPermit } from "#src/access/Permit.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import * as Plans from "#src/limits/Plans.ts"
import { issue } from "./Issue.ts"
import * as Liveness from "./Liveness.ts"

type Manage = TeamPermit<"tokens:manage">

interface TokenRow {
  readonly id: TokenId
  readonly teamId: TeamId
  readonly name: string
  readonly accessLevel: AccessLevel
  readonly projectIds: ReadonlyArray<ProjectId> | null
  readonly environmentIds: ReadonlyArray<EnvironmentId> | null
  readonly mcpScopes: ReadonlyArray<Scope>
  readonly createdBy: UserId
  readonly email: string
  readonly createdAt: Date
  readonly expiresAt: Date | null
  readonly lastUsedAt: Date | null
  readonly lastUsedIp: string | null
  readonly lastUsedUserAgent: string | null
  readonly revokedAt: Date | null
  readonly creatorActive: boolean | null
  readonly creatorDeactivatedAt: Date | null
}

/** A list shows at most this many: active tokens are capped below it, expired ones add to them. */
const listLimit = 5_000

const iso = (date: Date | null): string | null => date?.toISOString() ?? null
const unique = <A>(items: ReadonlyArray<A>): ReadonlyArray<A> => [...new Set(items)]

export class Tokens extends Effect.Service<Tokens>()("credentials/Tokens", {
  effect: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const crypto = yield* Crypto
    const audit = yield* Audit
    const services = { sql, audit }

    const columns = sql.literal(`
      c.id, c.team_id, c.name, c.access_level, c.project_ids, c.environment_ids, c.mcp_scopes, c.created_by, u.email,
      c.created_at, c.expires_at, c.last_used_at, c.last_used_ip, c.last_used_user_agent, c.revoked_at,
      m.active AS creator_active, m.deactivated_at AS creator_deactivated_at
      FROM api_tokens c
      JOIN users u ON u.id = c.created_by
      LEFT JOIN memberships m ON m.team_id = c.team_id AND m.user_id = c.created_by`)

    /** What each row reaches, by name; what was deleted since is not reached and not shown. */
    const reachOf = Effect.fnUntraced(function* (rows: ReadonlyArray<Pick<TokenRow, "projectIds" | "environmentIds">>) {
      const projectIds = unique(rows.flatMap((row) => row.projectIds ?? []))
      const environmentIds = unique(rows.flatMap((row) => row.environmentIds ?? []))
      const projects =
        projectIds.length === 0
          ? []
          : yield* sql<{ readonly id: ProjectId; readonly name: string }>`
              SELECT id, name FROM projects WHERE id = any(${projectIds}::uuid[]) AND deleted_at IS NULL`
      const environments =
        environmentIds.length === 0
          ? []
          : yield* sql<{ readonly id: EnvironmentId; readonly slug: string; readonly projectId: ProjectId }>`
              SELECT e.id, e.slug, e.project_id
              FROM environments e JOIN projects p ON p.id = e.project_id AND p.deleted_at IS NULL
              WHERE e.id = any(${environmentIds}::uuid[]) AND e.deleted_at IS NULL`
      const projectBy = new Map(projects.map((project) => [project.id, project]))
      const environmentBy = new Map(environments.map((environment) => [environment.id, environment]))
      const found = <K, V>(ids: ReadonlyArray<K> | null, by: ReadonlyMap<K, V>): ReadonlyArray<V> | null =>
        ids === null
          ? null
          : ids.flatMap((id) => {
              const hit = by.get(id)
              return hit === undefined ? [] : [hit]
            })
      return rows.map((row) => ({
        projects: found(row.projectIds, projectBy),
        environments: found(row.environmentIds, environmentBy)
      }))
    })

    const records = Effect.fnUntraced(function* (rows: ReadonlyArray<TokenRow>) {
      const reaches = yield* reachOf(rows)
      return rows.map((row, i): ApiToken => ({
        id: row.id,
        teamId: row.teamId,
        name: row.name,
        accessLevel: row.accessLevel,
        ...reaches[i],
        mcpScopes: row.mcpScopes,
        createdBy: { id: row.createdBy, email: row.email },
        createdAt: row.createdAt.toISOString(),
        expiresAt: iso(row.expiresAt),
        lastUsedAt: iso(row.lastUsedAt),
        lastUsedIp: row.lastUsedIp,
        lastUsedUserAgent: row.lastUsedUserAgent
      }))
    })

    /**
     * The team's lock, under which members change too; then the person once more: a role or a session that ended while
     * the request was on its way must not leave a token behind.
     */
    const stillManages = Effect.fnUntraced(function* (permit: Manage) {
      const { user } = permit.caller
      if (user === null) return yield* new Forbidden()
      yield* sql`SELECT id FROM teams WHERE id = ${permit.target.teamId} FOR NO KEY UPDATE`
      const standing = yield* sql`
        SELECT m.role FROM memberships m JOIN sessions s ON s.user_id = m.user_id
        WHERE m.team_id = ${permit.target.teamId} AND m.user_id = ${user.id} AND m.active
          AND m.role IN ('owner', 'admin') AND s.id = ${permit.caller.credentialId} AND s.revoked_at IS NULL
        FOR SHARE`
      if (standing.length === 0) return yield* new Forbidden()
      return user
    })

    /** Locked, of the permit's team, and in use: revoked, expired and stopped tokens are not there to be changed. */
    const live = Effect.fnUntraced(function* (permit: Manage, tokenId: TokenId) {
      const rows = yield* sql<TokenRow>`
        SELECT ${columns} WHERE c.id = ${tokenId} AND c.team_id = ${permit.target.teamId} FOR UPDATE OF c`
      const row: TokenRow | undefined = rows[0]
      const now = yield* Clock.currentTimeMillis
      if (row === undefined || Liveness.ofToken(row, now) !== "live") return yield* new TokenNotFound()
      return row
    })

    const reread = (id: TokenId) =>
      Effect.flatMap(sql<TokenRow>`SELECT ${columns} WHERE c.id = ${id}`, (rows) =>
        Effect.map(records(rows), (items) => items[0])
      )

    interface NewToken {
      readonly teamId: TeamId
      readonly name: string
      readonly accessLevel: AccessLevel
      readonly projectIds: ReadonlyArray<ProjectId> | null
      readonly environmentIds: ReadonlyArray<EnvironmentId> | null
      readonly mcpScopes: ReadonlyArray<Scope>
      readonly createdBy: UserId
      readonly expiresAt: Date | null
      /** The trust rule by which a machine gets it. */
      readonly ruleId?: RuleId
    }
    /** In the caller's transaction. The text is shown once and stored nowhere. */
    const mint = Effect.fnUntraced(function* (token: NewToken) {
      const now = yield* DateTime.nowAsDate
      const id = TokenIdOut.make(yield* crypto.uuid)
      const { proof, text } = yield* issue(crypto, "at")
      yield* sql`
        INSERT INTO api_tokens (id, lookup_id, salt, hash, team_id, name, access_level, project_ids, environment_ids,
          mcp_scopes, created_by, created_at, expires_at, rule_id)
        VALUES (${id}, ${proof.lookupId}, ${proof.salt}, ${proof.hash}, ${token.teamId}, ${token.name},
          ${token.accessLevel}, ${token.projectIds}::uuid[], ${token.environmentIds}::uuid[],
          ${token.mcpScopes}::text[], ${token.createdBy}, ${now}, ${token.expiresAt}, ${token.ruleId ?? null})`
      return { id, text }
    })
    const insert = Effect.fnUntraced(function* (token: NewToken) {
      const { id, text } = yield* mint(token)
      const shown: ApiTokenWithValue = { ...(yield* reread(id)), value: Redacted.value(text) }
      return shown
    })

    const event = (permit: Manage, action: AuditAction, token: { readonly id: string; readonly name: string }) =>
      permit.event({ audit: action, target: { type: "api_token", id: token.id, name: token.name } })

    const projectsOf = Effect.fnUntraced(function* (teamId: TeamId, asked: ReadonlyArray<ProjectId> | undefined) {
      if (asked === undefined) return null
      const ids = unique(asked)
      const found = yield* sql<{ readonly id: ProjectId }>`
        SELECT id FROM projects WHERE team_id = ${teamId} AND id = any(${ids}::uuid[]) AND deleted_at IS NULL`
      const known = new Set(found.map((row) => row.id))
      const missing = asked.findIndex((id) => !known.has(id))
      if (missing >= 0) return yield* new ProjectNotFound({ field: `projects.${missing}` })
      return ids
    })

    /** "Slugs resolve to the environments of that slug in the token's projects … at creation." */
    const environmentsOf = Effect.fnUntraced(function* (
      teamId: TeamId,
      projectIds: ReadonlyArray<ProjectId> | null,
      asked: ReadonlyArray<string> | undefined
    ) {
      if (asked === undefined) return null
      const found = yield* sql<{ readonly id: EnvironmentId; readonly slug: string }>`
        SELECT e.id, e.slug FROM environments e JOIN projects p ON p.id = e.project_id AND p.deleted_at IS NULL
        WHERE e.team_id = ${teamId} AND e.slug = any(${unique(asked)}::text[]) AND e.deleted_at IS NULL
          AND (${projectIds}::uuid[] IS NULL OR e.project_id = any(${projectIds}::uuid[]))
        ORDER BY e.project_id, e.id`
      const known = new Set(found.map((row) => row.slug))
      const missing = asked.findIndex((slug) => !known.has(slug))
      if (missing >= 0) {
        return yield* new ValidationFailed({
          field: `environments.${missing}`,
          message: "No project of the token has an environment with this slug."
        })
      }
      return found.map((row) => row.id)
    })

    /** Tokens that still work, as `Liveness.ofToken` sees them. Those of machines are counted on their own. */
    const countActive = (teamId: TeamId, now: number) =>
      Effect.map(
        sql<{ readonly n: number }>`
          SELECT count(*)::int AS n
          FROM api_tokens c JOIN memberships m ON m.team_id = c.team_id AND m.user_id = c.created_by
          WHERE c.team_id = ${teamId} AND c.revoked_at IS NULL AND c.rule_id IS NULL
            AND (c.expires_at > ${new Date(now)}
              OR c.expires_at IS NULL
                AND coalesce(c.last_used_at, c.created_at) > ${new Date(now - Liveness.idleLimit)})
            AND (m.active OR m.deactivated_at > ${new Date(now - Liveness.creatorGrace)})`,
        (rows) => rows[0].n
      )

    const create = Effect.fn("Tokens.create")(function* (permit: Manage, input: CreateApiToken) {
      const { plan, teamId } = permit.target
      const limits = Plans.plans[plan]
      const accessLevel = input.accessLevel ?? "read"
      const mcpScopes = unique(input.mcpScopes ?? [])
      const lifetime = input.lifetime ?? limits.longestLifetime
      if (!Plans.lifetimeAllowed(plan, lifetime)) {
        return yield* new ValidationFailed({ field: "lifetime", message: "The plan allows no such long lifetime." })
      }
      for (const [field, list] of [
        ["projects", input.projects],
        ["environments", input.environments]
      ] as const) {
        if (list?.length === 0) return yield* new ValidationFailed({ field, message: "The list must not be empty." })
      }
      if (accessLevel === "read" && mcpScopes.includes("secrets:write")) return yield* levelForbids()
      return yield* change(
        services,
        permit.event(),
        Effect.gen(function* () {
          const user = yield* stillManages(permit)
          const projectIds = yield* projectsOf(teamId, input.projects)
          const environmentIds = yield* environmentsOf(teamId, projectIds, input.environments)
          const now = yield* Clock.currentTimeMillis
          if ((yield* countActive(teamId, now)) >= limits.activeTokens) return yield* new PlanLimitReached()
          const created = yield* insert({
            teamId,
            name: input.name,
            accessLevel,
            projectIds,
            environmentIds,
            mcpScopes,
            createdBy: user.id,
            expiresAt: new Date(now + Plans.lifetimes[lifetime])
          })
          yield* audit.append(event(permit, "token.create", created))
          return created
        })
      )
    })

    /** Everything that was not revoked, expired tokens included; newest first. */
    const list = Effect.fn("Tokens.list")(function* (permit: Manage) {
      const now = yield* Clock.currentTimeMillis
      const rows = yield* sql<TokenRow>`
        SELECT ${columns} WHERE c.team_id = ${permit.target.teamId} AND c.revoked_at IS NULL
        ORDER BY c.id DESC LIMIT ${listLimit}`
      return yield* records(rows.filter((row) => Liveness.ofToken(row, now) !== "revoked"))
    }, Effect.orDie)

    /** Renames, makes read-only, removes MCP scopes; all in one statement, so that no reader sees half of it. */
    const update = Effect.fn("Tokens.update")(function* (permit: Manage, tokenId: TokenId, input: UpdateApiToken) {
      return yield* change(
        services,
        permit.event(),
        Effect.gen(function* () {
          const token = yield* live(permit, tokenId)
          const accessLevel = input.accessLevel ?? token.accessLevel
          const wanted = input.mcpScopes === undefined ? undefined : unique(input.mcpScopes)
          if (wanted !== undefined) {
            if (accessLevel === "read" && wanted.includes("secrets:write")) return yield* levelForbids()
            if (wanted.some((scope) => !token.mcpScopes.includes(scope))) {
              return yield* new ValidationFailed({ field: "mcpScopes", message: "MCP scopes can only be removed." })
            }
          }
          const mcpScopes = (wanted ?? token.mcpScopes).filter(
            (scope) => accessLevel === "write" || scope !== "secrets:write"
          )
          const name = input.name ?? token.name
          yield* sql`
            UPDATE api_tokens SET name = ${name}, access_level = ${accessLevel}, mcp_scopes = ${mcpScopes}::text[]
            WHERE id = ${token.id}`
          const record = yield* reread(token.id)
          yield* audit.append(
            ...(accessLevel === token.accessLevel ? [] : [event(permit, "token.make_read_only", record)]),
            ...(input.name === undefined && wanted === undefined ? [] : [event(permit, "token.update", record)])
          )
          return record
        })
      )
    })

    /** "Keeps name, scope, access level, MCP scopes and expiry date; the person who rotates becomes its creator." */
    const rotate = Effect.fn("Tokens.rotate")(function* (permit: Manage, tokenId: TokenId) {
      return yield* change(
        services,
        permit.event(),
        Effect.gen(function* () {
          const user = yield* stillManages(permit)
          const token = yield* live(permit, tokenId)
          const now = yield* DateTime.nowAsDate
          yield* sql`UPDATE api_tokens SET revoked_at = ${now} WHERE id = ${token.id}`
          const created = yield* insert({ ...token, createdBy: user.id })
          yield* audit.append(event(permit, "token.rotate", token), event(permit, "token.create", created))
          return created
        })
      )
    })

    /** Permanent. A token that is revoked already stays so. */
    const revoke = Effect.fn("Tokens.revoke")(function* (permit: Manage, tokenId: TokenId) {
      yield* change(
        services,
        permit.event(),
        Effect.gen(function* () {
          const now = yield* DateTime.nowAsDate
          const { teamId } = permit.target
          const rows = yield* sql<{ readonly id: TokenId; readonly name: string; readonly revokedAt: Date | null }>`
            SELECT id, name, revoked_at FROM api_tokens WHERE id = ${tokenId} AND team_id = ${teamId} FOR UPDATE`
          if (rows.length === 0) return yield* new TokenNotFound()
          if (rows[0].revokedAt !== null) return
          yield* sql`UPDATE api_tokens SET revoked_at = ${now} WHERE id = ${tokenId}`
          yield* audit.append(event(permit, "token.revoke", rows[0]))
        })
      )
    })

    /** "Removed from the records; audit still names it." */
    const remove = Effect.fn("Tokens.remove")(function* (permit: Manage, tokenId: TokenId) {
      yield* change(
        services,
        permit.event(),
        Effect.gen(function* () {
          const rows = yield* sql<{ readonly id: TokenId; readonly name: string }>`
            DELETE FROM api_tokens WHERE id = ${tokenId} AND team_id = ${permit.target.teamId} RETURNING id, name`
          if (rows.length === 0) return yield* new TokenNotFound()
          yield* audit.append(event(permit, "token.delete", rows[0]))
        })
      )
    })

    /** `DELETE /me/token`: the presented token ends itself; one that is revoked already stays so. */
    const revokeOwn = Effect.fn("Tokens.revokeOwn")(function* (caller: Caller) {
      yield* sql.withTransaction(
        Effect.gen(function* () {
          const now = yield* DateTime.nowAsDate
          const rows = yield* sql<{ readonly id: TokenId; readonly name: string; readonly teamId: TeamId }>`
            UPDATE api_tokens SET revoked_at = ${now}
            WHERE id = ${caller.credentialId} AND revoked_at IS NULL RETURNING id, name, team_id`
          if (rows.length === 0) return
          const [{ id, name, teamId }] = rows
          yield* audit.append({
            actor: caller,
            action: "token.revoke",
            outcome: "allowed",
            teamId,
            target: { type: "api_token", id, name }
          })
        })
      )
    }, Effect.orDie)

    return {
      create,
      list,
      update,
      rotate,
      revoke,
      remove,
      revokeOwn,
      // What trust rules need, which make tokens later: the same checks, the same reach, the same row.
      stillManages,
      projectsOf,
      environmentsOf,
      reachOf,
      mint
    } as const
  })
}) {}

const levelForbids = () =>
  new ValidationFailed({ field: "mcpScopes", message: "A token that reads only cannot hold secrets:write." })

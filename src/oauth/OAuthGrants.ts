/** What people granted to clients: given on the consent page, listed, and taken back (mcp 3.4). */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import type { Caller } from "#schema/Caller.ts"
import { Forbidden, GrantNotFound, ProjectNotFound, TeamNotFound, ValidationFailed } from "#schema/Errors.ts"
import type { ProjectId, TeamId, UserId } from "#schema/Ids.ts"
import type { Scope } from "#schema/Scopes.ts"
import { Audit } from "#src/access/Audit.ts"
import * as Policy from "#src/access/Policy.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import * as Housekeeping from "#src/Housekeeping.ts"
import { AuthorizationServer, grantSeconds } from "./Provider.ts"

export interface Given {
  readonly clientId: string
  readonly clientName: string
  readonly redirectHost: string
  /** What the client asked for, and what the person allows of it. */
  readonly asked: ReadonlyArray<Scope>
  readonly scopes: ReadonlyArray<Scope>
  readonly teamIds: ReadonlyArray<TeamId>
  /** Null: all projects of the teams. */
  readonly projectIds: ReadonlyArray<ProjectId> | null
}

export interface OAuthGrant {
  readonly id: string
  readonly clientName: string
  readonly redirectHost: string
  readonly scopes: ReadonlyArray<Scope>
  readonly teams: ReadonlyArray<{ readonly id: TeamId; readonly name: string }>
  readonly projects: ReadonlyArray<string> | null
  readonly createdAt: Date
  readonly expiresAt: Date
  readonly lastUsedAt: Date | null
}

export class OAuthGrants extends Effect.Service<OAuthGrants>()("oauth/OAuthGrants", {
  scoped: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const crypto = yield* Crypto
    const audit = yield* Audit
    const { resource, storage } = yield* AuthorizationServer

    /** Only what the person may do now can be given away; it is cut again whenever it is used. */
    const give = Effect.fn("OAuthGrants.give")(
      function* (caller: Caller, given: Given) {
        const user = caller.user
        if (user === null) return yield* Effect.dieMessage("a consent needs a person")
        const scopes = given.asked.filter((scope) => given.scopes.includes(scope))
        if (scopes.length === 0) {
          return yield* new ValidationFailed({
            field: "scopes",
            message: "must have at least one of what is asked for"
          })
        }
        if (given.teamIds.length === 0) {
          return yield* new ValidationFailed({ field: "teams", message: "must have at least one team" })
        }
        const teams = given.teamIds.map((id) => Policy.teamOf(caller, id))
        if (teams.some((team) => team === undefined)) return yield* new TeamNotFound()
        const able = scopes.filter((scope) => teams.some((team) => Policy.roleAllows(team?.role ?? "viewer", scope)))
        if (able.length < scopes.length) {
          yield* audit.record({
            actor: caller,
            action: "oauth.consent",
            outcome: "denied",
            reason: Forbidden.code,
            teamId: given.teamIds[0]
          })
          return yield* new Forbidden()
        }
        if (given.projectIds !== null) {
          const rows = yield* sql`
            SELECT id FROM projects
            WHERE id = any(${given.projectIds}::uuid[]) AND team_id = any(${given.teamIds}::uuid[]) AND deleted_at IS NULL`
          if (given.projectIds.length === 0 || rows.length < new Set(given.projectIds).size) {
            return yield* new ProjectNotFound({ field: "projects" })
          }
        }

        const id = yield* crypto.uuid
        const now = yield* Clock.currentTimeMillis
        const expiresAt = new Date(now + grantSeconds * 1_000)
        const refused = given.asked.filter((scope) => !scopes.includes(scope))
        // The shape of the library's Grant model: it reads what was granted, and what was asked for and refused.
        const payload = {
          iat: Math.floor(now / 1_000),
          exp: Math.floor(expiresAt.getTime() / 1_000),
          kind: "Grant",
          accountId: user.id,
          clientId: given.clientId,
          resources: { [resource]: scopes.join(" ") },
          ...(refused.length === 0 ? {} : { rejected: { resources: { [resource]: refused.join(" ") } } })
        }
        yield* sql.withTransaction(
          Effect.gen(function* () {
            // Held to the end: a new password comes before this and is seen, or after and takes the grant back.
            const [session] = yield* sql<{ readonly revokedAt: Date | null }>`
              SELECT revoked_at FROM sessions WHERE id = ${caller.credentialId} FOR SHARE`
            if (session !== undefined && session.revokedAt !== null) return yield* new Forbidden()
            yield* sql`
              INSERT INTO oauth_grants
                (id, user_id, client_id, client_name, redirect_host, scopes, project_ids, payload, created_at, expires_at)
              VALUES (${id}, ${user.id}, ${given.clientId}, ${given.clientName}, ${given.redirectHost},
                ${scopes}::text[], ${given.projectIds}::uuid[], ${JSON.stringify(payload)}::jsonb, ${new Date(now)},
                ${expiresAt})`
            yield* sql`
              INSERT INTO oauth_grant_teams (grant_id, team_id)
              SELECT ${id}::uuid, t FROM unnest(${[...new Set(given.teamIds)]}::uuid[]) AS t`
            yield* audit.append(...(yield* storage.events(id, "oauth.consent")))
          })
        )
        return id
      },
      Effect.catchTag("SqlError", Effect.die)
    )

    /** Grants of a person that still give something, newest first. */
    const list = Effect.fn("OAuthGrants.list")(function* (userId: UserId) {
      const now = yield* DateTime.nowAsDate
      return yield* sql<OAuthGrant>`
        SELECT g.id, g.client_name, g.redirect_host, g.scopes, g.created_at, g.expires_at, g.last_used_at,
          (SELECT coalesce(json_agg(json_build_object('id', t.id, 'name', t.name) ORDER BY t.name), '[]'::json)
            FROM oauth_grant_teams o JOIN teams t ON t.id = o.team_id
            JOIN memberships m ON m.team_id = t.id AND m.user_id = g.user_id AND m.active AND m.updated_at <= g.created_at
            WHERE o.grant_id = g.id) AS teams,
          CASE WHEN g.project_ids IS NULL THEN NULL ELSE array(
            SELECT p.name FROM projects p WHERE p.id = any(g.project_ids) AND p.deleted_at IS NULL ORDER BY p.name
          ) END AS projects
        FROM oauth_grants g
        WHERE g.user_id = ${userId} AND g.revoked_at IS NULL AND g.expires_at > ${now}
        ORDER BY g.id DESC LIMIT 200`
    }, Effect.orDie)

    /** One of the person's own; whatever it gave is void from the next request on. */
    const revoke = Effect.fn("OAuthGrants.revoke")(function* (userId: UserId, grantId: string) {
      const rows = yield* Effect.orDie(sql`
        SELECT id FROM oauth_grants WHERE id = ${grantId}::uuid AND user_id = ${userId} AND revoked_at IS NULL`)
      if (rows.length === 0) return yield* new GrantNotFound()
      yield* Effect.orDie(storage.revokeGrant(grantId))
    })

    yield* Housekeeping.every("1 hour", storage.purge)

    return { give, list, revoke } as const
  })
}) {}

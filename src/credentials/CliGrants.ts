/** CLI grants: 180 days or 90 days unused, revoked by their holder; what else ends them is in `Revocation.ts` (decisions 6). */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as Redacted from "effect/Redacted"
import { CurrentCaller, type Restrictions } from "#schema/Caller.ts"
import type { CliGrant } from "#schema/DeviceApi.ts"
import { GrantNotFound } from "#schema/Errors.ts"
import type { EnvironmentId, GrantId, InstallationId, ProjectId, TeamId, UserId } from "#schema/Ids.ts"
import type { Scope } from "#schema/Scopes.ts"
import { Audit } from "#src/access/Audit.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { issue } from "./Issue.ts"
import * as Liveness from "./Liveness.ts"
import { inEachTeam } from "./TeamTrails.ts"

export interface GrantTeam {
  readonly id: TeamId
  readonly name: string
  readonly scopes: ReadonlyArray<Scope>
}

export interface NewGrant extends Restrictions {
  readonly userId: UserId
  readonly machine: boolean
  /** At least one. */
  readonly teams: ReadonlyArray<GrantTeam>
  readonly hostname: string | null
  readonly os: string | null
  readonly installationId: InstallationId | null
  readonly credentialProtection: "os_keychain" | "plaintext_local"
}

export interface MintedGrant {
  readonly id: GrantId
  readonly text: Redacted.Redacted
  readonly expiresAt: Date
}

interface GrantRow {
  readonly id: GrantId
  readonly machine: boolean
  readonly projectIds: ReadonlyArray<ProjectId> | null
  readonly environmentIds: ReadonlyArray<EnvironmentId> | null
  readonly hostname: string | null
  readonly os: string | null
  readonly installationId: InstallationId | null
  readonly credentialProtection: "os_keychain" | "plaintext_local"
  readonly createdAt: Date
  readonly expiresAt: Date
  readonly lastUsedAt: Date | null
  readonly lastUsedIp: string | null
  readonly lastUsedUserAgent: string | null
  readonly revokedAt: Date | null
  readonly teams: ReadonlyArray<GrantTeam>
}

/** Host as claimed by the client; null when it claimed nothing. */
export const hostOf = (row: { readonly hostname: string | null; readonly os: string | null }): CliGrant["host"] =>
  row.hostname === null && row.os === null
    ? null
    : {
        ...(row.hostname === null ? {} : { hostname: row.hostname }),
        ...(row.os === null ? {} : { os: row.os })
      }

const maxListed = 500

export class CliGrants extends Effect.Service<CliGrants>()("credentials/CliGrants", {
  effect: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const crypto = yield* Crypto
    const audit = yield* Audit

    const teamsOf = sql.literal(`
      (SELECT coalesce(json_agg(json_build_object('id', t.id, 'name', t.name, 'scopes', g.scopes) ORDER BY t.id), '[]'::json)
        FROM cli_grant_teams g
        JOIN teams t ON t.id = g.team_id
        JOIN memberships m ON m.team_id = g.team_id AND m.user_id = c.user_id AND m.active
        WHERE g.grant_id = c.id) AS teams`)

    /** Part of the caller's transaction: the credential exists exactly when its delivery commits. */
    const mint = Effect.fnUntraced(function* (grant: NewGrant) {
      const now = yield* Clock.currentTimeMillis
      const id = (yield* crypto.uuid) as GrantId // a fresh id gets its brand where it is made
      const { proof, text } = yield* issue(crypto, "cg")
      const expiresAt = new Date(now + Liveness.grantLife)
      yield* sql`
        INSERT INTO cli_grants (id, lookup_id, salt, hash, user_id, machine, project_ids, environment_ids, hostname, os,
          installation_id, credential_protection, created_at, expires_at)
        VALUES (${id}, ${proof.lookupId}, ${proof.salt}, ${proof.hash}, ${grant.userId}, ${grant.machine},
          ${grant.projectIds}::uuid[], ${grant.environmentIds}::uuid[], ${grant.hostname}, ${grant.os},
          ${grant.installationId}, ${grant.credentialProtection}, ${new Date(now)}, ${expiresAt})`
      yield* sql`
        INSERT INTO cli_grant_teams (grant_id, team_id, scopes)
        SELECT ${id}::uuid, (t->>'id')::uuid, array(SELECT jsonb_array_elements_text(t->'scopes'))
        FROM jsonb_array_elements(${JSON.stringify(grant.teams)}::jsonb) AS t`
      const minted: MintedGrant = { id, text, expiresAt }
      return minted
    })

    /** Grants of the signed-in person that still work, newest first. */
    const list = Effect.fn("CliGrants.list")(
      function* () {
        const { user } = yield* CurrentCaller
        const now = yield* Clock.currentTimeMillis
        const rows = yield* sql<GrantRow>`
        SELECT c.id, c.machine, c.project_ids, c.environment_ids, c.hostname, c.os, c.installation_id,
          c.credential_protection, c.created_at, c.expires_at, c.last_used_at, c.last_used_ip, c.last_used_user_agent,
          c.revoked_at, ${teamsOf}
        FROM cli_grants c
        WHERE c.user_id = ${user?.id ?? null} AND c.revoked_at IS NULL AND c.expires_at > ${new Date(now)}
        ORDER BY c.id DESC LIMIT ${maxListed}`
        return rows
          .filter((row) => Liveness.ofGrant({ ...row, teams: row.teams.length }, now) === "live")
          .map((row): CliGrant => ({
            id: row.id,
            machine: row.machine,
            teams: row.teams,
            restrictions: { projectIds: row.projectIds, environmentIds: row.environmentIds },
            host: hostOf(row),
            installationId: row.installationId,
            credentialProtection: row.credentialProtection,
            createdAt: row.createdAt.toISOString(),
            expiresAt: row.expiresAt.toISOString(),
            lastUsedAt: row.lastUsedAt?.toISOString() ?? null,
            lastUsedIp: row.lastUsedIp,
            lastUsedUserAgent: row.lastUsedUserAgent
          }))
      },
      Effect.catchTag("SqlError", Effect.die)
    )

    const revoke = Effect.fnUntraced(function* (id: string, userId: UserId | null) {
      const caller = yield* CurrentCaller
      const now = yield* Clock.currentTimeMillis
      const revoked = yield* sql<{ readonly hostname: string | null; readonly teams: ReadonlyArray<GrantTeam> }>`
        UPDATE cli_grants c SET revoked_at = ${new Date(now)}
        WHERE c.id = ${id} AND c.user_id = ${userId} AND c.revoked_at IS NULL
        RETURNING c.hostname, ${teamsOf}`
      if (revoked.length === 0) return false
      yield* audit.append(
        ...inEachTeam(
          revoked[0].teams.map((team) => team.id),
          {
            actor: caller,
            action: "grant.revoke",
            outcome: "allowed",
            target: { type: "cli_grant", id, name: revoked[0].hostname ?? "" }
          }
        )
      )
      return true
    })

    /** A grant of the signed-in person; GRANT_NOT_FOUND for another's, an unknown and a revoked one. */
    const revokeOwn = Effect.fn("CliGrants.revokeOwn")(
      function* (id: GrantId) {
        const { user } = yield* CurrentCaller
        const revoked = yield* sql.withTransaction(revoke(id, user?.id ?? null))
        if (!revoked) return yield* new GrantNotFound()
      },
      Effect.catchTag("SqlError", Effect.die)
    )

    /** The presented grant ends itself. Two at once both succeed: the grant is revoked either way. */
    const logout = Effect.fn("CliGrants.logout")(
      function* () {
        const { credentialId, user } = yield* CurrentCaller
        yield* sql.withTransaction(revoke(credentialId, user?.id ?? null))
      },
      Effect.catchTag("SqlError", Effect.die)
    )

    return { mint, list, revokeOwn, logout } as const
  })
}) {}

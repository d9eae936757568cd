/**
 * CLI grants: they end after 180 days, after 90 days without use, or when their holder revokes them. `Revocation.ts`
 * has the other ends.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { CurrentCaller, type Restrictions } from "#schema/Caller.ts"
import { type CliGrant, CredentialProtection } from "#schema/DeviceApi.ts"
import { GrantNotFound } from "#schema/Errors.ts"
import {
  EnvironmentIdOut,
  type GrantId,
  GrantIdOut,
  InstallationId,
  ProjectIdOut,
  TeamIdOut,
  type UserId
} from "#schema/Ids.ts"
import { Scope } from "#schema/Scopes.ts"
import { Audit } from "#src/trail/Audit.ts"
import * as RowJournal from "#src/rows/RowJournal.ts"
import { RowSeal } from "#src/rows/RowSeal.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { methods } from "#src/Methods.ts"
import * as Rows from "#src/database/Rows.ts"
import { inEachTeam } from "./Accounts.ts"
import * as Liveness from "./Liveness.ts"
import * as TokenText from "./TokenText.ts"

export interface NewGrant extends Restrictions {
  readonly userId: UserId
  readonly machine: boolean
  /** Time of the approver's last proof of a second factor; null: never. */
  readonly factorAt: Date | null
  /** Never empty. */
  readonly teams: ReadonlyArray<typeof GrantTeamRow.Type>
  readonly hostname: string | null
  readonly os: string | null
  readonly installationId: InstallationId | null
  readonly credentialProtection: "os_keychain" | "plaintext_local"
}

const GrantTeamRow = Schema.Struct({ id: TeamIdOut, name: Schema.String, scopes: Schema.Array(Scope) })

const GrantRow = Schema.Struct({
  id: GrantIdOut,
  machine: Schema.Boolean,
  projectIds: Schema.NullOr(Schema.Array(ProjectIdOut)),
  environmentIds: Schema.NullOr(Schema.Array(EnvironmentIdOut)),
  hostname: Schema.NullOr(Schema.String),
  os: Schema.NullOr(Schema.String),
  installationId: Schema.NullOr(Schema.typeSchema(InstallationId)),
  credentialProtection: CredentialProtection,
  createdAt: Schema.DateFromSelf,
  expiresAt: Schema.DateFromSelf,
  lastUsedAt: Schema.NullOr(Schema.DateFromSelf),
  lastUsedIp: Schema.NullOr(Schema.String),
  lastUsedUserAgent: Schema.NullOr(Schema.String),
  revokedAt: Schema.NullOr(Schema.DateFromSelf),
  teams: Schema.Array(GrantTeamRow)
})
type GrantRow = typeof GrantRow.Type

/** The host as the client reports it; null when it reports none. */
export const hostOf = (row: { readonly hostname: string | null; readonly os: string | null }): CliGrant["host"] =>
  row.hostname === null && row.os === null
    ? null
    : {
        ...(row.hostname === null ? {} : { hostname: row.hostname }),
        ...(row.os === null ? {} : { os: row.os })
      }

const maxListed = 500

const services = Effect.all({ sql: SqlClient.SqlClient, crypto: Crypto, audit: Audit, rowSeal: RowSeal })
type Needs = Effect.Effect.Success<typeof services>

const teamsOf = `
  (SELECT coalesce(json_agg(json_build_object('id', t.id, 'name', t.name, 'scopes', g.scopes) ORDER BY t.id), '[]'::json)
    FROM cli_grant_teams g
    JOIN teams t ON t.id = g.team_id
    JOIN memberships m ON m.team_id = g.team_id AND m.user_id = c.user_id AND m.active
    WHERE g.grant_id = c.id) AS teams`

/** Part of the caller's transaction: the credential exists only if its delivery commits. */
const mint = Effect.fnUntraced(function* (needs: Needs, grant: NewGrant) {
  const { crypto, rowSeal, sql } = needs
  const now = yield* Clock.currentTimeMillis
  const id = GrantIdOut.make(yield* crypto.uuid)
  const { proof, text } = yield* TokenText.issue(needs, "cg")
  const expiresAt = new Date(now + Liveness.grantLife)
  const { credentialProtection, environmentIds, factorAt, hostname, installationId, machine, os, projectIds, userId } =
    grant
  const { hash, lookupId, salt } = proof
  const row = yield* rowSeal.values(
    "cli_grants",
    { id, lookupId, hash, userId, machine, projectIds, environmentIds, createdAt: new Date(now), expiresAt, factorAt },
    { salt, hostname, os, installation_id: installationId, credential_protection: credentialProtection }
  )
  yield* Rows.run(sql`INSERT INTO cli_grants ${row}`)
  for (const { id: teamId, scopes } of grant.teams) {
    yield* Rows.run(sql`
      INSERT INTO cli_grant_teams ${yield* rowSeal.values("cli_grant_teams", { grantId: id, teamId, scopes })}`)
  }
  return { id, text, expiresAt }
})

const recordOf = (row: GrantRow): CliGrant => ({
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
})

/** Live grants of the signed-in person, newest first. */
const list = Effect.fn("CliGrants.list")(function* ({ sql }: Needs) {
  const { user } = yield* CurrentCaller
  const now = yield* Clock.currentTimeMillis
  const rows = yield* Rows.findAll(
    GrantRow,
    sql`
      SELECT c.id, c.machine, c.project_ids, c.environment_ids, c.hostname, c.os, c.installation_id,
        c.credential_protection, c.created_at, c.expires_at, c.last_used_at, c.last_used_ip, c.last_used_user_agent,
        c.revoked_at, ${sql.literal(teamsOf)}
      FROM cli_grants c
      WHERE c.user_id = ${user?.id ?? null} AND c.revoked_at IS NULL AND c.expires_at > ${new Date(now)}
      ORDER BY c.id DESC LIMIT ${maxListed}`
  )
  return rows.filter((row) => Liveness.ofGrant({ ...row, teams: row.teams.length }, now) === "live").map(recordOf)
})

const RevokedRow = Schema.Struct({ hostname: Schema.NullOr(Schema.String), teams: Schema.Array(GrantTeamRow) })

/** Returns whether the caller had such a live grant. */
const revoke = function* ({ audit, sql }: Needs, id: string) {
  const caller = yield* CurrentCaller
  const now = yield* Clock.currentTimeMillis
  const row = yield* Rows.findOne(
    RevokedRow,
    RowJournal.noteEnds(sql, "cli_grants")`
      UPDATE cli_grants c SET revoked_at = ${new Date(now)}, mac = ''
      WHERE c.id = ${id} AND c.user_id = ${caller.user?.id ?? null} AND c.revoked_at IS NULL
      RETURNING c.id, c.hostname, ${sql.literal(teamsOf)}`
  )
  if (row === undefined) return false
  const target = { type: "cli_grant", id, name: row.hostname ?? "" } as const
  yield* audit.append(...inEachTeam(row.teams, { actor: caller, action: "grant.revoke", outcome: "allowed", target }))
  return true
}

/** Revokes a grant of the signed-in person. GRANT_NOT_FOUND for another person's, an unknown, and a revoked one. */
const revokeOwn = Effect.fn("CliGrants.revokeOwn")(function* (needs: Needs, id: GrantId) {
  if (!(yield* Rows.transaction(needs.sql, () => revoke(needs, id)))) return yield* new GrantNotFound()
})

/** Revokes the presented grant. Two simultaneous calls both succeed. */
const logout = Effect.fn("CliGrants.logout")(function* (needs: Needs) {
  const { credentialId } = yield* CurrentCaller
  yield* Rows.transaction(needs.sql, () => revoke(needs, credentialId))
})

export class CliGrants extends Effect.Service<CliGrants>()("credentials/CliGrants", {
  effect: Effect.map(services, (needs) => methods(needs, { mint, list, revokeOwn, logout }))
}) {}

/** Consents of people to OAuth clients: given on the consent page, listed, and revoked. */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import type * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { type Caller, CurrentCaller, type Restrictions } from "#schema/Caller.ts"
import {
  EnvironmentNotFound,
  Forbidden,
  GrantNotFound,
  ProjectNotFound,
  StepUpRequired,
  TeamNotFound,
  ValidationFailed
} from "#schema/Errors.ts"
import { EnvironmentIdOut, ProjectIdOut, type TeamId, TeamIdOut, type UserId } from "#schema/Ids.ts"
import { Scope } from "#schema/Scopes.ts"
import { Audit } from "#src/trail/Audit.ts"
import * as Actions from "#src/access/Actions.ts"
import * as Policy from "#src/access/Policy.ts"
import { RowSeal } from "#src/rows/RowSeal.ts"
import { AppConfig } from "#src/AppConfig.ts"
import { findDevice, hasEnded } from "#src/credentials/Accounts.ts"
import { beyondTeams } from "#src/credentials/TokenRows.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { methods } from "#src/Methods.ts"
import * as Rows from "#src/database/Rows.ts"
import { isDocumented } from "./Clients.ts"
import * as Store from "./Store.ts"

/** Longest life of a grant and its family of refresh tokens, in seconds. */
export const grantSeconds = 30 * 86_400

/** `projectIds`, `environmentIds`: null for all of the teams'; with both, the environments in both. */
interface NewOAuthGrant extends Restrictions {
  readonly clientId: string
  readonly clientName: string
  readonly redirectHost: string
  /** Scopes that the client requests; `scopes` has those that the person allows. */
  readonly requestedScopes: ReadonlyArray<Scope>
  readonly scopes: ReadonlyArray<Scope>
  readonly teamIds: ReadonlyArray<TeamId>
  /** Known device of the decision; null for an unknown browser. */
  readonly deviceId: string | null
  /** Keeps earlier grants from this browser: the client runs on another machine of the person too. */
  readonly another: boolean
}

const OAuthGrantRow = Schema.Struct({
  id: Schema.String,
  clientId: Schema.String,
  clientName: Schema.String,
  redirectHost: Schema.String,
  deviceId: Schema.NullOr(Schema.String),
  scopes: Schema.Array(Scope),
  teams: Schema.Array(Schema.Struct({ id: TeamIdOut, name: Schema.String })),
  /** Names; null: not restricted. */
  projects: Schema.NullOr(Schema.Array(Schema.String)),
  /** Each with the slug of its project; null: not restricted. */
  environments: Schema.NullOr(Schema.Array(Schema.String)),
  projectIds: Schema.NullOr(Schema.Array(ProjectIdOut)),
  environmentIds: Schema.NullOr(Schema.Array(EnvironmentIdOut)),
  createdAt: Schema.DateFromSelf,
  expiresAt: Schema.DateFromSelf,
  lastUsedAt: Schema.NullOr(Schema.DateFromSelf)
})
export type OAuthGrant = typeof OAuthGrantRow.Type

const services = Effect.all({
  sql: SqlClient.SqlClient,
  crypto: Crypto,
  audit: Audit,
  rowSeal: RowSeal,
  resource: Effect.map(AppConfig, ({ baseUrl }) => `${baseUrl}/mcp`)
})
type Needs = Effect.Effect.Success<typeof services>

const currentPerson = Effect.flatMap(CurrentCaller, ({ user }) =>
  user === null ? Effect.dieMessage("a connection belongs to a person") : Effect.succeed(user)
)

/** A person can grant only scopes of their roles; each use checks them again. */
const checkScopes = Effect.fnUntraced(function* (
  { audit }: Pick<Needs, "audit">,
  caller: Caller,
  { requestedScopes, scopes, teamIds }: NewOAuthGrant
) {
  const chosen = requestedScopes.filter((scope) => scopes.includes(scope))
  if (chosen.length === 0) {
    return yield* new ValidationFailed({
      field: "scopes",
      message: "must have at least one of the scopes that the client requests"
    })
  }
  if (teamIds.length === 0) {
    return yield* new ValidationFailed({ field: "teams", message: "must have at least one team" })
  }
  const teams = teamIds.map((id) => Policy.teamOf(caller, id))
  if (teams.some((team) => team === undefined)) return yield* new TeamNotFound()
  const staleTeam = teams.find((team) => team?.factorIsOld)
  if (staleTeam !== undefined) {
    yield* audit.record({
      actor: caller,
      action: "oauth.consent",
      outcome: "denied",
      reason: StepUpRequired.code,
      teamId: staleTeam.id
    })
    return yield* new StepUpRequired()
  }
  const allowed = chosen.filter((scope) => teams.some((team) => Actions.byRole[team?.role ?? "viewer"].has(scope)))
  if (allowed.length < chosen.length) {
    yield* audit.record({
      actor: caller,
      action: "oauth.consent",
      outcome: "denied",
      reason: Forbidden.code,
      teamId: teamIds[0]
    })
    return yield* new Forbidden()
  }
  return chosen
})

/** The payload of a grant in the shape of the library's Grant model, with granted and rejected scopes. */
const payloadOf = (
  { clientId, requestedScopes }: NewOAuthGrant,
  details: {
    readonly userId: UserId
    readonly resource: string
    readonly scopes: ReadonlyArray<Scope>
    readonly now: number
  }
) => {
  const rejected = requestedScopes.filter((scope) => !details.scopes.includes(scope))
  const iat = Math.floor(details.now / 1_000)
  return {
    iat,
    exp: iat + grantSeconds,
    kind: "Grant",
    accountId: details.userId,
    clientId,
    resources: { [details.resource]: details.scopes.join(" ") },
    ...(rejected.length === 0 ? {} : { rejected: { resources: { [details.resource]: rejected.join(" ") } } })
  }
}

const GrantIdRow = Schema.Struct({ id: Schema.String, deviceId: Schema.NullOr(Schema.String) })

/** Most grants of one person to one client with a metadata document. */
const grantsPerClient = 10

/**
 * Whether a new grant replaces an earlier one. A registered client has its own id on each machine. A client with a
 * metadata document has one id everywhere, so its grant belongs to the browser of the consent.
 */
export const isReplaced = (
  { clientId, deviceId }: Pick<NewOAuthGrant, "clientId" | "deviceId">,
  earlier: Pick<NewOAuthGrant, "deviceId">
): boolean => !isDocumented(clientId) || earlier.deviceId === deviceId

/**
 * Ends the person's earlier grants to this client on this machine, with their refresh tokens. Locked, so that of two
 * simultaneous consents one replaces the other.
 */
const replaceEarlier = Effect.fnUntraced(function* (needs: Needs, userId: UserId, grant: NewOAuthGrant) {
  const { sql } = needs
  const { another, clientId } = grant
  yield* sql`SELECT pg_advisory_xact_lock(hashtextextended(${`oauth-grant ${userId} ${clientId}`}, 0))`
  const earlier = yield* Rows.findAll(
    GrantIdRow,
    sql`
      SELECT id, device_id FROM oauth_grants
      WHERE user_id = ${userId} AND client_id = ${clientId} AND revoked_at IS NULL ORDER BY id DESC`
  )
  const keepsAll = another && isDocumented(clientId)
  const remaining = keepsAll ? earlier : earlier.filter((one) => !isReplaced(grant, one))
  // The oldest grants end, so that repeated consents leave a bounded number.
  const keep = new Set(remaining.slice(0, grantsPerClient - 1))
  for (const one of earlier) if (!keep.has(one)) yield* Store.revoke(needs, one.id)
})

/** Id of the person's known device; null for an unknown browser. */
const deviceOf = Effect.fnUntraced(function* (needs: Needs, cookie: Redacted.Redacted | null) {
  const { id } = yield* currentPerson
  return (yield* findDevice(needs, cookie, id))?.id ?? null
})

const give = Effect.fn("OAuthGrants.give")(function* (needs: Needs, grant: NewOAuthGrant) {
  const { audit, crypto, resource, rowSeal, sql } = needs
  const caller = yield* CurrentCaller
  const user = yield* currentPerson
  const scopes = yield* checkScopes(needs, caller, grant)
  const unreachable = yield* beyondTeams(needs, caller, grant.teamIds, grant)
  if (unreachable === "projects") return yield* new ProjectNotFound({ field: "projects" })
  if (unreachable === "environments") return yield* new EnvironmentNotFound({ field: "environments" })
  const id = yield* crypto.uuid
  const now = yield* Clock.currentTimeMillis
  const payload = payloadOf(grant, { userId: user.id, resource, scopes, now })
  yield* Rows.transaction(sql, function* () {
    // Locked to the end: a new password either precedes this check, or waits and then revokes the grant.
    if (yield* hasEnded(needs, caller.credentialId)) return yield* new Forbidden()
    yield* replaceEarlier(needs, user.id, grant)
    const { clientId, clientName, deviceId, environmentIds, projectIds, redirectHost } = grant
    const createdAt = new Date(now)
    const expiresAt = new Date(now + grantSeconds * 1_000)
    const row = yield* rowSeal.values(
      "oauth_grants",
      {
        id,
        userId: user.id,
        clientId,
        scopes,
        projectIds,
        environmentIds,
        payload,
        createdAt,
        expiresAt,
        factorAt: caller.factorAt
      },
      { client_name: clientName, redirect_host: redirectHost, device_id: deviceId }
    )
    yield* sql`INSERT INTO oauth_grants ${row}`
    for (const teamId of new Set(grant.teamIds)) {
      yield* sql`INSERT INTO oauth_grant_teams ${yield* rowSeal.values("oauth_grant_teams", { grantId: id, teamId })}`
    }
    yield* audit.append(...(yield* Store.events(needs, id, "oauth.consent")))
  })
  return { grantId: id, userId: user.id }
})

/** Grants in force of the signed-in person, newest first. */
const list = Effect.fn("OAuthGrants.list")(function* ({ sql }: Needs) {
  const { id } = yield* currentPerson
  const now = yield* DateTime.nowAsDate
  return yield* Rows.findAll(
    OAuthGrantRow,
    sql`
      SELECT g.id, g.client_id, g.project_ids, g.environment_ids, g.client_name, g.redirect_host, g.device_id, g.scopes, g.created_at, g.expires_at, g.last_used_at,
        (SELECT coalesce(json_agg(json_build_object('id', t.id, 'name', t.name) ORDER BY t.name), '[]'::json)
          FROM oauth_grant_teams o JOIN teams t ON t.id = o.team_id
          JOIN memberships m ON m.team_id = t.id AND ${sql.literal(Store.membershipUnchanged)}
          WHERE o.grant_id = g.id) AS teams,
        CASE WHEN g.project_ids IS NULL THEN NULL ELSE array(
          SELECT p.name FROM projects p WHERE p.id = any(g.project_ids) AND p.deleted_at IS NULL ORDER BY p.name
        ) END AS projects,
        CASE WHEN g.environment_ids IS NULL THEN NULL ELSE array(
          SELECT p.slug || ' / ' || e.slug FROM environments e
          JOIN projects p ON p.id = e.project_id AND p.deleted_at IS NULL
          WHERE e.id = any(g.environment_ids) AND e.deleted_at IS NULL ORDER BY p.slug, e.position, e.id
        ) END AS environments
      FROM oauth_grants g
      WHERE g.user_id = ${id} AND g.revoked_at IS NULL AND g.expires_at > ${now}
      ORDER BY g.id DESC LIMIT 200`
  )
})

/** Revokes a grant of the signed-in person; its credentials fail from the next request. */
const revoke = Effect.fn("OAuthGrants.revoke")(function* (needs: Needs, grantId: string) {
  const { id } = yield* currentPerson
  const isOwn = yield* Rows.exists(needs.sql`
    SELECT id FROM oauth_grants WHERE id = ${grantId}::uuid AND user_id = ${id} AND revoked_at IS NULL`)
  if (!isOwn) return yield* new GrantNotFound()
  yield* Store.revoke(needs, grantId)
})

export class OAuthGrants extends Effect.Service<OAuthGrants>()("oauth/OAuthGrants", {
  effect: Effect.map(services, (needs) => methods(needs, { deviceOf, give, list, revoke }))
}) {}

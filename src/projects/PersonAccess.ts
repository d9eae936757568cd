/** Access of one person in a team: the way, the end, and the last use (docs/contract/access.md). */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { CurrentCaller } from "#schema/Caller.ts"
import { MemberNotFound } from "#schema/Errors.ts"
import { readWays } from "#schema/ExposureWays.ts"
import { EnvironmentIdOut, ProjectIdOut, type TeamId, type UserId, UserIdOut } from "#schema/Ids.ts"
import type { PersonAccess as PersonAccessRecord, ReachedEnvironment } from "#schema/PersonAccessApi.ts"
import { type GrantLevel, Readers, Role, Visibility } from "#schema/Scopes.ts"
import { Access } from "#src/access/Access.ts"
import * as Policy from "#src/access/Policy.ts"
import { Revocation } from "#src/credentials/Revocation.ts"
import { methods } from "#src/Methods.ts"
import * as Rows from "#src/database/Rows.ts"
import * as AccessGrants from "./AccessGrants.ts"
import * as MemberAuthenticators from "./MemberAuthenticators.ts"
import { Members } from "./Members.ts"

const services = Effect.all({ access: Access, members: Members, revocation: Revocation, sql: SqlClient.SqlClient })
type Needs = Effect.Effect.Success<typeof services>

/** Limits of one response. */
const maxEnvironments = 1_000
const maxCredentials = 1_000

const EnvironmentRow = Schema.Struct({
  projectId: ProjectIdOut,
  project: Schema.String,
  visibility: Visibility,
  environmentId: EnvironmentIdOut,
  environment: Schema.String,
  protected: Schema.Boolean,
  readers: Readers,
  lastReadAt: Schema.NullOr(Rows.Iso)
})
type EnvironmentRow = typeof EnvironmentRow.Type

/** Environments of the team, with the person's last read of a value there: by a session, a login or an agent. */
const environmentsOf = ({ sql }: Needs, teamId: TeamId, userId: UserId) =>
  Rows.findAll(
    EnvironmentRow,
    sql`
      WITH read AS (
        SELECT r.environment_id, max(r.last_at) AS at FROM exposure_reads r
        LEFT JOIN exposure_credentials o ON o.id = r.actor_id AND r.actor_type IN ('cli_grant', 'oauth_client')
        WHERE r.project_id IN (SELECT id FROM projects WHERE team_id = ${teamId}) AND r.way = ANY(${readWays}::text[])
          AND ((r.actor_type = 'user' AND r.actor_id = ${userId}) OR (o.owner_type = 'user' AND o.owner_id = ${userId}))
        GROUP BY r.environment_id
      )
      SELECT p.id AS project_id, p.name AS project, p.visibility, e.id AS environment_id, e.slug AS environment,
        e.protected, e.readers, read.at AS last_read_at
      FROM environments e JOIN projects p ON p.id = e.project_id AND p.deleted_at IS NULL
      LEFT JOIN read ON read.environment_id = e.id
      WHERE e.team_id = ${teamId} AND e.deleted_at IS NULL ORDER BY p.name, p.id, e.position, e.id LIMIT ${maxEnvironments}`
  )

const CredentialRow = Schema.Struct({
  type: Schema.Literal("session", "cli_grant", "oauth_grant", "api_token", "machine_rule"),
  id: Schema.String,
  name: Schema.String,
  expiresAt: Schema.NullOr(Rows.Iso),
  lastUsedAt: Schema.NullOr(Rows.Iso)
})
const OwnedRow = Schema.Struct({ ...CredentialRow.fields, userId: UserIdOut, email: Schema.String })

/** Working credentials of a person, and tokens and rules that they made. Null: of all members. */
const credentialsOf = ({ sql }: Needs, teamId: TeamId, userId: UserId | null, now: Date) =>
  Rows.findAll(
    OwnedRow,
    sql`
      SELECT c.type, c.id, c.name, c.expires_at, c.last_used_at, u.id AS user_id, u.email FROM (
        SELECT 'session' AS type, s.user_id, s.id, CASE WHEN s.manages IS NULL THEN '' ELSE 'management' END AS name, s.expires_at,
          s.last_used_at FROM sessions s
        WHERE s.revoked_at IS NULL AND coalesce(s.manages, ${teamId}) = ${teamId}
          AND NOT coalesce(s.closed_teams @> ARRAY[${teamId}]::uuid[], false)
        UNION ALL
        SELECT 'cli_grant', g.user_id, g.id, coalesce(g.hostname, ''), g.expires_at, g.last_used_at FROM cli_grants g
        JOIN cli_grant_teams t ON t.grant_id = g.id AND t.team_id = ${teamId}
        WHERE g.revoked_at IS NULL
        UNION ALL
        SELECT 'oauth_grant', g.user_id, g.id, g.client_name, g.expires_at, g.last_used_at FROM oauth_grants g
        JOIN oauth_grant_teams t ON t.grant_id = g.id AND t.team_id = ${teamId}
        JOIN memberships m ON m.team_id = t.team_id AND m.user_id = g.user_id AND m.active AND m.updated_at <= g.created_at
        WHERE g.revoked_at IS NULL
        UNION ALL
        SELECT 'api_token', a.created_by, a.id, a.name, a.expires_at, a.last_used_at FROM api_tokens a
        WHERE a.team_id = ${teamId} AND a.revoked_at IS NULL
        UNION ALL
        SELECT 'machine_rule', r.created_by, r.id, r.name, NULL, r.last_used_at FROM machine_rules r
        WHERE r.team_id = ${teamId} AND r.revoked_at IS NULL
      ) AS c
      JOIN memberships m ON m.team_id = ${teamId} AND m.user_id = c.user_id
      JOIN users u ON u.id = c.user_id
      WHERE (c.expires_at IS NULL OR c.expires_at > ${now}) AND (${userId}::uuid IS NULL OR c.user_id = ${userId})
      ORDER BY c.type, c.last_used_at DESC NULLS LAST, c.id LIMIT ${maxCredentials}`
  )

type Grants = Effect.Effect.Success<ReturnType<typeof AccessGrants.ofPerson>>

/** The highest level by role and grants at one environment. */
const reachOf = (
  { environment, environmentId, lastReadAt, project, projectId, ...at }: EnvironmentRow,
  byRole: GrantLevel | undefined,
  grants: Grants
): ReadonlyArray<ReachedEnvironment> => {
  const place = { projectId, project, environmentId, environment, lastReadAt }
  const decide = at.readers === "granted" || at.visibility === "granted"
  const best = Policy.highest(
    grants.filter(
      (grant) =>
        grant.projectId === projectId && (grant.environmentId === null || grant.environmentId === environmentId)
    )
  )
  if (decide && best !== undefined && (byRole === undefined || Policy.isAbove(best.level, byRole))) {
    return [{ ...place, level: best.level, by: "grant", until: best.until }]
  }
  return byRole === undefined ? [] : [{ ...place, level: byRole, by: "role", until: null }]
}

const isRole = Schema.is(Role)

/** For owners and admins. */
const show = Effect.fn("PersonAccess.show")(function* (needs: Needs, teamId: TeamId, userId: UserId) {
  const permit = yield* needs.access.team("members:manage", teamId, { audit: "access.list" })
  const member = (yield* needs.members.list(teamId)).find((one) => one.userId === userId)
  if (member === undefined) return yield* new MemberNotFound()
  const now = new Date(yield* Clock.currentTimeMillis)
  const grants = yield* AccessGrants.ofPerson(needs.sql, teamId, userId, now)
  const team = Policy.teamOf(permit.caller, teamId)
  const rows = member.active && team !== undefined ? yield* environmentsOf(needs, teamId, userId) : []
  const self = (yield* CurrentCaller).user?.id
  const record: PersonAccessRecord = {
    member,
    environments: rows.flatMap((row) =>
      reachOf(
        row,
        team === undefined || !isRole(member.role) ? undefined : Policy.levelByRole(member.role, team, row),
        grants
      )
    ),
    grants,
    credentials: (yield* credentialsOf(needs, teamId, userId, now)).map(
      ({ expiresAt, id, lastUsedAt, name, type }) => ({ type, id, name, expiresAt, lastUsedAt })
    ),
    authenticators: yield* MemberAuthenticators.listOf(needs, teamId, userId),
    endsSessions: self !== undefined && (yield* needs.revocation.manages(self, userId))
  }
  return record
})

/** All working credentials of the team, each with its person. For owners and admins; at most 1,000. */
const everything = Effect.fn("PersonAccess.everything")(function* (needs: Needs, teamId: TeamId) {
  yield* needs.access.team("members:manage", teamId, { audit: "access.list" })
  return yield* credentialsOf(needs, teamId, null, new Date(yield* Clock.currentTimeMillis))
})

export class PersonAccess extends Effect.Service<PersonAccess>()("projects/PersonAccess", {
  effect: Effect.map(services, (needs) => methods(needs, { show, everything }))
}) {}

/** Statements about grants that both the consent page and the authorization server's storage need. */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { TeamIdOut, UserIdOut } from "#schema/Ids.ts"
import type { Audit, AuditEvent } from "#src/access/Audit.ts"
import * as Rows from "#src/Rows.ts"

export interface GrantNeeds {
  readonly sql: SqlClient.SqlClient
  readonly audit: Audit
}

/**
 * A membership carries a grant only while it is unchanged since the consent: see the statement for access tokens in
 * `src/credentials/Authenticate.ts`.
 */
export const membershipUnchanged = "m.user_id = g.user_id AND m.active AND m.updated_at <= g.created_at"

const GrantTeamRow = Schema.Struct({
  userId: UserIdOut,
  email: Schema.String,
  clientName: Schema.String,
  teamId: Schema.NullOr(TeamIdOut)
})

/** One audit entry for each team that the grant reaches. */
export const events = Effect.fnUntraced(function* (
  { sql }: Pick<GrantNeeds, "sql">,
  grantId: string,
  action: AuditEvent["action"]
) {
  const rows = yield* Rows.findAll(
    GrantTeamRow,
    sql`
      SELECT g.user_id, u.email, g.client_name, o.team_id
      FROM oauth_grants g JOIN users u ON u.id = g.user_id LEFT JOIN oauth_grant_teams o ON o.grant_id = g.id
      WHERE g.id = ${grantId}`
  )
  return rows.map((row): AuditEvent => ({
    actor: { userId: row.userId, email: row.email },
    action,
    outcome: "allowed",
    teamId: row.teamId,
    target: { type: "oauth_grant", id: grantId, name: row.clientName }
  }))
})

/** Everything that the grant gave is void from the next request on, on every process. */
export const revoke = Effect.fnUntraced(function* (needs: GrantNeeds, grantId: string) {
  const { audit, sql } = needs
  const at = yield* DateTime.nowAsDate
  yield* sql.withTransaction(
    Effect.gen(function* () {
      const rows = yield* sql`
        UPDATE oauth_grants SET revoked_at = ${at} WHERE id = ${grantId} AND revoked_at IS NULL RETURNING id`
      if (rows.length > 0) yield* audit.append(...(yield* events(needs, grantId, "oauth.revoke")))
    })
  )
})

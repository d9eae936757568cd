/**
 * Ends one credential of a member, for the people who manage them: a session, a login, an agent, a token or a trust
 * rule.
 */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { Caller } from "#schema/Caller.ts"
import { Forbidden } from "#schema/Errors.ts"
import type { TeamId, UserId } from "#schema/Ids.ts"
import type { AuditEvent } from "#src/trail/Entry.ts"
import * as Rows from "#src/database/Rows.ts"
import { endSessions } from "./Accounts.ts"
import { endedEvents, type Revocation, revocationEvents } from "./Revocation.ts"

const KindRow = Schema.Struct({
  type: Schema.Literal("session", "cli_grant", "oauth_grant", "token"),
  name: Schema.String,
  /** True for a management session of this team: the team may end it. */
  ofTeam: Schema.Boolean
})

interface Ending {
  readonly actor: Caller
  /** The manager who ends it. */
  readonly by: UserId
  readonly teamId: TeamId
  readonly userId: UserId
}

/**
 * Part of the caller's transaction. Returns the entries for the trail; none when the credential does not exist, is
 * another person's, or has ended. A session reaches all teams of the person: only a manager in all of those teams ends
 * it.
 */
export const endOneOf = Effect.fnUntraced(function* (
  { revocation, sql }: { readonly sql: SqlClient.SqlClient; readonly revocation: Revocation },
  { actor, by, teamId, userId }: Ending,
  id: string
) {
  const row = yield* Rows.findOne(
    KindRow,
    sql`
      SELECT 'session' AS type, '' AS name, coalesce(manages = ${teamId}, false) AS of_team FROM sessions
      WHERE id = ${id}::uuid AND user_id = ${userId} AND revoked_at IS NULL AND coalesce(manages, ${teamId}) = ${teamId}
      UNION ALL SELECT 'cli_grant', coalesce(g.hostname, ''), true
      FROM cli_grants g JOIN cli_grant_teams t ON t.grant_id = g.id AND t.team_id = ${teamId}
      WHERE g.id = ${id}::uuid AND g.user_id = ${userId} AND g.revoked_at IS NULL
      UNION ALL SELECT 'oauth_grant', g.client_name, true
      FROM oauth_grants g JOIN oauth_grant_teams t ON t.grant_id = g.id AND t.team_id = ${teamId}
      WHERE g.id = ${id}::uuid AND g.user_id = ${userId} AND g.revoked_at IS NULL
      UNION ALL SELECT 'token', '', true FROM api_tokens
      WHERE id = ${id}::uuid AND team_id = ${teamId} AND created_by = ${userId} AND revoked_at IS NULL
      UNION ALL SELECT 'token', '', true FROM machine_rules
      WHERE id = ${id}::uuid AND team_id = ${teamId} AND created_by = ${userId} AND revoked_at IS NULL
      LIMIT 1`
  )
  const none: ReadonlyArray<AuditEvent> = []
  if (row === undefined) return none
  const { type } = row
  if (type === "cli_grant" || type === "oauth_grant") {
    yield* revocation.loginInTeam(id, teamId)
    // The login keeps its other teams; this team's trail records the loss of this one.
    return endedEvents({ actor, teamId }, [{ type, id, name: row.name }])
  }
  if (type === "token") return revocationEvents(actor, yield* revocation.tokenInTeam(id, teamId))
  if (!row.ofTeam && !(yield* revocation.manages(by, userId))) {
    return yield* new Forbidden({
      message: "You can sign a person out only when you manage them in all of their teams."
    })
  }
  const ended = yield* endSessions({ sql }, sql`id = ${id}::uuid`)
  return ended.map((id): AuditEvent => ({
    actor,
    teamId,
    action: "session.end",
    outcome: "allowed",
    target: { type: "session", id, name: "1" }
  }))
})

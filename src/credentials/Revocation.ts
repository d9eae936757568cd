/**
 * Revocations when a person loses a team, a role or a password. Every method runs in the caller's transaction. Callers
 * use one order (links, sessions, tokens, grants), so that no two transactions deadlock.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import type * as Statement from "@effect/sql/Statement"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import { RuleIdOut, type TeamId, TeamIdOut, TokenIdOut, type UserId } from "#schema/Ids.ts"
import type { AuditEvent } from "#src/trail/Entry.ts"
import * as RowJournal from "#src/rows/RowJournal.ts"
import { RowSeal } from "#src/rows/RowSeal.ts"
import { methods } from "#src/Methods.ts"
import * as Rows from "#src/database/Rows.ts"
import * as Accounts from "./Accounts.ts"
import { creatorGrace } from "./Liveness.ts"

interface Needs {
  readonly sql: SqlClient.SqlClient
  readonly rowSeal: RowSeal
}

const RevokedRow = Schema.Struct({
  type: Schema.Literal("api_token", "machine_rule"),
  id: Schema.Union(TokenIdOut, RuleIdOut),
  name: Schema.String,
  teamId: TeamIdOut
})
export type RevokedToken = typeof RevokedRow.Type

const EndedRow = Schema.Struct({
  type: Schema.Literal("cli_grant", "oauth_grant"),
  id: Schema.String,
  name: Schema.String
})

export type EndedLogin = typeof EndedRow.Type

/** One entry per CLI login and connected agent that ended with its last team. */
export const endedEvents = (
  by: Pick<AuditEvent, "actor" | "teamId">,
  ended: ReadonlyArray<typeof EndedRow.Type>
): ReadonlyArray<AuditEvent> =>
  ended.map((target) => ({
    ...by,
    action: target.type === "cli_grant" ? "grant.revoke" : "oauth.revoke",
    outcome: "allowed",
    target
  }))

/** One entry per revoked token and trust rule. */
export const revocationEvents = (
  actor: AuditEvent["actor"],
  tokens: ReadonlyArray<RevokedToken>
): ReadonlyArray<AuditEvent> =>
  tokens.map(({ id, name, teamId, type }) => ({
    actor,
    action: type === "api_token" ? "token.revoke" : "machine.rule_revoke",
    outcome: "allowed",
    teamId,
    target: { type, id, name }
  }))

/**
 * Revokes trust rules and API tokens. Rules come first: an exchange under way locks its rule, so that the second
 * statement sees its token.
 */
const revoke = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  where: { readonly rules: Statement.Fragment; readonly tokens: Statement.Fragment }
) {
  const now = yield* DateTime.nowAsDate
  const rules = yield* Rows.findAll(
    RevokedRow,
    RowJournal.noteEnds(sql, "machine_rules")`
      UPDATE machine_rules SET revoked_at = ${now}, mac = '' WHERE ${where.rules} AND revoked_at IS NULL
      RETURNING 'machine_rule' AS type, id, name, team_id`
  )
  const tokens = yield* Rows.findAll(
    RevokedRow,
    RowJournal.noteEnds(sql, "api_tokens")`
      UPDATE api_tokens SET revoked_at = ${now}, mac = '' WHERE ${where.tokens} AND revoked_at IS NULL
      RETURNING 'api_token' AS type, id, name, team_id`
  )
  return [...rules, ...tokens]
})

/** API tokens that the person created, and trust rules, which make such tokens; in one team or (null) everywhere. */
const tokensOf = ({ sql }: Needs, userId: UserId, teamId: TeamId | null) => {
  const where = sql`created_by = ${userId} AND (${teamId}::uuid IS NULL OR team_id = ${teamId})`
  return revoke(sql, { rules: where, tokens: where })
}

/** Ends CLI logins `g`. */
const endLogins = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, where: Statement.Fragment) {
  const now = yield* DateTime.nowAsDate
  return yield* Rows.findAll(
    EndedRow,
    RowJournal.noteEnds(sql, "cli_grants")`
      UPDATE cli_grants g SET revoked_at = ${now}, mac = '' WHERE ${where} AND g.revoked_at IS NULL
      RETURNING 'cli_grant' AS type, g.id, coalesce(g.hostname, '') AS name`
  )
})

/** Ends connected agents `g`. */
const endAgents = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, where: Statement.Fragment) {
  const now = yield* DateTime.nowAsDate
  return yield* Rows.findAll(
    EndedRow,
    RowJournal.noteEnds(sql, "oauth_grants")`
      UPDATE oauth_grants g SET revoked_at = ${now}, mac = '' WHERE ${where} AND g.revoked_at IS NULL
      RETURNING 'oauth_grant' AS type, g.id, g.client_name AS name`
  )
})

const withoutTeam = (sql: SqlClient.SqlClient, teams: "cli_grant_teams" | "oauth_grant_teams") =>
  sql`NOT EXISTS (SELECT 1 FROM ${sql(teams)} t WHERE t.grant_id = g.id)`

/** Tokens past their creator's grace stay revoked when the creator returns. */
const tokensPastGrace = Effect.fnUntraced(function* (
  needs: Needs,
  userId: UserId,
  teamId: TeamId,
  deactivatedAt: Date | null
) {
  const now = yield* DateTime.nowAsDate
  if (deactivatedAt !== null && deactivatedAt.getTime() + creatorGrace > now.getTime()) return []
  return yield* tokensOf(needs, userId, teamId)
})

/** Approvals of the person that no device has fetched. */
const undelivered = (sql: SqlClient.SqlClient, userId: UserId) =>
  sql`decided_by = ${userId} AND status = 'approved' AND delivered_at IS NULL`
const isOf = (approved: unknown, teamId: TeamId) =>
  Predicate.hasProperty(approved, "teamId") && approved.teamId === teamId

/**
 * Removes the team from the person's CLI grants; a grant ends with its last team. Undelivered approvals come first. A
 * delivery locks its request, so either this transaction sees the grant or the delivery sees the loss.
 */
const grantsInTeam = Effect.fnUntraced(function* ({ rowSeal, sql }: Needs, userId: UserId, teamId: TeamId) {
  yield* rowSeal.update("device_requests", undelivered(sql, userId), ({ teams }) => ({
    teams: Array.isArray(teams) ? teams.filter((one) => !isOf(one, teamId)) : []
  }))
  const own = sql`SELECT id FROM cli_grants WHERE user_id = ${userId}`
  yield* RowJournal.remove(sql, "cli_grant_teams", sql`team_id = ${teamId} AND grant_id IN (${own})`)
  return yield* endLogins(sql, sql`g.user_id = ${userId} AND ${withoutTeam(sql, "cli_grant_teams")}`)
})

/** The same for connected agents, when the membership itself does not change. */
const connectionsInTeam = Effect.fnUntraced(function* ({ sql }: Needs, userId: UserId, teamId: TeamId) {
  const own = sql`SELECT id FROM oauth_grants WHERE user_id = ${userId}`
  yield* RowJournal.remove(sql, "oauth_grant_teams", sql`team_id = ${teamId} AND grant_id IN (${own})`)
  return yield* endAgents(sql, sql`g.user_id = ${userId} AND ${withoutTeam(sql, "oauth_grant_teams")}`)
})

/** Removes the team from one CLI login or connected agent, which ends with its last team. */
const loginInTeam = Effect.fnUntraced(function* ({ sql }: Needs, id: string, teamId: TeamId) {
  yield* RowJournal.remove(sql, "cli_grant_teams", sql`grant_id = ${id}::uuid AND team_id = ${teamId}`)
  yield* RowJournal.remove(sql, "oauth_grant_teams", sql`grant_id = ${id}::uuid AND team_id = ${teamId}`)
  const logins = yield* endLogins(sql, sql`g.id = ${id}::uuid AND ${withoutTeam(sql, "cli_grant_teams")}`)
  const agents = yield* endAgents(sql, sql`g.id = ${id}::uuid AND ${withoutTeam(sql, "oauth_grant_teams")}`)
  return [...logins, ...agents]
})

/** Revokes one API token, or one trust rule with its jobs' tokens. */
const tokenInTeam = ({ sql }: Needs, id: string, teamId: TeamId) =>
  revoke(sql, {
    rules: sql`id = ${id}::uuid AND team_id = ${teamId}`,
    tokens: sql`(id = ${id}::uuid OR rule_id = ${id}::uuid) AND team_id = ${teamId}`
  })

/** CLI logins in all teams, and approvals that no device has fetched. */
const loginsOf = Effect.fnUntraced(function* ({ rowSeal, sql }: Needs, userId: UserId) {
  yield* rowSeal.update("device_requests", undelivered(sql, userId), () => ({ teams: [] }))
  return yield* endLogins(sql, sql`g.user_id = ${userId}`)
})

/** Connected agents in all teams. */
const agentsOf = ({ sql }: Needs, userId: UserId) => endAgents(sql, sql`g.user_id = ${userId}`)

const sessionsOf = ({ sql }: Needs, userId: UserId) => Accounts.endSessions({ sql }, sql`user_id = ${userId}`)

/** Ends the sessions of a person without an active team. */
const sessionsWithoutTeam = ({ sql }: Needs, userId: UserId) =>
  Accounts.endSessions(
    { sql },
    sql`user_id = ${userId} AND NOT EXISTS (SELECT 1 FROM memberships m WHERE m.user_id = ${userId} AND m.active)`
  )

/** Links that the person made, in one team or (null) everywhere, so that a removed person cannot return through one. */
const linksBy = Effect.fnUntraced(function* ({ sql }: Needs, userId: UserId, teamId: TeamId | null) {
  const now = yield* DateTime.nowAsDate
  yield* RowJournal.end(
    sql,
    "invitations",
    { revoked_at: now },
    sql`invited_by = ${userId} AND (${teamId}::uuid IS NULL OR team_id = ${teamId})
      AND accepted_at IS NULL AND revoked_at IS NULL`
  )
  yield* RowJournal.end(sql, "password_resets", { used_at: now }, sql`created_by = ${userId} AND used_at IS NULL`)
})

/** Reset links for the person's own account. */
const resetLinksOf = Effect.fnUntraced(function* ({ sql }: Needs, userId: UserId) {
  const now = yield* DateTime.nowAsDate
  yield* RowJournal.end(sql, "password_resets", { used_at: now }, sql`user_id = ${userId} AND used_at IS NULL`)
})

/** Whether `userId` manages the person in all of their teams, as a link to their account requires. */
const manages = Effect.fnUntraced(function* ({ sql }: Needs, userId: UserId, person: UserId) {
  const isBeyond = yield* Rows.exists(sql`
    SELECT 1 FROM memberships theirs
    LEFT JOIN memberships mine
      ON mine.team_id = theirs.team_id AND mine.user_id = ${userId} AND mine.active
        AND (mine.role = 'owner' OR mine.role = 'admin' AND theirs.role <> 'owner')
    WHERE theirs.user_id = ${person} AND mine.user_id IS NULL LIMIT 1`)
  return !isBeyond
})

export class Revocation extends Effect.Service<Revocation>()("credentials/Revocation", {
  effect: Effect.map(Effect.all({ sql: SqlClient.SqlClient, rowSeal: RowSeal }), (needs) =>
    methods(needs, {
      manages,
      tokensOf,
      tokensPastGrace,
      grantsInTeam,
      connectionsInTeam,
      loginInTeam,
      tokenInTeam,
      loginsOf,
      agentsOf,
      sessionsOf,
      sessionsWithoutTeam,
      linksBy,
      resetLinksOf
    })
  )
}) {}

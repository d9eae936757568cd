/**
 * Operator's actions on teams: list, create, suspend, resume and remove. The trail of the team records each as the
 * system's.
 */
import * as Data from "effect/Data"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { type TeamId, TeamIdOut } from "#schema/Ids.ts"
import { Plan } from "#schema/Scopes.ts"
import type { AuditEvent } from "#src/trail/Entry.ts"
import * as RowJournal from "#src/rows/RowJournal.ts"
import { insertTeam } from "#src/access/TeamRows.ts"
import * as Rows from "#src/database/Rows.ts"
import { lookUp, type Needs } from "./Operator.ts"

class TeamNotFound extends Data.TaggedError("OperatorTeamNotFound") {}

const TeamRow = Schema.Struct({
  id: TeamIdOut,
  name: Schema.String,
  plan: Plan,
  suspended: Schema.Boolean,
  createdAt: Schema.DateFromSelf,
  members: Schema.Number,
  projects: Schema.Number,
  owners: Schema.Array(Schema.String)
})
type Team = typeof TeamRow.Type

const columns = `
  t.id, t.name, t.plan, t.suspended, t.created_at,
  (SELECT count(*) FROM memberships m WHERE m.team_id = t.id AND m.active) AS members,
  (SELECT count(*) FROM projects p WHERE p.team_id = t.id AND p.deleted_at IS NULL) AS projects,
  array(SELECT u.email FROM memberships m JOIN users u ON u.id = m.user_id
    WHERE m.team_id = t.id AND m.active AND m.role = 'owner' ORDER BY u.email LIMIT 20) AS owners
  FROM teams t`

/** Name of a removed team: its row stays, since its trail refers to it. */
const removedName = "Removed team"

/** Teams whose name contains `search`, by name. */
export const list = Effect.fn("OperatorTeams.list")(function* (
  { audit, sql }: Needs,
  { limit, search }: { readonly search: string; readonly limit: number }
) {
  yield* audit.record({ actor: "system", action: "team.list", outcome: "allowed", teamId: null })
  return yield* Rows.findAll(
    TeamRow,
    sql`
      SELECT ${sql.literal(columns)}
      WHERE position(lower(${search}) in lower(t.name)) > 0
        AND NOT (t.suspended AND t.name = ${removedName} AND NOT EXISTS (SELECT 1 FROM memberships m WHERE m.team_id = t.id))
      ORDER BY t.name, t.id LIMIT ${limit}`
  )
})

const lock = Effect.fnUntraced(function* ({ sql }: Needs, id: TeamId) {
  yield* Rows.run(sql`SELECT id FROM teams WHERE id = ${id} FOR NO KEY UPDATE`)
  const team = yield* Rows.findOne(TeamRow, sql`SELECT ${sql.literal(columns)} WHERE t.id = ${id}`)
  return team ?? (yield* new TeamNotFound())
})

const eventOf = ({ id, name }: Team, action: AuditEvent["action"]): AuditEvent => ({
  actor: "system",
  action,
  outcome: "allowed",
  teamId: id,
  target: { type: "team", id, name }
})

/** A team for an existing account, as a person makes one, on the plan `developer`. */
export const create = Effect.fn("OperatorTeams.create")(
  (needs: Needs, name: string, owner: { readonly email: string }) =>
    Rows.transaction(needs.sql, function* () {
      const { audit, crypto, sql } = needs
      const account = yield* lookUp(needs, owner.email)
      yield* Rows.run(sql`SELECT id FROM users WHERE id = ${account.id} FOR NO KEY UPDATE`)
      const id = TeamIdOut.make(yield* crypto.uuid)
      yield* insertTeam(needs, {
        id,
        name,
        plan: "developer",
        owner: account.id,
        now: yield* DateTime.nowAsDate,
        by: null
      })
      const team = yield* Rows.single(TeamRow, sql`SELECT ${sql.literal(columns)} WHERE t.id = ${id}`)
      yield* audit.append(eventOf(team, "team.create"))
      return team
    })
)

/** No session, login, agent or token reaches a suspended team; all of them work again after it resumes. */
export const setSuspended = Effect.fn("OperatorTeams.setSuspended")((needs: Needs, id: TeamId, suspended: boolean) =>
  Rows.transaction(needs.sql, function* () {
    const { audit, rowSeal, sql } = needs
    const team = yield* lock(needs, id)
    yield* rowSeal.update("teams", sql`id = ${id}`, () => ({ suspended }), { updated_at: yield* DateTime.nowAsDate })
    yield* audit.append(eventOf(team, suspended ? "team.suspend" : "team.resume"))
    return { ...team, suspended }
  })
)

/** Permanent: removes all members, ends all credentials, and deletes the secrets, which are purged after 30 days. */
export const remove = Effect.fn("OperatorTeams.remove")((needs: Needs, id: TeamId) =>
  Rows.transaction(needs.sql, function* () {
    const { audit, rowSeal, sql } = needs
    const team = yield* lock(needs, id)
    const now = yield* DateTime.nowAsDate
    const isLive = sql.literal("revoked_at IS NULL")
    yield* RowJournal.end(
      sql,
      "invitations",
      { revoked_at: now },
      sql`team_id = ${id} AND accepted_at IS NULL AND ${isLive}`
    )
    yield* RowJournal.end(sql, "machine_rules", { revoked_at: now }, sql`team_id = ${id} AND ${isLive}`)
    yield* RowJournal.end(sql, "api_tokens", { revoked_at: now }, sql`team_id = ${id} AND ${isLive}`)
    yield* RowJournal.remove(sql, "cli_grant_teams", sql`team_id = ${id}`)
    yield* RowJournal.remove(sql, "oauth_grant_teams", sql`team_id = ${id}`)
    yield* RowJournal.remove(sql, "access_grants", sql`team_id = ${id}`)
    yield* RowJournal.remove(
      sql,
      "sign_in_identities",
      sql`source IN (SELECT i.id::text FROM sign_in_issuers i WHERE i.team_id = ${id})`
    )
    yield* RowJournal.remove(sql, "sign_in_rules", sql`team_id = ${id}`)
    yield* RowJournal.remove(sql, "sign_in_issuers", sql`team_id = ${id}`)
    yield* rowSeal.update("webhooks", sql`team_id = ${id} AND enabled`, () => ({ enabled: false }))
    yield* RowJournal.remove(sql, "memberships", sql`team_id = ${id}`)
    yield* RowJournal.end(
      sql,
      "projects",
      { deleted_at: now, updated_at: now },
      sql`team_id = ${id} AND deleted_at IS NULL`
    )
    yield* RowJournal.end(
      sql,
      "environments",
      { deleted_at: now, updated_at: now },
      sql`team_id = ${id} AND deleted_at IS NULL`
    )
    const values = { name: removedName, updated_at: now }
    yield* rowSeal.update("teams", sql`id = ${id}`, () => ({ suspended: true, signInOnly: null }), values)
    yield* audit.append(eventOf(team, "team.delete"))
    return team
  })
)

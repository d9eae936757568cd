/**
 * Saved filters of a team's trail, personal or shared with every reader of the trail. They are preferences without
 * authority, so the trail does not record them.
 */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { AuditFilter, type SaveAuditView } from "#schema/AuditApi.ts"
import { CurrentCaller } from "#schema/Caller.ts"
import { Forbidden, ValidationFailed } from "#schema/Errors.ts"
import type { TeamId } from "#schema/Ids.ts"
import type { Crypto } from "#src/crypto/Crypto.ts"
import * as Rows from "#src/database/Rows.ts"
import type { Access } from "#src/access/Access.ts"

interface Needs {
  readonly access: Access
  readonly crypto: Crypto
  readonly sql: SqlClient.SqlClient
}

/** Limit of personal views, and of shared views, in one team. */
const maxViews = 20

const ViewRow = Schema.Struct({
  id: Schema.String,
  name: Schema.String,
  shared: Schema.Boolean,
  filter: Schema.parseJson(AuditFilter)
})
export type AuditView = typeof ViewRow.Type

/** A person who may read the trail. */
const reader = Effect.fnUntraced(function* ({ access }: Needs, teamId: TeamId) {
  const { target } = yield* access.team("audit-trail:read", teamId, { audit: "audit.read" })
  const { user } = yield* CurrentCaller
  if (user === null) return yield* new Forbidden()
  return { teamId: target.teamId, userId: user.id }
})

/** Personal and shared views, by name. */
export const views = Effect.fn("AuditTrail.views")(function* (needs: Needs, team: TeamId) {
  const { teamId, userId } = yield* reader(needs, team)
  return yield* Rows.findAll(
    ViewRow,
    needs.sql`
      SELECT id, name, user_id IS NULL AS shared, filter FROM audit_views
      WHERE team_id = ${teamId} AND (user_id IS NULL OR user_id = ${userId})
      ORDER BY lower(name), id LIMIT ${2 * maxViews}`
  )
})

/** Replaces a view of the same name and owner. */
export const saveView = Effect.fn("AuditTrail.saveView")(function* (needs: Needs, team: TeamId, body: SaveAuditView) {
  const { crypto, sql } = needs
  const { teamId, userId } = yield* reader(needs, team)
  const owner = body.shared ? null : userId
  const now = new Date(yield* Clock.currentTimeMillis)
  const id = yield* crypto.uuid
  yield* Rows.transaction(sql, function* () {
    // Serializes concurrent saves, so that the limit holds.
    yield* Rows.run(sql`SELECT 1 FROM teams WHERE id = ${teamId} FOR UPDATE`)
    const own = sql`team_id = ${teamId} AND user_id IS NOT DISTINCT FROM ${owner}::uuid`
    yield* Rows.run(sql`DELETE FROM audit_views WHERE ${own} AND name = ${body.name}`)
    if ((yield* Rows.count(sql`SELECT count(*)::int AS n FROM audit_views WHERE ${own}`)) >= maxViews) {
      return yield* new ValidationFailed({ field: "name", message: `There are ${maxViews} views: delete one first` })
    }
    yield* Rows.run(sql`
      INSERT INTO audit_views (id, team_id, user_id, name, filter, created_by, created_at)
      VALUES (${id}, ${teamId}, ${owner}, ${body.name}, ${JSON.stringify(body.filter)}, ${userId}, ${now})`)
  })
})

/** Deletes a personal or shared view; succeeds if it does not exist. */
export const deleteView = Effect.fn("AuditTrail.deleteView")(function* (needs: Needs, team: TeamId, id: string) {
  const { teamId, userId } = yield* reader(needs, team)
  yield* Rows.run(needs.sql`
    DELETE FROM audit_views
    WHERE id = ${id}::uuid AND team_id = ${teamId} AND (user_id IS NULL OR user_id = ${userId})`)
})

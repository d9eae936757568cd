/** A person's first steps in a project, from their own entries in the trail; without names or values. */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { AuditAction } from "#schema/Audit.ts"
import type { ProjectId } from "#schema/Ids.ts"
import { Access } from "#src/access/Access.ts"
import * as TrailIndex from "#src/trail/TrailIndex.ts"
import { methods } from "#src/Methods.ts"
import * as Rows from "#src/database/Rows.ts"

const services = Effect.all({ access: Access, sql: SqlClient.SqlClient })
type Needs = Effect.Effect.Success<typeof services>

/** Newest entries of the team that are searched, since first steps are recent. */
const maxEntries = 5_000

const writes: ReadonlyArray<AuditAction> = ["secret.create", "secret.update"]
const reads: ReadonlyArray<AuditAction> = ["secret.inject", "secret.read", "secret.list_values"]

/**
 * `saved`: a secret was saved. `loggedIn`: a CLI login exists for this team. `ran`: a login or token of the person read
 * values.
 */
const StepsRow = Schema.Struct({ saved: Schema.Boolean, loggedIn: Schema.Boolean, ran: Schema.Boolean })

const SinceRow = Schema.Struct({ createdAt: Schema.DateFromSelf })

const show = Effect.fn("FirstSteps.show")(function* ({ access, sql }: Needs, projectId: ProjectId) {
  const { caller, target } = yield* access.project("projects:read", projectId, { audit: "project.list" })
  const person = caller.user?.id ?? null
  const now = new Date(yield* Clock.currentTimeMillis)
  const { createdAt } = yield* Rows.single(SinceRow, sql`SELECT created_at FROM projects WHERE id = ${projectId}`)
  return yield* Rows.single(
    StepsRow,
    sql`
      WITH logins AS (
        SELECT g.id, g.revoked_at, g.expires_at FROM cli_grants g
        JOIN cli_grant_teams t ON t.grant_id = g.id AND t.team_id = ${target.teamId}
        WHERE g.user_id = ${person}
      ),
      programs AS (
        SELECT id::text FROM logins
        UNION ALL
        SELECT id::text FROM api_tokens WHERE created_by = ${person} AND team_id = ${target.teamId}
      ),
      latest AS (
        SELECT action, actor_id, project_id, body FROM audit_entries
        WHERE team_id = ${target.teamId} AND id >= ${TrailIndex.lowestId(createdAt.getTime())}::uuid
        ORDER BY id DESC LIMIT ${maxEntries}
      ),
      own AS (
        SELECT action, actor_id FROM latest
        WHERE project_id = ${projectId} AND (actor_id = ${person}::text OR actor_id IN (SELECT id FROM programs))
          AND body::jsonb ->> 'outcome' = 'allowed'
      )
      SELECT EXISTS (SELECT 1 FROM own WHERE action = ANY(${writes}::text[])) AS saved,
        EXISTS (SELECT 1 FROM logins WHERE revoked_at IS NULL AND expires_at > ${now}) AS logged_in,
        EXISTS (SELECT 1 FROM own WHERE action = ANY(${reads}::text[]) AND actor_id <> ${person}::text) AS ran`
  )
})

export class FirstSteps extends Effect.Service<FirstSteps>()("projects/FirstSteps", {
  effect: Effect.map(services, (needs) => methods(needs, { show }))
}) {}

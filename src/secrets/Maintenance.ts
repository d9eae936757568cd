/** Purges what nobody can reach any more (decisions 4: deleted secrets after 30 days, idempotency keys after 24 h). */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Arr from "effect/Array"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { EnvironmentId, ProjectId, TeamId } from "#schema/Ids.ts"
import { Audit } from "#src/access/Audit.ts"
import * as Housekeeping from "#src/Housekeeping.ts"
import { Idempotency } from "./Idempotency.ts"

/** Rows of one turn: a purge never holds up the requests. */
const batch = 500

interface Purged {
  readonly key: string
  readonly environmentId: EnvironmentId
  readonly environment: string
  readonly projectId: ProjectId
  readonly teamId: TeamId
}

export class Maintenance extends Effect.Service<Maintenance>()("secrets/Maintenance", {
  scoped: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const audit = yield* Audit
    const idempotency = yield* Idempotency

    /** Removes deleted secrets whose time is over, with all versions, and records which. Answers how many. */
    const purgeDeleted = Effect.gen(function* () {
      const now = new Date(yield* Clock.currentTimeMillis)
      const purged = yield* sql<Purged>`
        DELETE FROM secrets s USING environments e
        WHERE e.id = s.environment_id AND s.id IN (
          SELECT id FROM secrets WHERE deleted_at IS NOT NULL AND purge_at <= ${now}
          ORDER BY purge_at LIMIT ${batch} FOR UPDATE SKIP LOCKED)
        RETURNING s.key, s.environment_id, e.slug AS environment, e.project_id, e.team_id`
      const byEnvironment = Arr.groupBy(purged, (row) => row.environmentId)
      yield* audit.append(
        ...Object.values(byEnvironment).map((rows) => ({
          actor: "system" as const,
          action: "secret.purge" as const,
          outcome: "allowed" as const,
          teamId: rows[0].teamId,
          projectId: rows[0].projectId,
          environmentId: rows[0].environmentId,
          environment: rows[0].environment,
          keys: rows.map((row) => row.key)
        }))
      )
      return purged.length
    }).pipe(sql.withTransaction, Effect.orDie)

    const purge = Effect.zipRight(
      Effect.repeat(purgeDeleted, { while: (purged) => purged === batch }),
      idempotency.purge
    )
    yield* Housekeeping.every("10 minutes", purge)

    return { purge } as const
  })
}) {}

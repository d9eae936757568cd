/**
 * Purges rows that no request can reach any more (docs/contract/secrets.md: secrets 30 days after they or their
 * environment were deleted, idempotency keys after 24 h).
 */
import * as SqlClient from "@effect/sql/SqlClient"
import type * as Statement from "@effect/sql/Statement"
import * as Arr from "effect/Array"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { EnvironmentId, ProjectId, TeamId } from "#schema/Ids.ts"
import { Audit } from "#src/access/Audit.ts"
import * as Housekeeping from "#src/Housekeeping.ts"
import { Idempotency } from "./Idempotency.ts"
import { purgeDelay } from "./SecretRows.ts"

/** Rows of one transaction: a purge must not make requests wait. */
const batch = 500

interface PurgedRow {
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

    /** Removes the secrets that `due` selects with all their versions, batch by batch, and records their keys. */
    const remove = (due: (now: number) => Statement.Fragment) =>
      Effect.gen(function* () {
        const purged = yield* sql<PurgedRow>`
          DELETE FROM secrets s USING environments e
          WHERE e.id = s.environment_id AND s.id IN (${due(yield* Clock.currentTimeMillis)})
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
      }).pipe(sql.withTransaction, Effect.orDie, Effect.repeat({ while: (purged) => purged === batch }))

    const deletedSecrets = remove(
      (now) => sql`
        SELECT id FROM secrets WHERE deleted_at IS NOT NULL AND purge_at <= ${new Date(now)}
        ORDER BY purge_at LIMIT ${batch} FOR UPDATE SKIP LOCKED`
    )
    /** Secrets whose environment was deleted, by itself or with its project. */
    const deletedEnvironments = remove(
      (now) => sql`
        SELECT s.id FROM secrets s JOIN environments e ON e.id = s.environment_id
        WHERE e.deleted_at <= ${new Date(now - purgeDelay)}
        LIMIT ${batch} FOR UPDATE OF s SKIP LOCKED`
    )

    /**
     * Removes the keys of deleted environments that have no secrets left, so that copies of their secrets in a backup
     * stay sealed.
     */
    const keysOfDeleted = Effect.gen(function* () {
      const before = new Date((yield* Clock.currentTimeMillis) - purgeDelay)
      const emptied = yield* sql<{ readonly id: EnvironmentId }>`
        SELECT e.id FROM environments e
        WHERE e.deleted_at <= ${before} AND NOT EXISTS (SELECT 1 FROM secrets s WHERE s.environment_id = e.id) AND (
          EXISTS (SELECT 1 FROM data_keys d WHERE d.environment_id = e.id)
          OR EXISTS (SELECT 1 FROM sealing_keys k WHERE k.environment_id = e.id)
          OR EXISTS (SELECT 1 FROM secret_counters c WHERE c.environment_id = e.id))
        LIMIT ${batch} FOR UPDATE OF e SKIP LOCKED`
      const ids = emptied.map(({ id }) => id)
      yield* sql`DELETE FROM secret_counters WHERE environment_id = any(${ids}::uuid[])`
      yield* sql`DELETE FROM sealing_keys WHERE environment_id = any(${ids}::uuid[])`
      yield* sql`DELETE FROM data_keys WHERE environment_id = any(${ids}::uuid[])`
      return ids.length
    }).pipe(sql.withTransaction, Effect.orDie, Effect.repeat({ while: (emptied) => emptied === batch }))

    const purge = Effect.all([deletedSecrets, deletedEnvironments, keysOfDeleted, idempotency.purge], { discard: true })
    yield* Housekeeping.every("10 minutes", purge)

    return { purge } as const
  })
}) {}

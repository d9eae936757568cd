/**
 * Purges rows that no request can reach any more (docs/contract/secrets.md): secrets 30 days after they or their
 * environment were deleted, idempotency keys after 24 h. Announces values whose day of replacement has come.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import type * as Statement from "@effect/sql/Statement"
import * as Arr from "effect/Array"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { EnvironmentIdOut, ProjectIdOut, TeamIdOut } from "#schema/Ids.ts"
import { Audit } from "#src/trail/Audit.ts"
import * as Housekeeping from "#src/Housekeeping.ts"
import * as Rows from "#src/database/Rows.ts"
import { Idempotency } from "./Idempotency.ts"
import { dayOf } from "./SecretAbout.ts"
import { purgeDelay } from "./SecretRows.ts"

/** Rows of one transaction: a purge must not make requests wait. */
const batch = 500

const EnvironmentRow = Schema.Struct({ id: EnvironmentIdOut })
const NamedRow = Schema.Struct({
  key: Schema.String,
  environmentId: EnvironmentIdOut,
  environment: Schema.String,
  projectId: ProjectIdOut,
  teamId: TeamIdOut
})
type NamedRow = typeof NamedRow.Type

/** One entry for each environment, with the changed keys. */
const entriesOf = (action: "secret.purge" | "secret.rotation_due", rows: ReadonlyArray<NamedRow>) =>
  Object.values(Arr.groupBy(rows, (row) => row.environmentId)).map(([first, ...others]) => ({
    actor: "system" as const,
    action,
    outcome: "allowed" as const,
    teamId: first.teamId,
    projectId: first.projectId,
    environmentId: first.environmentId,
    environment: first.environment,
    keys: [first, ...others].map((row) => row.key)
  }))

export class Maintenance extends Effect.Service<Maintenance>()("secrets/Maintenance", {
  scoped: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const audit = yield* Audit
    const idempotency = yield* Idempotency

    /** Removes the secrets that `due` selects with all their versions, batch by batch, and records their keys. */
    const remove = (due: (now: number) => Statement.Fragment) =>
      Effect.gen(function* () {
        const purged = yield* Rows.decodeAll(
          NamedRow,
          sql`
          DELETE FROM secrets s USING environments e
          WHERE e.id = s.environment_id AND s.id IN (${due(yield* Clock.currentTimeMillis)})
          RETURNING s.key, s.environment_id, e.slug AS environment, e.project_id, e.team_id`
        )
        yield* audit.append(...entriesOf("secret.purge", purged))
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
      const emptied = yield* Rows.decodeAll(
        EnvironmentRow,
        sql`
        SELECT e.id FROM environments e
        WHERE e.deleted_at <= ${before} AND NOT EXISTS (SELECT 1 FROM secrets s WHERE s.environment_id = e.id) AND (
          EXISTS (SELECT 1 FROM data_keys d WHERE d.environment_id = e.id)
          OR EXISTS (SELECT 1 FROM sealing_keys k WHERE k.environment_id = e.id)
          OR EXISTS (SELECT 1 FROM secret_counters c WHERE c.environment_id = e.id))
        LIMIT ${batch} FOR UPDATE OF e SKIP LOCKED`
      )
      const ids = emptied.map(({ id }) => id)
      yield* sql`DELETE FROM secret_counters WHERE environment_id = any(${ids}::uuid[])`
      yield* sql`DELETE FROM sealing_keys WHERE environment_id = any(${ids}::uuid[])`
      yield* sql`DELETE FROM data_keys WHERE environment_id = any(${ids}::uuid[])`
      return ids.length
    }).pipe(sql.withTransaction, Effect.orDie, Effect.repeat({ while: (emptied) => emptied === batch }))

    /** Once for each secret and day, by one process. The entry goes to the webhooks of the team. */
    const rotationsDue = Effect.gen(function* () {
      const due = yield* Rows.decodeAll(
        NamedRow,
        sql`
        UPDATE secrets s SET rotation_told = s.rotate_by FROM environments e
        WHERE e.id = s.environment_id AND s.id IN (
          SELECT s.id FROM secrets s
          JOIN environments e ON e.id = s.environment_id AND e.deleted_at IS NULL
          JOIN projects p ON p.id = e.project_id AND p.deleted_at IS NULL
          WHERE s.rotate_by IS NOT NULL AND s.deleted_at IS NULL AND s.rotation_told IS DISTINCT FROM s.rotate_by
            AND s.rotate_by <= ${dayOf(yield* Clock.currentTimeMillis)}::date
          LIMIT ${batch} FOR UPDATE OF s SKIP LOCKED)
        RETURNING s.key, s.environment_id, e.slug AS environment, e.project_id, e.team_id`
      )
      yield* audit.append(...entriesOf("secret.rotation_due", due))
      return due.length
    }).pipe(sql.withTransaction, Effect.orDie, Effect.repeat({ while: (due) => due === batch }))

    const purge = Effect.all([deletedSecrets, deletedEnvironments, keysOfDeleted, idempotency.purge], { discard: true })
    yield* Housekeeping.every("10 minutes", Effect.zipRight(purge, rotationsDue))

    return { purge, rotationsDue } as const
  })
}) {}

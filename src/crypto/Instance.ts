/**
 * The id of a database, which contexts of keys and boxes contain. A copy has another one (docs/backup.md). It is part of
 * the context of every service key, so that a changed id opens none of them.
 *
 *   bound-<uuid>   each wrapped key of the database has the id in its context, and no other key is accepted
 *   <uuid>         a database of an earlier release, whose older keys are accepted without the id
 */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Rows from "#src/database/Rows.ts"

const prefix = "bound-"

/** Whether a key without the id is an altered one. */
export const bindsEveryKey = (instance: string): boolean => instance.startsWith(prefix)

/** The name of a key in its context. */
export const keyIdIn = (keyId: string, instance: string | undefined): string =>
  instance === undefined ? keyId : `${keyId}/${instance}`

const InstanceRow = Schema.Struct({ instanceId: Schema.String })

/** The id in the database. Undefined: no server has started on it. */
export const stored = (sql: SqlClient.SqlClient) =>
  Effect.map(Rows.findOne(InstanceRow, sql`SELECT instance_id FROM instance WHERE id = 1`), (row) => row?.instanceId)

/** The id of this database, drawn at its first start. */
export const idOf = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, now: Date) {
  yield* sql`
    INSERT INTO instance (id, instance_id, created_at)
    SELECT 1, CASE WHEN EXISTS (SELECT 1 FROM service_keys) OR EXISTS (SELECT 1 FROM data_keys) THEN '' ELSE ${prefix} END
      || gen_random_uuid(), ${now}::timestamptz ON CONFLICT (id) DO NOTHING`
  return (yield* Rows.decodeSingle(InstanceRow, sql`SELECT instance_id FROM instance WHERE id = 1`)).instanceId
})

/** Gives the database another id, under which each key must be bound. */
export const renew = (sql: SqlClient.SqlClient, now: Date) =>
  Effect.map(
    Rows.decodeSingle(
      InstanceRow,
      sql`
        UPDATE instance SET instance_id = ${prefix} || gen_random_uuid(), created_at = ${now} RETURNING instance_id`
    ),
    ({ instanceId }) => instanceId
  )

/** Programs that know no generations, or no keys with the id, no longer start on this database. */
export const refuseEarlierReleases = (sql: SqlClient.SqlClient) => sql`
  UPDATE effect_sql_migrations SET served_from = migration_id
  WHERE name IN ('service_key_generations', 'key_instances')`

/** Number of data keys without the id. A rotation of data keys replaces them. */
export const unboundDataKeys = (sql: SqlClient.SqlClient) =>
  Effect.map(Rows.single(Rows.CountRow, sql`SELECT count(*) AS n FROM data_keys WHERE NOT bound`), ({ n }) => n)

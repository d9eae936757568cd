/** The tables with keys that a root key wraps. `vault_canary` is left to Canary.ts. */
import type * as SqlClient from "@effect/sql/SqlClient"
import type { SqlError } from "@effect/sql/SqlError"
import type * as Statement from "@effect/sql/Statement"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { KeyPurpose } from "#schema/Vault.ts"
import * as Rows from "#src/database/Rows.ts"

const WrappedKeyRow = Schema.Struct({
  /** Identifies the row within its table. */
  id: Schema.String,
  teamId: Schema.String,
  projectId: Schema.String,
  environmentId: Schema.String,
  keyId: Schema.String,
  /** Whether its context holds the id of the database. */
  bound: Schema.Boolean,
  rootKeyId: Schema.String,
  wrapped: Schema.Uint8ArrayFromSelf
})
export type WrappedKeyRow = typeof WrappedKeyRow.Type

export interface Rewrapped {
  readonly id: string
  readonly bound: boolean
  readonly rootKeyId: string
  readonly wrapped: Uint8Array
}

export interface WrappedKeys {
  readonly table: string
  readonly purpose: KeyPurpose
  /**
   * Locks and returns rows after `after` for which `condition` holds, without rows that another transaction has locked.
   */
  readonly batch: (
    condition: Statement.Fragment,
    after: string
  ) => Effect.Effect<ReadonlyArray<WrappedKeyRow>, SqlError>
  readonly store: (rows: ReadonlyArray<Rewrapped>) => Effect.Effect<unknown, SqlError>
}

/** Takes about as long as a request. */
const batchSize = 100

const rowsOf = (statement: Effect.Effect<ReadonlyArray<unknown>, SqlError>) => Rows.decodeAll(WrappedKeyRow, statement)

const serviceKeys = (sql: SqlClient.SqlClient): WrappedKeys => ({
  table: "service_keys",
  purpose: "service-key",
  batch: (condition, after) =>
    rowsOf(sql`
    SELECT name AS id, '' AS team_id, '' AS project_id, '' AS environment_id, name AS key_id, false AS bound,
      root_key_id, wrapped
    FROM service_keys WHERE ${condition} AND name COLLATE "C" > ${after}
    ORDER BY name COLLATE "C" LIMIT ${batchSize} FOR NO KEY UPDATE SKIP LOCKED`),
  store: (rows) => sql`
    UPDATE service_keys k SET root_key_id = i.root_key_id, wrapped = i.wrapped FROM unnest(
      ${rows.map((r) => r.id)}::text[], ${rows.map((r) => r.rootKeyId)}::text[],
      ${rows.map((r) => Buffer.from(r.wrapped))}::bytea[]
    ) AS i (name, root_key_id, wrapped) WHERE k.name = i.name`
})

const serviceKeyGenerations = (sql: SqlClient.SqlClient): WrappedKeys => ({
  table: "service_key_generations",
  purpose: "service-key",
  batch: (condition, after) =>
    rowsOf(sql`
    SELECT g.name || '/' || g.generation AS id, '' AS team_id, '' AS project_id, '' AS environment_id,
      g.name || '/' || g.generation AS key_id, true AS bound, g.root_key_id, g.wrapped
    FROM service_key_generations g
    WHERE ${condition} AND (g.name || '/' || g.generation) COLLATE "C" > ${after}
    ORDER BY (g.name || '/' || g.generation) COLLATE "C" LIMIT ${batchSize} FOR NO KEY UPDATE OF g SKIP LOCKED`),
  store: (rows) => sql`
    UPDATE service_key_generations g SET root_key_id = i.root_key_id, wrapped = i.wrapped FROM unnest(
      ${rows.map((r) => r.id)}::text[], ${rows.map((r) => r.rootKeyId)}::text[],
      ${rows.map((r) => Buffer.from(r.wrapped))}::bytea[]
    ) AS i (id, root_key_id, wrapped)
    WHERE g.name = split_part(i.id, '/', 1) AND g.generation = split_part(i.id, '/', 2)::int`
})

export const wrappedKeys = (sql: SqlClient.SqlClient): ReadonlyArray<WrappedKeys> => [
  {
    table: "data_keys",
    purpose: "data-key",
    batch: (condition, after) =>
      rowsOf(sql`
      SELECT d.id::text AS id, e.team_id, e.project_id, d.environment_id, d.id::text AS key_id, d.bound,
        d.root_key_id, d.wrapped
      FROM data_keys d JOIN environments e ON e.id = d.environment_id
      WHERE ${condition} AND d.id::text COLLATE "C" > ${after}
      ORDER BY d.id::text COLLATE "C" LIMIT ${batchSize} FOR NO KEY UPDATE OF d SKIP LOCKED`),
    store: (rows) => sql`
      UPDATE data_keys d SET root_key_id = i.root_key_id, wrapped = i.wrapped, bound = i.bound FROM unnest(
        ${rows.map((r) => r.id)}::uuid[], ${rows.map((r) => r.rootKeyId)}::text[],
        ${rows.map((r) => Buffer.from(r.wrapped))}::bytea[], ${rows.map((r) => r.bound)}::boolean[]
      ) AS i (id, root_key_id, wrapped, bound) WHERE d.id = i.id`
  },
  {
    table: "sealing_keys",
    purpose: "sealing-key",
    batch: (condition, after) =>
      rowsOf(sql`
      SELECT k.environment_id || '/' || k.key_id AS id, e.team_id, e.project_id, k.environment_id, k.key_id,
        k.bound, k.root_key_id, k.wrapped_private AS wrapped
      FROM sealing_keys k JOIN environments e ON e.id = k.environment_id
      WHERE ${condition} AND (k.environment_id || '/' || k.key_id) COLLATE "C" > ${after}
      ORDER BY (k.environment_id || '/' || k.key_id) COLLATE "C" LIMIT ${batchSize}
      FOR NO KEY UPDATE OF k SKIP LOCKED`),
    store: (rows) => sql`
      UPDATE sealing_keys k SET root_key_id = i.root_key_id, wrapped_private = i.wrapped, bound = i.bound FROM unnest(
        ${rows.map((r) => r.id)}::text[], ${rows.map((r) => r.rootKeyId)}::text[],
        ${rows.map((r) => Buffer.from(r.wrapped))}::bytea[], ${rows.map((r) => r.bound)}::boolean[]
      ) AS i (id, root_key_id, wrapped, bound)
      WHERE k.environment_id = split_part(i.id, '/', 1)::uuid AND k.key_id = split_part(i.id, '/', 2)`
  },
  serviceKeys(sql),
  serviceKeyGenerations(sql),
  {
    table: "webhook_secrets",
    purpose: "webhook-secret",
    batch: (condition, after) =>
      rowsOf(sql`
      SELECT s.id::text AS id, w.team_id, '' AS project_id, '' AS environment_id, s.id::text AS key_id,
        s.bound, s.root_key_id, s.wrapped
      FROM webhook_secrets s JOIN webhooks w ON w.id = s.webhook_id
      WHERE ${condition} AND s.id::text COLLATE "C" > ${after}
      ORDER BY s.id::text COLLATE "C" LIMIT ${batchSize} FOR NO KEY UPDATE OF s SKIP LOCKED`),
    store: (rows) => sql`
      UPDATE webhook_secrets s SET root_key_id = i.root_key_id, wrapped = i.wrapped, bound = i.bound FROM unnest(
        ${rows.map((r) => r.id)}::uuid[], ${rows.map((r) => r.rootKeyId)}::text[],
        ${rows.map((r) => Buffer.from(r.wrapped))}::bytea[], ${rows.map((r) => r.bound)}::boolean[]
      ) AS i (id, root_key_id, wrapped, bound) WHERE s.id = i.id`
  }
]

const RootKeyRow = Schema.Struct({ rootKeyId: Schema.String, n: Schema.Number })

/** Number of rows per root key, over all tables that name one. */
export const rowsPerRootKey = (sql: SqlClient.SqlClient) =>
  Rows.decodeAll(
    RootKeyRow,
    sql`
      SELECT root_key_id, count(*) AS n FROM (
        SELECT root_key_id FROM data_keys UNION ALL SELECT root_key_id FROM sealing_keys
        UNION ALL SELECT root_key_id FROM service_keys UNION ALL SELECT root_key_id FROM service_key_generations
        UNION ALL SELECT root_key_id FROM webhook_secrets
        UNION ALL SELECT root_key_id FROM vault_canary
      ) AS named GROUP BY root_key_id ORDER BY root_key_id`
  ).pipe(Effect.map((rows): ReadonlyMap<string, number> => new Map(rows.map(({ n, rootKeyId }) => [rootKeyId, n]))))

/** SQL that changes secrets: for `WriteTransaction.ts` alone, which holds the lock of the environment. */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { SecretId } from "#schema/Ids.ts"
import type { EnvironmentTarget } from "#src/access/Target.ts"
import * as Rows from "#src/Rows.ts"
import type { OpenSecret, SecretMetadata } from "./SecretMetadata.ts"
import { liveVersions, metadataColumns, purgeDelay, sealedColumns, type SealedRow } from "./SecretRows.ts"

type Sql = SqlClient.SqlClient

/** A live secret as a write knows it before it opens anything. */
export interface LiveRow extends SecretMetadata {
  readonly pinned: boolean
  readonly refs: ReadonlyArray<string>
  /** Length of its box. */
  readonly bytes: number
}

/** A new version, ready to be sealed. */
export interface NewVersion extends OpenSecret {
  readonly pinned: boolean
  readonly refs: ReadonlyArray<string>
}

const RevisionRow = Schema.Struct({ revision: Schema.Number })
const LastVersionRow = Schema.Struct({ key: Schema.String, lastVersion: Schema.Number })

/** Locks the environment until the transaction ends; undefined when it was deleted meanwhile. */
export const lockEnvironment = (sql: Sql, { environmentId }: EnvironmentTarget) =>
  Rows.findOne(
    RevisionRow,
    sql`SELECT revision FROM environments WHERE id = ${environmentId} AND deleted_at IS NULL FOR UPDATE`
  )

/**
 * Every live secret, without its box. Up to 5,000 rows under the lock: decoding them would hold it longer than reading.
 */
export const liveRows = (sql: Sql, { environmentId }: EnvironmentTarget) =>
  Effect.orDie(sql<LiveRow>`
    SELECT ${metadataColumns(sql)}, v.pinned, v.refs, octet_length(v.sealed) AS bytes
    FROM ${liveVersions(sql)}
    WHERE s.environment_id = ${environmentId} AND s.deleted_at IS NULL`)

/** Boxes of secrets by id, at their current version. Large like an injection, and typed like one. */
export const sealedRows = (sql: Sql, ids: ReadonlyArray<SecretId>) =>
  Effect.orDie(sql<SealedRow>`
    SELECT ${sealedColumns(sql)} FROM ${liveVersions(sql)} WHERE s.id = ANY(${ids}::uuid[])`)

/** One version of a live or deleted secret, with its box. */
export const sealedVersion = (
  sql: Sql,
  { environmentId }: EnvironmentTarget,
  at: { readonly id: SecretId; readonly key: string; readonly version: number }
) =>
  Effect.orDie(sql<SealedRow & { readonly pinned: boolean }>`
    SELECT s.id, s.key, v.kind, v.version, s.created_at, s.updated_at, v.data_key_id, v.sealed, v.pinned
    FROM secrets s JOIN secret_versions v ON v.secret_id = s.id AND v.version = ${at.version}::bigint
    WHERE s.id = ${at.id} AND s.key = ${at.key} AND s.environment_id = ${environmentId}`)

/** The last version a key ever had; 0 = never used. */
export const lastVersion = (sql: Sql, { environmentId }: EnvironmentTarget, key: string) =>
  Effect.map(
    Rows.findOne(
      LastVersionRow,
      sql`SELECT key, last_version FROM secret_counters WHERE environment_id = ${environmentId} AND key = ${key}`
    ),
    (row) => row?.lastVersion ?? 0
  )

/** Counts each key's versions on, also after a deletion. */
export const nextVersions = (sql: Sql, { environmentId }: EnvironmentTarget, keys: ReadonlyArray<string>) =>
  Effect.map(
    Rows.findAll(
      LastVersionRow,
      sql`
        INSERT INTO secret_counters (environment_id, key, last_version)
        SELECT ${environmentId}::uuid, k, 1 FROM unnest(${keys}::text[]) AS k
        ON CONFLICT (environment_id, key) DO UPDATE SET last_version = secret_counters.last_version + 1
        RETURNING key, last_version`
    ),
    (rows) => new Map(rows.map((row) => [row.key, row.lastVersion]))
  )

export const repin = (
  sql: Sql,
  rows: ReadonlyArray<{ readonly id: SecretId; readonly version: number; readonly pinned: boolean }>
) =>
  Rows.run(sql`
    UPDATE secret_versions v SET pinned = i.pinned FROM unnest(
      ${rows.map((r) => r.id)}::uuid[], ${rows.map((r) => r.version)}::int[], ${rows.map((r) => r.pinned)}::boolean[]
    ) AS i (id, version, pinned) WHERE v.secret_id = i.id AND v.version = i.version`)

export const markDeleted = (sql: Sql, ids: ReadonlyArray<SecretId>, at: Date) =>
  Rows.run(sql`
    UPDATE secrets SET deleted_at = ${at}, purge_at = ${new Date(at.getTime() + purgeDelay)}
    WHERE id = ANY(${ids}::uuid[])`)

/** `updated_at` stays: it says when the version was written, like `updatedBy` by whom. */
export const unmarkDeleted = (sql: Sql, ids: ReadonlyArray<SecretId>) =>
  Rows.run(sql`UPDATE secrets SET deleted_at = NULL, purge_at = NULL WHERE id = ANY(${ids}::uuid[])`)

/** Makes new secrets, and points existing ones to their new version. */
export const upsertSecrets = (
  sql: Sql,
  { environmentId }: EnvironmentTarget,
  secrets: ReadonlyArray<SecretMetadata>,
  at: Date
) =>
  Rows.run(sql`
    INSERT INTO secrets (id, environment_id, key, version, created_at, updated_at)
    SELECT i.id, ${environmentId}::uuid, i.key, i.version, ${at}, ${at}
    FROM unnest(${secrets.map((s) => s.id)}::uuid[], ${secrets.map((s) => s.key)}::text[],
      ${secrets.map((s) => s.version)}::int[]) AS i (id, key, version)
    ON CONFLICT (id) DO UPDATE SET version = excluded.version, updated_at = excluded.updated_at`)

export interface Sealed {
  readonly dataKeyId: string
  /** One for each version, in their order. */
  readonly boxes: ReadonlyArray<Buffer>
  readonly at: Date
  /** The author, as JSON. */
  readonly author: string
}

export const insertVersions = (
  sql: Sql,
  versions: ReadonlyArray<NewVersion>,
  { at, author, boxes, dataKeyId }: Sealed
) =>
  // Postgres has no array of arrays of unequal length: the references travel as JSON.
  Rows.run(sql`
    INSERT INTO secret_versions (secret_id, version, kind, pinned, refs, data_key_id, sealed, created_at, created_by)
    SELECT i.id, i.version, i.kind, i.pinned,
      array(SELECT jsonb_array_elements_text(i.refs::jsonb)), ${dataKeyId}, i.sealed, ${at}, ${author}::jsonb
    FROM unnest(
      ${versions.map((s) => s.id)}::uuid[], ${versions.map((s) => s.version)}::int[],
      ${versions.map((s) => s.kind)}::text[], ${versions.map((s) => s.pinned)}::boolean[],
      ${versions.map((s) => JSON.stringify(s.refs))}::text[], ${boxes}::bytea[]
    ) AS i (id, version, kind, pinned, refs, sealed)`)

/** Only the current version is kept on the Developer plan. */
export const dropEarlierVersions = (sql: Sql, secrets: ReadonlyArray<SecretMetadata>) =>
  Rows.run(sql`
    DELETE FROM secret_versions v USING unnest(
      ${secrets.map((s) => s.id)}::uuid[], ${secrets.map((s) => s.version)}::int[]
    ) AS i (id, version) WHERE v.secret_id = i.id AND v.version < i.version`)

export const bumpRevision = (sql: Sql, { environmentId }: EnvironmentTarget) =>
  Rows.run(sql`UPDATE environments SET revision = revision + 1 WHERE id = ${environmentId}`)

/** SQL that reads secrets as they are stored. Every statement is bound to the environment of a permit. */
import type * as SqlClient from "@effect/sql/SqlClient"
import type * as Statement from "@effect/sql/Statement"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { type SecretId, SecretIdOut } from "#schema/Ids.ts"
import type { EnvironmentPermit } from "#src/access/Permit.ts"
import { days } from "#src/Days.ts"
import * as Rows from "#src/database/Rows.ts"
import type { SecretMetadata } from "./SecretMetadata.ts"

/** Live secrets per environment. */
export const maxSecrets = 5_000
/** Deleted secrets can be restored for 30 days. */
export const purgeDelay = days(30)
/** Versions of one secret that a history shows. */
const maxVersions = 1_000

type Sql = SqlClient.SqlClient
export type ReadPermit = EnvironmentPermit<"secrets:read" | "secrets:read_values" | "secrets:run" | "secrets:write">

const Kind = Schema.Literal("literal", "template")
const Author = Schema.Struct({ type: Schema.String, id: Schema.String, name: Schema.NullOr(Schema.String) })
export const metadata = {
  id: SecretIdOut,
  key: Schema.String,
  kind: Kind,
  version: Schema.Number,
  createdAt: Schema.DateFromSelf,
  updatedAt: Schema.DateFromSelf
}
const NamedRow = Schema.Struct({ project: Schema.String, keys: Schema.Array(Schema.String) })
const KeyRow = Schema.Struct({ id: SecretIdOut, key: Schema.String })
const NameRow = Schema.Struct({
  id: SecretIdOut,
  key: Schema.String,
  kind: Kind,
  version: Schema.Number,
  refs: Schema.Array(Schema.String),
  tags: Schema.Array(Schema.String)
})
const environmentState = { revision: Schema.Number, total: Schema.Number }
/** Metadata of a secret; a day is text, since it has no time zone. */
export const about = {
  owner: Schema.NullOr(Schema.String),
  note: Schema.NullOr(Schema.String),
  rotateBy: Schema.NullOr(Schema.String),
  alias: Schema.NullOr(Schema.String),
  tags: Schema.Array(Schema.String)
}
export const aboutColumns = (sql: Sql) =>
  sql.literal(`s.owner, s.note, to_char(s.rotate_by, 'YYYY-MM-DD') AS rotate_by, s.alias, s.tags`)
const ListRow = Schema.Struct({
  ...metadata,
  ...about,
  refs: Schema.Array(Schema.String),
  updatedBy: Author,
  ...environmentState
})
const EmptyListRow = Schema.Struct({ id: Schema.Null, ...environmentState })
const PageRow = Schema.Union(ListRow, EmptyListRow)
const OriginRow = Schema.Struct({
  revision: Schema.Number,
  key: Schema.NullOr(Schema.String),
  refs: Schema.NullOr(Schema.Array(Schema.String)),
  withoutValues: Schema.Boolean
})
const VersionRow = Schema.Struct({
  version: Schema.Number,
  key: Schema.String,
  kind: Kind,
  createdAt: Schema.DateFromSelf,
  createdBy: Author,
  deleted: Schema.Boolean
})
const DeletedRow = Schema.Struct({ ...metadata, deletedAt: Schema.DateFromSelf, purgeAt: Schema.DateFromSelf })

/** A secret with its sealed box and the key that opens it. */
export interface SealedRow extends SecretMetadata {
  readonly dataKeyId: string
  readonly sealed: Buffer
}

export const liveVersions = (sql: Sql) =>
  sql.literal(`secrets s JOIN secret_versions v ON v.secret_id = s.id AND v.version = s.version`)
export const metadataColumns = (sql: Sql) => sql.literal(`s.id, s.key, v.kind, s.version, s.created_at, s.updated_at`)
const sealedColumns = (sql: Sql) =>
  sql.literal(`s.id, s.key, v.kind, s.version, s.created_at, s.updated_at, v.data_key_id, v.sealed`)

/**
 * The live secret of a key. In this form Postgres looks it up key by key, and never joins it with all secrets of an
 * environment.
 */
export const byKey = (sql: Sql, environmentId: string | Statement.Fragment, key: Statement.Fragment) => sql`
  SELECT ${sealedColumns(sql)}, v.pinned, v.refs FROM ${liveVersions(sql)}
  WHERE s.environment_id = ${environmentId} AND s.key = ${key} AND s.deleted_at IS NULL LIMIT 1`

/**
 * Parts of a WITH RECURSIVE. `above`: the keys that `named` selects and the templates that build on them. `concerned`:
 * those, the keys that `mentions` selects, and all that any of them builds on. `secret_references` must be of the
 * current revision.
 */
export const withConcerned = (
  sql: Sql,
  environmentId: string | Statement.Fragment,
  named: Statement.Fragment,
  mentions?: Statement.Fragment
) => sql`
  above (key) AS (
    (${named})
    UNION
    SELECT u.key FROM above a, LATERAL (
      SELECT s.key FROM secret_references r JOIN secrets s ON s.id = r.secret_id AND s.deleted_at IS NULL
      WHERE r.environment_id = ${environmentId} AND r.key = a.key OFFSET 0) u
  ), concerned (key) AS (
    (SELECT key FROM above
      ${mentions === undefined ? sql`` : sql`UNION (${mentions})`})
    UNION
    SELECT b.key COLLATE "C" FROM concerned c, LATERAL (
      SELECT unnest(s.refs) AS key FROM (${byKey(sql, environmentId, sql`c.key`)}) s OFFSET 0) b
  )`

// --- hot: an injection reads up to 5,000 boxes by these three, and decoding each row would cost more than opening it
// ---

/**
 * Live secrets in the order of keys, from the one after `after` on, and the revision that they have; one row without a
 * secret when there is none.
 */
export const live = (sql: Sql, { target }: ReadPermit, after = "", size = maxSecrets) =>
  Effect.orDie(sql<SealedRow & { readonly revision: number; readonly live: boolean }>`
    SELECT e.revision, s.id IS NOT NULL AS live, ${sealedColumns(sql)}
    FROM environments e LEFT JOIN (${liveVersions(sql)})
      ON s.environment_id = e.id AND s.deleted_at IS NULL AND s.key > ${after}
    WHERE e.id = ${target.environmentId} AND e.deleted_at IS NULL
    ORDER BY s.key LIMIT ${size}`)

/**
 * Secrets written, deleted or restored after a revision and the templates that build on them (`changed`), and all keys
 * that those build on. `followed`: every change since is marked, so no earlier release wrote meanwhile.
 */
export const since = (sql: Sql, { target: { environmentId } }: ReadPermit, revision: number) => {
  const named = sql`SELECT key FROM secrets WHERE environment_id = ${environmentId} AND revision > ${revision}`
  return Effect.orDie(sql<
    SealedRow & {
      readonly revision: number
      readonly followed: boolean
      /** Null: nothing changed. */
      readonly changedKey: string | null
      readonly changed: boolean
      readonly live: boolean
    }
  >`
    WITH RECURSIVE ${withConcerned(sql, environmentId, named)}
    SELECT e.revision, e.counted_revision = e.revision AND e.tracked_from <= ${revision} AS followed, c.key AS changed_key,
      c.key IN (SELECT key FROM above) AS changed, s.id IS NOT NULL AS live, s.*
    FROM environments e LEFT JOIN concerned c ON true
    LEFT JOIN LATERAL (${byKey(sql, environmentId, sql`c.key`)}) s ON true
    WHERE e.id = ${environmentId} AND e.deleted_at IS NULL`)
}

/** The keys that the subselect `wanted` selects and, for `expand`, all keys that they build on. */
const withBasis = (sql: Sql, { target }: ReadPermit, wanted: Statement.Fragment, expand: boolean) => sql`
  WITH RECURSIVE wanted AS (${wanted}), needed (key) AS (
    SELECT key COLLATE "C" FROM wanted
    UNION
    SELECT unnest(v.refs) COLLATE "C" FROM needed n
    JOIN secrets s ON s.environment_id = ${target.environmentId} AND s.key = n.key AND s.deleted_at IS NULL
    JOIN secret_versions v ON v.secret_id = s.id AND v.version = s.version
    WHERE ${expand}
  )`

/** Live secrets by key; with `expand` also everything that they build on. */
export const closure = (sql: Sql, permit: ReadPermit, keys: ReadonlyArray<string>, expand: boolean) =>
  Effect.orDie(sql<SealedRow & { readonly revision: number }>`
    ${withBasis(sql, permit, sql`SELECT unnest(${keys}::text[]) AS key`, expand)}
    SELECT e.revision, ${sealedColumns(sql)}
    FROM environments e
    JOIN secrets s ON s.environment_id = e.id AND s.deleted_at IS NULL AND s.key IN (SELECT key FROM needed)
    JOIN secret_versions v ON v.secret_id = s.id AND v.version = s.version
    WHERE e.id = ${permit.target.environmentId} AND e.deleted_at IS NULL`)

/** A page of the live secrets (`shown`) and, with `expand`, what they build on, from one statement. */
export const livePage = (sql: Sql, permit: ReadPermit, size: number, offset: number, expand: boolean) => {
  const { environmentId } = permit.target
  const keyColumn = sql`
    SELECT key FROM secrets WHERE environment_id = ${environmentId} AND deleted_at IS NULL
    ORDER BY key LIMIT ${size} OFFSET ${offset}`
  return Effect.orDie(sql<
    SealedRow & {
      readonly revision: number
      readonly total: number
      readonly live: boolean
      readonly shown: boolean
    }
  >`
    ${withBasis(sql, permit, keyColumn, expand)}
    SELECT e.revision, s.id IS NOT NULL AS live, s.key IN (SELECT key FROM wanted) AS shown,
      (SELECT count(*)::int FROM secrets WHERE environment_id = e.id AND deleted_at IS NULL) AS total,
      ${sealedColumns(sql)}
    FROM environments e LEFT JOIN (${liveVersions(sql)})
      ON s.environment_id = e.id AND s.deleted_at IS NULL AND s.key IN (SELECT key FROM needed)
    WHERE e.id = ${environmentId} AND e.deleted_at IS NULL
    ORDER BY s.key`)
}

/** One version of a live or deleted secret, under the key that it was sealed under. */
export const sealedVersion = (sql: Sql, { target }: ReadPermit, id: SecretId, version: number) =>
  Effect.orDie(sql<SealedRow & { readonly pinned: boolean; readonly live: boolean }>`
    SELECT s.id, coalesce(v.key, s.key) AS key, v.kind, v.version, s.created_at, s.updated_at, v.data_key_id, v.sealed, v.pinned,
      s.deleted_at IS NULL AS live
    FROM secrets s JOIN secret_versions v ON v.secret_id = s.id AND v.version = ${version}::bigint
    WHERE s.id = ${id} AND s.environment_id = ${target.environmentId}`)

// --- cold: names and metadata ---

/**
 * Live secrets whose key contains `part`, in the order of keys, how many they are, and the revision at which they are,
 * from one statement.
 */
export const page = (sql: Sql, { target }: ReadPermit, part: string, size: number, offset: number) =>
  Effect.map(
    Rows.findAll(
      PageRow,
      sql`
        WITH found AS (
          SELECT id, key, version, created_at, updated_at, owner, note, rotate_by, alias, tags FROM secrets
          WHERE environment_id = ${target.environmentId} AND deleted_at IS NULL AND position(${part} IN key) > 0
        )
        SELECT e.revision, (SELECT count(*)::int FROM found) AS total, ${metadataColumns(sql)}, ${aboutColumns(sql)},
          v.refs, v.created_by AS updated_by
        FROM environments e
        LEFT JOIN (SELECT * FROM found ORDER BY key LIMIT ${size} OFFSET ${offset}) s ON true
        LEFT JOIN secret_versions v ON v.secret_id = s.id AND v.version = s.version
        WHERE e.id = ${target.environmentId}
        ORDER BY s.key`
    ),
    (rows) => ({
      revision: rows[0]?.revision ?? target.revision,
      total: rows[0]?.total ?? 0,
      rows: rows.filter((row): row is typeof ListRow.Type => row.id !== null)
    })
  )

const GroupRow = Schema.Struct({ prefix: Schema.String, count: Schema.Number })

/** The largest groups of live keys that contain `part`, by their text before the first underscore. */
export const groups = (sql: Sql, { target }: ReadPermit, part: string) =>
  Rows.findAll(
    GroupRow,
    sql`
      SELECT split_part(key, '_', 1) AS prefix, count(*)::int AS count FROM secrets
      WHERE environment_id = ${target.environmentId} AND deleted_at IS NULL AND position(${part} IN key) > 0
      GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 40`
  )

/** Keys of these live secrets, in the order of keys, and the slug of their project. */
export const named = (sql: Sql, { target }: EnvironmentPermit<"secrets:write">, ids: ReadonlyArray<SecretId>) =>
  Rows.single(
    NamedRow,
    sql`
      SELECT p.slug AS project, array(
        SELECT s.key FROM secrets s
        WHERE s.environment_id = ${target.environmentId} AND s.id = any(${ids}::uuid[]) AND s.deleted_at IS NULL
        ORDER BY s.key) AS keys
      FROM projects p WHERE p.id = ${target.projectId}`
  )

/** The live secrets that have these keys. */
export const withKeys = (sql: Sql, { target }: EnvironmentPermit<"secrets:write">, keys: ReadonlyArray<string>) =>
  Rows.findAll(
    KeyRow,
    sql`
      SELECT id, key FROM secrets
      WHERE environment_id = ${target.environmentId} AND key = any(${keys}::text[]) AND deleted_at IS NULL`
  )

/** Keys of the live secrets and what each refers to, in the order of keys. */
export const names = (sql: Sql, { target }: ReadPermit) =>
  Rows.findAll(
    NameRow,
    sql`
      SELECT s.id, s.key, v.kind, s.version, v.refs, s.tags FROM ${liveVersions(sql)}
      WHERE s.environment_id = ${target.environmentId} AND s.deleted_at IS NULL
      ORDER BY s.key LIMIT ${maxSecrets}`
  )

/**
 * For each live secret, whether this author or one without a right to values wrote its text; one row without a key for
 * an empty environment.
 */
export const origins = (sql: Sql, { target }: ReadPermit, author: { readonly type: string; readonly id: string }) =>
  Rows.findAll(
    OriginRow,
    sql`
      SELECT e.revision, s.key, v.refs, coalesce(v.created_by -> 'withoutValues' IS NOT NULL
        OR (v.created_by ->> 'type' = ${author.type} AND v.created_by ->> 'id' = ${author.id}), false) AS without_values
      FROM environments e LEFT JOIN (${liveVersions(sql)}) ON s.environment_id = e.id AND s.deleted_at IS NULL
      WHERE e.id = ${target.environmentId} AND e.deleted_at IS NULL`
  )

export const isLive = (sql: Sql, { target }: ReadPermit, key: string) =>
  Rows.exists(sql`
    SELECT 1 FROM secrets WHERE environment_id = ${target.environmentId} AND key = ${key} AND deleted_at IS NULL`)

/** History of a live or deleted secret, newest first; empty when the environment has no such secret. */
export const versions = (sql: Sql, { target }: ReadPermit, id: SecretId) =>
  Rows.findAll(
    VersionRow,
    sql`
      SELECT v.version, coalesce(v.key, s.key) AS key, v.kind, v.created_at, v.created_by, s.deleted_at IS NOT NULL AS deleted
      FROM secrets s JOIN secret_versions v ON v.secret_id = s.id
      WHERE s.id = ${id} AND s.environment_id = ${target.environmentId}
      ORDER BY v.version DESC LIMIT ${maxVersions}`
  )

/** Deleted secrets that can be restored at `now`. */
export const deleted = (sql: Sql, { target }: ReadPermit, now: Date) =>
  Rows.findAll(
    DeletedRow,
    sql`
      SELECT ${metadataColumns(sql)}, s.deleted_at, s.purge_at
      FROM ${liveVersions(sql)}
      WHERE s.environment_id = ${target.environmentId} AND s.deleted_at IS NOT NULL AND s.purge_at > ${now}
      ORDER BY s.key, s.deleted_at DESC LIMIT ${maxSecrets}`
  )

/** One deleted secret. */
export const deletedSecret = (sql: Sql, { target }: ReadPermit, id: SecretId, now: Date) =>
  Rows.findOne(
    DeletedRow,
    sql`
      SELECT ${metadataColumns(sql)}, s.deleted_at, s.purge_at FROM ${liveVersions(sql)}
      WHERE s.id = ${id} AND s.environment_id = ${target.environmentId} AND s.deleted_at IS NOT NULL
        AND s.purge_at > ${now}`
  )

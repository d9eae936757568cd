/**
 * SQL that changes secrets, for `Commit.ts` and its parts, which hold the lock of the environment. One statement reads
 * and another one changes everything: locks are held for few round trips.
 */
import type * as SqlClient from "@effect/sql/SqlClient"
import type * as Statement from "@effect/sql/Statement"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { SecretId } from "#schema/Ids.ts"
import type { EnvironmentTarget } from "#src/access/Target.ts"
import * as Rows from "#src/database/Rows.ts"
import type { Totals } from "./Composition.ts"
import type { OpenSecret } from "./SecretMetadata.ts"
import { byKey, purgeDelay, type SealedRow, withConcerned } from "./SecretRows.ts"

type Sql = SqlClient.SqlClient

/** A live secret under the lock of a write. */
export interface LiveRow extends SealedRow {
  readonly pinned: boolean
  readonly refs: ReadonlyArray<string>
}

/** A new version, ready to be sealed. */
export interface NewVersion extends OpenSecret {
  readonly pinned: boolean
  readonly refs: ReadonlyArray<string>
  /** Revision of the environment after the write. */
  readonly revision: number
  /** As JSON. */
  readonly author: string
}

/** The secrets that a write names: keys and ids, and keys that its texts may refer to. */
export interface Named {
  readonly keys: ReadonlyArray<string>
  readonly ids: ReadonlyArray<SecretId>
  readonly mentions: ReadonlyArray<string>
}

const Facts = Schema.parseJson(
  Schema.Struct({
    revision: Schema.Number,
    secrets: Schema.Number,
    written: Schema.Number,
    expanded: Schema.Number,
    /** The totals and the references are of this revision. */
    counted: Schema.Boolean,
    /** The environment did not change while this statement waited for its lock. */
    current: Schema.Boolean,
    /** The active data key; null: none yet. */
    dataKeyId: Schema.NullOr(Schema.String),
    /** Head of a free audit stream. */
    head: Schema.NullOr(
      Schema.Struct({
        stream: Schema.String,
        seq: Schema.Number,
        hash: Schema.Uint8ArrayFromHex,
        followed: Schema.Boolean
      })
    )
  })
)
export type Facts = typeof Facts.Type
const decodeFacts = Schema.decodeUnknownEither(Facts)

interface ConcernedRow extends LiveRow {
  readonly facts: string
  readonly key: string
  readonly lastVersion: number | null
  readonly live: boolean
  /** The write names the key, or the key builds on one that it names. */
  readonly above: boolean
}

/**
 * Locks several environments in one order, so that two transactions never wait for each other. It comes before the
 * transaction takes a head of the trail: other transactions wait for heads under the lock of an environment.
 */
export const lockAll = (sql: Sql, targets: ReadonlyArray<EnvironmentTarget>) =>
  Effect.orDie(sql`
    SELECT id FROM environments WHERE id = ANY(${targets.map(({ environmentId }) => environmentId)}::uuid[])
    ORDER BY id FOR UPDATE`)

/**
 * At most as many rows as elements. Postgres estimates ten elements for an unknown array. A plan for the known array
 * looks cheaper to it, and it would plan the whole statement at each execution, under the lock. For an unknown LIMIT it
 * estimates a tenth (see `CredentialRows.ts`).
 */
const atMost = (sql: Sql, { length }: ReadonlyArray<unknown>) => sql`LIMIT ${length}`

const namedKeys = (sql: Sql, here: Statement.Fragment, { ids, keys }: Pick<Named, "ids" | "keys">) => {
  const ofIds = sql`SELECT key FROM secrets WHERE environment_id = ${here} AND id = ANY(${ids}::uuid[]) ${atMost(sql, ids)}`
  if (keys.length === 0) return ofIds
  const ofKeys = sql`SELECT unnest(${keys}::text[]) COLLATE "C" ${atMost(sql, keys)}`
  return ids.length === 0 ? ofKeys : sql`(${ofKeys}) UNION ALL (${ofIds})`
}

/**
 * Locks the environment until the transaction ends, and reads the secrets that a write concerns: its own, the templates
 * that build on them, and all keys that either builds on. Undefined when the environment was deleted meanwhile.
 *
 * The rest of the statement may be older than the lock that it waited for: then `current` is false, and the statement
 * has to run again. `xmin` shows it, since every writer of an environment updates its row (`FOR UPDATE` returns the
 * current row, the subselect the row of the snapshot).
 *
 * `here`: an id that Postgres does not know when it plans. For a known id it estimates the rows of that environment,
 * prefers that plan where other environments hold more, and plans at each execution.
 */
export const lock = Effect.fnUntraced(function* (
  sql: Sql,
  { environmentId }: EnvironmentTarget,
  { ids, keys, mentions }: Named,
  freeHead: Statement.Fragment
) {
  const here = sql.literal("(SELECT id FROM environment)")
  const named = namedKeys(sql, here, { ids, keys })
  const mentioned = sql`SELECT unnest(${mentions}::text[]) COLLATE "C" ${atMost(sql, mentions)}`
  // Typed at the statement: it may be thousands of rows, under the lock.
  const rows = yield* sql<ConcernedRow>`
    WITH RECURSIVE environment AS MATERIALIZED (
      SELECT id, revision, live_secrets, written_bytes, expanded_bytes, counted_revision, xmin::text AS is,
        (SELECT o.xmin::text FROM environments o WHERE o.id = ${environmentId}) AS was
      FROM environments WHERE id = ${environmentId} AND deleted_at IS NULL FOR UPDATE
    ), head AS MATERIALIZED (${freeHead}), ${withConcerned(sql, here, named, mentions.length === 0 ? undefined : mentioned)}
    SELECT json_build_object(
        'revision', e.revision, 'secrets', e.live_secrets, 'written', e.written_bytes, 'expanded', e.expanded_bytes,
        'counted', e.counted_revision = e.revision, 'current', e.is = e.was,
        'dataKeyId', (SELECT id FROM data_keys WHERE environment_id = ${here} AND state = 'active'),
        'head', CASE WHEN h.stream IS NOT NULL THEN json_build_object(
          'stream', h.stream, 'seq', h.seq, 'hash', encode(h.hash, 'hex'), 'followed', h.followed) END
      )::text AS facts, c.key, s.id IS NOT NULL AS live, c.key IN (SELECT key FROM above) AS above,
      (SELECT n.last_version FROM secret_counters n WHERE n.environment_id = ${here} AND n.key = c.key),
      s.id, s.kind, s.version, s.created_at, s.updated_at, s.pinned, s.refs, s.data_key_id, s.sealed
    FROM environment e LEFT JOIN head h ON true LEFT JOIN concerned c ON true
    LEFT JOIN LATERAL (${byKey(sql, here, sql`c.key`)}) s ON true`
  if (rows.length === 0) return undefined
  return { facts: yield* decodeFacts(rows[0].facts), rows }
}, Effect.orDie)

// --- counting anew ---

/** Lists the references of all secrets anew. */
export const listReferences = (sql: Sql, { environmentId }: EnvironmentTarget) =>
  Effect.zipRight(
    Rows.run(sql`DELETE FROM secret_references WHERE environment_id = ${environmentId}`),
    Rows.run(sql`
      INSERT INTO secret_references (environment_id, key, secret_id)
      SELECT DISTINCT s.environment_id, r.key, s.id
      FROM secrets s JOIN secret_versions v ON v.secret_id = s.id AND v.version = s.version, unnest(v.refs) AS r (key)
      WHERE s.environment_id = ${environmentId} AND s.deleted_at IS NULL`)
  )

/** Changes of earlier revisions were not all marked, so a snapshot cannot follow from before this one. */
export const setTotals = (sql: Sql, { environmentId }: EnvironmentTarget, { expanded, secrets, written }: Counted) =>
  Rows.run(sql`
    UPDATE environments SET live_secrets = ${secrets}, written_bytes = ${written}, expanded_bytes = ${expanded},
      counted_revision = revision, tracked_from = revision
    WHERE id = ${environmentId}`)

export interface Counted extends Totals {
  readonly secrets: number
}

// --- changing ---

export interface RowChanges {
  readonly at: Date
  /** Revision after all changes. */
  readonly revision: number
  readonly totals: Counted
  readonly dataKeyId: string
  readonly written: ReadonlyArray<NewVersion>
  /** One for each new version, in their order. */
  readonly boxes: ReadonlyArray<Buffer>
  readonly deleted: ReadonlyArray<SecretId>
  readonly restored: ReadonlyArray<{ readonly id: SecretId; readonly refs: ReadonlyArray<string> }>
  readonly repinned: ReadonlyArray<{ readonly id: SecretId; readonly version: number; readonly pinned: boolean }>
  /**
   * Written secrets that were deleted before, or get another key; `from`: the key that their versions so far were
   * sealed under.
   */
  readonly continued: ReadonlyArray<{ readonly id: SecretId; readonly from: string; readonly to: string }>
  /** Secrets that referred to others before. */
  readonly referred: ReadonlyArray<SecretId>
  /** Only the current version is kept (Developer plan). */
  readonly keepsOne: boolean
}

const idsAndVersions = (sql: Sql, rows: ReadonlyArray<{ readonly id: SecretId; readonly version: number }>) =>
  sql`${rows.map((s) => s.id)}::uuid[], ${rows.map((s) => s.version)}::int[]`

/** Makes new secrets, points existing ones to their new version, and counts each key's versions on. */
const writing = (sql: Sql, { environmentId }: EnvironmentTarget, { at, boxes, dataKeyId, written }: RowChanges) => [
  sql`counters AS (
    INSERT INTO secret_counters (environment_id, key, last_version)
    SELECT ${environmentId}::uuid, * FROM unnest(
      ${written.map((s) => s.key)}::text[], ${written.map((s) => s.version)}::int[])
    ON CONFLICT (environment_id, key) DO UPDATE SET last_version = excluded.last_version)`,
  sql`current AS (
    INSERT INTO secrets (id, environment_id, key, version, revision, created_at, updated_at)
    SELECT i.id, ${environmentId}::uuid, i.key, i.version, i.revision, ${at}::timestamptz, ${at}::timestamptz
    FROM unnest(${idsAndVersions(sql, written)}, ${written.map((s) => s.key)}::text[],
      ${written.map((s) => s.revision)}::bigint[]) AS i (id, version, key, revision)
    ON CONFLICT (id) DO UPDATE
    SET key = excluded.key, version = excluded.version, revision = excluded.revision, updated_at = excluded.updated_at,
      deleted_at = NULL, purge_at = NULL)`,
  // Postgres has no array of arrays of unequal length: the references travel as JSON. A data key that is active no more
  // is null, which fails the statement.
  sql`versions AS (
    INSERT INTO secret_versions (secret_id, version, kind, pinned, refs, data_key_id, sealed, created_at, created_by)
    SELECT i.id, i.version, i.kind, i.pinned, array(SELECT jsonb_array_elements_text(i.refs::jsonb)),
      (SELECT d.id FROM data_keys d WHERE d.id = ${dataKeyId} AND d.state = 'active'), i.sealed, ${at}, i.author::jsonb
    FROM unnest(
      ${idsAndVersions(sql, written)}, ${written.map((s) => s.kind)}::text[], ${written.map((s) => s.pinned)}::boolean[],
      ${written.map((s) => JSON.stringify(s.refs))}::text[], ${boxes}::bytea[], ${written.map((s) => s.author)}::text[]
    ) AS i (id, version, kind, pinned, refs, sealed, author))`
]

const dropping = (sql: Sql, { written }: RowChanges) => sql`dropped AS (
  DELETE FROM secret_versions v USING unnest(${idsAndVersions(sql, written)}) AS i (id, version)
  WHERE v.secret_id = i.id AND v.version < i.version)`

const rekeyed = ({ continued }: RowChanges) => continued.filter(({ from, to }) => from !== to)

/** Versions so far keep the key that they were sealed under. */
const keeping = (sql: Sql, changes: RowChanges) => sql`former AS (
  UPDATE secret_versions v SET key = i.key
  FROM unnest(${rekeyed(changes).map(({ id }) => id)}::uuid[], ${rekeyed(changes).map(({ from }) => from)}::text[]) AS i (id, key)
  WHERE v.secret_id = i.id AND v.key IS NULL)`

/** Absences of secrets that come back. */
const absences = (sql: Sql, { at, continued, restored }: RowChanges) => sql`absent AS (
  INSERT INTO secret_absences (secret_id, from_at, to_at) SELECT id, deleted_at, ${at}::timestamptz FROM secrets
  WHERE id = ANY(${[...continued, ...restored].map(({ id }) => id)}::uuid[]) AND deleted_at IS NOT NULL)`

const deleting = (sql: Sql, { at, deleted, revision }: RowChanges) => sql`deleted AS (
  UPDATE secrets
  SET deleted_at = ${at}, purge_at = ${new Date(at.getTime() + purgeDelay)}, revision = ${revision}
  WHERE id = ANY(${deleted}::uuid[]))`

/** `updated_at` stays: it is the time of the version, as `updatedBy` is its author. */
const restoring = (sql: Sql, { restored, revision }: RowChanges) => sql`restored AS (
  UPDATE secrets SET deleted_at = NULL, purge_at = NULL, revision = ${revision}
  WHERE id = ANY(${restored.map(({ id }) => id)}::uuid[]))`

const repinning = (sql: Sql, { repinned }: RowChanges) => sql`repinned AS (
  UPDATE secret_versions v SET pinned = i.pinned
  FROM unnest(${idsAndVersions(sql, repinned)}, ${repinned.map((r) => r.pinned)}::boolean[]) AS i (id, version, pinned)
  WHERE v.secret_id = i.id AND v.version = i.version)`

/** One statement cannot both delete a row and insert it again: rows that stay are left alone. */
const referring = (
  sql: Sql,
  { environmentId }: EnvironmentTarget,
  referred: ReadonlyArray<SecretId>,
  uses: ReadonlyArray<{ readonly id: SecretId; readonly key: string }>
) => [
  sql`uses AS (
    SELECT * FROM unnest(${uses.map(({ id }) => id)}::uuid[], ${uses.map(({ key }) => key)}::text[]) AS u (id, key))`,
  sql`unused AS (
    DELETE FROM secret_references r WHERE r.secret_id = ANY(${referred}::uuid[])
      AND NOT EXISTS (SELECT 1 FROM uses u WHERE u.id = r.secret_id AND u.key = r.key))`,
  sql`used AS (
    INSERT INTO secret_references (environment_id, key, secret_id) SELECT ${environmentId}::uuid, u.key, u.id FROM uses u
    ON CONFLICT DO NOTHING)`
]

/**
 * Bump `xmin` so that a waiting writer reads again, also when only a pin changed. No row marks a key that went to
 * another secret, so snapshots are built anew after it.
 */
const counting = (sql: Sql, { environmentId }: EnvironmentTarget, changes: RowChanges) => sql`total AS (
  UPDATE environments SET revision = ${changes.revision}, counted_revision = ${changes.revision},
    ${rekeyed(changes).length > 0 ? sql`tracked_from = ${changes.revision},` : sql``} live_secrets = ${changes.totals.secrets},
    written_bytes = ${changes.totals.written}, expanded_bytes = ${changes.totals.expanded}
  WHERE id = ${environmentId})`

/** The data-modifying parts of a WITH that make the changes. */
export const changing = (sql: Sql, target: EnvironmentTarget, changes: RowChanges) => {
  const { continued, deleted, keepsOne, referred, repinned, restored, written } = changes
  const uses = [...written, ...restored].flatMap(({ id, refs }) => refs.map((key) => ({ id, key })))
  const parts = [
    ...(written.length > 0 ? writing(sql, target, changes) : []),
    ...(written.length > 0 && keepsOne ? [dropping(sql, changes)] : []),
    ...(rekeyed(changes).length > 0 && !keepsOne ? [keeping(sql, changes)] : []),
    ...(continued.length + restored.length > 0 ? [absences(sql, changes)] : []),
    ...(deleted.length > 0 ? [deleting(sql, changes)] : []),
    ...(restored.length > 0 ? [restoring(sql, changes)] : []),
    ...(repinned.length > 0 ? [repinning(sql, changes)] : []),
    ...(uses.length > 0 || referred.length > 0 ? referring(sql, target, referred, uses) : []),
    counting(sql, target, changes)
  ]
  return sql.csv(parts)
}

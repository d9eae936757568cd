/**
 * Receivers of each version of a secret, in an index of the trail. It is filled from sealed entries, after they are
 * written, and a rebuild gives the same index. Rows combine to the same result in any order of streams. It has names
 * and numbers, never values.
 */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Values from "#src/audit/Values.ts"
import * as Rows from "#src/database/Rows.ts"
import { handOuts, ownerActions, readActions } from "./HandOuts.ts"

/** Entries that one statement reads. */
const batchSize = 1_000
/** Statements of one turn that read writes of before again. The rest of the server's upkeep waits for them. */
const catchUpBatches = 20
/** Any fixed number: the advisory lock of the filling process. */
const lock = 97_109_114

const indexedActions = [...new Set([...readActions, ...ownerActions, ...Values.actions, ...Values.textActions])]

/** For `audit_seals s`, `exposure_streams x` and `audit_cuts c`: the last entry that is indexed or cut off. */
const indexedSeq = (sql: SqlClient.SqlClient) => sql.literal("greatest(x.seq, c.seq, 0)")
/** h_0 of a stream, as in `Chain.genesis`. */
const genesis = "sha256(convert_to('ampoule audit v1' || s.stream::text, 'UTF8'))"

/** Whether an entry of `audit_entries e` follows the one before it in its stream, by the rule of `Chain.chain`. */
const isLinked = (sql: SqlClient.SqlClient, from: { readonly seq: string; readonly hash: string }) =>
  sql.literal(`
    e.seq = lag(e.seq, 1, ${from.seq}) OVER w + 1
    AND e.hash = sha256(lag(e.hash, 1, ${from.hash}) OVER w || convert_to(e.body, 'UTF8'))`)

const LockRow = Schema.Struct({ locked: Schema.Boolean })

/** Runs in a transaction of its own, unless another process fills the index. */
const whileLocked = (sql: SqlClient.SqlClient, work: Effect.Effect<number>) =>
  sql.withTransaction(
    Effect.flatMap(
      Rows.single(LockRow, sql`SELECT pg_try_advisory_xact_lock(${lock}::bigint) AS locked`),
      ({ locked }) => (locked ? work : Effect.succeed(0))
    )
  )

const CountRow = Schema.Struct({ n: Schema.Number })

/**
 * Indexes the next entries of a stream, and returns how many. 0: there are none, another process does it, or their links
 * are broken.
 */
const fillSome = (sql: SqlClient.SqlClient, stream: string) =>
  whileLocked(
    sql,
    Effect.map(
      Rows.single(
        CountRow,
        sql`
        WITH here AS (
          SELECT s.stream, s.seq AS last, ${indexedSeq(sql)} AS seq,
            CASE WHEN c.seq >= coalesce(x.seq, 0) THEN c.hash ELSE coalesce(x.hash, ${sql.literal(genesis)}) END AS hash,
            greatest(x.written_seq, c.seq, 0) >= ${indexedSeq(sql)} AS has_writes
          FROM audit_seals s LEFT JOIN exposure_streams x ON x.stream = s.stream
          LEFT JOIN audit_cuts c ON c.stream = s.stream
          WHERE s.stream = ${stream}
        ),
        following AS (
          SELECT e.seq, e.hash, e.at, e.action, e.body, ${isLinked(sql, { seq: "h.seq", hash: "h.hash" })} AS linked
          FROM here h JOIN audit_entries e ON e.stream = h.stream AND e.seq > h.seq AND e.seq <= least(h.last, h.seq + ${batchSize}::int)
          WINDOW w AS (ORDER BY e.seq)
        ),
        whole AS (
          SELECT * FROM following
          WHERE seq < coalesce((SELECT min(seq) FROM following WHERE NOT linked), 9223372036854775807)
        ),
        entries AS MATERIALIZED (
          SELECT * FROM (SELECT at, action, body::jsonb AS b FROM whole WHERE action = ANY(${indexedActions}::text[])) AS parsed
          WHERE b ->> 'outcome' = 'allowed'
        ),
        writes AS (
          INSERT INTO exposure_writes (environment_id, key, revision, version, carried_from)
          SELECT environment_id, key, revision, max(version), min(carried_from) FROM (
            SELECT (b ->> 'environmentId')::uuid AS environment_id, k.key, (b ->> 'revision')::bigint AS revision,
              CASE WHEN action = 'secret.delete' OR (action = 'secret.rename' AND k.i = 1) THEN 0 ELSE (b -> 'versions' ->> (k.i - 1)::int)::integer END AS version,
              CASE WHEN action = 'secret.rename' THEN b -> 'keys' ->> 0
                WHEN action IN ('secret.rollback', 'secret.restore') OR b ->> 'earlier' = 'true' THEN k.key END AS carried_from
            FROM entries, jsonb_array_elements_text(b -> 'keys') WITH ORDINALITY AS k (key, i)
            WHERE action = ANY(${Values.actions}::text[]) AND b ? 'versions' AND b ? 'revision'
          ) AS w GROUP BY environment_id, key, revision
          ON CONFLICT (environment_id, key, revision) DO UPDATE
          SET version = greatest(exposure_writes.version, excluded.version),
            carried_from = coalesce(exposure_writes.carried_from, excluded.carried_from)
        ),
        ${handOuts(sql, {
          actions: [...readActions, ...Values.textActions],
          withWrites: sql`(SELECT has_writes FROM here)`,
          isAgain: false
        })},
        progress AS (
          INSERT INTO exposure_streams (stream, seq, hash, written_seq)
          SELECT h.stream, w.seq, w.hash, CASE WHEN h.has_writes THEN w.seq ELSE 0 END
          FROM here h, (SELECT seq, hash FROM whole ORDER BY seq DESC LIMIT 1) AS w
          ON CONFLICT (stream) DO UPDATE SET seq = excluded.seq, hash = excluded.hash,
            written_seq = greatest(exposure_streams.written_seq, excluded.written_seq)
        )
        SELECT count(*)::float8 AS n FROM whole`
      ),
      ({ n }) => n
    )
  )

const againActions = [...readActions, ...Values.textActions]

/**
 * Indexes the authors of entries whose reads are indexed already, and the secrets inside of bare reads: the release
 * before counted neither. Reports check the links of these entries as of all others.
 */
const fillWrites = (sql: SqlClient.SqlClient, stream: string) =>
  whileLocked(
    sql,
    Effect.map(
      Rows.single(
        CountRow,
        sql`
        WITH here AS (
          SELECT x.stream, greatest(x.written_seq, c.seq) AS seq, x.seq AS last
          FROM exposure_streams x LEFT JOIN audit_cuts c ON c.stream = x.stream WHERE x.stream = ${stream}
        ),
        upto AS (SELECT stream, seq, least(last, seq + ${batchSize}::int) AS last FROM here WHERE seq < last),
        entries AS MATERIALIZED (
          SELECT * FROM (
            SELECT e.at, e.action, e.body::jsonb AS b FROM upto u
            JOIN audit_entries e ON e.stream = u.stream AND e.seq > u.seq AND e.seq <= u.last
            WHERE e.action = ANY(${[...ownerActions, ...againActions]}::text[])
          ) AS parsed WHERE b ->> 'outcome' = 'allowed'
        ),
        ${handOuts(sql, { actions: againActions, withWrites: sql`true`, isAgain: true })},
        progress AS (
          UPDATE exposure_streams x SET written_seq = u.last FROM upto u WHERE x.stream = u.stream
        )
        SELECT coalesce(sum(last - seq), 0)::float8 AS n FROM upto`
      ),
      ({ n }) => n
    )
  )

const StreamRow = Schema.Struct({ stream: Schema.String })

const streamsBehind = (sql: SqlClient.SqlClient) =>
  Rows.findAll(
    StreamRow,
    sql`
      SELECT s.stream FROM audit_seals s LEFT JOIN exposure_streams x ON x.stream = s.stream
      LEFT JOIN audit_cuts c ON c.stream = s.stream WHERE s.seq > ${indexedSeq(sql)} ORDER BY s.stream`
  )

const streamsWithoutWrites = (sql: SqlClient.SqlClient) =>
  Rows.findAll(
    StreamRow,
    sql`
      SELECT x.stream FROM exposure_streams x LEFT JOIN audit_cuts c ON c.stream = x.stream
      WHERE greatest(x.written_seq, c.seq) < x.seq ORDER BY x.stream`
  )

/** Reads an earlier release's part of the index again for its writes: some of it at each turn. */
const catchUp = Effect.fnUntraced(function* (sql: SqlClient.SqlClient) {
  let batches = catchUpBatches
  for (const { stream } of yield* streamsWithoutWrites(sql)) {
    while (batches > 0 && (yield* fillWrites(sql, stream)) > 0) batches--
    if (batches === 0) return
  }
})

/** Number of entries that were read so far. */
type Progress = (entries: number) => Effect.Effect<void>

const fillStreams = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, progress: Progress) {
  let entries = 0
  for (const { stream } of yield* streamsBehind(sql)) {
    for (let n = yield* fillSome(sql, stream); n > 0; n = yield* fillSome(sql, stream)) {
      entries += n
      yield* progress(entries)
    }
  }
})

/** Indexes entries up to the seals. */
export const fill = (sql: SqlClient.SqlClient) =>
  Effect.zipRight(
    fillStreams(sql, () => Effect.void),
    catchUp(sql)
  )

/**
 * Deletes the index and reads the trail from its start, a batch of entries at a time. Others see the old index until it
 * commits.
 */
export const rebuild = (sql: SqlClient.SqlClient, progress: Progress = () => Effect.void) =>
  sql.withTransaction(
    Effect.gen(function* () {
      yield* sql`SELECT pg_advisory_xact_lock(${lock}::bigint)`
      for (const nextPart of ["streams", "writes", "reads", "credentials"])
        yield* sql`DELETE FROM ${sql(`exposure_${nextPart}`)}`
      yield* fillStreams(sql, progress)
    })
  )

/** Whether a row of `audit_seals s` or `exposure_streams x` names an existing entry, or one before a recorded cut. */
const isIntact = (sql: SqlClient.SqlClient, of: "s" | "x") =>
  sql.literal(`(${of}.seq <= coalesce(c.seq, 0)
    OR EXISTS (SELECT 1 FROM audit_entries e WHERE e.stream = ${of}.stream AND e.seq = ${of}.seq AND e.hash = ${of}.hash))`)

const streams = (sql: SqlClient.SqlClient) =>
  sql.literal(`audit_seals s FULL JOIN exposure_streams x ON x.stream = s.stream
    LEFT JOIN audit_cuts c ON c.stream = coalesce(s.stream, x.stream)`)
const endsDiffer = (sql: SqlClient.SqlClient) => sql`
  s.stream IS NULL OR x.seq > s.seq OR NOT ${isIntact(sql, "s")} OR (x.seq IS NOT NULL AND NOT ${isIntact(sql, "x")})`

/**
 * Whether the trail was altered, as far as the database shows. Entries are not linked, or sealed or indexed entries are
 * gone or different without a signed cut. `ampoule audit verify` also asks the vault.
 */
export const isAltered = (sql: SqlClient.SqlClient) =>
  Rows.exists(sql`
    SELECT 1 FROM ${streams(sql)}
    WHERE ${endsDiffer(sql)}
      OR EXISTS (SELECT 1 FROM (
        SELECT ${isLinked(sql, { seq: "coalesce(c.seq, 0)", hash: `coalesce(c.hash, ${genesis})` })} AS linked
        FROM audit_entries e WHERE e.stream = s.stream AND e.seq > coalesce(c.seq, 0) AND e.seq <= s.seq
        WINDOW w AS (ORDER BY e.seq)
      ) AS each WHERE NOT linked)
    LIMIT 1`)

const HeadsRow = Schema.Struct({ altered: Schema.Boolean, entries: Schema.Number })

/**
 * The length of the trail, and whether its ends differ from the sealed and indexed ones. It also checks the links of at
 * most `maxEntries` unindexed entries per stream, more than arrive between two turns.
 */
export const heads = (sql: SqlClient.SqlClient, maxEntries: number) =>
  Rows.single(
    HeadsRow,
    sql`
      SELECT coalesce(bool_or(${endsDiffer(sql)} OR EXISTS (SELECT 1 FROM (
          SELECT ${isLinked(sql, {
            seq: "greatest(x.seq, c.seq, 0)",
            hash: `CASE WHEN c.seq >= coalesce(x.seq, 0) THEN c.hash ELSE coalesce(x.hash, ${genesis}) END`
          })} AS linked
          FROM audit_entries e WHERE e.stream = s.stream AND e.seq > ${indexedSeq(sql)}
            AND e.seq <= least(s.seq, ${indexedSeq(sql)} + ${maxEntries}::int)
          WINDOW w AS (ORDER BY e.seq)
        ) AS each WHERE NOT linked)), false) AS altered,
        coalesce(sum(greatest(0, s.seq - coalesce(c.seq, 0))), 0)::float8 AS entries
      FROM ${streams(sql)}`
  )

const PartRow = Schema.Struct({
  /** Null: no entry. */
  last: Schema.NullOr(Schema.Number),
  linked: Schema.Boolean,
  cut: Schema.Number,
  seal: Schema.Number
})

/** The next entries of a stream after `from`, which was checked before, or is the end of a cut. */
const part = (sql: SqlClient.SqlClient, stream: string, from: number, maxEntries: number) =>
  Rows.single(
    PartRow,
    sql`
      SELECT max(each.seq)::float8 AS last, coalesce(bool_and(coalesce(each.linked, false)), true) AS linked,
        (SELECT coalesce(max(c.seq), 0) FROM audit_cuts c WHERE c.stream = ${stream})::float8 AS cut,
        (SELECT coalesce(max(s.seq), 0) FROM audit_seals s WHERE s.stream = ${stream})::float8 AS seal
      FROM (
        SELECT e.seq, ${isLinked(sql, { seq: "b.seq", hash: "b.hash" })} AS linked
        FROM (
          SELECT p.seq, p.hash FROM audit_entries p WHERE p.stream = ${stream} AND p.seq = ${from}
          UNION ALL SELECT c.seq, c.hash FROM audit_cuts c WHERE c.stream = ${stream} AND c.seq = ${from}
          UNION ALL SELECT 0, sha256(convert_to('ampoule audit v1' || ${stream}::text, 'UTF8')) WHERE ${from}::bigint = 0
          LIMIT 1
        ) AS b
        RIGHT JOIN audit_entries e ON true
        WHERE e.stream = ${stream} AND e.seq > ${from} AND e.seq <= ${from}::bigint + ${maxEntries}::int
          AND e.seq <= (SELECT s.seq FROM audit_seals s WHERE s.stream = ${stream})
        WINDOW w AS (ORDER BY e.seq)
      ) AS each`
  )

/** Checks one stream in parts. A cut in the meantime removes entries before it. */
const isStreamAltered = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, stream: string, maxEntries: number) {
  const { cut } = yield* part(sql, stream, 0, 0)
  let from = cut
  for (;;) {
    const next = yield* part(sql, stream, from, maxEntries)
    if (next.cut > from) from = next.cut
    else if (!next.linked || (next.last === null && from < next.seal)) return true
    else if (next.last === null) return false
    else from = next.last
  }
})

/** Streams that one statement names. */
const streamsPerBatch = 100

/** The check of `isAltered`, in statements that read at most `maxEntries` entries. */
export const isAlteredInParts = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, maxEntries: number) {
  let after = "00000000-0000-0000-0000-000000000000"
  for (;;) {
    const rows = yield* Rows.findAll(
      StreamRow,
      sql`SELECT stream FROM audit_seals WHERE stream > ${after} ORDER BY stream LIMIT ${streamsPerBatch}`
    )
    for (const { stream } of rows) {
      if (yield* isStreamAltered(sql, stream, maxEntries)) return true
      after = stream
    }
    if (rows.length < streamsPerBatch) return (yield* heads(sql, maxEntries)).altered
  }
})

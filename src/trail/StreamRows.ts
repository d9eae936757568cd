/** Heads of audit streams in the database, for comparison with the process's own. */
import type * as SqlClient from "@effect/sql/SqlClient"
import { SqlError } from "@effect/sql/SqlError"
import type * as Statement from "@effect/sql/Statement"
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import * as Rows from "#src/database/Rows.ts"
import type { Position, WriteStream } from "./Streams.ts"

export const Bytes = Schema.Uint8ArrayFromSelf

const PositionRow = Schema.Struct({ seq: Schema.Int, hash: Bytes })
/** `followed`: entries exist after the head, which its own writer never causes. */
const HeadRow = Schema.Struct({ ...PositionRow.fields, stream: Schema.String, followed: Schema.Boolean })
export type HeadRow = typeof HeadRow.Type

/** The last entry of a stream, or the last one before a recorded cut. */
export const lastEntry = (sql: SqlClient.SqlClient) => (stream: string) =>
  Rows.decodeFirst(
    PositionRow,
    sql`
      SELECT seq, hash FROM (
        (SELECT seq, hash FROM audit_entries WHERE stream = ${stream} ORDER BY seq DESC LIMIT 1)
        UNION ALL SELECT seq, hash FROM audit_cuts WHERE stream = ${stream}
      ) AS last ORDER BY last.seq DESC LIMIT 1`
  )

/**
 * The ORDER BY is for the planner. Without it Postgres expects many entries after the head, and scans the table for
 * one. As there is none, each write would read the whole trail.
 */
const headColumns = (sql: SqlClient.SqlClient) =>
  sql.literal(`
  s.id AS stream, s.seq, s.hash,
  (SELECT e.seq FROM audit_entries e WHERE e.stream = s.id AND e.seq > s.seq ORDER BY e.seq LIMIT 1) IS NOT NULL AS followed`)

/** The head of a write stream. */
export const head = (sql: SqlClient.SqlClient) => (stream: string) =>
  Rows.decodeFirst(HeadRow, sql`SELECT ${headColumns(sql)} FROM audit_streams s WHERE s.id = ${stream}`)

/** Locks a free head among `streams` until this transaction ends. */
export const freeHead = (sql: SqlClient.SqlClient, streams: ReadonlyArray<string>) => sql<HeadRow>`
  SELECT ${headColumns(sql)} FROM audit_streams s WHERE s.id = ANY(${streams}::uuid[])
  LIMIT 1 FOR UPDATE SKIP LOCKED`

/** Locks the head of one stream until this transaction ends; waits for its current holder. */
export const lockedHead = (sql: SqlClient.SqlClient) => (stream: string) =>
  Rows.decodeFirst(HeadRow, sql`SELECT ${headColumns(sql)} FROM audit_streams s WHERE s.id = ${stream} FOR UPDATE`)

export const open = (sql: SqlClient.SqlClient, stream: string, beginning: Position, now: number) => sql`
  INSERT INTO audit_streams (id, seq, hash, created_at)
  VALUES (${stream}, ${beginning.seq}, ${beginning.hash}, ${new Date(now)}) ON CONFLICT DO NOTHING`

export const move = (sql: SqlClient.SqlClient, stream: string, { hash, seq }: Position) =>
  sql`UPDATE audit_streams SET seq = ${seq}, hash = ${hash} WHERE id = ${stream}`

/** The last assigned position that was committed. */
export const lastCommitted = (sql: SqlClient.SqlClient, { id, written }: WriteStream) => {
  const all = [...written].flatMap(([seq, hashes]) => hashes.map((hash) => ({ seq, hash })))
  return Rows.decodeFirst(
    PositionRow,
    sql`
      SELECT e.seq, e.hash FROM audit_entries e
      JOIN unnest(${all.map(({ seq }) => seq)}::bigint[], ${all.map(({ hash }) => hash)}::bytea[]) AS own (seq, hash)
        ON e.seq = own.seq AND e.hash = own.hash
      WHERE e.stream = ${id} ORDER BY e.seq DESC LIMIT 1`
  )
}

/** An error code of this module, in place of a SQLSTATE. */
const GONE = "ENTRY_BEFORE_IS_GONE"

/** Requires the key lists that the entries name. The LIMIT: see `CredentialRows.ts`. */
const listsExist = (sql: SqlClient.SqlClient, lists: ReadonlyArray<Buffer>) =>
  lists.length === 0
    ? sql``
    : sql`AND (
        SELECT count(*) FROM (SELECT * FROM unnest(${lists}::bytea[]) LIMIT ${lists.length}) AS named (hash)
        JOIN audit_key_lists l ON l.hash = named.hash
      ) = ${lists.length}`

/**
 * Inserts entries only if the entry before them exists, and every key list that they name (by hash, each once). The
 * statement may be the first on another server of the database, and that server may lag. `insert` is an INSERT … SELECT
 * … FROM.
 */
export const insertAfter = (
  sql: SqlClient.SqlClient,
  insert: Statement.Fragment,
  stream: string,
  rows: ReadonlyArray<{ readonly seq: number }>,
  lists: ReadonlyArray<Buffer>
) => {
  const before = (rows[0]?.seq ?? 1) - 1
  return Effect.filterOrFail(
    sql`${insert}
        WHERE (${before}::bigint = 0
          OR EXISTS (SELECT 1 FROM audit_entries e WHERE e.stream = ${stream}::uuid AND e.seq = ${before}::bigint)
          OR EXISTS (SELECT 1 FROM audit_cuts c WHERE c.stream = ${stream}::uuid AND c.seq = ${before}::bigint))
        ${listsExist(sql, lists)}
        RETURNING 1 AS added`,
    (inserted) => inserted.length === rows.length,
    () => new SqlError({ message: "what was committed before an entry is gone", cause: { code: GONE } })
  )
}

/** The number is in use, by an earlier statement of this process or by another writer, or a committed entry is gone. */
export const isStreamConflict = ({ cause }: SqlError) =>
  Predicate.hasProperty(cause, "code") && (cause.code === "23505" || cause.code === GONE)

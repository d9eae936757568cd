/** Exports the trail, or a part of it, as lines that verify offline, or as CSV. */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Rows from "#src/database/Rows.ts"
import * as Export from "#src/audit/Export.ts"
import * as KeyLists from "./KeyLists.ts"
import { Bytes } from "./StreamRows.ts"
import { rowsPerFetch, type Progress, snapshot } from "./TrailVerification.ts"

export interface ExportOptions {
  readonly since: Date | null
  readonly until: Date | null
  readonly format: "jsonl" | "csv"
  readonly now: number
  readonly write: (text: string) => Effect.Effect<void>
  readonly progress: Progress
}

/** The exported part of a stream, by entry numbers. */
interface Part {
  readonly stream: string
  readonly first: number
  readonly last: number
}

const PartRow = Schema.Struct({
  stream: Schema.String,
  first: Schema.NullOr(Schema.Int),
  last: Schema.NullOr(Schema.Int)
})
const HeadRow = Schema.Struct({ stream: Schema.String, seq: Schema.Int, hash: Bytes })
const FinalRow = Schema.Struct({ ...HeadRow.fields, final: Schema.Boolean })
const NoteRow = Schema.Struct({ note: Schema.String })

const partsOf = (sql: SqlClient.SqlClient, { since, until }: ExportOptions) =>
  Effect.map(
    Rows.decodeAll(
      PartRow,
      sql`
        SELECT stream, min(seq) FILTER (WHERE at >= ${since ?? new Date(0)}) AS first,
          max(seq) FILTER (WHERE at < ${until ?? new Date(8.64e14)}) AS last
        FROM audit_entries GROUP BY stream`
    ),
    (rows): ReadonlyArray<Part> =>
      rows.flatMap(({ first, last, stream }) =>
        first !== null && last !== null && first <= last ? [{ stream, first, last }] : []
      )
  )

const columnsOf = (parts: ReadonlyArray<Part>) => ({
  streams: parts.map(({ stream }) => stream),
  firsts: parts.map(({ first }) => first),
  lasts: parts.map(({ last }) => last)
})

/** Writes the lines before the entries: cuts, the seals inside the parts, and the link before each part. */
const writeHeader = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  options: ExportOptions,
  parts: ReadonlyArray<Part>,
  line: (line: Export.Line) => Effect.Effect<void>
) {
  const { now, since, until } = options
  const at = new Date(now).toISOString()
  yield* line({
    type: "export",
    info: { at, since: since?.toISOString() ?? null, until: until?.toISOString() ?? null }
  })
  const notes = yield* Rows.decodeAll(NoteRow, sql`SELECT note FROM audit_cuts ORDER BY stream`)
  for (const { note } of notes) yield* line({ type: "cut", note })
  const seals = yield* Rows.decodeAll(
    FinalRow,
    sql`SELECT stream, seq, hash, final FROM audit_seals WHERE seq > 0 ORDER BY stream`
  )
  const range = new Map(parts.map((part) => [part.stream, part]))
  const whole = since === null && until === null
  for (const row of seals) {
    const { first = 1, last = row.seq } = range.get(row.stream) ?? {}
    const within = row.seq >= first && row.seq <= last && (range.has(row.stream) || whole)
    if (within) yield* line({ type: "seal", head: row, final: row.final })
  }
  const { firsts, streams } = columnsOf(parts)
  const starts = yield* Rows.decodeAll(
    HeadRow,
    sql`
      SELECT e.stream, e.seq, e.hash FROM audit_entries e
      JOIN unnest(${streams}::uuid[], ${firsts}::bigint[]) AS r (stream, first)
        ON e.stream = r.stream AND e.seq = r.first - 1`
  )
  for (const head of starts) yield* line({ type: "start", head })
})

/** Typed at the statement without a decoder, as there may be millions of rows. The text is exported as it is. */
interface EntryRow {
  readonly body: string
  readonly hash: Buffer
  readonly keyList: string | null
}

const writeEntries = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  { format, progress, write }: ExportOptions,
  parts: ReadonlyArray<Part>
) {
  const { firsts, lasts, streams } = columnsOf(parts)
  yield* sql`DECLARE audit_walk NO SCROLL CURSOR FOR
    SELECT e.body, e.hash, encode(e.key_list, 'hex') AS key_list FROM audit_entries e
    JOIN unnest(${streams}::uuid[], ${firsts}::bigint[], ${lasts}::bigint[]) AS r (stream, first, last)
      ON e.stream = r.stream AND e.seq BETWEEN r.first AND r.last
    ORDER BY e.stream, e.seq`
  let entries = 0
  // Key lists written so far; CSV repeats the keys in each row.
  const writtenLists = new Set<string>()
  for (;;) {
    const rows = yield* sql<EntryRow>`FETCH ${sql.literal(String(rowsPerFetch))} FROM audit_walk`
    if (rows.length > 0) {
      const hashes = rows.flatMap(({ keyList }) => (keyList === null || writtenLists.has(keyList) ? [] : [keyList]))
      const lists = yield* KeyLists.find(sql, new Set(hashes))
      const text = rows.map(({ body, hash, keyList }) =>
        format === "csv"
          ? Export.csvRow(body, hash, lists.get(keyList ?? ""))
          : Export.print({ type: "entry", hash, body })
      )
      if (format === "jsonl") {
        for (const [hash, keys] of lists) {
          writtenLists.add(hash)
          yield* write(Export.print({ type: "keys", hash, keys }))
        }
      }
      yield* write(text.join(""))
    }
    entries += rows.length
    yield* progress(entries)
    if (rows.length < rowsPerFetch) break
  }
  yield* sql`CLOSE audit_walk`
  return entries
})

/** Memory grows with the number of streams only. Returns the number of entries. */
export const exportTrail = Effect.fn("TrailExport.exportTrail")(function* (options: ExportOptions) {
  const sql = yield* SqlClient.SqlClient
  const { format, write } = options
  const line = (line: Export.Line) => (format === "csv" ? Effect.void : write(Export.print(line)))
  return yield* snapshot(
    Effect.gen(function* () {
      const parts = yield* partsOf(sql, options)
      if (format === "csv") yield* write(Export.csvHeader)
      yield* writeHeader(sql, options, parts, line)
      const entries = yield* writeEntries(sql, options, parts)
      yield* line({ type: "end", entries })
      return entries
    })
  )
})

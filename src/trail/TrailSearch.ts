/**
 * Searches trails, newest first, in one range of ids after another, for at most a second. A caller continues from the
 * returned id.
 */
import type * as SqlClient from "@effect/sql/SqlClient"
import type { Fragment } from "@effect/sql/Statement"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { AuditEntry } from "#schema/Audit.ts"
import type { TeamId } from "#schema/Ids.ts"
import * as Rows from "#src/database/Rows.ts"
import * as KeyLists from "./KeyLists.ts"
import * as TrailIndex from "./TrailIndex.ts"

/** From `from` (included) to `to` (excluded). */
interface Range {
  readonly from: string
  readonly to: string
}

export interface Search extends Range {
  readonly teamIds: ReadonlyArray<TeamId>
  /** Conditions on each entry. */
  readonly conditions: ReadonlyArray<Fragment>
  /** Arrays of terms: a part of the trail must have a term of each. */
  readonly terms: ReadonlyArray<Fragment>
  readonly limit: number
}

export interface SearchResult {
  readonly entries: ReadonlyArray<AuditEntry>
  /** The id below which nothing was searched. Undefined: the search is complete. */
  readonly next: string | undefined
}

/** Milliseconds after which a search returns the entries found so far. */
const budgetMillis = 1_000
/** Entries of a team that one statement reads. Few at first, where most searches find enough. */
const firstWindow = 1_000
const lastWindow = 20_000
/** Parts of the trail per query. */
const partsPerQuery = 100

const StoredEntry = Schema.Struct({ ...AuditEntry.fields, keyList: Schema.optional(Schema.String) })
const WindowRow = Schema.Struct({
  edge: Schema.NullOr(Schema.String),
  id: Schema.NullOr(Schema.String),
  body: Schema.NullOr(Schema.parseJson(StoredEntry))
})

/**
 * Searches team by team in the order of the index: for several teams at once, the database would sort all entries.
 * `edge` is the id where the window ends. Null: the end of the range.
 */
const scan = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  { conditions, limit, teamIds }: Search,
  { from, to }: Range,
  window: number
) {
  const teams = sql`unnest(${teamIds}::uuid[]) AS t (id)`
  const edge =
    conditions.length === 0
      ? sql`NULL::uuid`
      : sql`(SELECT w.id FROM ${teams}, LATERAL (
          SELECT id FROM audit_entries WHERE team_id = t.id AND id < ${to}::uuid AND id >= ${from}::uuid
          ORDER BY id DESC OFFSET ${window}::int LIMIT 1
        ) AS w ORDER BY w.id DESC LIMIT 1)`
  const within = sql`team_id = t.id AND id < ${to}::uuid AND id >= coalesce(edge.id, ${from}::uuid)`
  const rows = yield* Rows.findAll(
    WindowRow,
    sql`
      SELECT edge.id AS edge, e.id, e.body FROM (SELECT ${edge} AS id) AS edge LEFT JOIN LATERAL (
        SELECT one.id, one.body FROM ${teams}, LATERAL (
          SELECT id, body FROM audit_entries WHERE ${sql.and([within, ...conditions])}
          ORDER BY id DESC LIMIT ${limit}::int
        ) AS one ORDER BY one.id DESC LIMIT ${limit}::int
      ) AS e ON true ORDER BY e.id DESC`
  )
  const entries = rows.flatMap(({ body }) => (body === null ? [] : [body]))
  const hashes = new Set(entries.flatMap(({ keyList }) => (keyList === undefined ? [] : [keyList])))
  const lists = yield* KeyLists.find(sql, hashes)
  return {
    edge: rows[0]?.edge ?? null,
    entries: entries.map(({ keyList, ...entry }): AuditEntry => {
      const keys = keyList === undefined ? undefined : lists.get(keyList)
      return keys === undefined ? entry : { ...entry, keys }
    })
  }
})

const PartRow = Schema.Struct({ part: Schema.String })

/** The newest consecutive parts below `to` that have a term of each array. */
const partsBelow = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  { from, teamIds, terms }: Search,
  to: string
) {
  const conditions = [
    sql`a.team_id = ANY(${teamIds}::uuid[])`,
    sql`a.part >= ${TrailIndex.partOf(from)} AND a.part <= ${TrailIndex.lastPartBelow(to)}`,
    ...terms.map((array, i) =>
      i === 0
        ? sql`a.term = ANY(${array})`
        : sql`EXISTS (SELECT 1 FROM audit_terms o WHERE o.team_id = a.team_id AND o.part = a.part AND o.term = ANY(${array}))`
    )
  ]
  const rows = yield* Rows.findAll(
    PartRow,
    sql`SELECT DISTINCT part FROM audit_terms a WHERE ${sql.and(conditions)} ORDER BY part DESC LIMIT ${partsPerQuery}`
  )
  const run = rows.filter(({ part }, i) => TrailIndex.beginOf(part, i) === TrailIndex.beginOf(rows[0]?.part ?? part))
  const newest = run[0]?.part
  const oldest = run.at(-1)?.part
  if (newest === undefined || oldest === undefined) return undefined
  const end = TrailIndex.beginOf(newest, 1)
  const begin = TrailIndex.beginOf(oldest)
  return { from: begin < from ? from : begin, to: end < to ? end : to } satisfies Range
})

/** The newest range below `to` that can have matches. */
const rangeBelow = (sql: SqlClient.SqlClient, request: Search, filledTo: string, to: string) =>
  Effect.suspend(() => {
    if (to <= request.from) return Effect.succeed(undefined)
    if (to <= filledTo) return partsBelow(sql, request, to)
    return Effect.succeed<Range>({ from: filledTo < request.from ? request.from : filledTo, to })
  })

export const search = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, request: Search) {
  const started = yield* Clock.currentTimeMillis
  // Without terms, every part can have matches.
  const filledTo = request.terms.length === 0 ? request.from : yield* TrailIndex.filledTo(sql)
  const entries: Array<AuditEntry> = []
  let window = firstWindow
  // The newest entries have most matches.
  let range: Range | undefined = request.to > request.from ? request : undefined
  while (range !== undefined) {
    const batch = yield* scan(sql, { ...request, limit: request.limit - entries.length }, range, window)
    entries.push(...batch.entries)
    const to: string = batch.edge ?? range.from
    const isLate = (yield* Clock.currentTimeMillis) - started > budgetMillis
    if (entries.length >= request.limit) return { entries, next: entries.at(-1)?.id } satisfies SearchResult
    if (isLate) return { entries, next: to } satisfies SearchResult
    range =
      window > firstWindow && to > range.from ? { from: range.from, to } : yield* rangeBelow(sql, request, filledTo, to)
    window = Math.min(4 * window, lastWindow)
  }
  return { entries, next: undefined } satisfies SearchResult
})

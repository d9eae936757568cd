/**
 * Searching trails, newest first: ranges of ids that can hold what is asked for, one after the other, for a second at
 * most. Whoever asks goes on where it ended.
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

/** `from` is included, `to` is not. */
interface Range {
  readonly from: string
  readonly to: string
}

export interface Search extends Range {
  readonly teamIds: ReadonlyArray<TeamId>
  /** What an entry has to fulfil. */
  readonly conditions: ReadonlyArray<Fragment>
  /** Of each array, a part of the trail has to hold a term. */
  readonly terms: ReadonlyArray<Fragment>
  readonly limit: number
}

export interface Found {
  readonly entries: ReadonlyArray<AuditEntry>
  /** Below this id nothing was looked at; undefined: that was all. */
  readonly next: string | undefined
}

/** Milliseconds after which a search that found too little answers what it has. */
const budget = 1_000
/** Entries of a team that one statement looks at: few at first, as most searches find what they want there. */
const firstWindow = 1_000
const lastWindow = 20_000
/** Parts of the trail that are asked for at once. */
const partsAtATime = 100

const StoredEntry = Schema.Struct({ ...AuditEntry.fields, keyList: Schema.optional(Schema.String) })
const WindowRow = Schema.Struct({
  edge: Schema.NullOr(Schema.String),
  id: Schema.NullOr(Schema.String),
  body: Schema.NullOr(Schema.parseJson(StoredEntry))
})

/**
 * Team by team, in the order of the index: of several at once the database would sort all entries. `edge`: the id down
 * to which the window reaches; null: to the end of the range.
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

/** The newest parts below `to` that hold a term of each array, as far as they follow one another. */
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
    sql`SELECT DISTINCT part FROM audit_terms a WHERE ${sql.and(conditions)} ORDER BY part DESC LIMIT ${partsAtATime}`
  )
  const run = rows.filter(({ part }, i) => TrailIndex.beginOf(part, i) === TrailIndex.beginOf(rows[0]?.part ?? part))
  const newest = run[0]?.part
  const oldest = run.at(-1)?.part
  if (newest === undefined || oldest === undefined) return undefined
  const end = TrailIndex.beginOf(newest, 1)
  const begin = TrailIndex.beginOf(oldest)
  return { from: begin < from ? from : begin, to: end < to ? end : to } satisfies Range
})

/** The newest range below `to` that can hold what is asked for. */
const rangeBelow = (sql: SqlClient.SqlClient, asked: Search, filledTo: string, to: string) =>
  Effect.suspend(() => {
    if (to <= asked.from) return Effect.succeed(undefined)
    if (to <= filledTo) return partsBelow(sql, asked, to)
    return Effect.succeed<Range>({ from: filledTo < asked.from ? asked.from : filledTo, to })
  })

export const search = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, asked: Search) {
  const started = yield* Clock.currentTimeMillis
  // Without terms every part can hold what is asked for.
  const filledTo = asked.terms.length === 0 ? asked.from : yield* TrailIndex.filledTo(sql)
  const entries: Array<AuditEntry> = []
  let window = firstWindow
  // The newest entries hold most of what is asked for.
  let range: Range | undefined = asked.to > asked.from ? asked : undefined
  while (range !== undefined) {
    const found = yield* scan(sql, { ...asked, limit: asked.limit - entries.length }, range, window)
    entries.push(...found.entries)
    const to: string = found.edge ?? range.from
    const isLate = (yield* Clock.currentTimeMillis) - started > budget
    if (entries.length >= asked.limit) return { entries, next: entries.at(-1)?.id } satisfies Found
    if (isLate) return { entries, next: to } satisfies Found
    range =
      window > firstWindow && to > range.from ? { from: range.from, to } : yield* rangeBelow(sql, asked, filledTo, to)
    window = Math.min(4 * window, lastWindow)
  }
  return { entries, next: undefined } satisfies Found
})

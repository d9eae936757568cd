/**
 * Gives the last entry of each stream a MAC of the newest generation, since a reader asks it for the end of the stream.
 * Entries before it keep theirs: the hash of the last entry covers them.
 */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as KeyRing from "#src/crypto/KeyRing.ts"
import { nothingLeft, type UnopenedRow } from "#src/crypto/RotationTurn.ts"
import * as Rows from "#src/database/Rows.ts"
import * as Entry from "./Entry.ts"
import { Bytes } from "./StreamRows.ts"
import * as TrailKey from "./TrailKey.ts"

const EndRow = Schema.Struct({
  stream: Schema.String,
  seq: Schema.Int,
  hash: Bytes,
  mac: Schema.NullOr(Bytes)
})

/** Streams per turn. */
const batchSize = 200
export const beforeAll = "00000000-0000-0000-0000-000000000000"

/** The ends of the streams after `after`, each found by the index. */
const endsAfter = (sql: SqlClient.SqlClient, after: string) =>
  Rows.decodeAll(
    EndRow,
    sql`
      WITH RECURSIVE streams AS (
        (SELECT stream FROM audit_entries WHERE stream > ${after}::uuid ORDER BY stream LIMIT 1)
        UNION ALL
        SELECT (SELECT e.stream FROM audit_entries e WHERE e.stream > s.stream ORDER BY e.stream LIMIT 1)
        FROM streams s WHERE s.stream IS NOT NULL
      )
      SELECT e.stream, e.seq::int AS seq, e.hash, e.mac
      FROM (SELECT stream FROM streams WHERE stream IS NOT NULL LIMIT ${batchSize}) s
      JOIN LATERAL (
        SELECT * FROM audit_entries WHERE stream = s.stream ORDER BY seq DESC LIMIT 1
      ) e ON true ORDER BY e.stream`
  )

/** One turn. A stream that grows meanwhile has an end by the newest key. */
export const batch = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, ring: KeyRing.KeyRing, after: string) {
  const ends = yield* endsAfter(sql, after)
  const end = ends.at(-1)
  if (end === undefined) return nothingLeft
  const proves = TrailKey.provedBy(ring)
  const refused: Array<UnopenedRow> = []
  let done = 0
  for (const { hash, mac, seq, stream } of ends) {
    if (mac === null || KeyRing.madeBy(ring, mac) === ring.newest) continue
    if (proves(hash, mac)) {
      yield* sql`
        UPDATE audit_entries SET mac = ${Entry.macOf(ring.newest, hash)}
        WHERE stream = ${stream}::uuid AND seq = ${seq} AND mac = ${mac}`
      done++
    } else refused.push({ table: "audit_entries", name: `${stream} ${seq}` })
  }
  return { last: end.stream, done, refused }
})

/** The ends of streams by one of these generations, `limit` at most. */
export const endsThatNeed = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  { generations, limit }: { readonly generations: ReadonlyArray<number>; readonly limit: number }
) {
  const result: Array<UnopenedRow> = []
  let after = beforeAll
  while (result.length < limit) {
    const ends = yield* endsAfter(sql, after)
    const end = ends.at(-1)
    if (end === undefined) break
    for (const { mac, seq, stream } of ends) {
      const generation = mac === null ? undefined : KeyRing.generationOf(mac)
      if (generation !== undefined && generations.includes(generation)) {
        result.push({ table: "audit_entries", name: `${stream} ${seq}` })
      }
    }
    after = end.stream
  }
  return result
})

/** Number of streams per generation of their end. */
export const endsPerGeneration = Effect.fnUntraced(function* (sql: SqlClient.SqlClient) {
  const counts = new Map<number, number>()
  let after = beforeAll
  for (;;) {
    const ends = yield* endsAfter(sql, after)
    const end = ends.at(-1)
    if (end === undefined) return counts
    for (const { mac } of ends) {
      const generation = mac === null ? undefined : KeyRing.generationOf(mac)
      if (generation !== undefined) counts.set(generation, 1 + (counts.get(generation) ?? 0))
    }
    after = end.stream
  }
})

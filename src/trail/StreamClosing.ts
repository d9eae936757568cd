/** The streams of other processes: those of processes that ended without closing them are closed, old MACs renewed. */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as SqlSchema from "@effect/sql/SqlSchema"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Chain from "#src/audit/Chain.ts"
import { implausible } from "#src/audit/Tail.ts"
import { Verifier } from "#src/audit/Verify.ts"
import { inTime, type Vault } from "#src/crypto/Vault.ts"
import type { Audit } from "./Audit.ts"
import * as SealRows from "./SealRows.ts"
import { Bytes } from "./StreamRows.ts"

export interface Needs {
  readonly sql: SqlClient.SqlClient
  readonly vault: Vault["Type"]
  readonly audit: Audit
  /** No other process uses the database, so that every stream of another process is one of a process that ended. */
  readonly alone: boolean
  /** Open streams of others, as this process saw them at its looks. */
  readonly watched: Watched
}

/** When the last look was, and since when each stream's `seenAt` has not moved, by this process's own clock. */
export interface Watched {
  at: number
  streams: ReadonlyMap<string, { readonly seenAt: number; readonly since: number }>
}

const streamsAtATime = 50
const watchedAtMost = 1_000
/** Entries that are checked without a pause for other work. */
const entriesAtATime = 100

const openStreams = (sql: SqlClient.SqlClient) =>
  SqlSchema.findAll({
    Request: Schema.Array(Schema.String),
    Result: SealRows.SealRow,
    execute: (except) => sql`
      SELECT ${SealRows.columns(sql)} FROM audit_seals
      WHERE NOT final AND stream <> ALL(${except}::uuid[])
      ORDER BY seen_at LIMIT ${watchedAtMost}`
  })

const EntryRow = Schema.Struct({ seq: Schema.Int, hash: Bytes, body: Schema.String, mac: Schema.NullOr(Bytes) })
const entriesAfter = (sql: SqlClient.SqlClient, stream: string) =>
  SqlSchema.findAll({
    Request: Schema.Int,
    Result: EntryRow,
    execute: (seq) => sql`
      SELECT seq, hash, body, mac FROM audit_entries
      WHERE stream = ${stream} AND seq > ${seq} ORDER BY seq LIMIT ${entriesAtATime}`
  })

/** Checks what was left unsealed, as many entries as there are: the vault may have been away for a while. */
const closeOne = Effect.fnUntraced(function* (needs: Needs, row: SealRows.SealRow) {
  const { audit, sql, vault } = needs
  if (!(yield* SealRows.genuine(vault, row)) || !(yield* SealRows.stands(sql, row))) {
    return yield* audit.seals.alarm.raise(row.stream, "the seal of a stream is wrong, or what it covers is gone")
  }
  const proves = yield* audit.seals.proves
  const verifier = new Verifier({ expected: [], cuts: [], starts: new Map([[row.stream, row]]), proves })
  let last: Chain.Head = row
  for (;;) {
    const entries = yield* entriesAfter(sql, row.stream)(last.seq)
    for (const entry of entries) verifier.add({ stream: row.stream, ...entry })
    const end = entries.at(-1)
    if (end !== undefined) last = { stream: row.stream, seq: end.seq, hash: end.hash }
    if (entries.length < entriesAtATime) break
  }
  const { from, problemCount, to } = verifier.finish()
  const times = { sealedAt: row.sealedAt.getTime(), seenAt: row.seenAt.getTime() }
  const what = from === undefined || to === undefined ? undefined : implausible(times, { oldest: from, newest: to })
  if (problemCount > 0 || what !== undefined) {
    const found = what ?? "do not fit each other, or no server wrote them"
    return yield* audit.seals.alarm.raise(row.stream, `entries at the end of a stream ${found}`)
  }
  if (last.seq === 0) yield* SealRows.discard(sql, row.stream)
  else yield* SealRows.put(needs, last, true, yield* Clock.currentTimeMillis)
})

/**
 * Whether the process of a stream ended. `seen_at` is under no MAC, so the database's word alone is not enough: this
 * process itself saw it unmoved all the time, and a process that runs moves it every minute.
 */
const watch = (watched: Watched, rows: ReadonlyArray<SealRows.SealRow>, now: number) => {
  const before = now - watched.at <= 2 * Chain.heartbeatMillis ? watched.streams : new Map<string, never>()
  const streams = new Map(
    rows.map(({ seenAt, stream }) => {
      const last = before.get(stream)
      return [stream, last?.seenAt === seenAt.getTime() ? last : { seenAt: seenAt.getTime(), since: now }]
    })
  )
  watched.at = now
  watched.streams = streams
  const longAgo = now - Chain.deadAfterMillis
  return ({ seenAt, stream }: SealRows.SealRow) =>
    seenAt.getTime() < longAgo && (streams.get(stream)?.since ?? now) <= longAgo
}

/**
 * Closes the streams of processes that ended without doing so: what they left unsealed is sealed, if it can be theirs.
 */
export const closeEnded = Effect.fnUntraced(function* (needs: Needs) {
  const { alone, audit, sql, watched } = needs
  const except = [
    ...(yield* audit.seals.streams),
    ...(yield* audit.seals.leftStreams),
    // An alarm stays one.
    ...audit.seals.alarm.alarmedStreams
  ]
  const rows = yield* openStreams(sql)(except)
  const hasEnded = watch(watched, rows, yield* Clock.currentTimeMillis)
  const ended = rows.filter((row) => alone || hasEnded(row))
  for (const row of ended.slice(0, streamsAtATime)) yield* closeOne(needs, row)
})

const sealsOfOtherKeys = (sql: SqlClient.SqlClient) =>
  SqlSchema.findAll({
    Request: Schema.String,
    Result: SealRows.SealRow,
    execute: (rootKeyId) => sql`
      SELECT ${SealRows.columns(sql)} FROM audit_seals WHERE root_key_id <> ${rootKeyId} LIMIT 500`
  })

/** After a rotation of the root key, so that the old one need not be kept for the seals. */
export const renewMacs = Effect.fnUntraced(function* ({ sql, vault }: Needs) {
  const { rootKeyId: current } = yield* inTime(vault.status)
  for (const row of yield* sealsOfOtherKeys(sql)(current)) {
    if (!(yield* SealRows.genuine(vault, row))) continue
    const made = yield* inTime(vault.macAuditHead(Chain.sealText(row, row.final)))
    yield* sql`
      UPDATE audit_seals SET root_key_id = ${made.rootKeyId}, mac = ${made.mac}
      WHERE stream = ${row.stream} AND seq = ${row.seq} AND final = ${row.final} AND mac = ${row.mac}`
  }
})

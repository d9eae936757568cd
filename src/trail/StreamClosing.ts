/** Streams of other processes: closes those of dead processes, and renews old MACs. */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Rows from "#src/database/Rows.ts"
import * as Chain from "#src/audit/Chain.ts"
import { implausibility } from "#src/audit/Tail.ts"
import { Verifier } from "#src/audit/Verify.ts"
import { inTime, type Vault } from "#src/crypto/Vault.ts"
import type { Audit } from "./Audit.ts"
import * as SealRows from "./SealRows.ts"
import { Bytes } from "./StreamRows.ts"

export interface Needs {
  readonly sql: SqlClient.SqlClient
  readonly vault: Vault["Type"]
  readonly audit: Audit
  /** Whether no other process uses the database, so that all other streams are of dead processes. */
  readonly alone: boolean
  /** Open streams of others, as this process observed them. */
  readonly observations: Observations
}

/** The time of the last look, and for each stream since when its `seenAt` has not changed, by this process's clock. */
export interface Observations {
  at: number
  streams: ReadonlyMap<string, { readonly seenAt: number; readonly since: number }>
}

const maxStreamsPerPass = 50
const maxObserved = 1_000
/** Number of entries to check without a pause for other work. */
const entriesPerBatch = 100

const openStreams = (sql: SqlClient.SqlClient) => (except: ReadonlyArray<string>) =>
  Rows.decodeAll(
    SealRows.SealRow,
    sql`
      SELECT ${SealRows.columns(sql)} FROM audit_seals
      WHERE NOT final AND stream <> ALL(${except}::uuid[])
      ORDER BY seen_at LIMIT ${maxObserved}`
  )

const EntryRow = Schema.Struct({ seq: Schema.Int, hash: Bytes, body: Schema.String, mac: Schema.NullOr(Bytes) })
const entriesAfter = (sql: SqlClient.SqlClient, stream: string) => (seq: number) =>
  Rows.decodeAll(
    EntryRow,
    sql`
      SELECT seq, hash, body, mac FROM audit_entries
      WHERE stream = ${stream} AND seq > ${seq} ORDER BY seq LIMIT ${entriesPerBatch}`
  )

/** Checks all unsealed entries, however many: the vault may have been down for a while. */
const closeOne = Effect.fnUntraced(function* (needs: Needs, row: SealRows.SealRow) {
  const { audit, sql, vault } = needs
  if (!(yield* SealRows.isGenuine(vault, row)) || !(yield* SealRows.isIntact(sql, row))) {
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
    if (entries.length < entriesPerBatch) break
  }
  const { from, problemCount, to } = verifier.finish()
  const times = { sealedAt: row.sealedAt.getTime(), seenAt: row.seenAt.getTime() }
  const reason =
    from === undefined || to === undefined ? undefined : implausibility(times, { oldest: from, newest: to })
  if (problemCount > 0 || reason !== undefined) {
    const problem = reason ?? "do not fit each other, or no server wrote them"
    return yield* audit.seals.alarm.raise(row.stream, `entries at the end of a stream ${problem}`)
  }
  if (last.seq === 0) yield* SealRows.discard(sql, row.stream)
  else yield* SealRows.put(needs, last, true, yield* Clock.currentTimeMillis)
})

/**
 * Finds out which processes have died. `seen_at` has no MAC, so the database alone is not trusted. This process must
 * see it unchanged the whole time, while a live process changes it every minute.
 */
const observe = (observations: Observations, rows: ReadonlyArray<SealRows.SealRow>, now: number) => {
  const before = now - observations.at <= 2 * Chain.heartbeatMillis ? observations.streams : new Map<string, never>()
  const streams = new Map(
    rows.map(({ seenAt, stream }) => {
      const last = before.get(stream)
      return [stream, last?.seenAt === seenAt.getTime() ? last : { seenAt: seenAt.getTime(), since: now }]
    })
  )
  observations.at = now
  observations.streams = streams
  const longAgo = now - Chain.deadAfterMillis
  return ({ seenAt, stream }: SealRows.SealRow) =>
    seenAt.getTime() < longAgo && (streams.get(stream)?.since ?? now) <= longAgo
}

/** Closes the streams of dead processes, and seals their unsealed entries if those are plausible. */
export const closeEnded = Effect.fnUntraced(function* (needs: Needs) {
  const { alone, audit, sql, observations: watched } = needs
  const except = [
    ...(yield* audit.seals.streams),
    ...(yield* audit.seals.retiredStreams),
    // Streams with an alarm stay open.
    ...audit.seals.alarm.alarmedStreams
  ]
  const rows = yield* openStreams(sql)(except)
  const hasEnded = observe(watched, rows, yield* Clock.currentTimeMillis)
  const closable = rows.filter((row) => alone || hasEnded(row))
  for (const row of closable.slice(0, maxStreamsPerPass)) yield* closeOne(needs, row)
})

const sealsOfOtherKeys = (sql: SqlClient.SqlClient) => (rootKeyId: string) =>
  Rows.decodeAll(
    SealRows.SealRow,
    sql`
      SELECT ${SealRows.columns(sql)} FROM audit_seals WHERE root_key_id <> ${rootKeyId} LIMIT 500`
  )

/** Renews MACs after a rotation of the root key, so that the old key is not needed for seals. */
export const renewMacs = Effect.fnUntraced(function* ({ sql, vault }: Needs) {
  const { rootKeyId: current } = yield* inTime(vault.status)
  for (const row of yield* sealsOfOtherKeys(sql)(current)) {
    if (!(yield* SealRows.isGenuine(vault, row))) continue
    const renewed = yield* inTime(vault.macAuditHead(Chain.sealText(row, row.final)))
    yield* sql`
      UPDATE audit_seals SET root_key_id = ${renewed.rootKeyId}, mac = ${renewed.mac}
      WHERE stream = ${row.stream} AND seq = ${row.seq} AND final = ${row.final} AND mac = ${row.mac}`
  }
})

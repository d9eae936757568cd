/**
 * Seals heads of streams outside the database: under the vault's MAC, and in signed checkpoints in a file. Requests do
 * not wait for it; after an outage of the vault it catches up. A process seals only heads that it computed itself
 * (`Streams.ts`), and the ends of streams of dead processes (`StreamClosing.ts`).
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { AppConfig } from "#src/AppConfig.ts"
import * as Chain from "#src/audit/Chain.ts"
import type * as Checkpoint from "#src/audit/Checkpoint.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { Vault } from "#src/crypto/Vault.ts"
import { methods } from "#src/Methods.ts"
import * as Rows from "#src/database/Rows.ts"
import { causeText } from "#src/telemetry/CauseText.ts"
import { Audit } from "./Audit.ts"
import * as StreamClosing from "./StreamClosing.ts"
import * as SealRows from "./SealRows.ts"
import type { RetiredStream } from "./Streams.ts"
import * as CheckpointFile from "./CheckpointFile.ts"
import * as ExposureIndex from "./ExposureIndex.ts"
import * as TrailIndex from "./TrailIndex.ts"

const wallClock = Clock.make()

interface Needs extends StreamClosing.Needs {
  /** Undefined: no checkpoints. */
  readonly file: CheckpointFile.Needs | undefined
  /** The last seal of this process, by stream. */
  readonly lastSeals: Map<string, Chain.Head>
  /** Possible values of `seen_at` of each own stream: the last one written, and those of failed statements since. */
  readonly seenTimes: Map<string, ReadonlyArray<number>>
  readonly state: { seenAt: number; closedAt: number }
  // One of each runs at a time.
  readonly sealing: Effect.Semaphore
  readonly closing: Effect.Semaphore
}

// --- the streams of this process ---

/** Most failed statements in a row whose values are kept. */
const maxSeenTimes = 100

const noteSeenTime = ({ seenTimes: seen }: Needs, stream: string, at: number) =>
  seen.set(stream, [...(seen.get(stream) ?? []), at].slice(-maxSeenTimes))

const forget = ({ lastSeals: sealed, seenTimes: seen }: Needs, stream: string) => {
  sealed.delete(stream)
  seen.delete(stream)
}

/**
 * The contradiction between an own stream and its seal row, which only another writer can cause. The stream is then
 * abandoned.
 */
const contradictionOf = (
  { lastSeals: sealed, seenTimes: seen }: Needs,
  stream: string,
  row: SealRows.SealRow | undefined
) => {
  if (row === undefined) {
    return (sealed.get(stream)?.seq ?? 0) > 0 ? "the seal of a stream that is being written is gone" : undefined
  }
  const times = seen.get(stream)
  return row.final || times === undefined || times.includes(row.seenAt.getTime())
    ? undefined
    : "another writer changed the time when the process of a stream was last seen"
}

/** The own streams that another process closed, and those that were altered. */
const inspectOwn = Effect.fnUntraced(function* (needs: Needs, streams: ReadonlyArray<string>) {
  const rows = new Map((yield* SealRows.ofStreams(needs.sql)(streams)).map((row) => [row.stream, row]))
  const altered: Array<string> = []
  for (const stream of streams) {
    const contradiction = contradictionOf(needs, stream, rows.get(stream))
    if (contradiction === undefined) continue
    altered.push(stream)
    yield* needs.audit.seals.rotateAltered(stream, contradiction)
  }
  return { altered, closed: streams.filter((stream) => rows.get(stream)?.final === true) }
})

/** Seals an own head. False: another process has closed the stream. */
const sealOwn = Effect.fnUntraced(function* (needs: Needs, head: Chain.Head, final: boolean) {
  const { audit, lastSeals: sealed, sql } = needs
  const before = sealed.get(head.stream)
  if (before !== undefined && before.seq === head.seq && !final) return true
  if (before !== undefined && (head.seq < before.seq || !(yield* SealRows.isIntact(sql, before)))) {
    yield* audit.seals.rotateAltered(head.stream, "sealed entries are gone or altered")
    return true
  }
  if (final && head.seq === 0) {
    yield* SealRows.discard(sql, head.stream)
    return true
  }
  const now = yield* Clock.currentTimeMillis
  noteSeenTime(needs, head.stream, now)
  if (!(yield* SealRows.put(needs, head, final, now))) return false
  sealed.set(head.stream, head)
  needs.seenTimes.set(head.stream, [now])
  return true
})

/**
 * Handles a stream of this process that another process closed. A seal over entries of another writer raises an alarm.
 * The stream then ends at the last own head, and `verify` reports the entries after it.
 */
const overruleOthers = Effect.fnUntraced(function* (needs: Needs, retired: RetiredStream, head: Chain.Head) {
  const { audit, sql, vault } = needs
  const [row] = yield* SealRows.ofStreams(sql)([head.stream])
  if (row === undefined || !row.final) return
  // Looks again, since a statement in flight may have been sealed too.
  const own = yield* audit.seals.lastOwnHead(retired)
  const isOwn = row.seq < own.seq ? yield* SealRows.isIntact(sql, row) : yield* audit.seals.isOwnEnd(retired, row)
  if (isOwn) return
  yield* audit.seals.alarm.raise(
    head.stream,
    "another process sealed entries that the process of the stream did not write"
  )
  // A seal that the vault did not make stays: it fails verification.
  if (!(yield* SealRows.isGenuine(vault, row))) return
  yield* SealRows.overrule(needs, row, own, yield* Clock.currentTimeMillis)
})

/** Closes abandoned streams at their last own head. Entries after it are from another writer. */
const closeRetired = Effect.fnUntraced(function* (needs: Needs, now: number) {
  const { audit, sql } = needs
  for (const retired of yield* audit.seals.streamsToClose(now)) {
    const head = yield* audit.seals.lastOwnHead(retired)
    if (head.seq === 0) yield* SealRows.discard(sql, head.stream)
    const isOurs = head.seq > 0 && (yield* SealRows.put(needs, head, true, yield* Clock.currentTimeMillis))
    if (!isOurs) yield* overruleOthers(needs, retired, head)
    forget(needs, head.stream)
    yield* audit.seals.forgetClosed(retired)
  }
})

/** `mustCompare` compares the streams with the database even after success. */
const sealAll = Effect.fnUntraced(function* (needs: Needs, final: boolean, mustCompare: boolean) {
  const { audit } = needs
  yield* audit.seals.resetDue
  const heads = yield* audit.seals.ownHeads(mustCompare)
  const streams = heads.map(({ stream }) => stream)
  // A process that slept for long may have been taken for dead, even without new entries.
  const { altered, closed } = yield* inspectOwn(needs, streams)
  const closedStreams = [...closed]
  for (const head of heads) {
    if (altered.includes(head.stream) || closed.includes(head.stream)) continue
    if (!(yield* sealOwn(needs, head, final))) closedStreams.push(head.stream)
  }
  yield* audit.seals.markReady(streams)
  if (closedStreams.length > 0) {
    yield* Effect.logWarning("An audit stream of this process was closed by another process; a new one is opened.")
    yield* audit.seals.rotateClosed(closedStreams)
  }
  const now = yield* Clock.currentTimeMillis
  yield* closeRetired(needs, final ? Number.POSITIVE_INFINITY : now)
})

const StreamRow = Schema.Struct({ stream: Schema.String })

/**
 * Reports that this process is alive. `complete`: the seals cover all its committed entries. It replaces only its own
 * last values.
 */
const reportAlive = Effect.fnUntraced(function* (needs: Needs, now: number, complete: boolean) {
  const { audit, seenTimes: seen, sql, state } = needs
  const time = new Date(now)
  const streams = yield* audit.seals.streams
  const knownTimes = streams.flatMap((stream) => (seen.get(stream) ?? []).map((at) => ({ stream, at })))
  for (const { stream } of knownTimes) noteSeenTime(needs, stream, now)
  const rows = yield* Rows.decodeAll(
    StreamRow,
    sql`
    UPDATE audit_seals s
    SET seen_at = ${time}, sealed_at = CASE WHEN ${complete}::boolean THEN ${time} ELSE s.sealed_at END
    FROM unnest(
      ${knownTimes.map(({ stream }) => stream)}::uuid[],
      ${knownTimes.map(({ at }) => new Date(at).toISOString())}::timestamptz[]
    ) AS own (stream, seen_at)
    WHERE NOT s.final AND s.stream = own.stream AND s.seen_at = own.seen_at
    RETURNING s.stream`
  )
  const updated = new Set(rows.map(({ stream }) => stream))
  for (const stream of updated) seen.set(stream, [now])
  if (knownTimes.some(({ stream }) => !updated.has(stream))) yield* inspectOwn(needs, streams)
  yield* audit.seals.alive(now)
  state.seenAt = now
})

const sealTurn = Effect.fnUntraced(function* (needs: Needs, final: boolean, isRequested: boolean) {
  const started = yield* Clock.currentTimeMillis
  const due = !final && started - needs.state.seenAt >= Chain.heartbeatMillis
  const result = yield* Effect.either(sealAll(needs, final, isRequested || due))
  // Also during an outage of the vault, when this process must not be taken for dead.
  if (due) yield* reportAlive(needs, started, Either.isRight(result))
  return yield* result
})

// --- everything together ---

const closeOthers = (needs: Needs, isRequested: boolean) =>
  Effect.gen(function* () {
    const now = yield* Clock.currentTimeMillis
    if (!isRequested && now - needs.state.closedAt < Chain.heartbeatMillis) return
    needs.state.closedAt = now
    yield* StreamClosing.closeEnded(needs)
    yield* StreamClosing.renewMacs(needs)
  }).pipe(needs.closing.withPermits(1))

const fillIndexes = ({ sql }: Needs) => Effect.zipRight(TrailIndex.fill(sql), ExposureIndex.fill(sql))

/** Seals and signs. `isRequested`: an operator or a test requests all of it now. */
const turn = Effect.fnUntraced(function* (needs: Needs, final: boolean, isRequested: boolean) {
  const { file, sealing } = needs
  yield* sealing.withPermits(1)(sealTurn(needs, final, isRequested))
  if (isRequested && !final) yield* Effect.zipRight(closeOthers(needs, true), fillIndexes(needs))
  if (file !== undefined) {
    yield* sealing.withPermits(1)(CheckpointFile.orWarn(file, CheckpointFile.checkpoint(file, final || isRequested)))
  }
})

/** Signs that a restored database is valid as it is. */
const accept = ({ file, sealing }: Needs, accepted: ReadonlyArray<Checkpoint.AcceptedHead>) =>
  file === undefined ? Effect.void : sealing.withPermits(1)(CheckpointFile.write(file, { heads: [], accepted }))

/** Seals a head as the last of its stream, on the operator's request. */
const close = (needs: Needs, head: Chain.Head) =>
  Effect.flatMap(Clock.currentTimeMillis, (now) => SealRows.put(needs, head, true, now))

const quietly = <E>(work: Effect.Effect<void, E>) =>
  Effect.catchAllCause(work, (cause) =>
    Effect.annotateLogs(
      Effect.logDebug("The audit trail was not sealed; the next attempt follows soon"),
      "cause",
      causeText(cause)
    )
  )

const pause = Effect.sleep(Chain.anchorMillis).pipe(Effect.withClock(wallClock))

/** Registers the streams of this process with the vault before the first entry. Streams of others can wait. */
const run = Effect.fnUntraced(function* (needs: Needs) {
  yield* Effect.addFinalizer(() =>
    quietly(turn(needs, true, false)).pipe(Effect.interruptible, Effect.timeoutOption("5 seconds"))
  )
  yield* quietly(needs.sealing.withPermits(1)(sealTurn(needs, false, false)))
  yield* quietly(turn(needs, false, false)).pipe(
    Effect.zipRight(Effect.raceFirst(pause, needs.audit.seals.due)),
    Effect.forever,
    Effect.forkScoped
  )
  // Runs beside it: checking a long end of a stream takes time.
  yield* quietly(closeOthers(needs, false)).pipe(
    Effect.zipRight(quietly(fillIndexes(needs))),
    Effect.zipRight(pause),
    Effect.forever,
    Effect.forkScoped
  )
})

export class Seal extends Effect.Service<Seal>()("trail/Seal", {
  scoped: Effect.gen(function* () {
    const config = yield* AppConfig
    const sql = yield* SqlClient.SqlClient
    const vault = yield* Vault
    const audit = yield* Audit
    const crypto = yield* Crypto
    const fs = yield* FileSystem.FileSystem
    const { alarm } = audit.seals
    const path = Option.getOrUndefined(config.auditCheckpoints)
    const needs: Needs = {
      sql,
      vault,
      audit,
      alone: Option.isNone(config.databaseUrl),
      file: path === undefined ? undefined : yield* CheckpointFile.make({ path, fs, sql, vault, crypto, alarm }),
      observations: { at: Number.NEGATIVE_INFINITY, streams: new Map() },
      lastSeals: new Map(),
      seenTimes: new Map(),
      state: { seenAt: 0, closedAt: 0 },
      sealing: yield* Effect.makeSemaphore(1),
      closing: yield* Effect.makeSemaphore(1)
    }
    yield* run(needs)
    /** Seals and signs everything committed so far. */
    const now = turn(needs, false, true)
    return { now, ...methods(needs, { accept, close }) } as const
  })
}) {}

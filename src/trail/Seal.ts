/**
 * Vouching for the trail from outside the database: heads of streams under the vault's MAC, and signed checkpoints in a
 * file. No request waits for it; while the vault is down it catches up later.
 *
 * A process seals only heads that it computed itself (`AuditStreams.ts`), and the ends of streams whose processes ended
 * (`AuditClosing.ts`).
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import { AppConfig } from "#src/AppConfig.ts"
import * as Chain from "#src/audit/Chain.ts"
import type * as Checkpoint from "#src/audit/Checkpoint.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { Vault } from "#src/crypto/Vault.ts"
import { methods } from "#src/Methods.ts"
import { causeText } from "#src/telemetry/CauseText.ts"
import { Audit } from "./Audit.ts"
import * as AuditClosing from "./StreamClosing.ts"
import * as SealRows from "./SealRows.ts"
import type { LeftStream } from "./Streams.ts"
import * as CheckpointFile from "./CheckpointFile.ts"
import * as ExposureIndex from "./ExposureIndex.ts"
import * as TrailIndex from "./TrailIndex.ts"

const wallClock = Clock.make()

interface Needs extends AuditClosing.Needs {
  /** Undefined: no checkpoints are kept. */
  readonly file: CheckpointFile.Needs | undefined
  /** What this process sealed last, by stream. */
  readonly sealed: Map<string, Chain.Head>
  /** What `seen_at` of each own stream can be: written last, or by a statement that failed since, by its answer. */
  readonly seen: Map<string, ReadonlyArray<number>>
  readonly state: { seenAt: number; closedAt: number }
  /** One at a time each. */
  readonly sealing: Effect.Semaphore
  readonly closing: Effect.Semaphore
}

// --- the streams of this process ---

/** Statements that failed one after the other. */
const attempts = 100

const mayBeSeen = ({ seen }: Needs, stream: string, at: number) =>
  seen.set(stream, [...(seen.get(stream) ?? []), at].slice(-attempts))

const forget = ({ sealed, seen }: Needs, stream: string) => {
  sealed.delete(stream)
  seen.delete(stream)
}

/** What the database says of own streams that only another writer of it can have made so; such a stream is left. */
const contradicted = ({ sealed, seen }: Needs, stream: string, row: SealRows.SealRow | undefined) => {
  if (row === undefined) {
    return (sealed.get(stream)?.seq ?? 0) > 0 ? "the seal of a stream that is being written is gone" : undefined
  }
  const known = seen.get(stream)
  return row.final || known === undefined || known.includes(row.seenAt.getTime())
    ? undefined
    : "somebody else wrote when the process of a stream was seen last"
}

/** Which of the own streams another process closed, and which were altered. */
const inspectOwn = Effect.fnUntraced(function* (needs: Needs, streams: ReadonlyArray<string>) {
  const rows = new Map((yield* SealRows.ofStreams(needs.sql)(streams)).map((row) => [row.stream, row]))
  const altered: Array<string> = []
  for (const stream of streams) {
    const what = contradicted(needs, stream, rows.get(stream))
    if (what === undefined) continue
    altered.push(stream)
    yield* needs.audit.seals.leaveAltered(stream, what)
  }
  return { altered, closed: streams.filter((stream) => rows.get(stream)?.final === true) }
})

/** Seals a head that this process knows to be its own. False: another process has closed the stream. */
const sealOwn = Effect.fnUntraced(function* (needs: Needs, head: Chain.Head, final: boolean) {
  const { audit, sealed, sql } = needs
  const before = sealed.get(head.stream)
  if (before !== undefined && before.seq === head.seq && !final) return true
  if (before !== undefined && (head.seq < before.seq || !(yield* SealRows.stands(sql, before)))) {
    yield* audit.seals.leaveAltered(head.stream, "entries that were sealed are gone or are others")
    return true
  }
  if (final && head.seq === 0) {
    yield* SealRows.discard(sql, head.stream)
    return true
  }
  const now = yield* Clock.currentTimeMillis
  mayBeSeen(needs, head.stream, now)
  if (!(yield* SealRows.put(needs, head, final, now))) return false
  sealed.set(head.stream, head)
  needs.seen.set(head.stream, [now])
  return true
})

/**
 * Another process closed a stream of this one. If it sealed what this process did not write, that is an alarm, and the
 * stream ends where this process says: `verify` names what follows.
 */
const overruleOthers = Effect.fnUntraced(function* (needs: Needs, left: LeftStream, head: Chain.Head) {
  const { audit, sql, vault } = needs
  const [row] = yield* SealRows.ofStreams(sql)([head.stream])
  if (row === undefined || !row.final) return
  // Again, since a statement that was under way may have been sealed too.
  const own = yield* audit.seals.lastOwnHead(left)
  const fits = row.seq < own.seq ? yield* SealRows.stands(sql, row) : yield* audit.seals.wrote(left, row)
  if (fits) return
  yield* audit.seals.alarm.raise(
    head.stream,
    "another process sealed entries that the process of the stream did not write"
  )
  // A seal that the vault did not make stays where it is: it does not verify.
  if (!(yield* SealRows.genuine(vault, row))) return
  yield* SealRows.overrule(needs, row, own, yield* Clock.currentTimeMillis)
})

/**
 * Closes streams that this process writes no more, at the last head that is its own: whatever follows was added by
 * somebody else.
 */
const closeLeft = Effect.fnUntraced(function* (needs: Needs, now: number) {
  const { audit, sql } = needs
  for (const left of yield* audit.seals.toClose(now)) {
    const head = yield* audit.seals.lastOwnHead(left)
    if (head.seq === 0) yield* SealRows.discard(sql, head.stream)
    const isOurs = head.seq > 0 && (yield* SealRows.put(needs, head, true, yield* Clock.currentTimeMillis))
    if (!isOurs) yield* overruleOthers(needs, left, head)
    forget(needs, head.stream)
    yield* audit.seals.closed(left)
  }
})

/** `look`: compare the streams with the database, also when nothing failed. */
const sealAll = Effect.fnUntraced(function* (needs: Needs, final: boolean, look: boolean) {
  const { audit } = needs
  yield* audit.seals.taken
  const heads = yield* audit.seals.ownHeads(look)
  const streams = heads.map(({ stream }) => stream)
  // One that slept for long may have been taken for dead, also when it has nothing new to seal.
  const { altered, closed } = yield* inspectOwn(needs, streams)
  const left = [...closed]
  for (const head of heads) {
    if (altered.includes(head.stream) || closed.includes(head.stream)) continue
    if (!(yield* sealOwn(needs, head, final))) left.push(head.stream)
  }
  yield* audit.seals.known(streams)
  if (left.length > 0) {
    yield* Effect.logWarning("An audit stream of this process was closed by another process; a new one is opened.")
    yield* audit.seals.leaveClosed(left)
  }
  const now = yield* Clock.currentTimeMillis
  yield* closeLeft(needs, final ? Number.POSITIVE_INFINITY : now)
})

/**
 * `complete`: the seals cover everything that this process had committed by now. Only what this process wrote last is
 * replaced.
 */
const sayAlive = Effect.fnUntraced(function* (needs: Needs, now: number, complete: boolean) {
  const { audit, seen, sql, state } = needs
  const time = new Date(now)
  const streams = yield* audit.seals.streams
  const known = streams.flatMap((stream) => (seen.get(stream) ?? []).map((at) => ({ stream, at })))
  for (const { stream } of known) mayBeSeen(needs, stream, now)
  const rows = yield* sql<{ readonly stream: string }>`
    UPDATE audit_seals s
    SET seen_at = ${time}, sealed_at = CASE WHEN ${complete}::boolean THEN ${time} ELSE s.sealed_at END
    FROM unnest(
      ${known.map(({ stream }) => stream)}::uuid[],
      ${known.map(({ at }) => new Date(at).toISOString())}::timestamptz[]
    ) AS own (stream, seen_at)
    WHERE NOT s.final AND s.stream = own.stream AND s.seen_at = own.seen_at
    RETURNING s.stream`
  const written = new Set(rows.map(({ stream }) => stream))
  for (const stream of written) seen.set(stream, [now])
  if (known.some(({ stream }) => !written.has(stream))) yield* inspectOwn(needs, streams)
  yield* audit.seals.alive(now)
  state.seenAt = now
})

const sealTurn = Effect.fnUntraced(function* (needs: Needs, final: boolean, asked: boolean) {
  const started = yield* Clock.currentTimeMillis
  const due = !final && started - needs.state.seenAt >= Chain.heartbeatMillis
  const outcome = yield* Effect.either(sealAll(needs, final, asked || due))
  // Also while the vault is away: this process must not be taken for dead then.
  if (due) yield* sayAlive(needs, started, Either.isRight(outcome))
  return yield* outcome
})

// --- everything together ---

const closeOthers = (needs: Needs, asked: boolean) =>
  Effect.gen(function* () {
    const now = yield* Clock.currentTimeMillis
    if (!asked && now - needs.state.closedAt < Chain.heartbeatMillis) return
    needs.state.closedAt = now
    yield* AuditClosing.closeEnded(needs)
    yield* AuditClosing.renewMacs(needs)
  }).pipe(needs.closing.withPermits(1))

const fillIndexes = ({ sql }: Needs) => Effect.zipRight(TrailIndex.fill(sql), ExposureIndex.fill(sql))

/** Seals and signs. `asked`: an operator, or a test, wants all of it now. */
const turn = Effect.fnUntraced(function* (needs: Needs, final: boolean, asked: boolean) {
  const { file, sealing } = needs
  yield* sealing.withPermits(1)(sealTurn(needs, final, asked))
  if (asked && !final) yield* Effect.zipRight(closeOthers(needs, true), fillIndexes(needs))
  if (file !== undefined) {
    yield* sealing.withPermits(1)(CheckpointFile.orWarn(file, CheckpointFile.checkpoint(file, final || asked)))
  }
})

/** Signs that a restored database is to count, as it is. */
const accept = ({ file, sealing }: Needs, accepted: ReadonlyArray<Checkpoint.Accepted>) =>
  file === undefined ? Effect.void : sealing.withPermits(1)(CheckpointFile.write(file, { heads: [], accepted }))

/** For the operator's word: a head that nobody vouches for becomes the last of its stream. */
const close = (needs: Needs, head: Chain.Head) =>
  Effect.flatMap(Clock.currentTimeMillis, (now) => SealRows.put(needs, head, true, now))

const quietly = <E>(work: Effect.Effect<void, E>) =>
  Effect.catchAllCause(work, (cause) =>
    Effect.annotateLogs(Effect.logDebug("The audit trail was not sealed; tried again soon"), "cause", causeText(cause))
  )

const pause = Effect.sleep(Chain.anchorMillis).pipe(Effect.withClock(wallClock))

/**
 * The vault knows the streams of this process before the first entry can be written. Streams of others are no hurry.
 */
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
  // Beside it: an end of many entries takes its time to check.
  yield* quietly(closeOthers(needs, false)).pipe(
    Effect.zipRight(quietly(fillIndexes(needs))),
    Effect.zipRight(pause),
    Effect.forever,
    Effect.forkScoped
  )
})

export class AuditSeal extends Effect.Service<AuditSeal>()("trail/AuditSeal", {
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
      watched: { at: Number.NEGATIVE_INFINITY, streams: new Map() },
      sealed: new Map(),
      seen: new Map(),
      state: { seenAt: 0, closedAt: 0 },
      sealing: yield* Effect.makeSemaphore(1),
      closing: yield* Effect.makeSemaphore(1)
    }
    yield* run(needs)
    /** Seals and signs what is there now. */
    const now = turn(needs, false, true)
    return { now, ...methods(needs, { accept, close }) } as const
  })
}) {}

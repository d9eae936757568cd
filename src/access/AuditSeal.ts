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
import { Audit } from "./Audit.ts"
import * as AuditClosing from "./AuditClosing.ts"
import * as SealRows from "./AuditSealRows.ts"
import * as CheckpointFile from "./CheckpointFile.ts"

const wallClock = Clock.make()

interface Needs extends AuditClosing.Needs {
  /** Undefined: no checkpoints are kept. */
  readonly file: CheckpointFile.Needs | undefined
  /** What this process sealed last, by stream. */
  readonly sealed: Map<string, Chain.Head>
  readonly state: { seenAt: number; closedAt: number }
  /** One at a time each. */
  readonly sealing: Effect.Semaphore
  readonly closing: Effect.Semaphore
}

// --- the streams of this process ---

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
  if (!(yield* SealRows.put(needs, head, final, yield* Clock.currentTimeMillis))) return false
  sealed.set(head.stream, head)
  return true
})

/**
 * Closes streams that this process writes no more, at the last head that is its own: whatever follows was added by
 * somebody else.
 */
const closeLeft = Effect.fnUntraced(function* (needs: Needs, now: number) {
  const { audit, sealed, sql } = needs
  for (const left of yield* audit.seals.toClose(now)) {
    const head = yield* audit.seals.lastOwnHead(left)
    if (head.seq === 0) yield* SealRows.discard(sql, head.stream)
    else yield* SealRows.put(needs, head, true, yield* Clock.currentTimeMillis)
    sealed.delete(head.stream)
    yield* audit.seals.closed(left)
  }
})

/** `look`: compare both streams with the database, also when nothing failed. */
const sealAll = Effect.fnUntraced(function* (needs: Needs, final: boolean, look: boolean) {
  const { audit, sealed, sql } = needs
  yield* audit.seals.taken
  const heads = yield* audit.seals.ownHeads(look)
  const streams = heads.map(({ stream }) => stream)
  // One that slept for long may have been taken for dead, also when it has nothing new to seal.
  const closed = yield* sql`SELECT 1 FROM audit_seals WHERE final AND stream = ANY(${streams}::uuid[])`
  let open = closed.length === 0
  for (const head of heads) open = (yield* sealOwn(needs, head, final)) && open
  if (!open) {
    yield* Effect.logWarning("The audit streams of this process were closed by another one; new ones are opened.")
    yield* audit.seals.leaveClosed(streams)
    for (const stream of streams) sealed.delete(stream)
  }
  const now = yield* Clock.currentTimeMillis
  yield* closeLeft(needs, final ? Number.POSITIVE_INFINITY : now)
})

/** `complete`: the seals cover everything that this process had committed by now. */
const sayAlive = Effect.fnUntraced(function* ({ audit, sql, state }: Needs, now: number, complete: boolean) {
  const seen = new Date(now)
  yield* sql`
    UPDATE audit_seals SET seen_at = ${seen}, sealed_at = CASE WHEN ${complete}::boolean THEN ${seen} ELSE sealed_at END
    WHERE NOT final AND stream = ANY(${[...(yield* audit.seals.streams)]}::uuid[])`
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

/** Seals and signs. `asked`: an operator, or a test, wants all of it now. */
const turn = Effect.fnUntraced(function* (needs: Needs, final: boolean, asked: boolean) {
  const { file, sealing } = needs
  yield* sealing.withPermits(1)(sealTurn(needs, final, asked))
  if (asked && !final) yield* closeOthers(needs, true)
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
  Effect.catchAllCause(work, (cause) => Effect.logDebug("The audit trail was not sealed; tried again soon", cause))

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
  yield* quietly(closeOthers(needs, false)).pipe(Effect.zipRight(pause), Effect.forever, Effect.forkScoped)
})

export class AuditSeal extends Effect.Service<AuditSeal>()("access/AuditSeal", {
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
      sealed: new Map(),
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

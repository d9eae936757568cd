/**
 * A cache, per process, of answers that hold values. It keeps sealed bytes: a hit costs one AEAD open and no query
 * (docs/architecture.md, "The hot path"). Plaintext exists only while a request is served.
 *
 * The answer to a question (one value, a page) is of one revision. The snapshot of all values follows the environment:
 * changed values are opened and replaced. A revision is valid within one server of the database: after a fail-over it
 * may be used again, so the cache is dropped.
 */
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import type { Representation } from "#schema/Values.ts"
import type { AuditEvent } from "#src/trail/Entry.ts"
import * as DatabaseEpoch from "#src/database/DatabaseEpoch.ts"
import { SnapshotCipher } from "#src/crypto/SnapshotCipher.ts"
import { methods } from "#src/Methods.ts"
import * as Metrics from "#src/telemetry/Metrics.ts"
import * as ValuePieces from "./ValuePieces.ts"

/** The part of the audit entry that names the values. */
export interface Read extends Pick<AuditEvent, "versions" | "contains" | "revision"> {
  readonly keys: ReadonlyArray<string>
}

/** The result of a build: the value, and the secrets that it holds. */
export interface Built<A> {
  readonly revision: number
  readonly read: Read
  readonly value: A
}

/** The result of a read: `http/` sends the bytes, callers inside the process take the value. */
export interface CachedRead<A> {
  readonly revision: number
  readonly read: Read
  /** The value as JSON, encoded once per snapshot. */
  readonly bytes: Uint8Array
  readonly value: () => A
}

/** Values at a revision: all of an environment, sorted by key, or the changed ones (null: deleted). */
interface Values<Value = string> {
  readonly revision: number
  readonly values: ReadonlyMap<string, Value>
}
type ChangedValues = Values<string | null>

/** All values of an environment, opened for one request. */
export interface OpenedValues {
  readonly revision: number
  readonly keys: ReadonlyArray<string>
  /** Members of a JSON object, to be joined by commas. */
  readonly members: ReadonlyArray<Buffer>
}

/** The build of the values of an environment. `since`: undefined when the changes are not known one by one. */
export interface Source<E, R> {
  readonly all: Effect.Effect<Values, E, R>
  readonly since: (revision: number) => Effect.Effect<ChangedValues | undefined, E, R>
}

interface Snapshot {
  readonly environmentId: string
  readonly revision: number
  readonly read: Read
  readonly pieces: ValuePieces.Pieces
  readonly bytes: number
  readonly heldUntil: number
}

/** The most sealed bytes of all snapshots together. Above it, the least recently used are dropped. */
const capacity = 64 * 1024 * 1024
/**
 * The time that a data key is kept in memory (docs/security.md, "Keys"): a snapshot must not outlive the key of its
 * rows.
 */
const timeToLive = 300_000

interface Needs {
  readonly cipher: SnapshotCipher
  /** In order of last use, oldest first. */
  readonly snapshots: Map<string, Snapshot>
  readonly pending: Map<string, Deferred.Deferred<unknown, unknown>>
  readonly usage: { bytes: number }
  /** Epoch of the database. When it changes, the cache is dropped. */
  readonly epoch: () => number
}

const drop = ({ snapshots, usage }: Needs, name: string) => {
  const snapshot = snapshots.get(name)
  if (snapshot === undefined) return
  snapshots.delete(name)
  usage.bytes -= snapshot.bytes
}

/** Replaces the snapshot of the same name. */
const keep = (needs: Needs, name: string, snapshot: Snapshot) => {
  const { snapshots, usage } = needs
  drop(needs, name)
  if (snapshot.bytes > capacity / 4) return
  snapshots.set(name, snapshot)
  usage.bytes += snapshot.bytes
  for (const oldest of snapshots.keys()) {
    if (usage.bytes <= capacity) break
    drop(needs, oldest)
  }
}

const find = (needs: Needs, name: string, now: number): Snapshot | undefined => {
  const { snapshots } = needs
  const snapshot = snapshots.get(name)
  if (snapshot !== undefined && now >= snapshot.heldUntil) drop(needs, name)
  else if (snapshot !== undefined) {
    snapshots.delete(name)
    snapshots.set(name, snapshot)
    return snapshot
  }
  return undefined
}

/** A loop: flatMap is 10 times slower for thousands of keys. */
const keysOf = (pieces: ValuePieces.Pieces) => {
  const all: Array<string> = []
  for (const { keys } of pieces) for (const key of keys) all.push(key)
  return all
}

const snapshotOf = (
  environmentId: string,
  pieces: ValuePieces.Pieces,
  heldUntil: number,
  revision: number,
  read: Read
): Snapshot => ({
  environmentId,
  revision,
  read,
  pieces,
  bytes: pieces.reduce((sum, { sealed }) => sum + sealed.length, 0),
  heldUntil
})

/** One build at a time under a name; others wait for its result. When its client goes away, the next caller builds. */
const oneAtATime: <A, E, R>(needs: Needs, name: string, work: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R> =
  Effect.fnUntraced(function* <A, E, R>(needs: Needs, name: string, work: Effect.Effect<A, E, R>) {
    const { pending } = needs
    // A name has one kind of work, with one type of result and one of failure.
    const other = pending.get(name) as Deferred.Deferred<A, E> | undefined
    if (other !== undefined) {
      const exit = yield* Effect.exit(Deferred.await(other))
      return Exit.isInterrupted(exit) ? yield* oneAtATime(needs, name, work) : yield* exit
    }
    const answer = yield* Deferred.make<A, E>()
    pending.set(name, answer as Deferred.Deferred<unknown, unknown>)
    return yield* Effect.onExit(work, (exit) => {
      if (pending.get(name) === answer) pending.delete(name)
      return Deferred.done(answer, exit)
    })
  })

/**
 * Returns the answer to the question `what` at `revision` or newer: a build may return a newer one, because it reads
 * after the caller's permit was issued.
 */
const get = Effect.fnUntraced(function* <A, E, R>(
  needs: Needs,
  environmentId: string,
  revision: number,
  what: string,
  build: () => Effect.Effect<Built<A>, E, R>
) {
  const { cipher } = needs
  const epoch = needs.epoch()
  const nameAt = (at: number) => `${environmentId}/${at}/${what}`
  const name = nameAt(revision)
  const snapshot = find(needs, name, yield* Clock.currentTimeMillis)
  const opened = snapshot === undefined ? Option.none() : yield* ValuePieces.open(cipher, snapshot.pieces)
  Metrics.snapshotLookedUp(Option.isSome(opened))
  if (snapshot !== undefined && Option.isSome(opened)) {
    const bytes = Buffer.concat(opened.value)
    // The bytes hold an A: a name has one question, and a question one type of answer.
    const value = () => JSON.parse(bytes.toString()) as A
    const cachedRead: CachedRead<A> = { revision: snapshot.revision, read: snapshot.read, bytes, value }
    return cachedRead
  }
  const building = Effect.map(
    Effect.zip(Effect.suspend(build), Clock.currentTimeMillis),
    ([made, now]): CachedRead<A> => {
      const bytes = Buffer.from(JSON.stringify(made.value))
      const piece = ValuePieces.whole(cipher, nameAt(made.revision), [], bytes)
      const snapshot = snapshotOf(environmentId, [piece], now + timeToLive, made.revision, made.read)
      if (needs.epoch() === epoch) keep(needs, nameAt(made.revision), snapshot)
      return { revision: made.revision, read: made.read, bytes, value: () => made.value }
    }
  )
  return yield* oneAtATime(needs, name, building)
})

const valuesName = (environmentId: string, representation: Representation) => `${environmentId}/${representation}`

/**
 * The snapshot of the revision after the changes; undefined when it cannot be opened. Where the keys stay, so does their
 * array: the trail hashes each array once (`Chain.ts`).
 */
const changed = Effect.fnUntraced(function* (
  { cipher }: Needs,
  name: string,
  snapshot: Snapshot,
  { revision, values }: ChangedValues
) {
  const change = yield* ValuePieces.change(cipher, name, snapshot.pieces, values)
  if (Option.isNone(change)) return undefined
  const { pieces, sameKeys } = change.value
  const keys = sameKeys ? snapshot.read.keys : keysOf(pieces)
  return snapshotOf(snapshot.environmentId, pieces, snapshot.heldUntil, revision, { keys, revision })
})

/** The cached snapshot, updated to the current revision; else all values are built. */
const renew = Effect.fnUntraced(function* <E, R>(
  needs: Needs,
  name: string,
  environmentId: string,
  source: Source<E, R>
) {
  const now = yield* Clock.currentTimeMillis
  const before = find(needs, name, now)
  const changes = before === undefined ? undefined : yield* source.since(before.revision)
  const followed =
    before === undefined || changes === undefined ? undefined : yield* changed(needs, name, before, changes)
  if (followed !== undefined) return followed
  const { revision, values } = yield* source.all
  const pieces = yield* ValuePieces.seal(needs.cipher, name, values)
  return snapshotOf(environmentId, pieces, now + timeToLive, revision, { keys: keysOf(pieces), revision })
})

type AskedValues<E, R> = [
  needs: Needs,
  environmentId: string,
  revision: number,
  representation: Representation,
  source: Source<E, R>,
  again?: boolean
]

/**
 * All values of an environment at `revision` or newer. `again`: the second read, after the permit of the caller; an
 * older revision then means that the database went back.
 */
const values: <E, R>(...asked: AskedValues<E, R>) => Effect.Effect<OpenedValues, E, R> = Effect.fnUntraced(function* <
  E,
  R
>(...[needs, environmentId, revision, representation, source, again = false]: AskedValues<E, R>) {
  const name = valuesName(environmentId, representation)
  const epoch = needs.epoch()
  const cached = find(needs, name, yield* Clock.currentTimeMillis)
  const isCurrent = cached !== undefined && cached.revision >= revision
  Metrics.snapshotLookedUp(isCurrent)
  const snapshot = isCurrent
    ? cached
    : yield* oneAtATime(
        needs,
        name,
        Effect.tap(renew(needs, name, environmentId, source), (made) =>
          Effect.sync(() => {
            if (needs.epoch() !== epoch) return
            const other = needs.snapshots.get(name)
            if (other === undefined || other.revision <= made.revision) keep(needs, name, made)
          })
        )
      )
  const opened = yield* ValuePieces.open(needs.cipher, snapshot.pieces)
  if ((snapshot.revision >= revision || again) && Option.isSome(opened)) {
    return { revision: snapshot.revision, keys: snapshot.read.keys, members: opened.value }
  }
  // The read began before the permit of the caller, or the cached bytes were altered.
  if (Option.isNone(opened)) drop(needs, name)
  return yield* values(needs, environmentId, revision, representation, source, true)
})

/** Whether a write from `revision` to the next one can update a snapshot here. */
const holds = (needs: Needs, environmentId: string, revision: number, representation: Representation) => {
  needs.epoch()
  return needs.snapshots.get(valuesName(environmentId, representation))?.revision === revision
}

/** Updates the snapshot after a write, if no other change came in between. */
const follow = Effect.fnUntraced(function* (
  needs: Needs,
  environmentId: string,
  representation: Representation,
  before: number,
  changes: ChangedValues
) {
  const name = valuesName(environmentId, representation)
  needs.epoch()
  const snapshot = needs.snapshots.get(name)
  if (snapshot === undefined || snapshot.revision !== before) return
  const updated = yield* changed(needs, name, snapshot, changes)
  if (needs.snapshots.get(name) !== snapshot) return
  if (updated === undefined) drop(needs, name)
  else keep(needs, name, updated)
})

/** Drops the snapshots of an environment that was changed or deleted. */
const forget = (needs: Needs, environmentId: string) =>
  Effect.sync(() => {
    for (const [name, snapshot] of needs.snapshots) if (snapshot.environmentId === environmentId) drop(needs, name)
  })

export class Snapshots extends Effect.Service<Snapshots>()("secrets/Snapshots", {
  effect: Effect.gen(function* () {
    const snapshots: Needs["snapshots"] = new Map()
    const pending: Needs["pending"] = new Map()
    const usage = { bytes: 0 }
    const epoch = yield* DatabaseEpoch.watch(() => {
      snapshots.clear()
      pending.clear()
      usage.bytes = 0
    })
    const needs: Needs = { cipher: yield* SnapshotCipher, snapshots, pending, usage, epoch }
    return {
      ...methods(needs, { holds, follow, forget }),
      get: <A, E, R>(
        environmentId: string,
        revision: number,
        what: string,
        /** Called only without a cached snapshot. */
        build: () => Effect.Effect<Built<A>, E, R>
      ) => get(needs, environmentId, revision, what, build),
      values: <E, R>(environmentId: string, revision: number, representation: Representation, source: Source<E, R>) =>
        values(needs, environmentId, revision, representation, source)
    }
  })
}) {}

/**
 * A cache, per process, of answers that hold values. It keeps sealed bytes by environment, revision and question: a hit
 * costs one AEAD open and no query (docs/architecture.md, "The hot path"). Plaintext exists only while a request is
 * served.
 */
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import { SnapshotCipher } from "#src/crypto/SnapshotCipher.ts"
import * as Metrics from "#src/telemetry/Metrics.ts"

/** The result of a build: the value, and the keys of the secrets that it holds. */
export interface Built<A> {
  readonly revision: number
  readonly keys: ReadonlyArray<string>
  readonly value: A
}

/** What `get` returns: `http/` sends the bytes, callers inside the process take the value. */
export interface Answer<A> {
  readonly revision: number
  readonly keys: ReadonlyArray<string>
  /** The value as JSON, encoded once per snapshot. */
  readonly bytes: Uint8Array
  readonly value: () => A
}

interface Snapshot {
  readonly environmentId: string
  readonly revision: number
  readonly keys: ReadonlyArray<string>
  readonly sealed: Buffer
  readonly heldUntil: number
}

const encoder = new TextEncoder()
const encoded = <A>({ keys, revision, value }: Built<A>): Answer<A> => ({
  revision,
  keys,
  bytes: encoder.encode(JSON.stringify(value)),
  value: () => value
})

/** The most sealed bytes of all snapshots together. Above it, the least recently used are dropped. */
const capacity = 64 * 1024 * 1024
/**
 * The time that a data key is kept in memory (docs/security.md, "Keys"): a snapshot must not outlive the key of its
 * rows.
 */
const timeToLive = 300_000

export class Snapshots extends Effect.Service<Snapshots>()("secrets/Snapshots", {
  effect: Effect.gen(function* () {
    const cipher = yield* SnapshotCipher
    const snapshots = new Map<string, Snapshot>()
    const pending = new Map<string, Deferred.Deferred<Answer<unknown>, unknown>>()
    let bytes = 0

    const name = (environmentId: string, revision: number, what: string) => `${environmentId}/${revision}/${what}`
    const drop = (key: string, entry: Snapshot) => {
      snapshots.delete(key)
      bytes -= entry.sealed.length
    }

    const find = <A>(key: string, now: number): Answer<A> | undefined => {
      const entry = snapshots.get(key)
      if (entry === undefined) return undefined
      if (now >= entry.heldUntil) {
        drop(key, entry)
        return undefined
      }
      const opened = cipher.open(entry.sealed, Buffer.from(key))
      if (Option.isNone(opened)) {
        drop(key, entry)
        return undefined
      }
      snapshots.delete(key)
      snapshots.set(key, entry)
      // `encoded` made the bytes from an A: `key` names the question, and the question has one type of answer.
      const value = () => JSON.parse(Buffer.from(opened.value).toString()) as A
      return { revision: entry.revision, keys: entry.keys, bytes: opened.value, value }
    }

    const keep = (environmentId: string, what: string, answer: Answer<unknown>, now: number) => {
      const key = name(environmentId, answer.revision, what)
      if (answer.bytes.length > capacity / 4 || snapshots.has(key)) return
      const sealed = cipher.seal(answer.bytes, Buffer.from(key))
      snapshots.set(key, {
        environmentId,
        revision: answer.revision,
        keys: answer.keys,
        sealed,
        heldUntil: now + timeToLive
      })
      bytes += sealed.length
      for (const [oldest, entry] of snapshots) {
        if (bytes <= capacity) break
        drop(oldest, entry)
      }
    }

    /**
     * Returns the answer to the question `what` at `revision` or newer. Each question has one build at a time, and
     * other callers wait for it. A build may return a newer revision, because it reads after the caller's permit was
     * issued.
     */
    const get = <A, E, R>(
      environmentId: string,
      revision: number,
      what: string,
      build: Effect.Effect<Built<A>, E, R>
    ): Effect.Effect<Answer<A>, E, R> =>
      Effect.gen(function* () {
        const key = name(environmentId, revision, what)
        const found = find<A>(key, yield* Clock.currentTimeMillis)
        Metrics.snapshotLookedUp(found !== undefined)
        if (found !== undefined) return found
        // `key` names the question, and the question has one type of answer and one of failure.
        const other = pending.get(key) as Deferred.Deferred<Answer<A>, E> | undefined
        // When a build is interrupted (its client went away), the next caller that waits builds.
        if (other !== undefined) {
          const exit = yield* Effect.exit(Deferred.await(other))
          if (!Exit.isInterrupted(exit)) return yield* exit
          return yield* get(environmentId, revision, what, build)
        }
        const answer = yield* Deferred.make<Answer<A>, E>()
        pending.set(key, answer as Deferred.Deferred<Answer<unknown>, unknown>)
        return yield* build.pipe(
          Effect.map(encoded),
          Effect.tap((made) => Effect.map(Clock.currentTimeMillis, (now) => keep(environmentId, what, made, now))),
          Effect.onExit((exit) => {
            pending.delete(key)
            return Deferred.done(answer, exit)
          })
        )
      })

    /** Drops the snapshots of an environment that was changed or deleted. */
    const forget = (environmentId: string) =>
      Effect.sync(() => {
        for (const [key, entry] of snapshots) if (entry.environmentId === environmentId) drop(key, entry)
      })

    return { get, forget } as const
  })
}) {}

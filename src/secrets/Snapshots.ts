/**
 * Answers that hold values, kept per process as sealed bytes by (environment, revision, what was asked): a hit costs one
 * AEAD open and no query (architecture 4). Plaintext lives only for the time of one request.
 */
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import { SnapshotCipher } from "#src/crypto/SnapshotCipher.ts"
import * as Metrics from "#src/telemetry/Metrics.ts"

/** An encoded JSON answer, and the names of the keys whose values it holds. */
export interface Answer {
  readonly revision: number
  readonly body: Uint8Array
  readonly keys: ReadonlyArray<string>
}

interface Held {
  readonly environmentId: string
  readonly revision: number
  readonly keys: ReadonlyArray<string>
  readonly sealed: Buffer
  readonly heldUntil: number
}

/** Sealed bytes of all snapshots together; the least recently used go first. */
const capacity = 64 * 1024 * 1024
/** As long as a data key is held (security 3.1): a snapshot must not outlive what could decrypt its rows. */
const timeToLive = 300_000

export class Snapshots extends Effect.Service<Snapshots>()("secrets/Snapshots", {
  effect: Effect.gen(function* () {
    const cipher = yield* SnapshotCipher
    const held = new Map<string, Held>()
    const pending = new Map<string, Deferred.Deferred<Answer, unknown>>()
    let bytes = 0

    const name = (environmentId: string, revision: number, what: string) => `${environmentId}/${revision}/${what}`
    const drop = (key: string, entry: Held) => {
      held.delete(key)
      bytes -= entry.sealed.length
    }

    const find = (key: string, now: number): Answer | undefined => {
      const entry = held.get(key)
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
      held.delete(key)
      held.set(key, entry)
      return { revision: entry.revision, body: opened.value, keys: entry.keys }
    }

    const keep = (environmentId: string, what: string, answer: Answer, now: number) => {
      const key = name(environmentId, answer.revision, what)
      if (answer.body.length > capacity / 4 || held.has(key)) return
      const sealed = cipher.seal(answer.body, Buffer.from(key))
      held.set(key, {
        environmentId,
        revision: answer.revision,
        keys: answer.keys,
        sealed,
        heldUntil: now + timeToLive
      })
      bytes += sealed.length
      for (const [oldest, entry] of held) {
        if (bytes <= capacity) break
        drop(oldest, entry)
      }
    }

    /**
     * The answer to `what` at `revision` or newer. One build per question at a time; the rest wait for it. A build that
     * finds a newer revision answers that one: it has read later than the caller's permit was issued.
     */
    const get = <E, R>(
      environmentId: string,
      revision: number,
      what: string,
      build: Effect.Effect<Answer, E, R>
    ): Effect.Effect<Answer, E, R> =>
      Effect.gen(function* () {
        const key = name(environmentId, revision, what)
        const found = find(key, yield* Clock.currentTimeMillis)
        Metrics.snapshotLookedUp(found !== undefined)
        if (found !== undefined) return found
        const underWay = pending.get(key) as Deferred.Deferred<Answer, E> | undefined
        // A builder that was interrupted (its client went away) leaves the question to whoever waits.
        if (underWay !== undefined) {
          const exit = yield* Effect.exit(Deferred.await(underWay))
          if (!Exit.isInterrupted(exit)) return yield* exit
          return yield* get(environmentId, revision, what, build)
        }
        const answer = yield* Deferred.make<Answer, E>()
        pending.set(key, answer as Deferred.Deferred<Answer, unknown>)
        return yield* build.pipe(
          Effect.tap((made) => Effect.map(Clock.currentTimeMillis, (now) => keep(environmentId, what, made, now))),
          Effect.onExit((exit) => {
            pending.delete(key)
            return Deferred.done(answer, exit)
          })
        )
      })

    /** Drops what is held of an environment: it changed or is gone. */
    const forget = (environmentId: string) =>
      Effect.sync(() => {
        for (const [key, entry] of held) if (entry.environmentId === environmentId) drop(key, entry)
      })

    return { get, forget } as const
  })
}) {}

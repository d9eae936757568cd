/** Notifications inside this process, sufficient with the embedded database. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Queue from "effect/Queue"
import * as Stream from "effect/Stream"
import { EventBus } from "#src/events/EventBus.ts"

/** Listeners of one process. `publishAll` wakes all of them. */
export const makeHub = () => {
  const listeners = new Map<string, Set<() => void>>()
  const wake = (heard: Iterable<() => void>) => {
    for (const one of heard) one()
  }
  const listen = (topic: string, heard: () => void) => {
    // A wrapper, because two listeners may be the same function.
    const listener = () => heard()
    listeners.set(topic, (listeners.get(topic) ?? new Set()).add(listener))
    return () => {
      listeners.get(topic)?.delete(listener)
      if (listeners.get(topic)?.size === 0) listeners.delete(topic)
    }
  }
  return {
    publish: (topic: string) => Effect.sync(() => wake([...(listeners.get(topic) ?? [])])),
    publishAll: Effect.sync(() => wake([...listeners.values()].flatMap((heard) => [...heard]))),
    listen,
    subscribe: (topic: string) =>
      Effect.gen(function* () {
        const queue = yield* Queue.sliding<void>(1)
        yield* Effect.acquireRelease(
          Effect.sync(() => listen(topic, () => void queue.unsafeOffer(undefined))),
          (stop) => Effect.sync(stop)
        )
        return Stream.fromQueue(queue)
      })
  }
}

export const layer = Layer.sync(EventBus, makeHub)

/** Notifications inside this process: all there is with the embedded database. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Queue from "effect/Queue"
import * as Stream from "effect/Stream"
import { EventBus } from "#src/events/EventBus.ts"

/** The subscribers of one process. `publishAll` wakes every one of them. */
export const makeHub = () => {
  const listeners = new Map<string, Set<Queue.Queue<void>>>()
  const offer = (queues: Iterable<Queue.Queue<void>>) =>
    Effect.forEach(queues, (queue) => Queue.offer(queue, undefined), { discard: true })
  return {
    publish: (topic: string) => Effect.suspend(() => offer(listeners.get(topic) ?? [])),
    publishAll: Effect.suspend(() => offer([...listeners.values()].flatMap((queues) => [...queues]))),
    subscribe: (topic: string) =>
      Effect.map(
        Effect.acquireRelease(
          Effect.tap(Queue.sliding<void>(1), (queue) =>
            Effect.sync(() => listeners.set(topic, (listeners.get(topic) ?? new Set()).add(queue)))
          ),
          (queue) =>
            Effect.sync(() => {
              listeners.get(topic)?.delete(queue)
              if (listeners.get(topic)?.size === 0) listeners.delete(topic)
            })
        ),
        (queue) => Stream.fromQueue(queue)
      )
  }
}

export const layer = Layer.sync(EventBus, makeHub)

import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import * as EventBusMemory from "#layers/EventBusMemory.ts"
import { EventBus } from "#src/events/EventBus.ts"

layer(EventBusMemory.layer)("notifications inside one process", (it) => {
  it.scoped("reach every subscriber of the topic, and nobody else", () =>
    Effect.gen(function* () {
      const bus = yield* EventBus
      const [one, two, other] = yield* Effect.all([bus.subscribe("a"), bus.subscribe("a"), bus.subscribe("b")])
      yield* bus.publish("a")
      assert.isTrue(Option.isSome(yield* Stream.runHead(one)))
      assert.isTrue(Option.isSome(yield* Stream.runHead(two)))
      const waiting = yield* Effect.fork(Stream.runHead(other))
      yield* Effect.yieldNow()
      assert.isTrue(Option.isNone(yield* Fiber.poll(waiting)))
      yield* bus.publish("b")
      assert.isTrue(Option.isSome(yield* Fiber.join(waiting)))
    })
  )

  it.scoped("count once when nobody looked in between, and end with the subscription", () =>
    Effect.gen(function* () {
      const bus = yield* EventBus
      const heard = yield* bus.subscribe("a")
      yield* Effect.repeatN(bus.publish("a"), 9)
      yield* Stream.runHead(heard)
      const again = yield* Effect.fork(Stream.runHead(heard))
      yield* Effect.yieldNow()
      assert.isTrue(Option.isNone(yield* Fiber.poll(again)))
      yield* Effect.scoped(bus.subscribe("c"))
      yield* bus.publish("c")
    })
  )
})

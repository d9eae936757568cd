import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as Fiber from "effect/Fiber"
import * as TestClock from "effect/TestClock"
import * as UnwrapLimit from "#src/vault/UnwrapLimit.ts"

describe("the limit of unwraps", () => {
  it.effect.prop(
    "lets no span of time have more than the burst and what the span refills",
    [
      FastCheck.integer({ min: 1, max: 50 }),
      FastCheck.array(FastCheck.record({ pause: FastCheck.nat(3_000), n: FastCheck.integer({ min: 1, max: 60 }) }), {
        maxLength: 40
      })
    ],
    ([rate, asked]) =>
      Effect.gen(function* () {
        const take = yield* UnwrapLimit.make(rate)
        const turns: Array<{ readonly asked: number; readonly at: number; readonly n: number }> = []
        const fibers: Array<Fiber.RuntimeFiber<void>> = []
        for (const { n, pause } of asked) {
          yield* TestClock.adjust(Duration.millis(pause))
          const requestedAt = yield* Clock.currentTimeMillis
          fibers.push(
            yield* Effect.fork(
              take(n).pipe(
                Effect.zipRight(Clock.currentTimeMillis),
                Effect.map((at) => void turns.push({ asked: requestedAt, at, n })),
                Effect.ignore
              )
            )
          )
        }
        yield* TestClock.adjust("5 seconds")
        yield* Effect.forEach(fibers, Fiber.join)
        for (let from = 0; from < turns.length; from++) {
          let sum = 0
          for (let to = from; to < turns.length; to++) {
            sum += turns[to].n
            const seconds = (turns[to].at - turns[from].asked) / 1000
            assert.isAtMost(sum, rate * UnwrapLimit.burstSeconds + rate * seconds + 0.001)
          }
        }
      })
  )

  it.effect("makes wait what comes a little too fast, in the order of its coming, and refuses the rest", () =>
    Effect.gen(function* () {
      const take = yield* UnwrapLimit.make(10)
      yield* take(10 * UnwrapLimit.burstSeconds)
      const order: Array<string> = []
      const one = yield* Effect.fork(
        Effect.zipRight(
          take(4),
          Effect.sync(() => order.push("one"))
        )
      )
      const two = yield* Effect.fork(
        Effect.zipRight(
          take(4),
          Effect.sync(() => order.push("two"))
        )
      )
      yield* Effect.yieldNow()
      assert.strictEqual((yield* Effect.flip(take(4)))._tag, "VaultUnavailable")
      yield* TestClock.adjust("399 millis")
      assert.deepStrictEqual(order, [])
      yield* TestClock.adjust("1 millis")
      assert.deepStrictEqual(order, ["one"])
      yield* TestClock.adjust("400 millis")
      assert.deepStrictEqual(order, ["one", "two"])
      yield* Fiber.join(Fiber.zip(one, two))
      // Refusals cost nothing: after a second ten more may go.
      yield* TestClock.adjust("1 second")
      yield* take(10)
    })
  )
})

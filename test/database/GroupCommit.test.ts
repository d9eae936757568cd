import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as GroupCommit from "#src/database/GroupCommit.ts"

const turn = Effect.async<void>((resume) => {
  setImmediate(() => resume(Effect.void))
})

/** Lets every fiber that can go on do so, and then what waits for the event loop. */
const settled = Effect.zipRight(Effect.repeatN(Effect.yieldNow(), 20), Effect.repeatN(turn, 2))

/** Keeps what its runs carry, and answers it. */
const recorded = Effect.suspend(() => {
  const batches: Array<ReadonlyArray<number>> = []
  const run = (batch: ReadonlyArray<number>) => {
    batches.push(batch)
    return Effect.succeed(batch)
  }
  return Effect.map(GroupCommit.make({ maxBatch: 100, maxInFlight: 1, run }), (submit) => ({ batches, submit }))
})

describe("GroupCommit", () => {
  it.effect("what comes in one turn of the event loop goes together, with what the sockets hold behind it", () =>
    Effect.gen(function* () {
      const { batches, submit } = yield* recorded
      const first = yield* Effect.fork(submit(1))
      yield* Effect.repeatN(Effect.yieldNow(), 20)
      const second = yield* Effect.fork(submit(2))
      yield* turn
      const third = yield* Effect.fork(submit(3))
      yield* Fiber.joinAll([first, second, third])
      assert.deepStrictEqual(batches, [[1, 2, 3]])
    })
  )

  it.effect(
    "while each turn of the event loop brings more, that goes along, and a caller is not kept waiting by others",
    () =>
      Effect.gen(function* () {
        const { batches, submit } = yield* recorded
        const items = Array.from({ length: 40 }, (_, i) => i)
        const callers = yield* Effect.forEach(items, (n) => Effect.zipLeft(Effect.fork(submit(n)), turn))
        yield* Fiber.joinAll(callers)
        assert.deepStrictEqual(batches.flat(), items)
        // The first comes in one turn, and the last in the seventh after it; later ones also while the run ends.
        for (const batch of batches.slice(0, -1)) {
          assert.isAtLeast(batch.length, 6)
          assert.isAtMost(batch.length, 12)
        }
      })
  )

  it.effect("what arrives while a run is in flight goes with the next, in order, each with its own result", () =>
    Effect.gen(function* () {
      const batches: Array<ReadonlyArray<number>> = []
      const gates = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
      const submit = yield* GroupCommit.make({
        maxBatch: 100,
        maxInFlight: 1,
        run: (batch: ReadonlyArray<number>) => {
          batches.push(batch)
          return Effect.as(
            Deferred.await(gates[batches.length - 1]),
            batch.map((n) => n * 2)
          )
        }
      })
      const first = yield* Effect.fork(submit(1))
      yield* settled
      const rest = yield* Effect.fork(Effect.all([submit(2), submit(3), submit(4)], { concurrency: "unbounded" }))
      yield* settled
      yield* Deferred.succeed(gates[0], undefined)
      assert.strictEqual(yield* Fiber.join(first), 2)
      yield* Deferred.succeed(gates[1], undefined)
      assert.deepStrictEqual(yield* Fiber.join(rest), [4, 6, 8])
      assert.deepStrictEqual(batches, [[1], [2, 3, 4]])
    })
  )

  it.effect("never runs more than the bounds say, and answers everybody", () =>
    Effect.gen(function* () {
      let running = 0
      let most = 0
      let largest = 0
      const submit = yield* GroupCommit.make({
        maxBatch: 7,
        maxInFlight: 2,
        run: (batch: ReadonlyArray<number>) =>
          Effect.gen(function* () {
            most = Math.max(most, ++running)
            largest = Math.max(largest, batch.length)
            yield* Effect.yieldNow()
            running--
            return batch
          })
      })
      const items = Array.from({ length: 500 }, (_, i) => i)
      assert.deepStrictEqual(yield* Effect.forEach(items, submit, { concurrency: 64 }), items)
      assert.isAtMost(most, 2)
      assert.isAtMost(largest, 7)
    })
  )

  it.effect("a failed run fails those it carried and nobody else", () =>
    Effect.gen(function* () {
      const submit = yield* GroupCommit.make({
        maxBatch: 1,
        maxInFlight: 1,
        run: (batch: ReadonlyArray<number>) => (batch[0] === 2 ? Effect.fail("no") : Effect.succeed(batch))
      })
      const outcomes = yield* Effect.forEach([1, 2, 3], (n) => Effect.either(submit(n)), { concurrency: "unbounded" })
      assert.deepStrictEqual(
        outcomes.map((o) => o._tag),
        ["Right", "Left", "Right"]
      )
    })
  )

  it.effect("who goes away while waiting is not carried; who goes away in flight takes nobody along", () =>
    Effect.gen(function* () {
      const batches: Array<ReadonlyArray<number>> = []
      const gate = yield* Deferred.make<void>()
      const submit = yield* GroupCommit.make({
        maxBatch: 100,
        maxInFlight: 1,
        run: (batch: ReadonlyArray<number>) => {
          batches.push(batch)
          return Effect.as(Deferred.await(gate), batch)
        }
      })
      const first = yield* Effect.fork(submit(1))
      const second = yield* Effect.fork(submit(2))
      yield* settled
      const waiting = yield* Effect.fork(submit(3))
      yield* settled
      yield* Fiber.interrupt(waiting)
      const leaving = yield* Effect.fork(Fiber.interrupt(second))
      yield* settled
      yield* Deferred.succeed(gate, undefined)
      assert.strictEqual(yield* Fiber.join(first), 1)
      yield* Fiber.join(leaving)
      assert.strictEqual(yield* submit(4), 4)
      assert.deepStrictEqual(batches, [[1, 2], [4]])
    })
  )
})

import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as FastCheck from "effect/FastCheck"
import * as Fiber from "effect/Fiber"
import * as FairTurns from "#src/limits/FairTurns.ts"

/** A work that reports its beginning, and ends on request. */
const makeWorks = (turns: FairTurns.FairTurns) => {
  const begun: Array<string> = []
  const start = (owner: string, name = owner) =>
    Effect.gen(function* () {
      const end = yield* Deferred.make<void>()
      const work = Effect.zipRight(
        Effect.sync(() => begun.push(name)),
        Deferred.await(end)
      )
      // Not the test's child: what runs is not interrupted, so that a test that leaves one running would not end.
      const fiber = yield* Effect.forkDaemon(turns.take(owner, work))
      // Every fiber runs as far as it can.
      yield* settled
      return { fiber, end: Effect.zipLeft(Deferred.succeed(end, undefined), settled) }
    })
  return { begun, start }
}
const settled = Effect.repeatN(Effect.yieldNow(), 50)
const tagOf = (exit: Exit.Exit<unknown, { readonly _tag: string }>) =>
  Exit.match(exit, {
    onSuccess: () => "done",
    onFailure: (cause) => (cause._tag === "Fail" ? cause.error._tag : cause._tag)
  })

describe("turns", () => {
  it.effect("run so many at once; the next one begins when one ends", () =>
    Effect.gen(function* () {
      const { begun, start } = makeWorks(FairTurns.make({ atOnce: 2, waiting: 8, retryAfterSeconds: 2 }))
      const first = yield* start("a", "a1")
      yield* start("a", "a2")
      yield* start("a", "a3")
      assert.deepStrictEqual(begun, ["a1", "a2"])
      yield* first.end
      assert.deepStrictEqual(begun, ["a1", "a2", "a3"])
    })
  )

  it.effect("go around the owners: one with a single work waits for one of each other's, not for all of them", () =>
    Effect.gen(function* () {
      const { begun, start } = makeWorks(FairTurns.make({ atOnce: 1, waiting: 64, retryAfterSeconds: 2 }))
      const works = [yield* start("greedy", "g0")]
      for (let i = 1; i <= 20; i++) works.push(yield* start("greedy", `g${i}`))
      works.push(yield* start("modest", "m0"))
      works.push(yield* start("other", "o0"))
      for (const work of works) yield* work.end
      assert.deepStrictEqual(begun.slice(0, 6), ["g0", "g1", "m0", "o0", "g2", "g3"])
      assert.lengthOf(begun, works.length)
    })
  )

  it.effect("refuse who comes to a full queue with RATE_LIMITED, before any of the work", () =>
    Effect.gen(function* () {
      const { begun, start } = makeWorks(FairTurns.make({ atOnce: 1, waiting: 2, retryAfterSeconds: 7 }))
      for (const owner of ["a", "b", "c"]) yield* start(owner)
      const late = yield* start("d")
      const refused = yield* Effect.flip(Fiber.join(late.fiber))
      assert.deepInclude(refused, { _tag: "RATE_LIMITED", retryAfterSeconds: 7 })
      assert.deepStrictEqual(begun, ["a"])
    })
  )

  it.effect("make room in a full queue at the cost of the team that fills it, whose newest work is refused", () =>
    Effect.gen(function* () {
      const { start } = makeWorks(FairTurns.make({ atOnce: 1, waiting: 3, retryAfterSeconds: 2 }))
      const running = yield* start("greedy")
      const waiting = [yield* start("greedy"), yield* start("greedy"), yield* start("greedy")]
      const modest = yield* start("modest")
      assert.strictEqual(tagOf(yield* Fiber.await(waiting[2].fiber)), "RATE_LIMITED")
      // One more would make it as greedy as the other.
      assert.strictEqual(tagOf(yield* Fiber.await((yield* start("modest")).fiber)), "RATE_LIMITED")
      for (const work of [running, waiting[0], modest, waiting[1]]) yield* work.end
      for (const work of [running, waiting[0], modest, waiting[1]]) {
        assert.strictEqual(tagOf(yield* Fiber.await(work.fiber)), "done")
      }
    })
  )

  it.effect("are left by who is interrupted while waiting; what runs runs to its end first", () =>
    Effect.gen(function* () {
      const { begun, start } = makeWorks(FairTurns.make({ atOnce: 1, waiting: 1, retryAfterSeconds: 2 }))
      const first = yield* start("a")
      const gone = yield* start("b")
      yield* Fiber.interrupt(gone.fiber)
      const next = yield* start("c")
      yield* Fiber.interruptFork(first.fiber)
      yield* settled
      assert.deepStrictEqual(begun, ["a"])
      yield* first.end
      assert.deepStrictEqual(begun, ["a", "c"])
      yield* next.end
      assert.strictEqual(tagOf(yield* Fiber.await(next.fiber)), "done")
    })
  )

  it.effect("end with a work that fails or dies, too", () =>
    Effect.gen(function* () {
      const turns = FairTurns.make({ atOnce: 1, waiting: 0, retryAfterSeconds: 2 })
      yield* Effect.exit(turns.take("a", Effect.fail("no")))
      yield* Effect.exit(turns.take("a", Effect.die("worse")))
      assert.strictEqual(yield* turns.take("a", Effect.succeed(1)), 1)
    })
  )

  const step = FastCheck.oneof(
    { weight: 3, arbitrary: FastCheck.record({ come: FastCheck.constantFrom("a", "b", "c", "d") }) },
    { weight: 1, arbitrary: FastCheck.record({ end: FastCheck.nat(40) }) },
    { weight: 1, arbitrary: FastCheck.record({ interrupt: FastCheck.nat(40) }) }
  )
  it.effect.prop(
    "whatever comes, ends and gives up: never more at once, never more waiting, and nobody is forgotten",
    [FastCheck.array(step, { maxLength: 60 }), FastCheck.integer({ min: 1, max: 3 }), FastCheck.nat(5)],
    ([steps, atOnce, waiting]) =>
      Effect.gen(function* () {
        const { begun, start } = makeWorks(FairTurns.make({ atOnce, waiting, retryAfterSeconds: 2 }))
        const works: Array<{ name: string; ended: boolean } & Effect.Effect.Success<ReturnType<typeof start>>> = []
        const isOpen = (work: (typeof works)[number]) =>
          Effect.map(Fiber.poll(work.fiber), (exit) => exit._tag === "None")
        for (const given of steps) {
          if ("come" in given) {
            const name = `${given.come}${works.length}`
            works.push({ name, ended: false, ...(yield* start(given.come, name)) })
          } else if ("end" in given) {
            const running = works.filter((work) => !work.ended && begun.includes(work.name))
            const work = running[given.end % Math.max(1, running.length)]
            if (work !== undefined) {
              work.ended = true
              yield* work.end
            }
          } else {
            const work = works[given.interrupt % Math.max(1, works.length)]
            if (work !== undefined) yield* Fiber.interruptFork(work.fiber)
            yield* settled
          }
          const open = yield* Effect.filter(works, isOpen)
          const running = open.filter((work) => begun.includes(work.name))
          assert.isAtMost(running.length, atOnce)
          assert.isAtMost(open.length - running.length, waiting)
          if (open.length > running.length) assert.strictEqual(running.length, atOnce)
        }
        for (let more = true; more;) {
          const running = works.filter((work) => !work.ended && begun.includes(work.name))
          more = running.length > 0
          for (const work of running) {
            work.ended = true
            yield* work.end
          }
        }
        assert.lengthOf(yield* Effect.filter(works, isOpen), 0)
        for (const work of works) {
          const tag = tagOf(yield* Fiber.await(work.fiber))
          if (begun.includes(work.name)) assert.notStrictEqual(tag, "RATE_LIMITED")
        }
      })
  )
})

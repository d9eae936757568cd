import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Deadline from "#src/http/Deadline.ts"

const pause = Effect.sleep("300 millis")

describe("the deadline of a request", () => {
  it.live("is told once, unless the work was in time", () =>
    Effect.gen(function* () {
      const told: Array<string> = []
      const source = { complete: true }
      Deadline.watch(source, () => told.push("late"), 20)
      Deadline.watch(source, () => told.push("in time"), 20)()
      yield* pause
      assert.deepStrictEqual(told, ["late"])
    })
  )

  it.live("does not count the time in which the body arrives", () =>
    Effect.gen(function* () {
      let late = false
      const source = { complete: false }
      const done = Deadline.watch(source, () => (late = true), 20)
      yield* pause
      assert.isFalse(late)
      source.complete = true
      while (!late) yield* Effect.sleep("20 millis")
      done()
    })
  )
})

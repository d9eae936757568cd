import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { watchDeadline } from "#src/http/engine/RequestPipeline.ts"

const pause = Effect.sleep("300 millis")

describe("the deadline of a request", () => {
  it.live("fires once, unless the work was in time", () =>
    Effect.gen(function* () {
      const events: Array<string> = []
      const source = { complete: true }
      watchDeadline(source, () => events.push("late"), 20)
      watchDeadline(source, () => events.push("in time"), 20)()
      yield* pause
      assert.deepStrictEqual(events, ["late"])
    })
  )

  it.live("does not count the time in which the body arrives", () =>
    Effect.gen(function* () {
      const events: Array<string> = []
      const source = { complete: false }
      const done = watchDeadline(source, () => events.push("late"), 20)
      yield* pause
      assert.deepStrictEqual(events, [])
      source.complete = true
      while (events.length === 0) yield* Effect.sleep("20 millis")
      done()
    })
  )
})

import * as StartGarbage from "#layers/StartGarbage.ts"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { setImmediate } from "node:timers/promises"
import { runInNewContext } from "node:vm"

/** A reference to something that nobody holds. V8 looks at such references in collections of the whole heap alone. */
const abandoned = () => new WeakRef({ what: "garbage" })
/** Objects of this turn of the event loop are held until its end. */
const nextTurn = Effect.promise(() => setImmediate())

describe("what a start leaves behind", () => {
  it.effect("is collected when asked for, and not before", () =>
    Effect.gen(function* () {
      const before = abandoned()
      yield* nextTurn
      assert.isDefined(before.deref())
      const after = abandoned()
      yield* nextTurn
      yield* StartGarbage.collect
      assert.isUndefined(after.deref())
    })
  )

  it.effect("and code that is loaded later runs under the flags of before", () =>
    Effect.gen(function* () {
      yield* StartGarbage.collect
      assert.strictEqual(runInNewContext("typeof gc"), "undefined")
    })
  )
})

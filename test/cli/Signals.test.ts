/** Signals of a program that waits for another one. */
import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Signals from "#src/cli/terminal/Signals.ts"

it.effect("what Node ignores stays ignored when nobody handles it any more", () =>
  Effect.gen(function* () {
    for (const signal of ["SIGPIPE", "SIGXFSZ"] as const) {
      const before = process.listenerCount(signal)
      yield* Effect.scoped(Signals.handledBy(() => {}, [signal]))
      assert.isAbove(process.listenerCount(signal), before, "the last listener takes the ignoring with it")
    }
  })
)

import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import * as HashMap from "effect/HashMap"
import * as Housekeeping from "#src/Housekeeping.ts"

describe("background work", () => {
  it.scopedLive(
    "continues after failures, which are logged once in a row, by name and code alone, and so is their end",
    () =>
      Effect.gen(function* () {
        const messages: Array<{ readonly message: string; readonly about: Record<string, unknown> }> = []
        const log = Logger.replace(
          Logger.defaultLogger,
          Logger.make(({ annotations, message }) => {
            messages.push({ message: String(message), about: Object.fromEntries(HashMap.toEntries(annotations)) })
          })
        )
        let turn = 0
        const work = Effect.suspend(() => {
          turn++
          if (turn === 3) return Effect.void
          if (turn > 4) return Effect.void
          return Effect.fail({
            _tag: "SqlError",
            message: "canary-5f1d",
            cause: { code: "40P01", detail: "canary-5f1d" }
          })
        })
        yield* Housekeeping.every("1 millis", work, "sweeping").pipe(Effect.provide(log))
        yield* Effect.sleep("10 millis").pipe(Effect.repeat({ until: () => turn >= 8 }), Effect.timeout("30 seconds"))
        const failed = [
          "Background work failed; it is tried again.",
          { work: "sweeping", error: "SqlError 40P01" }
        ] as const
        const goesOn = ["Background work continues.", { work: "sweeping" }] as const
        assert.deepStrictEqual(
          messages.map(({ about, message }) => [message, about]),
          [failed, goesOn, failed, goesOn].map((one) => [...one])
        )
      })
  )
})

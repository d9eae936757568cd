import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Cells from "./Cells.ts"

layer(Cells.layer, { excludeTestServices: true })("20,000 random cells of the matrix of access", (it) => {
  it.effect(
    "the server, the oracle and the policies in Cedar agree",
    () =>
      Effect.gen(function* () {
        const seen = yield* Cells.check(20, 1_000)
        assert.strictEqual(
          [...seen.values()].reduce((all, n) => all + n, 0),
          20_000
        )
      }),
    1_800_000
  )
})

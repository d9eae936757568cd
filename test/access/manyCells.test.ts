import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Sampled from "#test/support/Sampled.ts"
import * as Cells from "./Cells.ts"

/** 20,000 cells in `npm run test:whole`. */
const perScene = Sampled.cases(1_000, 250)

layer(Cells.layer, { excludeTestServices: true })("random cells of the matrix of access", (it) => {
  it.effect(
    "the server, the oracle and the policies in Cedar agree",
    () =>
      Effect.gen(function* () {
        const seen = yield* Cells.check(20, perScene)
        assert.strictEqual(
          [...seen.values()].reduce((all, n) => all + n, 0),
          20 * perScene
        )
      }),
    1_800_000
  )
})

/** Five hundred lives in `npm run test:whole`, as `Exposure.test.ts` has a few. */
import { layer } from "@effect/vitest"
import * as Sampled from "#test/support/Sampled.ts"
import { compared, layer as app } from "#test/trail-use/ExposureHistories.ts"

layer(app, { timeout: 1_200_000 })((it) => {
  it.scoped("the ledger tells what the exported trail tells", () => compared(Sampled.cases(500, 60), 10), 1_200_000)
})

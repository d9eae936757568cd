/** Five hundred lives, as `Exposure.test.ts` has a few. */
import { layer } from "@effect/vitest"
import { compared, layer as app } from "./ExposureHistories.ts"

layer(app, { timeout: 1_200_000 })((it) => {
  it.scoped("the ledger tells what the exported trail tells, of 500 histories", () => compared(500, 10), 1_200_000)
})

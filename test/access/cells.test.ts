import { layer } from "@effect/vitest"
import * as Cells from "./Cells.ts"

layer(Cells.layer, { excludeTestServices: true })("random cells of the matrix of access", (it) => {
  it.effect("the server, the oracle and the policies in Cedar agree", () => Cells.check(2, 200))
})

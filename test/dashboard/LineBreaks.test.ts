/** A value that a page shows and saves keeps its line breaks, though a text field knows only LF. */
import { assert, describe, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import * as LineBreaks from "#src/dashboard/secrets/LineBreaks.ts"

/** Text of a browser's field: every line break is LF (HTML, 4.10.11). */
const inField = (text: string) => text.replaceAll(/\r\n|\r/g, "\n")

describe("line breaks of an edited value", () => {
  it("are the same bytes when the text is saved unchanged", () => {
    const texts = FastCheck.array(FastCheck.constantFrom("\n", "\r\n", "\r", "a", "", " ", "b\tc")).map((parts) =>
      parts.join("")
    )
    FastCheck.assert(
      FastCheck.property(texts, (text) => {
        assert.strictEqual(LineBreaks.restored(inField(text), LineBreaks.of(text)), text)
      }),
      { numRuns: 500 }
    )
  })

  it("stay the usual ones of the value when lines are added or removed", () => {
    assert.strictEqual(LineBreaks.restored("a\nb\nc", LineBreaks.of("a\r\nb")), "a\r\nb\r\nc")
    assert.strictEqual(LineBreaks.restored("a\nb", LineBreaks.of("a\r\nb\r\nc\nd")), "a\r\nb")
    assert.strictEqual(LineBreaks.restored("a\nb", LineBreaks.of("a\nb\nc")), "a\nb")
    assert.strictEqual(LineBreaks.restored("a\nb", "not letters"), "a\nb")
  })
})

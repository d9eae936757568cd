import { assert, describe, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import { shortestMasked } from "#src/masks/Needles.ts"
import { masks } from "#src/masks/Redactor.ts"

/** The output with every value replaced, over the text as a whole. */
const through = (values: Readonly<Record<string, string>>, chunks: ReadonlyArray<Uint8Array>): string => {
  const set = masks(values)
  if (set === "too much") throw new Error("too much")
  const redactor = set.redactor()
  return Buffer.concat([...chunks.map((chunk) => redactor.push(chunk)), redactor.flush()]).toString("utf8")
}

/** Text in chunks that end anywhere, in the middle of a character too. */
const cut = (bytes: Buffer, sizes: ReadonlyArray<number>): ReadonlyArray<Uint8Array> => {
  const chunks: Array<Uint8Array> = []
  let at = 0
  for (let i = 0; at < bytes.length; i++) {
    const size = sizes[i % sizes.length] ?? 1
    chunks.push(bytes.subarray(at, at + size))
    at += size
  }
  return chunks
}

/** An independent way to the same end: mark what any occurrence covers, then replace each run of marks. */
const naive = (needles: ReadonlyArray<string>, bytes: Buffer): string => {
  const marks = new Uint8Array(bytes.length)
  for (const needle of needles) {
    const bytesOfNeedle = Buffer.from(needle)
    for (let at = bytes.indexOf(bytesOfNeedle); at >= 0; at = bytes.indexOf(bytesOfNeedle, at + 1))
      marks.fill(1, at, at + bytesOfNeedle.length)
  }
  const parts: Array<Buffer> = []
  for (let i = 0; i < bytes.length;) {
    let end = i + 1
    while (end < bytes.length && marks[end] === marks[i]) end++
    parts.push(marks[i] === 1 ? Buffer.from("[redacted]") : bytes.subarray(i, end))
    i = end
  }
  return Buffer.concat(parts).toString("utf8")
}

// A small alphabet, so that values overlap, contain and repeat one another.
const word = FastCheck.stringOf(FastCheck.constantFrom("a", "b", "ä", "-"), {
  minLength: shortestMasked,
  maxLength: 12
})
const sizes = FastCheck.array(FastCheck.integer({ min: 1, max: 7 }), { minLength: 1, maxLength: 8 })

describe("the redactor", () => {
  it.prop(
    "masks every occurrence of every value, however the stream is cut",
    [FastCheck.array(word, { minLength: 1, maxLength: 6 }), FastCheck.array(word, { maxLength: 12 }), sizes],
    ([values, pieces, sizes]) => {
      // Output that is full of values, whole, broken and side by side.
      const bytes = Buffer.from(
        pieces.flatMap((piece, i) => [piece, values[i % values.length] ?? "", piece.slice(1)]).join("")
      )
      const record = Object.fromEntries(values.map((value, i) => [`K${i}`, value]))
      const needles = values.flatMap((value) => [value, encodeURIComponent(value)])
      const output = through(record, cut(bytes, sizes))
      assert.strictEqual(output, naive(needles, bytes))
      assert.strictEqual(output, through(record, [bytes]))
    },
    { fastCheck: { numRuns: 500 } }
  )

  it.prop("lets everything else through unchanged", [FastCheck.string(), sizes], ([text, sizes]) => {
    const bytes = Buffer.from(text)
    assert.strictEqual(through({ KEY: "a value that is not in the text, \u0001" }, cut(bytes, sizes)), bytes.toString())
  })

  it("masks the lines of a value one by one, and as JSON and URLs write them", () => {
    const values = { PEM: "-----BEGIN-----\r\nline two\n  line three", QUOTED: 'say "hi" now' }
    const output = [
      "> line two <",
      "line three",
      JSON.stringify(values),
      `?q=${encodeURIComponent('say "hi" now')}&x=1`
    ].join("\n")
    const text = through(values, [Buffer.from(output)])
    for (const part of ["line two", "line three", "BEGIN", "hi"]) assert.notInclude(text, part)
    assert.include(text, "> [redacted] <")
    assert.include(text, "&x=1")
  })

  it("holds nothing back that cannot become a value", () => {
    const set = masks({ KEY: "secret" })
    assert.isObject(set)
    if (set === "too much") return
    const redactor = set.redactor()
    assert.strictEqual(Buffer.from(redactor.push(Buffer.from("Name? "))).toString(), "Name? ")
    assert.strictEqual(Buffer.from(redactor.push(Buffer.from("x sec"))).toString(), "x ")
    assert.strictEqual(Buffer.from(redactor.push(Buffer.from("ond\n"))).toString(), "second\n")
  })

  it("names the keys whose values are too short to mask, and refuses more than it can hold", () => {
    const set = masks({ SHORT: "abc", LONG: "abcd", EMPTY: "", LINES: "a\nb\nc" })
    assert.deepStrictEqual(set === "too much" ? [] : set.unmasked, ["SHORT", "LINES"])
    const huge = Object.fromEntries(Array.from({ length: 80 }, (_, i) => [`K${i}`, `${i}`.padEnd(65_000, "x")]))
    assert.strictEqual(masks(huge), "too much")
  })
})

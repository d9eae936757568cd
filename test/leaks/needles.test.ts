/** Thousands of texts are found in one pass, in any form and between any neighbours. */
import { assert, describe, it } from "@effect/vitest"
import { randomBytes } from "node:crypto"
import * as Needles from "./Needles.ts"

const text = () => randomBytes(16).toString("hex")

describe("a search for canaries", () => {
  const texts = Object.fromEntries(Array.from({ length: 2_000 }, (_, n) => [`canary ${n}`, text()]))
  const needles = Needles.make(texts)

  it("finds each form of one of two thousand, at the beginning, in the middle and at the end", () => {
    for (const [form, bytes] of Needles.forms(texts["canary 1234"] ?? "")) {
      for (const [before, after] of [
        [0, 0],
        [0, 5_000],
        [7_001, 3],
        [4_096, 0]
      ] as const) {
        const hits = needles.findIn(Buffer.concat([randomBytes(before), bytes, randomBytes(after)]))
        assert.include(
          hits.map(({ form, name }) => `${name}, ${form}`),
          `canary 1234, ${form}`
        )
      }
    }
  })

  it("finds base64 at every place of what was encoded, and what was cut off after some characters", () => {
    const one = texts["canary 7"] ?? ""
    for (const before of ["", "a", "ab", "abc"]) {
      const encoded = Buffer.from(Buffer.from(`${before}${one} and more`).toString("base64"))
      assert.isNotEmpty(needles.findIn(encoded), before)
    }
    assert.isNotEmpty(needles.findIn(Buffer.from(one.slice(0, 20))))
  })

  it("finds nothing where there is none", () => {
    const others = Array.from({ length: 50_000 }, text).join(" ")
    assert.deepStrictEqual(needles.findIn(Buffer.concat([Buffer.from(others), randomBytes(4_000_000)])), [])
  })
})

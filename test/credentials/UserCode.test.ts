import { assert, describe, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import * as UserCode from "#src/credentials/UserCode.ts"

const letter = FastCheck.constantFrom(...UserCode.alphabet)
const code = FastCheck.array(letter, { minLength: 8, maxLength: 8 }).map((letters) => letters.join(""))
/** Characters that people put between and around letters. */
const filler = FastCheck.constantFrom("", " ", "-", "  ", "–", "\u00a0", "\t", "- ")
const typed = code.chain((code) =>
  FastCheck.tuple(
    FastCheck.array(filler, { minLength: 9, maxLength: 9 }),
    FastCheck.array(FastCheck.boolean(), { minLength: 8, maxLength: 8 })
  ).map(([fillers, lower]) => ({
    code,
    typed: [...code].reduce((text, c, i) => text + (lower[i] ? c.toLowerCase() : c) + fillers[i + 1], fillers[0])
  }))
)

describe("user codes", () => {
  it("have 20 letters, none of them a vowel or a Y", () => {
    assert.strictEqual(UserCode.alphabet, "BCDFGHJKLMNPQRSTVWXZ")
  })

  it.prop("are recognised whatever their case, dashes and spaces", [typed], ([{ code, typed }]) => {
    assert.strictEqual(UserCode.canonical(typed), code)
    assert.deepStrictEqual(UserCode.hash(UserCode.canonical(typed) ?? ""), UserCode.hash(code))
  })

  it.prop("are shown in two groups of four and read back", [code], ([code]) => {
    assert.match(UserCode.print(code), /^[B-Z]{4}-[B-Z]{4}$/)
    assert.strictEqual(UserCode.canonical(UserCode.print(code)), code)
  })

  it.prop(
    "with a letter that no code has, or with another length, are none",
    [code, FastCheck.constantFrom(..."AEIOUY0189_é😀"), FastCheck.nat(7)],
    ([code, foreign, at]) => {
      assert.isUndefined(UserCode.canonical(code.slice(0, at) + foreign + code.slice(at + 1)))
      assert.isUndefined(UserCode.canonical(code.slice(0, at)))
      assert.isUndefined(UserCode.canonical(code + code[at]))
    }
  )

  it("too long to be one are not even looked at", () => {
    assert.isUndefined(UserCode.canonical("BCDFGHJK" + " ".repeat(64)))
  })
})

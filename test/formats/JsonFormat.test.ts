import * as JsonFormat from "#src/formats/JsonFormat.ts"
import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import { entries, value } from "./Entries.ts"

const read = (text: string) =>
  Either.getOrThrow(JsonFormat.parse(text)).map(({ key, value, line }) => [key, value, line])
const failureOf = (text: string) => {
  const outcome = JsonFormat.parse(text)
  assert(Either.isLeft(outcome), text)
  return [outcome.left.line, outcome.left.reason]
}

describe("JSON files", () => {
  it.prop("are JSON", [entries(value)], ([given]) => {
    const text = Either.getOrThrow(JsonFormat.print(given))
    assert.deepStrictEqual(JSON.parse(text), Object.fromEntries(given.map((entry) => [entry.key, entry.value])))
  })

  it("are read from Doppler: a flat object", () => {
    assert.deepStrictEqual(read('{"DB":"postgres://x","PORT":"5432","EMPTY":""}'), [
      ["DB", "postgres://x", 1],
      ["PORT", "5432", 1],
      ["EMPTY", "", 1]
    ])
  })

  it("are read from Infisical: an array of objects", () => {
    const exported = [
      { key: "DB", workspace: "w", value: "x\ny", type: "shared", _id: "1", tags: [{ slug: "t" }], comment: "" },
      { _id: "2", value: "", key: "EMPTY", metadata: null }
    ]
    assert.deepStrictEqual(read(JSON.stringify(exported, null, 1)), [
      ["DB", "x\ny", 2],
      ["EMPTY", "", 15]
    ])
    assert.deepStrictEqual(read('[{"secretKey":"A","secretValue":"b"}]'), [["A", "b", 1]])
  })

  it("keep numbers and booleans as they were written", () => {
    assert.deepStrictEqual(read('{"A": 1.10, "B": -0, "C": 12345678901234567890, "D": true, "E": 1E5}'), [
      ["A", "1.10", 1],
      ["B", "-0", 1],
      ["C", "12345678901234567890", 1],
      ["D", "true", 1],
      ["E", "1E5", 1]
    ])
  })

  it("are refused by line when they hold anything else", () => {
    assert.deepStrictEqual(failureOf('{\n"A": null}'), [2, "the value of A is null"])
    assert.deepStrictEqual(failureOf('{"A": "x",\n\n"B": {"c": "d"}}'), [
      3,
      "the value of B is an object, and not text"
    ])
    assert.deepStrictEqual(failureOf('{"A": ["x"]}'), [1, "the value of A is a list, and not text"])
    assert.deepStrictEqual(failureOf('{"A": "x",\n"A": "y"}'), [2, "the key is already on line 1"])
    assert.deepStrictEqual(failureOf('{"A":\n"\\ud800"}'), [1, "the text holds half of a surrogate pair"])
    assert.deepStrictEqual(failureOf('[{"key": "A"}]'), [1, "the item has no key and value"])
    assert.deepStrictEqual(failureOf("[1]"), [1, "the item is not an object"])
    assert.deepStrictEqual(failureOf('"x"'), [1, "neither an object nor an array"])
    assert.deepStrictEqual(failureOf("[".repeat(100_000)), [1, "nested too deeply"])
    assert.deepStrictEqual(failureOf('{"a":'.repeat(100_000)), [1, "nested too deeply"])
  })

  it.prop(
    "are accepted only when JSON.parse accepts them",
    [
      FastCheck.string({
        unit: FastCheck.constantFrom(
          ...'{}[]:,"\\ \n\t0123-+.eE',
          '"A":',
          '"B":',
          '"v"',
          "true",
          "null",
          "\\u0041",
          "\\x",
          "\u0001"
        ),
        maxLength: 14
      })
    ],
    ([text]) => {
      for (const source of [text, `{${text}}`, `{"A":${text}}`, `[${text}]`, `{"A":"${text}"}`]) {
        if (Either.isRight(JsonFormat.parse(source))) assert.doesNotThrow(() => JSON.parse(source))
      }
    },
    { fastCheck: { numRuns: 3_000 } }
  )

  it.prop(
    "are accepted, any flat object that JSON.stringify writes",
    [
      FastCheck.dictionary(
        FastCheck.string({ unit: "binary" }),
        FastCheck.oneof(
          FastCheck.string({ unit: "binary" }),
          FastCheck.double({ noNaN: true, noDefaultInfinity: true }),
          FastCheck.boolean()
        )
      ),
      FastCheck.integer({ min: 0, max: 4 })
    ],
    ([object, indent]) => {
      const result = Object.fromEntries(
        Either.getOrThrow(JsonFormat.parse(JSON.stringify(object, null, indent))).map((e) => [e.key, e.value])
      )
      const expected = Object.fromEntries(
        Object.entries(object).map(([k, v]) => [k, typeof v === "string" ? v : JSON.stringify(v)])
      )
      assert.deepStrictEqual(result, expected)
    }
  )
})

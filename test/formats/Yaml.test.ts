import * as Yaml from "#src/formats/Yaml.ts"
import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import * as YAML from "yaml"
import { entries, value } from "./Entries.ts"

const read = (text: string) => Either.getOrThrow(Yaml.parse(text)).map(({ key, value, line }) => [key, value, line])
const failureOf = (text: string) => {
  const outcome = Yaml.parse(text)
  assert(Either.isLeft(outcome), text)
  return [outcome.left.line, outcome.left.reason]
}

const typedWords = FastCheck.constantFrom(
  "yes",
  "no",
  "on",
  "off",
  "true",
  "False",
  "null",
  "~",
  "",
  "012",
  "0x1F",
  "0o7",
  "1e3",
  "1_000",
  "-.inf",
  ".nan",
  "12:30:45",
  "2001-12-14",
  "<<",
  "=",
  "- a",
  "? a",
  "a: b",
  "&a",
  "*a",
  "!!str x",
  "|",
  ">",
  "%YAML",
  "---",
  "...",
  "# c",
  "@",
  "`",
  " lead",
  "trail ",
  "a\n",
  "\ta"
)

describe("YAML files", () => {
  for (const version of ["1.1", "1.2"] as const) {
    it.prop(
      `are read as the same text by a YAML ${version} reader`,
      [entries(FastCheck.oneof(typedWords, value, FastCheck.string({ unit: "binary" })))],
      ([given]) => {
        const text = Either.getOrThrow(Yaml.print(given))
        assert.deepStrictEqual(
          YAML.parse(text, { version, strict: true }),
          Object.fromEntries(given.map((entry) => [entry.key, entry.value]))
        )
      },
      { fastCheck: { numRuns: 1_000 } }
    )
  }

  it("hold no character that a YAML 1.1 reader takes for a line break or refuses", () => {
    const text = Either.getOrThrow(
      Yaml.print([{ key: "A", value: "\u0000\u007f\u0085\u009f\u2028\u2029\ufeff\uffff" }])
    )
    assert.strictEqual(text, 'A: "\\u0000\\u007f\\u0085\\u009f\\u2028\\u2029\\ufeff\\uffff"\n')
  })

  it("keep plain scalars as they were written", () => {
    assert.deepStrictEqual(read("A: yes\nB: 012\nC: 1e3\nD: 0x1F\nE: 1.10\nF:\nG: 'null'\nH: \"~\"\nI: !!str 5\n"), [
      ["A", "yes", 1],
      ["B", "012", 2],
      ["C", "1e3", 3],
      ["D", "0x1F", 4],
      ["E", "1.10", 5],
      ["F", "", 6],
      ["G", "null", 7],
      ["H", "~", 8],
      ["I", "5", 9]
    ])
  })

  it("read block text, comments, flow mappings and a document start", () => {
    assert.deepStrictEqual(read('# c\n---\nPEM: |\n  -----BEGIN\n  abc==\nFOLD: >-\n  a\n  b\nQ: "x # y" # c\n'), [
      ["PEM", "-----BEGIN\nabc==\n", 3],
      ["FOLD", "a b", 6],
      ["Q", "x # y", 9]
    ])
    assert.deepStrictEqual(read('{"A": "x", B: y}'), [
      ["A", "x", 1],
      ["B", "y", 1]
    ])
    assert.deepStrictEqual(read("# only a comment\n"), [])
  })

  it("are refused by line when they are more than a flat mapping of text", () => {
    assert.deepStrictEqual(failureOf("A: 1\nB: ~\n"), [2, "the value of B is null"])
    assert.deepStrictEqual(failureOf("A: null"), [1, "the value of A is null"])
    assert.deepStrictEqual(failureOf("A: 1\nB:\n  C: 2\n"), [2, "the value of B is an object, and not text"])
    assert.deepStrictEqual(failureOf("A: [1]"), [1, "the value of A is a list, and not text"])
    assert.deepStrictEqual(failureOf("- A: 1"), [1, "the item has no key and value"])
    assert.deepStrictEqual(failureOf("just text"), [1, "not a mapping of keys to text"])
    assert.deepStrictEqual(failureOf("A: &x 1\nB: *x\n"), [2, "an alias: write the value itself"])
    assert.deepStrictEqual(failureOf("? [A]\n: 1\n"), [1, "a key is not text"])
    assert.deepStrictEqual(failureOf("A: !!binary aGk=\n"), [1, "the value is not text"])
    assert.deepStrictEqual(failureOf("A: 1\nA: 2\n"), [2, "the key is already on line 1"])
    assert.deepStrictEqual(failureOf("A: 1\n---\nB: 2\n"), [3, "more than one document"])
    assert.strictEqual(failureOf('A: "x\n')[1], "not valid YAML")
    assert.strictEqual(failureOf("A: 'x' y\n")[1], "not valid YAML")
    assert.strictEqual(failureOf("A: !secret x\n")[1], "not valid YAML")
    assert.deepStrictEqual(failureOf('A: "\\ud800"\n'), [1, "the text holds half of a surrogate pair"])
  })

  it("end with a plain refusal however deep they nest", () => {
    for (const text of [
      "[".repeat(20_000),
      "{a: ".repeat(20_000),
      "- ".repeat(20_000),
      "? ".repeat(20_000),
      "a: ".repeat(20_000),
      "A: " + "[".repeat(20_000)
    ]) {
      assert.match(
        String(failureOf(text)[1]),
        /^(?:nested too deeply|a key is not text|not valid YAML)$/,
        text.slice(0, 6)
      )
    }
  })
})

import * as EnvFile from "#src/formats/EnvFile.ts"
import { type Format, formats } from "#src/formats/FormatNames.ts"
import type { Entry } from "#src/formats/Entry.ts"
import { type Meaning, meaningOf, type MeaningOptions } from "#src/formats/Meaning.ts"
import * as Template from "#src/secrets/Template.ts"
import { scan } from "#src/secrets/TemplateScan.ts"
import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"

const meanings = (format: Format, text: string, options: Partial<MeaningOptions> = {}) =>
  Either.getOrThrow(EnvFile.read(format, text)).entries.map((entry) => meaningOf(entry, { format, ...options }))
const only = (text: string, options: Partial<MeaningOptions> = {}): Meaning => {
  const all = meanings("dotenv", text, options)
  const last = all.at(-1)
  assert(last !== undefined)
  return last
}
const about = ({ kind, references, value }: Meaning) => [value, kind, references.join(" ")]

/** Stored form on the server: its kind, and the text that it means where every reference has the value `<KEY>`. */
const stored = ({ kind, value }: Pick<Meaning, "kind" | "value">) => {
  if (kind === "literal" || scan(value).kind === "literal") return ["literal", value]
  const { parts } = scan(value)
  assert(parts !== undefined)
  return ["template", value, Template.expand(parts, (key) => `<${key}>`)]
}

describe("what a value of a .env file means", () => {
  it("a reference without quotes, in double quotes and in backticks; text in single quotes and behind a backslash", () => {
    assert.deepStrictEqual(about(only("A=x${B}y")), ["x${B}y", undefined, "B"])
    assert.deepStrictEqual(about(only('A="x${B}y"')), ["x${B}y", undefined, "B"])
    assert.deepStrictEqual(about(only("A=`x${B}y`")), ["x${B}y", undefined, "B"])
    assert.deepStrictEqual(about(only("A='x${B}y'")), ["x${B}y", "literal", ""])
    assert.deepStrictEqual(about(only('A="x\\${B}y"')), ["x${B}y", "literal", ""])
    assert.deepStrictEqual(about(only("A=x\\${B}y")), ["x${B}y", "literal", ""])
  })

  it("an escaped one beside a live one is written as the escape of the server", () => {
    assert.deepStrictEqual(about(only('A="\\${B} ${C}"')), ["$${B} ${C}", undefined, "C"])
    assert.deepStrictEqual(about(only("A='it'\\''s ${B} '\"$C\"")), ["it's $${B} ${C}", undefined, "C"])
  })

  it("text that no server takes for a template needs no kind", () => {
    assert.deepStrictEqual(about(only("A='${b} $HOME'")), ["${b} $HOME", undefined, ""])
    assert.deepStrictEqual(about(only("A=$${B}")), ["$${B}", undefined, ""])
  })

  it("all of it is text where that is asked for", () => {
    assert.deepStrictEqual(about(only("A=x${B}$${C}", { literal: true })), ["x${B}$${C}", "literal", ""])
  })

  it("what looks like a reference of other dialects is named, without a word of the value", () => {
    for (const [text, form] of [
      ["A=$KEY/y", "$NAME"],
      ["A=${KEY:-x}", "${NAME:-default}"],
      ["A=${KEY-x}", "${NAME:-default}"],
      ["A=${key}", "${name}"],
      ["A=$(cmd)", "$(command)"],
      ["A=pa$$word", "$$"],
      ["A=pa$5", "$1"]
    ] as const) {
      assert.deepStrictEqual(only(text).foreign, [form], text)
      assert.deepStrictEqual(only(text.replace(/=(.*)/, "='$1'")).foreign, [], text)
    }
    assert.deepStrictEqual(only("A=cost$").foreign, [])
    assert.deepStrictEqual(only("A=${KEY}").foreign, [])
  })

  it("$KEY is a reference where that is asked for and the key exists", () => {
    const bareKeys = new Set(["B"])
    assert.deepStrictEqual(about(only("A=$B/y $C \\${B} $$B", { bareKeys })), ["${B}/y $C $${B} $$B", undefined, "B"])
    assert.deepStrictEqual(about(only("A='$B'", { bareKeys })), ["$B", undefined, ""])
    assert.deepStrictEqual(about(only("A=$BC", { bareKeys })), ["$BC", undefined, ""])
  })
})

const text = FastCheck.array(
  FastCheck.constantFrom(
    "${A}",
    "${B}",
    "$${",
    "$",
    "{",
    "}",
    "x",
    "'",
    '"',
    "\\",
    "`",
    " ",
    "#",
    "\n",
    "\r",
    "é",
    "$(id)"
  ),
  { maxLength: 8 }
).map((parts) => parts.join(""))

/** Possible contents of an environment: texts of each kind that the server took. */
const entry: FastCheck.Arbitrary<Entry> = FastCheck.record({
  key: FastCheck.constantFrom("K", "L", "M"),
  value: text,
  isTemplate: FastCheck.boolean()
}).map(({ isTemplate, key, value }): Entry =>
  isTemplate && scan(value).kind === "template" && scan(value).parts !== undefined
    ? { key, value, kind: "template" }
    : { key, value }
)
const environment = FastCheck.uniqueArray(entry, { selector: ({ key }) => key, maxLength: 3 })

describe("an environment that is exported and imported again", () => {
  for (const format of formats) {
    it.prop(
      `${format} with --source gives the same values and kinds`,
      [environment],
      ([given]) => {
        const printed = EnvFile.print(format, given, { source: true })
        if (Either.isLeft(printed)) return assert.strictEqual(format, "docker")
        const weak = new Set(EnvFile.changesKind(format, given, { source: true }))
        const back = meanings(format, printed.right)
        assert.strictEqual(back.length, given.length)
        for (const [i, { key, kind, value }] of given.entries()) {
          const before = stored(kind === "template" ? { value } : { kind: "literal", value })
          const after = stored(back[i])
          assert.strictEqual(back[i].key, key)
          assert.isUndefined(back[i].problem)
          if (weak.has(key)) assert.deepStrictEqual(after, ["literal", before.at(-1)], printed.right)
          else assert.deepStrictEqual(after, before, printed.right)
        }
      },
      { fastCheck: { numRuns: 1_500 } }
    )

    it.prop(
      `${format} with values gives the same values, as texts, or names the key`,
      [
        FastCheck.uniqueArray(
          entry.map(({ key, value }) => ({ key, value })),
          { selector: ({ key }) => key, maxLength: 3 }
        )
      ],
      ([given]) => {
        const printed = EnvFile.print(format, given)
        if (Either.isLeft(printed)) return assert.strictEqual(format, "docker")
        const weak = new Set(EnvFile.changesKind(format, given, { source: false }))
        for (const [i, back] of meanings(format, printed.right).entries()) {
          if (!weak.has(back.key)) assert.deepStrictEqual(stored(back), ["literal", given[i].value], printed.right)
        }
        const literal = meanings(format, printed.right, { literal: true })
        assert.deepStrictEqual(
          literal.map(stored),
          given.map(({ value }) => ["literal", value])
        )
      },
      { fastCheck: { numRuns: 500 } }
    )
  }
})

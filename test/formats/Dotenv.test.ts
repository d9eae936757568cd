import type { Entry } from "#src/formats/Entry.ts"
import * as Dotenv from "#src/formats/Dotenv.ts"
import * as DotenvPrint from "#src/formats/DotenvPrint.ts"
import { assert, describe, it } from "@effect/vitest"
import dotenv from "dotenv"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import { entries, value } from "./Entries.ts"
import { sourced } from "./Sourced.ts"

const parsed = (text: string): Record<string, string> =>
  Object.fromEntries(Either.getOrThrow(Dotenv.parse(text)).map((entry) => [entry.key, entry.value]))
const printed = (given: ReadonlyArray<Entry>): string => Either.getOrThrow(DotenvPrint.print(given))
const failureOf = (text: string) => {
  const outcome = Dotenv.parse(text)
  assert(Either.isLeft(outcome), JSON.stringify(text))
  return outcome.left
}

/** Whether every reader gives the value back: single quotes hold it, or double quotes without an escape do. */
const isPortable = (value: string): boolean => !value.includes("\r") && (!value.includes("'") || !/["$`\\]/.test(value))

const textBehind = "there is text after the closing quote: put all of the value in one pair of quotes"

const carried = value.map((v) => v.replaceAll("\0", ""))

describe("reading .env files", () => {
  it("reads what the common dialects agree on", () => {
    const file = [
      "# a comment",
      "   ",
      "PLAIN=value",
      "export EXPORTED=yes",
      "  SPACED  =  a b c  ",
      "EMPTY=",
      "EMPTY_QUOTED=''",
      "COMMENTED=value # not this",
      "ONLY_COMMENT= # nothing",
      "HASH=ab#cd",
      "URL=postgres://u:p@h/db?a=b&c=d",
      "COLON: yaml-ish",
      "SINGLE='a\\n $HOME \"x\" # in'",
      'DOUBLE="tab\\tnl\\ncr\\rq\\"bs\\\\dollar\\$ keep\\d"',
      'BACKTICK=`it\'s "both"`',
      "QUOTED_COMMENT='x' # c",
      'MULTI="first',
      "second",
      'third"',
      "PEM='-----BEGIN KEY-----",
      "abc==",
      "-----END KEY-----'",
      "TEMPLATE=${PLAIN}/$${x}",
      "SHELL_QUOTE='it'\\''s'",
      "LAST=end"
    ].join("\n")
    assert.deepStrictEqual(parsed(file), {
      PLAIN: "value",
      EXPORTED: "yes",
      SPACED: "a b c",
      EMPTY: "",
      EMPTY_QUOTED: "",
      COMMENTED: "value",
      ONLY_COMMENT: "",
      HASH: "ab#cd",
      URL: "postgres://u:p@h/db?a=b&c=d",
      COLON: "yaml-ish",
      SINGLE: 'a\\n $HOME "x" # in',
      DOUBLE: 'tab\tnl\ncr\rq"bs\\dollar$ keep\\d',
      BACKTICK: 'it\'s "both"',
      QUOTED_COMMENT: "x",
      MULTI: "first\nsecond\nthird",
      PEM: "-----BEGIN KEY-----\nabc==\n-----END KEY-----",
      TEMPLATE: "${PLAIN}/$${x}",
      SHELL_QUOTE: "it's",
      LAST: "end"
    })
    assert.deepStrictEqual(
      Either.getOrThrow(Dotenv.parse(file)).map((entry) => entry.line),
      [3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 20, 23, 24, 25]
    )
  })

  it("reads Windows and old Macintosh line ends as line feeds, in quotes too", () => {
    assert.deepStrictEqual(Either.getOrThrow(Dotenv.parse("A='x\r\ny'\r\n\r\nB=1\rC=2\r\n")), [
      { key: "A", value: "x\ny", line: 1, plainDollars: "all", forms: ["line-ends"] },
      { key: "B", value: "1", line: 4, forms: ["line-ends"] },
      { key: "C", value: "2", line: 5, forms: ["line-ends"] }
    ])
  })

  it("takes stray quotes on one line as npm dotenv does", () => {
    for (const line of [
      "A='it's'",
      'A="{"a":1,"b":"c"}"',
      "A='Let\\'s go!'",
      "A=`a`b`",
      "A='a' 'b'",
      "A=it's",
      `A='C:\\dir\\'`
    ]) {
      assert.deepStrictEqual(parsed(line), dotenv.parse(line), line)
    }
    assert.deepStrictEqual(parsed(`A='C:\\dir\\'\nB='x'`), { A: "C:\\dir\\", B: "x" })
  })

  it("refuses with a line number where a reader would silently get something else", () => {
    const cases: ReadonlyArray<readonly [text: string, line: number, reason: string]> = [
      [
        "A=1\nJUST_A_NAME\n",
        2,
        "not of the form KEY=value: a name alone has no value here; write KEY= for an empty one, or take the line out"
      ],
      ["[section]\nA=1", 1, "a section, as in TOML or INI files: .env files have none, so take the line out"],
      [`A = '''x'''`, 1, "three quotes are of TOML or Python: write the value in one pair of quotes"],
      ['A="""\nx\n"""', 1, "three quotes are of TOML or Python: write the value in one pair of quotes"],
      ["=x", 1, "not of the form KEY=value"],
      ["A B=x", 1, "not of the form KEY=value"],
      ["\nA='open\n", 2, "the quote is not closed"],
      ['A="open', 1, "the quote is not closed"],
      ["A='x'\\''y", 1, textBehind],
      ["A='x'y\nB='z'", 1, textBehind],
      ['A="C:\\dir\\"\nB="x"', 1, textBehind],
      ["A='x\n'y'\n", 1, textBehind],
      ["A=-----BEGIN KEY-----\nabc==\n", 1, "a value of several lines needs quotes around all of it"],
      ["A=1\nB=2\nA=3", 3, "the key is already on line 1"]
    ]
    for (const [text, line, reason] of cases) {
      const { line: foundLine, reason: foundReason } = failureOf(text)
      assert.deepStrictEqual([foundLine, foundReason], [line, reason], JSON.stringify(text))
    }
    assert.deepStrictEqual(parsed("A=encrypted:xyz"), { A: "encrypted:xyz" })
  })

  it("reads a file of hostile quotes and hashes of 1 MB", () => {
    const size = 1_000_000
    assert.strictEqual(parsed(`A=${"#".repeat(size)}`)["A"]?.length, size)
    assert.strictEqual(parsed(`A= ${"#".repeat(size)}`)["A"], "")
    assert.strictEqual(parsed(`A=x${"#".repeat(size)}`)["A"]?.length, size + 1)
    assert.strictEqual(failureOf(`A='${"' ".repeat(size / 2)}x`).line, 1)
    assert.strictEqual(failureOf(`A='${"\\' ".repeat(size / 3)}x`).line, 1)
    assert.strictEqual(failureOf(`A="${"\\".repeat(size)}`).line, 1)
    assert.strictEqual(failureOf("A".repeat(size)).line, 1)
    assert.strictEqual(failureOf(" ".repeat(size) + "\n".repeat(size) + "x").line, size + 1)
  })

  it.prop(
    "agrees with npm dotenv on plain assignments",
    [
      FastCheck.array(
        FastCheck.stringMatching(/^(?:export )?[A-D] ?= ?(?:'[a-z #$"\\\n]*[a-z]'|"[a-z #$'\n]*"|[a-z][a-z =$']*)$/),
        { maxLength: 4 }
      )
    ],
    ([lines]) => {
      const outcome = Dotenv.parse(lines.join("\n"))
      if (Either.isLeft(outcome)) assert.match(outcome.left.reason, /already on line/)
      else
        assert.deepStrictEqual(Object.fromEntries(outcome.right.map((e) => [e.key, e.value])), {
          ...dotenv.parse(lines.join("\n"))
        })
    },
    { fastCheck: { numRuns: 500 } }
  )
})

describe("writing .env files", () => {
  it("prefers single quotes, and shows what it does else", () => {
    assert.strictEqual(
      printed([
        { key: "A", value: 'p@$${w}`x`\\"' },
        { key: "B", value: "it's" },
        { key: "C", value: "two\nlines" },
        { key: "D", value: 'it\'s "$5"' },
        { key: "E", value: "cr\r" },
        { key: "F", value: "C:\\" },
        { key: "G", value: "" }
      ]),
      [
        "A='p@$${w}`x`\\\"'",
        'B="it\'s"',
        "C='two",
        "lines'",
        'D="it\'s \\"\\$5\\""',
        'E="cr\\r"',
        "F='C:\\' # '.",
        "G=''",
        ""
      ].join("\n")
    )
  })

  it.prop(
    "npm dotenv reads every portable value, also beside others",
    [entries(carried)],
    ([given]) => {
      const read = dotenv.parse(printed(given))
      assert.sameMembers(
        Object.keys(read),
        given.map((entry) => entry.key)
      )
      for (const entry of given) if (isPortable(entry.value)) assert.strictEqual(read[entry.key], entry.value)
    },
    { fastCheck: { numRuns: 2_000 } }
  )

  it("a shell that sources the file gets every value without a carriage return, and runs nothing", () => {
    const values = FastCheck.sample(carried, { numRuns: 2_000, seed: 7 }).filter((v) => !v.includes("\r"))
    values.push("$(kill -9 $$)", "'$(kill -9 $$)", "'`kill -9 $$`", "';kill -9 $$;'", "\\", "'\\", "x'\n", "\n", "!!")
    const pairs = values.map((value, i) => ({ key: `K${i}`, value }))
    const names = pairs.map((entry) => entry.key)
    assert.deepStrictEqual(sourced(printed(pairs), 'set -a; . "$FILE"', names), values)
  })

  it("refuses U+0000 by the name of the key", () => {
    const outcome = DotenvPrint.print([
      { key: "OK", value: "" },
      { key: "BAD", value: "MARKER\0" }
    ])
    assert(Either.isLeft(outcome))
    assert.strictEqual(outcome.left.key, "BAD")
    assert.notInclude(outcome.left.message, "MARKER")
  })
})

import * as Composition from "#src/secrets/Composition.ts"
import * as Template from "#src/secrets/Template.ts"
import * as TemplateScan from "#src/secrets/TemplateScan.ts"
import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"

/** Text in which the characters of the language are common. */
const text = FastCheck.string({
  unit: FastCheck.constantFrom(
    "$",
    "$",
    "{",
    "}",
    "${",
    "$${",
    "${A}",
    "A",
    "B",
    "_",
    "1",
    "a",
    " ",
    "\n",
    "\0",
    "é",
    "😀"
  ),
  maxLength: 30
})
const key = FastCheck.stringMatching(/^[A-C][A-C0-9_]{0,3}$/)

/** The parts of a text that is written as a template. */
const parse = (source: string, field?: string) =>
  Either.map(Composition.entry("template", source, field), (entry) => (entry.kind === "template" ? entry.parts : []))

const parsed = (source: string) => Either.getOrThrow(parse(source))

/** Meaning of a template, written a second time: the longest token that starts at each place. */
const naive = (source: string): ReadonlyArray<TemplateScan.Part> | "invalid" => {
  const tokens: Array<TemplateScan.Part> = []
  let rest = source
  while (rest !== "") {
    const reference = /^\$\{([A-Z][A-Z0-9_]{0,254})\}/.exec(rest)
    const token = rest.startsWith("$${") ? "$${" : reference !== null ? reference[0] : rest[0]
    if (token === "$" && rest[1] === "{") return "invalid"
    if (reference !== null && token === reference[0]) tokens.push({ key: reference[1] })
    else {
      const last = tokens.at(-1)
      const added = token === "$${" ? "${" : token
      if (typeof last === "string") tokens[tokens.length - 1] = last + added
      else tokens.push(added)
    }
    rest = rest.slice(token.length)
  }
  return tokens
}

describe("the template language", () => {
  it("reads references, escapes and plain dollars", () => {
    const cases: ReadonlyArray<readonly [string, ReadonlyArray<TemplateScan.Part>]> = [
      ["", []],
      ["plain", ["plain"]],
      ["${A}", [{ key: "A" }]],
      ["x${A}${B_2}y", ["x", { key: "A" }, { key: "B_2" }, "y"]],
      ["$A $ $$ $", ["$A $ $$ $"]],
      ["$${A}", ["${A}"]],
      ["$$${A}", ["$${A}"]],
      ["${A}$", [{ key: "A" }, "$"]],
      ["}{${A}}", ["}{", { key: "A" }, "}"]],
      ["\0${A}\n", ["\0", { key: "A" }, "\n"]]
    ]
    for (const [source, expected] of cases) assert.deepStrictEqual(parsed(source), expected, JSON.stringify(source))
  })

  it("refuses every other ${ and names the field, not the text", () => {
    const marker = "MARKER"
    for (const bad of [
      "${",
      "${}",
      "${a}",
      "${1A}",
      "${_A}",
      "${A",
      "${A-B}",
      "${A }",
      "${ A}",
      "${A:-x}",
      "${Ä}",
      "${A\0}",
      "${${A}}"
    ]) {
      const outcome = parse(`${marker} $\{OK} ${bad}`, "secrets.3.source")
      assert(Either.isLeft(outcome), bad)
      assert.strictEqual(outcome.left._tag, "TEMPLATE_INVALID")
      assert.strictEqual(outcome.left.field, "secrets.3.source")
      assert.notInclude(JSON.stringify(outcome.left) + outcome.left.message, marker)
    }
  })

  it("names no field where nobody gave one", () => {
    const outcome = parse("${")
    assert(Either.isLeft(outcome))
    assert.isFalse(Object.hasOwn(outcome.left, "field"))
  })

  it("keeps one object for all references to a key: thousands of them need little memory", () => {
    const [first, , second, other] = parsed("${A}x${A}${B}")
    assert.strictEqual(first, second)
    assert.deepStrictEqual(other, { key: "B" })
  })

  it("takes keys of up to 255 characters", () => {
    assert.deepStrictEqual(parsed("${" + "K".repeat(255) + "}"), [{ key: "K".repeat(255) }])
    assert.isTrue(Either.isLeft(parse("${" + "K".repeat(256) + "}")))
  })

  it.prop(
    "agrees with a naive reader on every text",
    [text],
    ([source]) => {
      const expected = naive(source)
      const actual = parse(source)
      if (expected === "invalid") assert.isTrue(Either.isLeft(actual))
      else assert.deepStrictEqual(Either.getOrThrow(actual), expected)
    },
    { fastCheck: { numRuns: 2_000 } }
  )

  it.prop(
    "prints back the source it parsed",
    [text],
    ([source]) => {
      const outcome = parse(source)
      if (Either.isRight(outcome)) assert.strictEqual(Template.print(outcome.right), source)
    },
    { fastCheck: { numRuns: 2_000 } }
  )

  it.prop(
    "escaped text means itself, whatever it holds",
    [text],
    ([t]) => {
      assert.deepStrictEqual(parsed(Template.escape(t)), t === "" ? [] : [t])
    },
    { fastCheck: { numRuns: 2_000 } }
  )

  it.prop("escaped text of any Unicode means itself", [FastCheck.string({ unit: "binary" })], ([t]) => {
    assert.deepStrictEqual(parsed(Template.escape(t)), t === "" ? [] : [t])
  })

  it.prop("a text without ${ is its own template", [text], ([t]) => {
    const plain = t.replaceAll("${", "")
    if (!plain.includes("${")) assert.deepStrictEqual(parsed(plain), plain === "" ? [] : [plain])
  })

  it("lists each key once, in order of first use", () => {
    assert.deepStrictEqual(TemplateScan.references(parsed("${B}${A}x${B}$${C}")), ["B", "A"])
  })

  it("expands once: what a reference brings in stays text", () => {
    assert.strictEqual(
      Template.expand(parsed("<${A}|$${A}>"), () => "${A}$${B}"),
      "<${A}$${B}|${A}>"
    )
  })

  it.prop(
    "an inlined template expands to the same text and survives its own source",
    [FastCheck.array(FastCheck.oneof(text, FastCheck.record({ key })), { maxLength: 8 }), key, FastCheck.func(text)],
    ([pieces, inlined, valueOf]) => {
      // A text that ends in a dollar right before a reference is the one thing the language cannot say: "$" + "${A}"
      // reads as an escape.
      const source = pieces
        .map((piece) => (typeof piece === "string" ? Template.escape(piece) : "${" + piece.key + "}"))
        .join("")
      const outcome = parse(source)
      if (Either.isLeft(outcome)) return
      const parts = outcome.right
      const after = Template.inline(parts, inlined, valueOf)
      assert.strictEqual(Template.expand(after, valueOf), Template.expand(parts, valueOf))
      assert.notInclude(TemplateScan.references(after), inlined)
      assert.deepStrictEqual(parsed(Template.print(after)), after)
    },
    { fastCheck: { numRuns: 2_000 } }
  )

  it("inlines a reference that would stand behind a dollar, as the language cannot write it", () => {
    const valueOf = (k: string) => ({ A: "$", B: "{B}", C: "c" })[k] ?? ""
    assert.deepStrictEqual(Template.inline(parsed("${A}${B}${C}"), "A", valueOf), ["${B}", { key: "C" }])
    // A value without text between them changes nothing of that.
    assert.deepStrictEqual(Template.inline(parsed("${A}${D}${C}"), "A", valueOf), ["$c"])
    // It is the neighbour alone: references before it, and behind other text, stay.
    assert.deepStrictEqual(Template.inline(parsed("${C}${B}${A}-${C}"), "A", valueOf), [
      { key: "C" },
      { key: "B" },
      "$-",
      { key: "C" }
    ])
  })
})

describe("the kind of a value written without one", () => {
  it("is template from the first well-formed reference or escape on", () => {
    for (const value of ["${A}", "x${A}", "$${", "$$${", "a$${b", "${ ${A}", "${a}${B}", "${${A}", "${A}${"]) {
      assert.strictEqual(TemplateScan.scan(value).kind, "template", value)
    }
    for (const value of [
      "",
      "$",
      "$A",
      "$$",
      "${",
      "${}",
      "${a}",
      "$ {A}",
      "${A",
      "{A}",
      "${" + "K".repeat(256) + "}",
      "\0"
    ]) {
      assert.strictEqual(TemplateScan.scan(value).kind, "literal", value)
    }
  })

  it.prop(
    "is template exactly when some reading from the left meets a reference or an escape",
    [text],
    ([value]) => {
      const expected = /\$\$\{|\$\{[A-Z][A-Z0-9_]{0,254}\}/.test(value) ? "template" : "literal"
      assert.strictEqual(TemplateScan.scan(value).kind, expected)
    },
    { fastCheck: { numRuns: 2_000 } }
  )

  it.prop(
    "is template for every valid template that says more than its text",
    [text],
    ([source]) => {
      const outcome = parse(source)
      if (Either.isLeft(outcome)) return
      const means = outcome.right.length === 0 || (outcome.right.length === 1 && outcome.right[0] === source)
      assert.strictEqual(TemplateScan.scan(source).kind, means ? "literal" : "template")
    },
    { fastCheck: { numRuns: 2_000 } }
  )
})

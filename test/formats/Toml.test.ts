import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import * as Schema from "effect/Schema"
import { execFileSync } from "node:child_process"
import { parsed } from "#test/support/Json.ts"
import { missing } from "#test/support/Programs.ts"
import * as EnvFile from "#src/formats/EnvFile.ts"

const read = (text: string, flatten?: string) => EnvFile.read("toml", text, flatten === undefined ? {} : { flatten })

const values = (text: string, flatten?: string): Record<string, string> =>
  Object.fromEntries(Either.getOrThrow(read(text, flatten)).entries.map(({ key, value }) => [key, value]))

/** Texts of all values, by the library of Python: names joined with __. */
const oracle = `
import json, sys, tomllib
def flat(prefix, value):
    if isinstance(value, dict):
        for name, inner in value.items(): yield from flat(prefix + [name], inner)
    elif isinstance(value, list):
        for i, inner in enumerate(value): yield from flat(prefix + [str(i)], inner)
    else: yield "__".join(prefix), value
out = []
for text in json.load(sys.stdin):
    try: out.append(dict(flat([], tomllib.loads(text))))
    except tomllib.TOMLDecodeError: out.append(None)
json.dump(out, sys.stdout, default=str)
`
const answers = parsed(Schema.Array(Schema.NullOr(Schema.Record({ key: Schema.String, value: Schema.Unknown }))))
const ofPython = (texts: ReadonlyArray<string>) =>
  answers(execFileSync("python3", ["-c", oracle], { input: JSON.stringify(texts), encoding: "utf8" }))

const valid = [
  "A = 1\nB = 'two'\nC=\"th\\tree\"\n",
  '# note\n\n[db]\nurl = "postgres://x" # behind\nport = 5432\n[db.pool]\nmax=3\n[web]\nport=80\n',
  "A = \"\"\"\nfirst\nsecond\\\n   third\"\"\"\nB = '''\nraw \\n\n'''\n",
  "A = \"\"\"\"quoted\"\"\"\"\nB = ''''x''''\n",
  'a.b.c = "x"\na.b.d = "y"\n"quoted key" = 1\n\'lit\' = 2\n',
  "list = [ 'a', # one\n  'b',\n]\n[[servers]]\nname='x'\n[[servers]]\nname='y'\n[servers.inner]\nz='1'\n",
  "point = { x = 'a', y.z = 'b' }\nempty = ''\n",
  'A = "\\u00e9\\U0001F600\\"\\\\"\n',
  "A = 'x'\r\nB = 'y'\r\n",
  "[a]\nx='1'\n[b]\ny='2'\n[a.c]\nz='3'\n"
]

const refused: ReadonlyArray<readonly [text: string, line: number, reason: string]> = [
  ["A = 'x'\nB = text\n", 2, "not a TOML value: text needs quotes around it"],
  ["A = 'open\n", 1, "the quote is not closed"],
  ["A = '''open\n\n", 1, "the quote is not closed"],
  ['A = "C:\\dir"\n', 1, "not a valid escape: write \\\\ for a backslash, or the value in single quotes"],
  ["A = 'x' y\n", 1, "not valid TOML: there is text behind the value"],
  ["A\n", 1, "not of the form KEY = value"],
  ["A = 012\n", 1, "not a TOML value: text needs quotes around it"],
  ["A = [1\nB = 2\n", 2, "not valid TOML: a comma or the closing bracket is missing"],
  ["[a\nx=1\n", 1, "not valid TOML: the bracket of the table is not closed"],
  ["a='x'\n[a]\nb='y'\n", 2, "the name has a value already"],
  ["[a]\nb='y'\n[[a]]\n", 3, "the name has a value already"],
  [`A = ${"[".repeat(40)}`, 1, "nested too deeply"],
  ["A = 1\n\nA = 2\n", 3, "the key is already on line 1"]
]

describe("TOML", () => {
  it.skipIf(missing("python3"))("is read as Python's tomllib reads it", () => {
    const others = ofPython(valid)
    for (const [i, text] of valid.entries()) {
      assert.isNotNull(others[i], text)
      const theirs = Object.fromEntries(Object.entries(others[i] ?? {}).map(([key, value]) => [key, String(value)]))
      assert.deepStrictEqual(values(text, "__"), theirs, text)
    }
  })

  it.skipIf(missing("python3"))("gives random texts back as Python's tomllib does", () => {
    const quoted = (value: string) => JSON.stringify(value).replaceAll("\u007f", "\\u007f")
    const texts = FastCheck.sample(
      FastCheck.array(FastCheck.string({ unit: "grapheme" }), { minLength: 1, maxLength: 5 }),
      300
    )
    const files = texts.map((all) => all.map((value, i) => `K${i} = ${quoted(value)}\n`).join(""))
    const others = ofPython(files)
    for (const [i, file] of files.entries()) assert.deepStrictEqual(values(file), others[i], file)
  })

  it("may begin with a byte order mark", () => {
    assert.deepStrictEqual(values("\ufeffA = 'x'\n"), { A: "x" })
  })

  it("keeps numbers and dates as they are written, without the dividers of a number", () => {
    assert.deepStrictEqual(values("a=1_000\nb=1.10\nc=true\nd=1979-05-27T07:32:00Z\ne=0xFF\nf=-0.5e3\n"), {
      a: "1000",
      b: "1.10",
      c: "true",
      d: "1979-05-27T07:32:00Z",
      e: "0xFF",
      f: "-0.5e3"
    })
  })

  it("is refused with the line and the reason", () => {
    for (const [text, line, reason] of refused) {
      const { left } = read(text) as Extract<ReturnType<typeof read>, { readonly _tag: "Left" }>
      assert.deepStrictEqual([left?.line, left?.reason], [line, reason], text)
    }
  })

  it.skipIf(missing("python3"))("no refused file is read by Python's tomllib", () => {
    assert.deepStrictEqual(
      ofPython(refused.map(([text]) => text).filter((text) => !text.includes("[[[["))).filter((one) => one !== null),
      []
    )
  })

  it("with tables needs a divider, and names the path and the line", () => {
    const text = "A='1'\n[db]\nurl='x'\n"
    const { left } = read(text) as Extract<ReturnType<typeof read>, { readonly _tag: "Left" }>
    assert.deepStrictEqual(
      [left?.line, left?.reason, left?.remedy],
      [2, "the value of db is an object, and not text", "flatten"]
    )
    assert.deepStrictEqual(
      Either.getOrThrow(read("[a]\nx='1'\n[b]\ny='2'\n[a.c]\nz='3'\n", "__")).entries.map(({ key, line }) => [
        key,
        line
      ]),
      [
        ["a__x", 2],
        ["b__y", 4],
        ["a__c__z", 6]
      ]
    )
  })

  it("is recognised by its name, and by a table at its beginning", () => {
    assert.strictEqual(EnvFile.detect("secrets.toml", "A = 1\n"), "toml")
    assert.strictEqual(EnvFile.detect("-", "# x\n[db]\nurl = 'x'\n"), "toml")
    assert.strictEqual(EnvFile.detect("-", '[{"key":"A","value":"a=b"}]'), "json")
    assert.strictEqual(EnvFile.detect("-", '[\n  {"key": "A"}\n]\n'), "json")
  })
})

/**
 * Each line of test/readers/lines.mjs against the answers of real readers (test/records/readers.json, made by
 * `npm run test:readers`): Ampoule reads what all of them read, refuses with a reason, or names the line in the plan.
 */
import * as EnvFile from "#src/formats/EnvFile.ts"
import { type Meaning, meaningOf } from "#src/formats/Meaning.ts"
import { refusal, remarks } from "#src/formats/ImportPlan.ts"
import { lines } from "#test/readers/lines.mjs"
import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import * as fs from "node:fs"
import * as path from "node:path"

const Answer = Schema.NullOr(Schema.String)
const Recorded = Schema.Struct({
  lines: Schema.Array(
    Schema.Struct({
      name: Schema.String,
      text: Schema.String,
      answers: Schema.Struct({
        npm: Answer,
        node: Answer,
        python: Answer,
        dotenvx: Answer,
        godotenv: Answer,
        compose: Answer,
        bash: Answer
      })
    })
  )
})
const file = path.join(import.meta.dirname, "../records/readers.json")
const record = Schema.decodeUnknownSync(Schema.parseJson(Recorded))(fs.readFileSync(file, "utf8"))

/** The value of A with its references put in: what a program would get. */
const resolved = (meanings: ReadonlyArray<Meaning>): string => {
  const byKey = new Map(meanings.map((meaning) => [meaning.key, meaning]))
  const valueOf = (key: string): string => {
    const entry = byKey.get(key)
    if (entry === undefined) return ""
    if (entry.kind === "literal") return entry.value
    return entry.value.replace(/\$\$\{|\$\{([A-Z]+)\}/g, (_, name?: string) =>
      name === undefined ? "${" : valueOf(name)
    )
  }
  return valueOf("A")
}

/** Notes about A before a write: references and text that looks like one are in the plan too. */
const isNamed = (meanings: ReadonlyArray<Meaning>): boolean => {
  const a = meanings.filter(({ key }) => key === "A")
  return remarks(a).length > 0 || a.some(({ kind, references }) => kind === "literal" || references.length > 0)
}

const outcome = (text: string) => {
  const read = EnvFile.read("dotenv", text)
  if (Either.isLeft(read)) return { refused: `line ${read.left.line}: ${read.left.reason}` }
  const meanings = read.right.entries.map((entry) => meaningOf(entry, { format: "dotenv" }))
  const refused = refusal(meanings, [], "development")
  if (refused !== undefined) return { refused: refused.message }
  return { value: resolved(meanings), named: isNamed(meanings) }
}

describe("the readers of .env files", () => {
  it("were asked about every line that is here", () => {
    assert.deepStrictEqual(
      record.lines.map(({ name, text }) => [name, text]),
      lines.map(([name, text]) => [name, text])
    )
    assert.isAtLeast(lines.length, 120)
  })

  it.each(record.lines.map((line) => [line.name, line] as const))(
    "%s: same, refused, or named",
    (name, { answers, text }) => {
      const expected = lines.find((line) => line[0] === name)?.[2]
      const ours = outcome(text)
      if ("refused" in ours) {
        assert.match(ours.refused, /^(?:line \d+: |Neither the file nor)/)
        return assert.strictEqual("refused", expected, ours.refused)
      }
      // A reader that refuses the line, or the file, says so itself.
      const others = Object.values(answers).filter((answer) => answer !== null)
      const isSame = others.every((answer) => answer === ours.value)
      assert.strictEqual(
        isSame && !ours.named ? "same" : ours.named ? "named" : "silently other",
        expected,
        JSON.stringify(ours)
      )
    }
  )
})

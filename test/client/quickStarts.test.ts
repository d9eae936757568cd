/** Quick starts of docs/recipes/frameworks.md, as far as no registry is needed; `npm run test:clients` runs them. */
import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import { readFileSync } from "node:fs"
import { mostLines, needs, sectionsOf } from "#test/clients/quickStarts.mjs"
import { parsed } from "#test/support/Json.ts"

const page = readFileSync("docs/recipes/frameworks.md", "utf8")
const sections = sectionsOf(page)
const readRecord = parsed(
  Schema.Struct({ results: Schema.Array(Schema.Struct({ name: Schema.String, result: Schema.String })) })
)

describe("quick starts", () => {
  it("exist for each framework that the page promises, and the runner knows what each needs", () => {
    assert.deepStrictEqual(sections.map(({ name }) => name).sort(), Object.keys(needs).sort())
    assert.isAtLeast(sections.length, 12)
  })

  it("have at most 20 lines each, and end with `ampoule run`", () => {
    for (const { files, lines, name } of sections) {
      const count = files.reduce((sum, { text }) => sum + text.trimEnd().split("\n").length, lines.length)
      assert.isAtMost(count, mostLines, name)
      assert.match(lines.at(-1) ?? "", /^ampoule run (?:--pass-credentials )?-- /, name)
    }
  })

  it("were all run by the recorded run; the page says with which stand-ins", () => {
    const { results } = readRecord(readFileSync("test/records/programs.json", "utf8"))
    const passed = results.filter(({ result }) => result === "passed").map(({ name }) => name)
    const [, last = ""] = page.split("## Runs of this page\n")
    for (const { name } of sections) {
      assert.include(passed, `quick start: ${name}`)
      assert.include(last, name)
      const { note } = needs[name]
      if (note !== undefined) assert.include(last, note)
    }
  })
})

/** Every fenced block of the pages is run by a test that reads it from the page, or says why not. */
import { assert, describe, it } from "@effect/vitest"
import * as fs from "node:fs"
import { blocksIn, blocksOf, pages, pagesWithCommands } from "./Blocks.ts"
import { worlds } from "./Worlds.ts"

const blocks = pages.flatMap(blocksOf)
const at = ({ page, line }: { readonly page: string; readonly line: number }) => `${page}:${line}`

describe("blocks of the pages", () => {
  it("are found, each of them", () => {
    const fences = pages.map((page) => [...fs.readFileSync(page, "utf8").matchAll(/^ *```/gm)].length)
    assert.strictEqual(
      blocks.length * 2,
      fences.reduce((a, b) => a + b, 0)
    )
    assert.isAbove(blocks.length, 70)
  })

  it("have an answer to the question which test runs them", () => {
    assert.deepStrictEqual(blocks.filter(({ answer }) => answer === undefined).map(at), [])
  })

  it("are run by tests that read them from the page", () => {
    const faults = blocks.flatMap((block) => {
      if (block.answer?.kind !== "run by") return []
      const { test } = block.answer
      if (!fs.existsSync(test)) return [`${at(block)}: ${test} does not exist`]
      const source = fs.readFileSync(test, "utf8")
      const folder = block.page.split("/").slice(0, -1).join("/")
      const named = [block.page, folder === "docs" ? "" : folder].some(
        (one) => one !== "" && source.includes(`"${one}"`)
      )
      if (block.name !== undefined && source.includes(`"${block.name}"`)) return []
      return named ? [] : [`${at(block)}: ${test} does not read the page`]
    })
    assert.deepStrictEqual(faults, [])
  })

  it("that are not run have a reason of several words, and the tests that it names exist", () => {
    const faults = blocks.flatMap((block) => {
      if (block.answer?.kind !== "not run") return []
      const { reason } = block.answer
      if (reason.split(/\s+/).length < 3) return [`${at(block)}: ${reason}`]
      return (reason.match(/test\/[\w/.-]+\.\w+/g) ?? [])
        .filter((file) => !fs.existsSync(file))
        .map((file) => `${at(block)}: ${file} does not exist`)
    })
    assert.deepStrictEqual(faults, [])
  })

  it("that are commands have a world to run in, and each world has a page", () => {
    const others = pagesWithCommands().filter((page) => !page.startsWith("docs/runbooks/"))
    assert.deepStrictEqual([...worlds.keys()].toSorted(), others.toSorted())
  })
})

describe("the parser of blocks", () => {
  const page = [
    "```sh",
    "ampoule whoami",
    "```",
    "",
    "1. First",
    "",
    "   <!-- not run: needs a cluster -->",
    "   ```sh",
    "   kubectl get pods",
    "   ```",
    "",
    "<!-- run by test/deploy/recipes.test.ts -->",
    "```yaml compose.yaml",
    "a: 1",
    "```",
    "",
    "```json",
    "{}",
    "```",
    "",
    "<!-- a note -->",
    "```sh",
    "true",
    "```"
  ].join("\n")

  it("reads answers, names and indented blocks, and takes no other comment for an answer", () => {
    assert.deepStrictEqual(
      blocksIn("a.md", page).map(({ answer, language, line, name, text }) => [line, language, name, text, answer]),
      [
        [1, "sh", undefined, "ampoule whoami\n", { kind: "run" }],
        [8, "sh", undefined, "kubectl get pods\n", { kind: "not run", reason: "needs a cluster" }],
        [13, "yaml", "compose.yaml", "a: 1\n", { kind: "run by", test: "test/deploy/recipes.test.ts" }],
        [17, "json", undefined, "{}\n", undefined],
        [22, "sh", undefined, "true\n", { kind: "run" }]
      ]
    )
  })
})

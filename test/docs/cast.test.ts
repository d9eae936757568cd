/** The recording of the quick start is of the commands on its page, and the page shows it as it is. */
import { assert, describe, it } from "@effect/vitest"
import * as fs from "node:fs"
import * as Schema from "effect/Schema"
import * as Documents from "#test/deploy/Documents.ts"
import { parsed, TextsByName } from "#test/support/Json.ts"
import * as Cast from "./Cast.ts"

const page = "docs/quick-start.md"
const text = fs.readFileSync(page, "utf8")
const cast = Cast.read(fs.readFileSync("docs/quick-start.cast", "utf8"))

describe("the recorded quick start", () => {
  it("has the commands of the page, at most four, in their order", () => {
    const lines = Cast.linesOf(cast).flatMap(({ text }) => (/^\$ (\S.*)$/.exec(text) ?? []).slice(1))
    const commands = Documents.block(page, "quick-start").trim().split("\n")
    assert.isAtMost(commands.length, 4)
    assert.deepStrictEqual(
      lines.map((command) => command.trim().replace(" --plaintext-local", "")),
      commands
    )
  })

  it("is of the commands that the README has", () => {
    assert.strictEqual(Documents.block("README.md", "quick-start"), Documents.block(page, "quick-start"))
  })

  it("ends with the output of a program that got the value", () => {
    const lines = Cast.linesOf(cast).map(({ text }) => text.trim())
    assert.deepStrictEqual(lines.slice(-2), ["hello from Ampoule", "$"])
  })

  it("is on the page, line by line, with its times", () => {
    const recording = /<!-- cast -->\n.*\n```text\n([\s\S]*?)\n```\n<!-- \/cast -->/.exec(text)?.[1]
    assert.strictEqual(recording, Cast.textOf(cast))
  })

  it("took as long as the README says", () => {
    const seconds = Cast.linesOf(cast).find(({ text }) => text.includes("hello from Ampoule"))?.seconds ?? 0
    assert.include(fs.readFileSync("README.md", "utf8"), `${Math.ceil(seconds)} seconds`)
  })

  it("installs the versions that the package was tested with", () => {
    const { devDependencies } = parsed(Schema.Struct({ devDependencies: TextsByName }))(
      fs.readFileSync("package.json", "utf8")
    )
    for (const [, name, version] of text.matchAll(/-p (@[\w/-]+)@([\d.]+)/g)) {
      assert.strictEqual(devDependencies[name], version, name)
    }
  })
})

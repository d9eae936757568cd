/**
 * Each command that a sentence of the product names exists, with the options that it names. The sentences are the texts
 * of the code; what a template puts in is a placeholder.
 */
import { assert, describe, it } from "@effect/vitest"
import * as fs from "node:fs"
import { orRemedy, ServerRefused } from "#src/cli/terminal/Failure.ts"
import * as Failure from "#src/cli/terminal/Failure.ts"
import { complaint, placeholder } from "./Mentions.ts"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Errors from "#schema/Errors.ts"

interface Mention {
  readonly at: string
  readonly command: string
}

const plainLine = (file: string, line: string): string =>
  // A line of a code block is a mention too.
  file.endsWith(".md") ? line.replace(/^\s*(?:\$ )?(ampoule [^`]*)$/, "`$1`") : line

/** Commands between backticks, in texts and comments; in a template the backticks are escaped. */
const mentionsIn = (file: string): ReadonlyArray<Mention> =>
  fs
    .readFileSync(file, "utf8")
    .split("\n")
    .flatMap((line, i) =>
      Array.from(
        plainLine(file, line)
          .replaceAll(/\$\{[^{}]*\}/g, placeholder)
          .matchAll(/`ampoule ([^`\\]*)\\?`/g),
        ([, command]) => ({
          at: `${file}:${i + 1}`,
          command
        })
      )
    )

const files = (folder: string): ReadonlyArray<string> =>
  fs
    .readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((name) => /\.(?:tsx?|md)$/.test(name) && !name.endsWith(".d.ts"))
    .map((name) => `${folder}/${name}`)

describe("sentences of the product", () => {
  it("name commands that exist, with options that these have", () => {
    const mentions = [...["src", "layers", "schema", "docs"].flatMap(files), "README.md", "CHANGELOG.md"].flatMap(
      mentionsIn
    )
    assert.isAbove(mentions.length, 100)
    const wrong = mentions.flatMap(({ at, command }) => {
      const why = complaint(command)
      return why === undefined ? [] : [`${at} \`ampoule ${command.replaceAll(placeholder, "…")}\`: ${why}`]
    })
    assert.deepStrictEqual(wrong, [])
  })

  it("name no option alone in the next step of a code, which any command can print", () => {
    const codes = Object.values(Errors).flatMap((error) =>
      typeof error === "function" && "code" in error ? [String(error.code)] : []
    )
    assert.isAbove(codes.length, 40)
    for (const code of codes) {
      const { hint = "" } = Failure.describe(new ServerRefused({ status: 400, code, message: "", details: {} }))
      assert.notMatch(hint.replaceAll(/`[^`]*`/g, ""), /(?:^|\s)--[a-z]/, code)
    }
  })

  it("keep the step of the code before that of the command's own option", () => {
    const refused = new ServerRefused({ status: 400, code: "TEMPLATE_INVALID", message: "m", details: {} })
    const remedies = new Map([["TEMPLATE_INVALID", "Or --literal."]])
    const error = Either.flip(Effect.runSync(Effect.either(orRemedy(remedies)(Effect.fail(refused)))))
    assert.strictEqual(Failure.describe(Either.getOrThrow(error)).hint, "Write $${ for a plain ${. Or --literal.")
  })
})

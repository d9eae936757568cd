import * as EnvFile from "#src/formats/EnvFile.ts"
import { formats } from "#src/formats/FormatNames.ts"
import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import { entries, fileOf, value } from "./Entries.ts"

describe("file formats", () => {
  for (const format of formats) {
    it.prop(
      `${format} gives back every entry it agrees to carry`,
      [entries(value)],
      ([given]) => {
        const printed = EnvFile.print(format, given)
        if (Either.isLeft(printed)) {
          const refused = given.find((entry) => entry.key === printed.left.key)
          assert.match(refused?.value ?? "", format === "docker" ? /[\0\n\r]/ : /\0/)
          assert.notInclude(["json", "yaml"], format)
          return
        }
        const parsed = Either.getOrThrow(EnvFile.parse(format, printed.right))
        assert.deepStrictEqual(
          parsed.map(({ key, value }) => ({ key, value })),
          [...given]
        )
      },
      { fastCheck: { numRuns: 1_000 } }
    )

    it.prop(
      `${format} gives back any Unicode`,
      [entries(FastCheck.string({ unit: "binary", maxLength: 60 }))],
      ([given]) => {
        const printed = EnvFile.print(format, given)
        if (Either.isLeft(printed)) return
        const parsed = Either.getOrThrow(EnvFile.parse(format, printed.right))
        assert.deepStrictEqual(
          parsed.map(({ key, value }) => ({ key, value })),
          [...given]
        )
      }
    )

    it.prop(
      `${format} tells the line on which each entry starts`,
      [entries(value.map((v) => v.replaceAll("\0", "").replaceAll("\r", "").replaceAll("\n", "")))],
      ([given]) => {
        const text = Either.getOrThrow(EnvFile.print(format, given))
        const lines = text.split("\n")
        for (const { key, line } of Either.getOrThrow(EnvFile.parse(format, text))) assert.include(lines[line - 1], key)
      }
    )

    it.prop(
      `${format} ends on any text, and a failure repeats nothing of it`,
      [fileOf(format)],
      ([text]) => {
        const parsed = EnvFile.parse(format, text + "MARKER")
        if (Either.isRight(parsed)) return
        assert.notInclude(parsed.left.message + JSON.stringify(parsed.left), "MARKER")
        assert.isAtLeast(parsed.left.line, 1)
        assert.isAtMost(parsed.left.line, text.split(/\r\n?|\n/).length + 1)
      },
      { fastCheck: { numRuns: 1_000 } }
    )

    it(`${format} reads a byte order mark, Windows line ends and an empty file`, () => {
      const originals = [
        { key: "A", value: "1" },
        { key: "B", value: "x y" }
      ]
      const text = Either.getOrThrow(EnvFile.print(format, originals)).replaceAll("\n", "\r\n")
      const parsed = Either.getOrThrow(EnvFile.parse(format, "\ufeff" + text))
      assert.deepStrictEqual(
        parsed.map(({ key, value }) => ({ key, value })),
        originals
      )
      const empty = Either.getOrThrow(EnvFile.print(format, []))
      assert.deepStrictEqual(Either.getOrThrow(EnvFile.parse(format, empty)), [])
    })

    it(`${format} reads a large file in time that grows with it, not with its square`, () => {
      // Quadratic, this took minutes: long lines without what a search looks for, and a text without line ends.
      const originals = Array.from({ length: 100_000 }, (_, i) => ({ key: `K${i}`, value: "v".repeat(40) }))
      const printed = Either.getOrThrow(EnvFile.print(format, originals))
      const texts = [printed, ...(format === "json" ? [printed.replaceAll("\n", "")] : [])]
      if (format === "dotenv") texts.push(printed.replaceAll("'", ""))
      for (const text of texts) {
        assert.strictEqual(Either.getOrThrow(EnvFile.parse(format, text)).length, originals.length)
      }
    })

    it(`${format} refuses a key that could end its own name`, () => {
      for (const key of ["", "A B", "A=B", "A;touch x", "A\nB", "$(x)", "1A", "A-B", "Ä"]) {
        const printed = EnvFile.print(format, [
          { key: "OK", value: "v" },
          { key, value: "hidden" }
        ])
        assert(Either.isLeft(printed), key)
        assert.strictEqual(printed.left.key, key)
        assert.notInclude(printed.left.message, "hidden")
      }
    })

    it(`${format} refuses a repeated key, by its line`, () => {
      const text = Either.getOrThrow(
        EnvFile.print(format, [
          { key: "A", value: "1" },
          { key: "B", value: "2" },
          { key: "A", value: "3" }
        ])
      )
      const parsed = EnvFile.parse(format, text)
      assert(Either.isLeft(parsed))
      assert.strictEqual(parsed.left.line, format === "json" || format === "nushell" ? 4 : 3)
    })
  }

  it("are guessed from file names", () => {
    for (const [name, format] of [
      [".env", "dotenv"],
      ["a/.env.local", "dotenv"],
      ["C:\\x\\prod.env", "dotenv"],
      ["secrets.JSON", "json"],
      ["x.yml", "yaml"],
      ["x.yaml", "yaml"],
      ["vars.sh", "shell"],
      ["notes.txt", undefined],
      ["env", undefined]
    ] as const) {
      assert.strictEqual(EnvFile.formatOf(name), format, name)
    }
  })
})

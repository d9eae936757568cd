/** Files that Ampoule writes, and the results of real readers of these very files (test/records/readers.json, `npm run test:readers`). */
import * as DotenvPrint from "#src/formats/DotenvPrint.ts"
import * as EnvFile from "#src/formats/EnvFile.ts"
import { type Reader, readers } from "#src/formats/FormatNames.ts"
import { values } from "#test/readers/values.mjs"
import { assert, describe, it } from "@effect/vitest"
import dotenv from "dotenv"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import * as Schema from "effect/Schema"
import * as fs from "node:fs"
import * as path from "node:path"
import { value } from "./Entries.ts"
import { environmentAfter, installedShells } from "./Shells.ts"

const Text = Schema.NullOr(Schema.String)
const Written = Schema.Struct({
  value: Schema.String,
  file: Text,
  answers: Schema.Record({ key: Schema.String, value: Text }),
  for: Schema.Record({ key: Schema.String, value: Schema.Struct({ file: Text, answer: Text }) })
})
const Recorded = Schema.Struct({ nushell: Schema.Number, written: Schema.Array(Written) })
const file = path.join(import.meta.dirname, "../records/readers.json")
const { nushell, written } = Schema.decodeUnknownSync(Schema.parseJson(Recorded))(fs.readFileSync(file, "utf8"))

const textOf = (value: string, reader?: Reader): string | null =>
  Either.getOrElse(EnvFile.print("dotenv", [{ key: "A", value }], reader === undefined ? {} : { reader }), () => null)

/** Readers of the record by the name that a person reads. */
const names = new Map([
  ["npm", "npm dotenv"],
  ["node", "node"],
  ["dotenvx", "dotenvx"],
  ["python", "python-dotenv"],
  ["compose", "compose"],
  ["godotenv", "godotenv"],
  ["bash", "shells"]
])

describe("a .env file that Ampoule writes", () => {
  it("is what the readers were asked about", () => {
    assert.deepStrictEqual(
      written.map((one) => one.value),
      [...values]
    )
    assert.strictEqual(nushell, values.length)
    for (const { file, value } of written) assert.strictEqual(textOf(value), file, JSON.stringify(value))
  })

  it("is read alike by every reader that is not named", () => {
    for (const { answers, value } of written) {
      const named = DotenvPrint.readOtherwise(value)
      for (const [reader, answer] of Object.entries(answers)) {
        const name = names.get(reader)
        assert(name !== undefined, reader)
        if (!named.includes(name)) assert.strictEqual(answer, value, `${name}: ${JSON.stringify(value)}`)
      }
    }
  })

  it("names no reader for what environments have every day", () => {
    for (const value of [
      "",
      "word",
      "two words",
      "postgres://u:p@h/db?a=b&c=d#e",
      '{"a":"b c"}',
      "p@$$w0rd",
      "$2b$10$abc",
      "it's",
      "-----BEGIN X-----\nab==\n-----END X-----",
      "C:\\dir",
      "größe"
    ]) {
      assert.deepStrictEqual(DotenvPrint.readOtherwise(value), [], value)
    }
  })

  for (const reader of readers) {
    it(`for ${reader} is read back by it, or refused`, () => {
      let carried = 0
      for (const one of written) {
        const { answer, file } = one.for[reader]
        assert.strictEqual(textOf(one.value, reader), file, JSON.stringify(one.value))
        if (file === null) continue
        assert.strictEqual(answer, one.value, file)
        carried++
      }
      assert.isAbove(carried, written.length * 0.85)
    })
  }

  it("for npm is read back by npm dotenv, whatever the value", () => {
    for (const text of FastCheck.sample(value, { numRuns: 2_000, seed: 5 })) {
      const printed = textOf(text, "npm")
      if (printed !== null) assert.strictEqual(dotenv.parse(`${printed}B='x'\n`)["A"], text, printed)
    }
  })

  it("for shells is read back by each of them", () => {
    const entries = FastCheck.sample(value, { numRuns: 1_000, seed: 5 }).flatMap((text, i) =>
      text.includes("\0") ? [] : [{ key: `K${i}`, value: text }]
    )
    const printed = Either.getOrThrow(EnvFile.print("dotenv", entries, { reader: "shell" }))
    // fish has other quotes, and assigns otherwise; with RC_QUOTES zsh has other quotes too.
    for (const shell of installedShells.filter(({ name }) => name !== "fish" && name !== "zsh-rc-quotes")) {
      const environment = environmentAfter(shell, printed, 'set -a; . "$FILE"')
      for (const { key, value } of entries) assert.strictEqual(environment[key], value, shell.name)
    }
  })

  it("refuses by the name of the key what a reader cannot read in any form", () => {
    const printed = EnvFile.print("dotenv", [{ key: "BAD", value: "'\"`MARKER" }], { reader: "node" })
    assert(Either.isLeft(printed))
    assert.strictEqual(printed.left.key, "BAD")
    assert.match(printed.left.message, /node --env-file has no way/)
    assert.notInclude(printed.left.message, "MARKER")
  })
})

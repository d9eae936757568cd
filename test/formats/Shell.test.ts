import * as Shell from "#src/formats/Shell.ts"
import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import { value } from "./Entries.ts"
import { sourced } from "./Sourced.ts"

describe("shell exports", () => {
  it("/bin/sh reads back every value and runs nothing", () => {
    const values = FastCheck.sample(value, { numRuns: 2_000, seed: 11 }).map((v) => v.replaceAll("\0", ""))
    values.push("$(kill -9 $$)", "`kill -9 $$`", "';kill -9 $$;'", "'", "\\'", "\n", "")
    const given = values.map((value, i) => ({ key: `K${i}`, value }))
    const names = given.map((entry) => entry.key)
    assert.deepStrictEqual(sourced(Either.getOrThrow(Shell.print(given)), '. "$FILE"', names), values)
  })

  it("the values are exported to what the shell starts", () => {
    const file = Either.getOrThrow(
      Shell.print([
        { key: "A", value: "it's\n$B" },
        { key: "B", value: "b" }
      ])
    )
    assert.deepStrictEqual(sourced(file, '. "$FILE"; SEEN=$(/bin/sh -c \'printf "%s" "$A"\')', ["SEEN"]), ["it's\n$B"])
  })

  it("uses single quotes only and names the key of a value with U+0000", () => {
    assert.deepStrictEqual(
      Shell.print([{ key: "A", value: "it's $HOME" }]),
      Either.right("export A='it'\\''s $HOME'\n")
    )
    const outcome = Shell.print([{ key: "BAD", value: "\0" }])
    assert(Either.isLeft(outcome))
    assert.strictEqual(outcome.left.key, "BAD")
  })

  it("reads comments and plain assignments, and refuses other shell syntax", () => {
    const text = "# c\n\nA='1'\nexport  B=''\\'''\nexport C=\n"
    assert.deepStrictEqual(Either.getOrThrow(Shell.parse(text)), [
      { key: "A", value: "1", line: 3 },
      { key: "B", value: "'", line: 4 },
      { key: "C", value: "", line: 5 }
    ])
    for (const bad of ["A=$(id)", 'A="x"', "A=x", "A='x' B='y'", "A='x';id", "A='x", "id", "A='x'\\", "export A"]) {
      const outcome = Shell.parse(`OK='1'\n${bad}\n`)
      assert(Either.isLeft(outcome), bad)
      assert.strictEqual(outcome.left.line, 2)
    }
  })
})

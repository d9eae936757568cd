import * as EnvFile from "#src/formats/EnvFile.ts"
import { preview } from "#src/formats/Preview.ts"
import { SecretKey } from "#schema/Values.ts"
import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import * as Schema from "effect/Schema"

describe("the preview of an import", () => {
  it("sorts keys into new, existing and invalid, with their lines", () => {
    const parsed = Either.getOrThrow(
      EnvFile.parse("dotenv", "# c\nNEW=1\nlower=2\nOLD='a\nb'\n_X=3\nA.B=4\nALSO_NEW=\n")
    )
    assert.deepStrictEqual(preview(parsed, new Set(["OLD", "OTHER"])), {
      create: ["NEW", "ALSO_NEW"],
      update: ["OLD"],
      invalidKeys: [
        { line: 3, name: "lower" },
        { line: 6, name: "_X" },
        { line: 7, name: "A.B" }
      ]
    })
  })

  it.prop(
    "uses the key grammar of the contract",
    [
      FastCheck.oneof(
        FastCheck.string({ unit: FastCheck.constantFrom("A", "Z", "0", "_", "a", "-", "\n"), maxLength: 5 }),
        FastCheck.constantFrom("K".repeat(255), "K".repeat(256))
      )
    ],
    ([key]) => {
      const { create } = preview([{ key, value: "", line: 1 }], new Set())
      assert.strictEqual(create.length === 1, Schema.is(SecretKey)(key))
    }
  )
})

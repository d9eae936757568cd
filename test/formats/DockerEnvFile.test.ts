import * as DockerEnvFile from "#src/formats/DockerEnvFile.ts"
import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"

describe("docker env-files", () => {
  it("hold values as they stand", () => {
    const entries = [
      { key: "A", value: " 'x' #y \\n $Z = " },
      { key: "B", value: "" }
    ]
    assert.deepStrictEqual(DockerEnvFile.print(entries), Either.right("A= 'x' #y \\n $Z = \nB=\n"))
  })

  it("name the key and the reason when they cannot carry a value", () => {
    for (const [value, reason] of [
      ["a\nb", /line break/],
      ["a\r", /line break/],
      ["a\0", /U\+0000/],
      ["x".repeat(65_534), /65535 bytes/],
      ["é".repeat(32_767), /65535 bytes/]
    ] as const) {
      const outcome = DockerEnvFile.print([
        { key: "OK", value: "fine" },
        { key: "B", value }
      ])
      assert(Either.isLeft(outcome))
      assert.strictEqual(outcome.left.key, "B")
      assert.match(outcome.left.reason, reason)
      assert.isBelow(outcome.left.message.length, 120)
    }
    assert.isTrue(Either.isRight(DockerEnvFile.print([{ key: "B", value: "x".repeat(65_533) }])))
  })

  it("are read as docker reads them", () => {
    assert.deepStrictEqual(Either.getOrThrow(DockerEnvFile.parse("\ufeff# c\n\n  A='1' \r\n#B=2\nC=a=b")), [
      { key: "A", value: "'1' ", line: 3 },
      { key: "C", value: "a=b", line: 5 }
    ])
    for (const bad of ["A", "=x", "A B=x", "export A=x", "A\t=x"]) {
      const outcome = DockerEnvFile.parse(`OK=1\n${bad}`)
      assert(Either.isLeft(outcome), bad)
      assert.strictEqual(outcome.left.line, 2)
    }
  })
})

import { assert, describe, it } from "@effect/vitest"
import * as fs from "node:fs"
import { currentWays, readWays, ways, waysDescription } from "#schema/ExposureWays.ts"
import { doubtText, hasTypedText, waysText, wayText } from "#src/formats/ExposureText.ts"

describe("the ways by which somebody holds a value", () => {
  it("are in the contract's page, in the document and in sentences, each of them", () => {
    const page = fs.readFileSync("docs/contract/audit.md", "utf8")
    const [row = ""] = page.split("\n").filter((line) => line.startsWith("| `way` |"))
    for (const way of ways) {
      assert.include(row, `\`${way}\``)
      assert.include(waysDescription, `${way}: `)
    }
    assert.strictEqual(waysText(["read", "wrote"]), "read, typed it")
    assert.strictEqual(wayText("a way of a later release"), "a way of a later release")
  })

  it("are reads but for a typed value and a backup, and hand out the present value but for a backup", () => {
    const besides = (some: ReadonlyArray<string>) => ways.filter((way) => !some.includes(way))
    assert.deepStrictEqual(besides(readWays), ["wrote", "backup"])
    assert.deepStrictEqual(besides(currentWays), ["backup"])
  })

  it("leave a doubt where the trail does not say the version, or whether the text was typed", () => {
    assert.isUndefined(doubtText({ certain: true, ways: ["read"] }))
    assert.strictEqual(doubtText({ certain: false, ways: ["read", "wrote"] }), "or earlier")
    assert.strictEqual(doubtText({ certain: false }), "or earlier")
    assert.strictEqual(doubtText({ certain: false, ways: ["wrote"] }), "unless it was generated or copied")
    assert.isTrue(hasTypedText({ ways: ["wrote"], uses: ["A"] }))
    assert.isFalse(hasTypedText({ ways: ["wrote"], uses: [] }))
    assert.isFalse(hasTypedText({ ways: ["read"], uses: ["A"] }))
  })
})

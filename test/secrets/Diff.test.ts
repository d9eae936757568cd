import { diff } from "#src/secrets/Diff.ts"
import { assert, describe, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"

const environment = FastCheck.array(
  FastCheck.tuple(FastCheck.constantFrom("A", "A0", "AA", "A_", "B", "Z9"), FastCheck.constantFrom("", "x", "y", "😀"))
).map((entries) => new Map(entries))

describe("diff of two environments", () => {
  it("names what was added, removed and changed, sorted in byte order", () => {
    const source = new Map([
      ["SAME", "1"],
      ["GONE_B", "1"],
      ["GONE", "1"],
      ["EDIT", "1"]
    ])
    const target = new Map([
      ["SAME", "1"],
      ["EDIT", "2"],
      ["NEW_", "3"],
      ["NEW1", "3"],
      ["NEW", ""]
    ])
    assert.deepStrictEqual(diff(source, target), {
      added: [{ key: "NEW" }, { key: "NEW1" }, { key: "NEW_" }],
      removed: [{ key: "GONE" }, { key: "GONE_B" }],
      changed: [{ key: "EDIT" }]
    })
  })

  it.prop("mirrors when the sides are swapped", [environment, environment], ([a, b]) => {
    const there = diff(a, b)
    const back = diff(b, a)
    assert.deepStrictEqual(back, { added: there.removed, removed: there.added, changed: there.changed })
  })

  it.prop("is empty against itself", [environment], ([a]) => {
    assert.deepStrictEqual(diff(a, new Map([...a].reverse())), { added: [], removed: [], changed: [] })
  })

  it.prop("turns the source into the target", [environment, environment], ([source, target]) => {
    const { added, removed, changed } = diff(source, target)
    const result = new Map(source)
    for (const { key } of removed) assert.isTrue(result.delete(key))
    for (const { key } of added) assert.isFalse(result.has(key))
    for (const { key } of changed) assert.notStrictEqual(result.get(key), target.get(key))
    for (const { key } of [...added, ...changed]) result.set(key, target.get(key) ?? "")
    assert.deepStrictEqual(Object.fromEntries(result), Object.fromEntries(target))
  })
})

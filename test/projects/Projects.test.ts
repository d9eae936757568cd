import { assert, describe, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import { slugOf } from "#src/projects/Projects.ts"
import { environmentSlugPattern } from "#schema/Values.ts"

describe("the slug that follows from a name", () => {
  for (const [name, slug] of [
    ["Shop", "shop"],
    ["My  Web-Shop (EU)", "my-web-shop-eu"],
    ["Crème brûlée", "creme-brulee"],
    ["--2nd try--", "2nd-try"],
    [`${"a".repeat(49)} b`, "a".repeat(49)],
    ["日本語", undefined],
    ["…", undefined]
  ] as const) {
    it(`of ${JSON.stringify(name)} is ${slug}`, () => assert.strictEqual(slugOf(name), slug))
  }

  it.prop("is a slug, whatever the name", [FastCheck.string({ maxLength: 120, unit: "grapheme" })], ([name]) => {
    const slug = slugOf(name)
    if (slug === undefined) return
    assert.match(slug, environmentSlugPattern)
    assert.isAtMost(slug.length, 50)
    assert.strictEqual(slugOf(slug), slug)
  })
})

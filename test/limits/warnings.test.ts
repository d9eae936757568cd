import { assert, describe, it } from "@effect/vitest"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { limitWarnings } from "#src/Deployment.ts"
import * as TestApp from "#test/support/TestApp.ts"

const of = (changes: Partial<typeof TestApp.settings>) => limitWarnings({ ...TestApp.settings, ...changes })
const redisUrl = Option.some(Redacted.make("redis://127.0.0.1:6379"))

describe("a start", () => {
  it("says nothing of limits that hold: one process, or several that count in one Redis", () => {
    assert.deepStrictEqual(of({}), [])
    assert.deepStrictEqual(of({ redisUrl }), [])
    assert.deepStrictEqual(of({ workers: 4, redisUrl }), [])
  })

  it("warns once that several processes count for themselves, and how to have them count together", () => {
    const [line, ...others] = of({ workers: 4 })
    assert.deepStrictEqual(others, [])
    assert.include(line, "4 times")
    assert.include(line, "AMPOULE_REDIS_URL")
  })

  it("warns that limits are off, and of nothing besides", () => {
    for (const more of [{}, { workers: 4 }, { workers: 4, redisUrl }]) {
      const lines = of({ ...more, rateLimits: false })
      assert.lengthOf(lines, 1)
      assert.include(lines[0], "AMPOULE_RATE_LIMITS=off")
    }
  })
})

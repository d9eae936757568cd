import { assert, describe, it, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import { shapeProblem } from "#src/http/engine/NodeRequest.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"

const nested = (levels: number) => "[".repeat(levels) + "]".repeat(levels)
const entries = (n: number) => `[${Array.from({ length: n }, () => "0").join(",")}]`

describe("the shape of a body", () => {
  it("has 32 levels and 20,000 parts at most", () => {
    assert.isUndefined(shapeProblem(nested(32)))
    assert.strictEqual(shapeProblem(nested(33)), "nested too deeply")
    assert.isUndefined(shapeProblem(entries(20_000)))
    assert.strictEqual(shapeProblem(entries(20_001)), "made of too many parts")
    assert.strictEqual(
      shapeProblem(`[${Array.from({ length: 10_001 }, () => "{}").join(",")}]`),
      "made of too many parts"
    )
  })

  it.prop(
    "is not decided by what its texts hold",
    [FastCheck.array(FastCheck.string({ unit: FastCheck.constantFrom(...'[]{},"\\:a') })), FastCheck.string()],
    ([texts, name]) => {
      const longTexts = texts.map((text) => text.repeat(5_000))
      assert.isUndefined(shapeProblem(JSON.stringify(longTexts)))
      assert.isUndefined(shapeProblem(JSON.stringify({ [name.repeat(5_000)]: longTexts })))
      assert.strictEqual(shapeProblem(`[${JSON.stringify(longTexts)},${nested(40)}]`), "nested too deeply")
    },
    { fastCheck: { numRuns: 30 } }
  )

  it.prop("is read without an end", [FastCheck.string({ unit: FastCheck.constantFrom(...'[]{},"\\') })], ([text]) => {
    const problem = shapeProblem(text)
    assert.isTrue(problem === undefined || text.length > 32)
  })
})

layer(TestApp.shared, { excludeTestServices: true })("a body of very many parts", (it) => {
  it.effect("is refused before it is parsed, whatever its parts are and wherever they stand", () =>
    Effect.gen(function* () {
      const project = yield* World.project()
      const { text: bearer } = yield* World.token({ team: project.team })
      const headers = { "content-type": "application/json" }
      const place = `"projectId":"${project.id}","environment":"development"`
      const members = Array.from({ length: 30_000 }, (_, i) => `"K${i}":""`).join(",")
      const answers = [
        yield* TestApp.post("/secrets/bulk", { bearer, headers, body: `{${place},"secrets":${entries(30_000)}}` }),
        yield* TestApp.post("/secrets/bulk", { bearer, headers, body: `{${place},"secrets":[{${members}}]}` }),
        yield* TestApp.post("/secrets/bulk", { bearer, headers, body: `{${place},${members}}` }),
        yield* TestApp.post("/secrets", { bearer, headers, body: `{${place},"key":{${members}}}` }),
        // Not JSON: it was never read as such.
        yield* TestApp.post("/secrets", { bearer, headers, body: entries(30_000).slice(0, -1) })
      ]
      for (const { error } of answers) {
        assert.deepStrictEqual(error, {
          statusCode: 400,
          code: "VALIDATION_FAILED",
          message: "The body is made of too many parts."
        })
      }
    })
  )

  it.effect("gets all its faults while they are some thousand", () =>
    Effect.gen(function* () {
      const project = yield* World.project()
      const { text: bearer } = yield* World.token({ team: project.team })
      const secrets = Array.from({ length: 5_000 }, (_, i) => ({ key: `K${i}`, value: "[{,".repeat(100) }))
      const { error } = yield* TestApp.post("/secrets/bulk", {
        bearer,
        json: { projectId: project.id, environment: "development", secrets }
      })
      assert.deepStrictEqual([error.code, error.field], ["VALIDATION_FAILED", "secrets"])
    })
  )
})

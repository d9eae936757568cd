import { assert, describe, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"

describe("health and discovery", () => {
  layer(TestApp.layer, { excludeTestServices: true })((it) => {
    it.effect("liveness answers without a credential", () =>
      Effect.gen(function* () {
        const answer = yield* TestApp.get("/health/live")
        assert.deepStrictEqual([answer.status, answer.json], [200, { status: "ok" }])
      })
    )

    it.effect("readiness names each dependency", () =>
      Effect.gen(function* () {
        const answer = yield* TestApp.get("/health/ready")
        assert.strictEqual(answer.status, 200)
        assert.deepStrictEqual(answer.json, {
          status: "ready",
          checks: { database: { status: "up" }, cache: { status: "in-process" }, vault: { status: "up" } }
        })
      })
    )

    it.effect("capabilities need a credential and name the plan of the one team", () =>
      Effect.gen(function* () {
        assert.strictEqual((yield* TestApp.get("/capabilities")).status, 401)
        const team = yield* World.team({ plan: "developer" })
        const { text } = yield* World.token({ team })
        const answer = yield* TestApp.get("/capabilities", { bearer: text })
        assert.strictEqual(answer.status, 200)
        assert.strictEqual(answer.json.plan, "developer")
        assert.strictEqual(answer.json.durability, "process-crash")
        assert.strictEqual(answer.json.mcpUrl, `${TestApp.baseUrl}/mcp`)
      })
    )
  })
})

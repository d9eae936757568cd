/** Findings of the fuzzer, each held by one request. */
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { allScopes } from "#schema/Scopes.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import * as Clients from "#test/mcp/Clients.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"
import * as Documents from "./Documents.ts"

const headers = { "content-type": "application/json" }

layer(Layer.merge(TestApp.shared, Crypto.Default), { excludeTestServices: true })("found by fuzzing", (it) => {
  it.effect("a body nested thousands of levels deep is refused, wherever the depth is", () =>
    Effect.gen(function* () {
      const project = yield* World.project()
      const { text: bearer } = yield* World.token({ team: project.team })
      const place = `"projectId":"${project.id}","environment":"development"`
      for (const depth of [40, 3_000, 200_000]) {
        const nested = "[".repeat(depth) + "]".repeat(depth)
        const answers = [
          yield* TestApp.post("/password-reset", { headers, body: `{"code":"x","newPassword":${nested}}` }),
          yield* TestApp.post("/auth/session", { headers, body: `{"email":${nested},"password":"x"}` }),
          yield* TestApp.post("/secrets", { bearer, headers, body: `{${place},"key":"A","value":{"a":${nested}}}` }),
          yield* TestApp.post("/secrets/bulk", { bearer, headers, body: `{${place},"secrets":${nested}}` }),
          yield* TestApp.post("/secrets", { bearer, headers, body: nested })
        ]
        for (const { error } of answers) {
          assert.deepStrictEqual(error, {
            statusCode: 400,
            code: "VALIDATION_FAILED",
            message: "The body is nested too deeply."
          })
        }
      }
    })
  )

  it.effect("a version beyond what the database counts to is a version that there is not", () =>
    Effect.gen(function* () {
      const project = yield* World.project()
      const { text: bearer } = yield* World.token({ team: project.team })
      const secret = yield* TestApp.post("/secrets", {
        bearer,
        json: { projectId: project.id, environment: "development", key: "A", value: "x" }
      })
      for (const version of [2, 2 ** 31, Number.MAX_SAFE_INTEGER]) {
        const { error } = yield* TestApp.post(`/secrets/${secret.json.id}/rollback`, { bearer, json: { version } })
        assert.strictEqual(error.code, "SECRET_VERSION_NOT_FOUND")
      }
    })
  )

  it.effect("a protocol version of /mcp that is none is refused without repeating it", () =>
    Effect.gen(function* () {
      const project = yield* World.project()
      const { text: bearer } = yield* World.token({ team: project.team, mcpScopes: allScopes })
      const { status, text } = yield* TestApp.post("/mcp", {
        bearer,
        headers: { accept: "application/json, text/event-stream", "mcp-protocol-version": "canary-version" },
        json: { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "x" } }
      })
      assert.strictEqual(status, 400)
      assert.notInclude(text, "canary")
    })
  )

  it.effect("a refusal of /mcp repeats the id of its request, and no id that none may have", () =>
    Effect.gen(function* () {
      const project = yield* World.project()
      const { text: bearer } = yield* World.token({ team: project.team, mcpScopes: allScopes })
      const operation = Documents.operations.find(({ id }) => id === "mcp.request")
      const refused = operation?.answers.get(400)?.get("application/json")
      for (const [id, repeated] of [
        [-1, -1],
        ["x", "x"],
        [1e-7, null],
        [0.5, null],
        [1e300, null],
        [true, null],
        [{ a: 1 }, null]
      ]) {
        const { status, text } = yield* TestApp.post("/mcp", {
          bearer,
          headers: { accept: "application/json, text/event-stream" },
          json: { jsonrpc: "2.0", id, method: "prompts/list", teamId: {} }
        })
        const { id: told } = JSON.parse(text) as { readonly id: unknown }
        assert.deepStrictEqual([status, told, refused?.(JSON.parse(text))], [400, repeated, true])
      }
    })
  )

  it.effect("a call of /mcp without an id is a notification, and needs no answer of an SDK", () =>
    Effect.gen(function* () {
      const project = yield* World.project()
      const { text: bearer } = yield* World.token({ team: project.team, mcpScopes: allScopes })
      const accept = "application/json, text/event-stream"
      const initialize = yield* TestApp.post("/mcp", {
        bearer,
        headers: { accept },
        json: { jsonrpc: "2.0", method: "initialize", params: { name: "diff_environments" } }
      })
      assert.deepStrictEqual([initialize.status, initialize.text.includes("Mcp-Session-Id is required")], [400, true])
      const { body, headers } = Clients.modernCall("no_such_tool", {})
      const { id: _none, ...notification } = body
      const call = yield* TestApp.post("/mcp", { bearer, headers: { accept, ...headers }, json: notification })
      assert.deepStrictEqual([call.status, call.text], [202, ""])
    })
  )

  it.effect("an empty device code is no device code", () =>
    Effect.gen(function* () {
      const { error } = yield* TestApp.post("/auth/cli/device/token", { json: { deviceCode: "" } })
      assert.deepStrictEqual([error.code, error.field], ["VALIDATION_FAILED", "deviceCode"])
    })
  )

  it.effect("the length of a user code is counted in characters, as the document says", () =>
    Effect.gen(function* () {
      const { text: session } = yield* World.session(yield* World.person())
      const show = (code: string) => TestApp.get(`/auth/cli/device/requests/${encodeURIComponent(code)}`, { session })
      assert.strictEqual((yield* show("\u{1f600}".repeat(64))).status, 404)
      assert.strictEqual((yield* show("\u{1f600}".repeat(65))).status, 400)
    })
  )
})

/** Rules of the two eras' transports that no well-behaved client tries, on the wire. */
import { assert, describe, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { allScopes } from "#schema/Scopes.ts"
import * as World from "#test/support/World.ts"
import * as Clients from "./Clients.ts"
import * as McpApp from "./McpApp.ts"

const scene = Effect.gen(function* () {
  const base = yield* McpApp.base
  const project = yield* World.project()
  const token = yield* World.token({ team: project.team, mcpScopes: allScopes })
  const post = (body: unknown, headers: Record<string, string> = {}) =>
    Clients.raw(base, "POST", { bearer: token.text, headers, body })
  return { base, bearer: token.text, project, post, place: { projectId: project.id, environment: "development" } }
})

const meta = Clients.modernCall("x", {}).body.params._meta
const nameOf = (params: Record<string, unknown>) => params["name"] ?? params["uri"]

/** A request of the newer revision, with the headers that belong to it. */
const modern = (method: string, params: Record<string, unknown> = {}, id: number | undefined = 5) => {
  const name = nameOf(params)
  return {
    headers: {
      "mcp-protocol-version": Clients.modernVersion,
      "mcp-method": method,
      ...(typeof name === "string" ? { "mcp-name": name } : {})
    },
    body: { jsonrpc: "2.0", ...(id === undefined ? {} : { id }), method, params: { ...params, _meta: meta } }
  }
}

layer(McpApp.shared, { excludeTestServices: true })("the newer revision", (it) => {
  it.effect("says what it is to server/discover, and how long each answer is good", () =>
    Effect.gen(function* () {
      const { place, post, project } = yield* scene
      const ask = (method: string, params: Record<string, unknown> = {}) => {
        const { body, headers } = modern(method, params)
        return Effect.map(post(body, headers), ({ result, status }) => {
          assert.strictEqual(status, 200, method)
          assert.strictEqual(result.resultType, "complete", method)
          assert.strictEqual(Clients.serverName(result), "ampoule", method)
          return result
        })
      }
      const discovered = yield* ask("server/discover")
      assert.include(discovered.supportedVersions ?? [], Clients.modernVersion)
      assert.containsAllKeys(discovered.capabilities ?? {}, ["tools", "resources", "prompts"])
      const uri = `secrets://projects/${project.id}/environments/${place.environment}`
      for (const answer of [
        discovered,
        yield* ask("tools/list"),
        yield* ask("prompts/list"),
        yield* ask("resources/list"),
        yield* ask("resources/templates/list"),
        yield* ask("resources/read", { uri })
      ]) {
        assert.isAtLeast(answer.ttlMs ?? -1, 0)
        assert.strictEqual(answer.cacheScope, "private")
      }
      const { tools } = yield* ask("tools/list")
      assert.deepStrictEqual((yield* ask("tools/list")).tools, tools)
      for (const { annotations, inputSchema, name, outputSchema } of tools ?? []) {
        assert.match(name, /^[A-Za-z0-9_.-]{1,128}$/)
        assert.strictEqual(inputSchema["additionalProperties"], false, name)
        assert.strictEqual(outputSchema["type"], "object", name)
        assert.strictEqual(annotations["openWorldHint"], false, name)
      }
      assert.include(discovered.instructions ?? "", "request_secret_value")
      yield* ask("prompts/get", { name: "wire_up_project", arguments: place })
      const called = Clients.modernCall("whoami", {})
      const { result } = yield* post(called.body, called.headers)
      assert.strictEqual(result.resultType, "complete")
      const [{ text = "" }] = result.content ?? []
      assert.deepStrictEqual(JSON.parse(text), result.structuredContent)
    })
  )

  it.effect("takes a notification with 202 and nothing else", () =>
    Effect.gen(function* () {
      const { post } = yield* scene
      const { body, headers } = modern("notifications/cancelled", { requestId: 99 })
      const { id: _, ...notification } = body
      const answer = yield* post(notification, headers)
      assert.strictEqual(answer.status, 202)
      assert.strictEqual(answer.text, "")
    })
  )

  describe("refuses", () => {
    it.effect("a client that does not accept both kinds of answers", () =>
      Effect.gen(function* () {
        const { post } = yield* scene
        const { body, headers } = modern("tools/list")
        for (const accept of ["application/json", "text/event-stream", "text/html"]) {
          assert.strictEqual((yield* post(body, { ...headers, accept })).status, 406, accept)
        }
      })
    )

    it.effect("headers that are missing or say something else than the body", () =>
      Effect.gen(function* () {
        const { place, post } = yield* scene
        const good = Clients.modernCall("list_secrets", place)
        assert.strictEqual((yield* post(good.body, good.headers)).status, 200)
        const changed: ReadonlyArray<readonly [string, string | undefined]> = [
          ["mcp-method", undefined],
          ["mcp-method", "tools/list"],
          ["mcp-name", undefined],
          ["mcp-name", "whoami"],
          ["mcp-param-project", undefined],
          ["mcp-param-environment", "staging"],
          ["mcp-param-environment", "=?base64?!!!?="]
        ]
        for (const [header, value] of changed) {
          const headers = Object.entries({ ...good.headers, [header]: value }).filter(([, one]) => one !== undefined)
          const { error, status } = yield* post(good.body, Object.fromEntries(headers) as Record<string, string>)
          assert.strictEqual(status, 400, `${header}: ${value}`)
          assert.strictEqual(error.code, -32_020, `${header}: ${value}`)
        }
        const encoded = `=?base64?${Buffer.from(place.environment).toString("base64")}?=`
        const { status } = yield* post(good.body, { ...good.headers, "mcp-param-environment": encoded })
        assert.strictEqual(status, 200)
      })
    )

    it.effect("a request that does not say its version or what its client can do", () =>
      Effect.gen(function* () {
        const { post } = yield* scene
        for (const member of [
          "io.modelcontextprotocol/protocolVersion",
          "io.modelcontextprotocol/clientCapabilities"
        ]) {
          const { body, headers } = modern("tools/list")
          const some = Object.fromEntries(Object.entries(meta).filter(([name]) => name !== member))
          const { error, status } = yield* post({ ...body, params: { _meta: some } }, headers)
          assert.strictEqual(status, 400, member)
          assert.isTrue(error.code === -32_602 || error.code === -32_020, `${member}: ${error.code}`)
        }
      })
    )

    it.effect("a method that it does not have with 404, one of the other era among them", () =>
      Effect.gen(function* () {
        const { post } = yield* scene
        for (const method of ["nope/nope", "ping", "logging/setLevel", "resources/subscribe", "tasks/list"]) {
          const { body, headers } = modern(method, method === "resources/subscribe" ? { uri: "secrets://guide" } : {})
          const { error, status } = yield* post(body, headers)
          assert.strictEqual(status, 404, method)
          assert.strictEqual(error.code, -32_601, method)
        }
      })
    )

    it.effect("a version that it does not have, and says which it has", () =>
      Effect.gen(function* () {
        const { post } = yield* scene
        const { body, headers } = modern("tools/list")
        for (const version of ["2031-01-01", "v999.0.0-invalid"]) {
          const answer = yield* post(JSON.parse(JSON.stringify(body).replaceAll(Clients.modernVersion, version)), {
            ...headers,
            "mcp-protocol-version": version
          })
          assert.strictEqual(answer.status, 400)
          assert.strictEqual(answer.as(Clients.Response).id, body.id)
          assert.strictEqual(answer.error.code, -32_022)
          assert.include(answer.error.data?.supported ?? [], Clients.modernVersion)
          assert.strictEqual(answer.error.data?.requested, version)
        }
      })
    )

    it.effect("to know a missing resource, in this era's code", () =>
      Effect.gen(function* () {
        const { post } = yield* scene
        const { body, headers } = modern("resources/read", { uri: "secrets://nope" })
        assert.strictEqual((yield* post(body, headers)).error.code, -32_602)
      })
    )
  })

  it.effect("takes no member that a tool does not have", () =>
    Effect.gen(function* () {
      const { post } = yield* scene
      const { body, headers } = Clients.modernCall("whoami", { extra: "marker-of-extra" })
      const { refusal, result, text } = yield* post(body, headers)
      assert.isTrue(result.isError)
      assert.strictEqual(refusal.code, "VALIDATION_FAILED")
      assert.notInclude(text, "marker-of-extra")
    })
  )

  it.effect("has no sessions: a session and an event of the other era are ignored", () =>
    Effect.gen(function* () {
      const { post } = yield* scene
      const { body, headers } = modern("tools/list")
      const { headers: back, status } = yield* post(body, {
        ...headers,
        "mcp-session-id": "0".repeat(32),
        "last-event-id": "7"
      })
      assert.strictEqual(status, 200)
      assert.isNull(back.get("mcp-session-id"))
    })
  )
})

layer(McpApp.shared, { excludeTestServices: true })("the older revisions", (it) => {
  it.effect("are agreed on: one of ours as asked for, else our newest", () =>
    Effect.gen(function* () {
      const { base, bearer } = yield* scene
      for (const [asked, agreed] of [
        ["2025-11-25", "2025-11-25"],
        ["2025-06-18", "2025-06-18"],
        ["2025-03-26", "2025-03-26"],
        ["1999-01-01", "2025-11-25"]
      ]) {
        const params = { ...Clients.initialize.params, protocolVersion: asked }
        const { result } = yield* Clients.raw(base, "POST", { bearer, body: { ...Clients.initialize, params } })
        assert.strictEqual(result.protocolVersion, agreed)
      }
    })
  )

  it.effect("refuse a version header that is none, and do without one", () =>
    Effect.gen(function* () {
      const { base, bearer, post } = yield* scene
      const session = { "mcp-session-id": yield* Clients.open(base, bearer) }
      const ping = { jsonrpc: "2.0", id: 1, method: "ping" }
      assert.deepStrictEqual((yield* post(ping, session)).json, { jsonrpc: "2.0", id: 1, result: {} })
      assert.strictEqual((yield* post(ping, { ...session, "mcp-protocol-version": "1999-01-01" })).status, 400)
      const get = yield* Clients.raw(base, "GET", {
        bearer,
        headers: { ...session, accept: "text/event-stream", "mcp-protocol-version": "1999-01-01" }
      })
      assert.strictEqual(get.status, 400)
      const end = yield* Clients.raw(base, "DELETE", {
        bearer,
        headers: { ...session, "mcp-protocol-version": "1999-01-01" }
      })
      assert.strictEqual(end.status, 400)
      assert.strictEqual((yield* post(ping, session)).status, 200)
    })
  )

  it.effect("take answers to what they never asked with 202, and what is no message with 400", () =>
    Effect.gen(function* () {
      const { base, bearer, post } = yield* scene
      const session = { "mcp-session-id": yield* Clients.open(base, bearer) }
      const response = yield* post({ jsonrpc: "2.0", id: 77, result: {} }, session)
      assert.strictEqual(response.status, 202)
      assert.strictEqual(response.text, "")
      for (const body of [{}, { jsonrpc: "1.0", id: 1, method: "ping" }, "text", 5, null]) {
        assert.strictEqual((yield* post(body ?? "null", session)).status, 400, JSON.stringify(body))
      }
    })
  )

  it.effect("name their methods when another is used", () =>
    Effect.gen(function* () {
      const { base, bearer } = yield* scene
      for (const method of ["PUT", "PATCH"]) {
        const { headers, status } = yield* Clients.raw(base, method, { bearer, body: {} })
        assert.strictEqual(status, 405)
        assert.strictEqual(headers.get("allow"), "GET, POST, DELETE")
      }
    })
  )
})

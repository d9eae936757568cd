/** `subscriptions/listen` beside the SDK's own: the same messages open a stream, and it says the same to the byte. */
import { assert, describe, it, layer } from "@effect/vitest"
import { createMcpHandler, McpServer, type ServerEvent } from "@modelcontextprotocol/server"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import { allScopes } from "#schema/Scopes.ts"
import { Changes } from "#src/mcp/Changes.ts"
import { subscriptionOf } from "#src/mcp/Listening.ts"
import { serverInfo } from "#src/mcp/Protocol.ts"
import * as Statements from "#test/support/Statements.ts"
import * as Seals from "#test/support/Seals.ts"
import * as World from "#test/support/World.ts"
import * as Clients from "./Clients.ts"
import * as McpApp from "./McpApp.ts"

const meta = Clients.modernCall("x", {}, { elicitation: { url: {} } }).body.params._meta
const headers = { "mcp-protocol-version": "2026-07-28", "mcp-method": "subscriptions/listen" }
const listen = (notifications: unknown, more: object = {}) => ({
  jsonrpc: "2.0",
  id: 9,
  method: "subscriptions/listen",
  params: { notifications, _meta: meta },
  ...more
})

/** Answers of the SDK alone, with a server of the same capabilities. */
const ofSdk = async (given: Readonly<Record<string, string>>, message: unknown) => {
  let tell: (event: ServerEvent) => void = () => undefined
  const capabilities = { tools: { listChanged: true }, resources: { listChanged: true, subscribe: true }, prompts: {} }
  const handler = createMcpHandler(() => new McpServer(serverInfo, { capabilities }), {
    legacy: "reject",
    bus: {
      publish: () => undefined,
      subscribe: (listener) => {
        tell = listener
        return () => undefined
      }
    }
  })
  const request = new Request("http://127.0.0.1/mcp", {
    method: "POST",
    headers: { "content-type": "application/json", accept: "application/json, text/event-stream", ...given }
  })
  const response = await handler.fetch(request, { parsedBody: message })
  return {
    opens: response.headers.get("content-type")?.startsWith("text/event-stream") === true,
    tell: (event: ServerEvent) => tell(event),
    /** All that the stream said, to its end in the protocol's way. */
    text: async () => {
      await handler.close()
      return response.text()
    }
  }
}

const version = "io.modelcontextprotocol/protocolVersion"
const withMeta = (more: object) => ({
  params: { notifications: { toolsListChanged: true }, _meta: { ...meta, ...more } }
})

type Given = Readonly<Record<string, string>>
const messages: ReadonlyArray<readonly [what: string, message: unknown, headers?: Given]> = [
  ["all that there is", listen({ toolsListChanged: true, resourcesListChanged: true, resourceSubscriptions: ["a:b"] })],
  ["nothing", listen({})],
  ["prompts", listen({ promptsListChanged: true })],
  ["what nobody knows", listen({ toolsListChanged: true, surprises: true })],
  ["an id that is text", listen({ toolsListChanged: true }, { id: "nine" })],
  ["no id", listen({ toolsListChanged: true }, { id: undefined })],
  ["an id that is null", listen({ toolsListChanged: true }, { id: null })],
  ["an id that is an object", listen({ toolsListChanged: true }, { id: {} })],
  ["an id that is a fraction", listen({ toolsListChanged: true }, { id: 1.5 })],
  ["another member", listen({ toolsListChanged: true }, { more: 1 })],
  ["another version of JSON-RPC", listen({ toolsListChanged: true }, { jsonrpc: "1.0" })],
  ["a word for a flag", listen({ toolsListChanged: "yes" })],
  ["one address", listen({ resourceSubscriptions: "a:b" })],
  ["addresses that are numbers", listen({ resourceSubscriptions: [1] })],
  ["no notifications", listen(undefined)],
  ["notifications that are null", listen(null)],
  ["no parameters", listen({}, { params: undefined })],
  ["no revision in the message", listen({}, withMeta({ [version]: undefined }))],
  ["another revision in the message", listen({}, withMeta({ [version]: "2099-01-01" }))],
  ["an old revision in the message", listen({}, withMeta({ [version]: "2025-11-25" }))],
  ["no client", listen({}, withMeta({ "io.modelcontextprotocol/clientInfo": undefined }))],
  ["a client without a version", listen({}, withMeta({ "io.modelcontextprotocol/clientInfo": { name: "x" } }))],
  ["capabilities that are a list", listen({}, withMeta({ "io.modelcontextprotocol/clientCapabilities": [] }))],
  ["a progress token that is an object", listen({}, withMeta({ progressToken: {} }))],
  ["a progress token", listen({}, withMeta({ progressToken: 3 }))],
  ["no revision in the header", listen({ toolsListChanged: true }), { "mcp-method": "subscriptions/listen" }],
  [
    "another revision in the header",
    listen({ toolsListChanged: true }),
    { ...headers, "mcp-protocol-version": "2025-11-25" }
  ],
  ["no method in the header", listen({ toolsListChanged: true }), { "mcp-protocol-version": "2026-07-28" }],
  ["another method in the header", listen({ toolsListChanged: true }), { ...headers, "mcp-method": "tools/list" }],
  ["a name in the header", listen({ toolsListChanged: true }), { ...headers, "mcp-name": "x" }],
  ["another method", listen({}, { method: "tools/list" }), { ...headers, "mcp-method": "tools/list" }],
  ["a list of messages", [listen({ toolsListChanged: true })]]
]

describe("a message that asks for a stream", () => {
  for (const [what, message, given = headers] of messages) {
    it(`opens one where the SDK opens one: ${what}`, async () => {
      // As JSON: an undefined member is absent.
      const sent: unknown = JSON.parse(JSON.stringify(message))
      const { opens } = await ofSdk(given, sent)
      assert.strictEqual(subscriptionOf(given, sent) !== undefined, opens)
    })
  }

  it("is refused by the SDK in some of these, and not in others", async () => {
    const opened = await Promise.all(
      messages.map(async ([, message, given = headers]) => (await ofSdk(given, message)).opens)
    )
    assert.isTrue(opened.includes(true) && opened.includes(false))
  })
})

layer(McpApp.shared, { excludeTestServices: true })("a stream", (it) => {
  const streamOf = (base: string, bearer: string, message: unknown) =>
    Effect.gen(function* () {
      let text = ""
      const response = yield* Effect.promise((signal) =>
        fetch(`${base}/mcp`, {
          method: "POST",
          headers: {
            authorization: `Bearer ${bearer}`,
            accept: "application/json, text/event-stream",
            "content-type": "application/json",
            ...headers
          },
          body: JSON.stringify(message),
          signal
        })
      )
      const whole = (async () => {
        const decoder = new TextDecoder()
        for await (const chunk of response.body ?? []) text += decoder.decode(chunk, { stream: true })
        return text
      })()
      const until = (part: string) =>
        Effect.promise(async () => {
          while (!text.includes(part)) await new Promise((resolve) => setTimeout(resolve, 10))
        })
      return { response, until, whole: Effect.promise(() => whole) }
    })

  it.scoped("says what the SDK's says, from its first byte to its end", () =>
    Effect.gen(function* () {
      const base = yield* McpApp.base
      const project = yield* World.project()
      const token = yield* World.token({ team: project.team, mcpScopes: allScopes })
      const changes = yield* Changes
      const sql = yield* SqlClient.SqlClient
      const uri = `secrets://projects/${project.id}/environments/development`
      const message = listen(
        { toolsListChanged: true, promptsListChanged: true, resourcesListChanged: true, resourceSubscriptions: [uri] },
        { id: "nine" }
      )
      const stream = yield* streamOf(base, token.text, message)
      yield* stream.until("acknowledged")
      const create = { projectId: project.id, environment: "development", key: "K", generate: { length: 16 } }
      yield* Clients.raw(base, "POST", { bearer: token.text, ...Clients.modernCall("create_secret", create) })
      yield* changes.look()
      yield* World.environment(project, "preview")
      yield* changes.look()
      yield* Seals.after("api_tokens", sql`UPDATE api_tokens SET mcp_scopes = '{secrets:read}' WHERE id = ${token.id}`)
      yield* changes.look()
      yield* World.revoke("api_tokens", token)
      yield* changes.look()

      const sdk = yield* Effect.promise(() => ofSdk(headers, message))
      sdk.tell({ kind: "resource_updated", uri })
      sdk.tell({ kind: "resources_list_changed" })
      sdk.tell({ kind: "tools_list_changed" })
      const expected = yield* Effect.promise(sdk.text)
      assert.include(expected, '"resultType":"complete"')
      assert.strictEqual((yield* stream.whole).replaceAll(": keepalive\n\n", ""), expected)
    })
  )

  it.scoped("that asks for nothing ends at once, as the SDK's does", () =>
    Effect.gen(function* () {
      const base = yield* McpApp.base
      const project = yield* World.project()
      const token = yield* World.token({ team: project.team, mcpScopes: allScopes })
      const message = listen({})
      const stream = yield* streamOf(base, token.text, message)
      const sdk = yield* Effect.promise(() => ofSdk(headers, message))
      assert.strictEqual(yield* stream.whole, yield* Effect.promise(sdk.text))
    })
  )

  it.scoped("begins where the one before began, until somebody looks: no statement for each", () =>
    Effect.gen(function* () {
      const base = yield* McpApp.base
      const project = yield* World.project()
      const token = yield* World.token({ team: project.team, mcpScopes: allScopes })
      const message = listen({ toolsListChanged: true, resourcesListChanged: true })
      const open = Effect.flatMap(streamOf(base, token.text, message), ({ until }) => until("acknowledged"))
      yield* open
      const statements = yield* Statements.during(Effect.repeatN(open, 9))
      const ofTeams = statements.filter(({ text }) => text.includes("FROM teams t WHERE t.id = any("))
      // A look at all streams, each three seconds, asks too.
      assert.isBelow(ofTeams.length, 10)
    })
  )

  it.scoped("that is refused is refused in the SDK's words", () =>
    Effect.gen(function* () {
      const base = yield* McpApp.base
      const project = yield* World.project()
      const token = yield* World.token({ team: project.team, mcpScopes: allScopes })
      const message = listen({ toolsListChanged: "yes" })
      const { response, whole } = yield* streamOf(base, token.text, message)
      assert.strictEqual(response.headers.get("content-type"), "application/json")
      const sdk = yield* Effect.promise(() => ofSdk(headers, message))
      assert.strictEqual(yield* whole, yield* Effect.promise(sdk.text))
    })
  )
})

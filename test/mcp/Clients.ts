/** The official clients of both eras, and a bare one for what they would never send. */
import { Client as ModernClient, StreamableHTTPClientTransport as ModernTransport } from "@modelcontextprotocol/client"
import { Client as LegacyClient } from "@modelcontextprotocol/sdk/client/index.js"
import { StreamableHTTPClientTransport as LegacyTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js"
import { assert } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { type ToolName, type ToolOutput, tools } from "#schema/McpTools.ts"
import { optional } from "#schema/Strict.ts"
import { memberOf } from "#src/mcp/Message.ts"
import * as Bodies from "#test/support/Bodies.ts"
import { parsed } from "#test/support/Json.ts"

export const modernVersion = "2026-07-28"
export const legacyVersion = "2025-11-25"

const bearerHeaders = (bearer: string) => ({ requestInit: { headers: { authorization: `Bearer ${bearer}` } } })

export const legacy = (base: string, bearer: string, capabilities: Record<string, object> = {}) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const client = new LegacyClient({ name: "legacy-test", version: "1" }, { capabilities })
      const transport = new LegacyTransport(new URL(`${base}/mcp`), bearerHeaders(bearer))
      await client.connect(transport)
      return { client, transport }
    }),
    ({ client }) => Effect.promise(() => client.close())
  )

export const modern = (base: string, bearer: string, capabilities: Record<string, object> = {}) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const client = new ModernClient(
        { name: "modern-test", version: "1" },
        { capabilities, versionNegotiation: { mode: "auto" } }
      )
      const transport = new ModernTransport(new URL(`${base}/mcp`), bearerHeaders(bearer))
      await client.connect(transport)
      return { client, transport }
    }),
    ({ client }) => Effect.promise(() => client.close())
  )

const more = Schema.Record({ key: Schema.String, value: Schema.Unknown })
const texts = optional(Schema.Array(Schema.String))

/** The members that tests look at, of the results of all methods; the protocol gives each method some of them. */
const Result = Schema.Struct(
  {
    resultType: optional(Schema.String),
    _meta: optional(more),
    protocolVersion: optional(Schema.String),
    supportedVersions: texts,
    capabilities: optional(more),
    cacheScope: optional(Schema.String),
    ttlMs: optional(Schema.Number),
    instructions: optional(Schema.String),
    tools: optional(
      Schema.Array(
        Schema.Struct({ name: Schema.String, inputSchema: more, outputSchema: more, annotations: more }, more)
      )
    ),
    content: optional(Schema.Array(Schema.Struct({ type: Schema.String, text: optional(Schema.String) }, more))),
    structuredContent: optional(Schema.Unknown),
    isError: optional(Schema.Boolean),
    requestState: optional(Schema.String)
  },
  more
)
/** A failure of a tool: the body that REST has, and what to call next. */
const Refusal = Schema.Struct({ next: Schema.String }, more)
const RpcError = Schema.Struct({
  code: Schema.Number,
  message: Schema.String,
  data: optional(
    Schema.Struct(
      {
        supported: texts,
        requested: optional(Schema.String),
        elicitations: optional(Schema.Array(Schema.Struct({ elicitationId: Schema.String, url: Schema.String }, more)))
      },
      more
    )
  )
})
const ServerMeta = Schema.Struct(
  { "io.modelcontextprotocol/serverInfo": Schema.Struct({ name: Schema.String }, more) },
  more
)
/** How the server calls itself in the metadata of a result. */
export const serverName = ({ _meta }: typeof Result.Type) =>
  Bodies.exactly(ServerMeta)(_meta)["io.modelcontextprotocol/serverInfo"].name

/** A response of JSON-RPC 2.0, section 5. */
export const Response = Schema.Union(
  Schema.Struct({ jsonrpc: Schema.Literal("2.0"), id: Schema.Unknown, result: Result }),
  Schema.Struct({ jsonrpc: Schema.Literal("2.0"), id: Schema.Unknown, error: RpcError })
)

export interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  /** The text as JSON; undefined when it is none. */
  readonly json: unknown
  /** Of a call that was answered; throws when it is an error of the protocol. */
  readonly result: typeof Result.Type
  /** An error of the protocol; throws when the call was answered. */
  readonly error: typeof RpcError.Type
  /** Output of the tool, as its definition declares it. */
  readonly output: <N extends ToolName>(tool: N) => ToolOutput<N>
  /** Why the tool refused. */
  readonly refusal: Bodies.ErrorResponse
  readonly as: Bodies.Answer["as"]
}

export const raw = (
  base: string,
  method: string,
  options: { readonly bearer?: string; readonly headers?: Record<string, string>; readonly body?: unknown } = {}
): Effect.Effect<Answer> =>
  Effect.promise(async (): Promise<Answer> => {
    const response = await fetch(`${base}/mcp`, {
      method,
      headers: {
        ...(options.body === undefined ? {} : { "content-type": "application/json" }),
        accept: "application/json, text/event-stream",
        ...(options.bearer === undefined ? {} : { authorization: `Bearer ${options.bearer}` }),
        ...options.headers
      },
      ...(options.body === undefined
        ? {}
        : { body: typeof options.body === "string" ? options.body : JSON.stringify(options.body) })
    })
    const text = await response.text()
    const { headers, status } = response
    const { as, json } = Bodies.answer(method, "/mcp", { status, headers, text })
    const result = () => {
      const message = as(Response)
      return "result" in message ? message.result : assert.fail(text)
    }
    return {
      status,
      headers,
      text,
      json,
      as,
      get result() {
        return result()
      },
      get error() {
        const message = as(Response)
        return "error" in message ? message.error : assert.fail(text)
      },
      output: (tool) => {
        const { isError, structuredContent } = result()
        if (isError === true) return assert.fail(text)
        // Of a union of schemas the checker cannot tell which one the name stands for.
        return Bodies.exactly(tools[tool].output as Schema.Schema.Any as Schema.Schema<ToolOutput<typeof tool>>)(
          structuredContent
        )
      },
      get refusal() {
        const { content, isError, structuredContent } = result()
        // A structured result conforms to the tool's schema, and a failure does not: it has its text alone.
        assert.isUndefined(structuredContent)
        if (isError !== true) return assert.fail(text)
        const { next, ...body } = parsed(Refusal)(content?.[0]?.text ?? "")
        assert.isNotEmpty(next)
        return Bodies.failure(body)
      }
    }
  })

export const initialize = {
  jsonrpc: "2.0",
  id: 1,
  method: "initialize",
  params: { protocolVersion: legacyVersion, capabilities: {}, clientInfo: { name: "raw", version: "1" } }
}

/** A legacy session by hand: its id. */
export const open = (
  base: string,
  bearer: string,
  protocolVersion = legacyVersion,
  capabilities: Record<string, unknown> = {}
) =>
  Effect.map(
    raw(base, "POST", {
      bearer,
      body: { ...initialize, params: { ...initialize.params, protocolVersion, capabilities } }
    }),
    ({ headers }) => headers.get("mcp-session-id") ?? ""
  )

export const call = (name: string, input: unknown, id = 2) => ({
  jsonrpc: "2.0",
  id,
  method: "tools/call",
  params: { name, arguments: input }
})

const parameterHeader = (header: string, value: unknown): Record<string, string> =>
  typeof value === "string" ? { [header]: value } : {}

/** The same call as a request of the modern revision, with its headers. */
export const modernCall = (
  name: string,
  input: unknown,
  capabilities: Record<string, unknown> = {},
  more: Record<string, unknown> = {}
) => ({
  headers: {
    "mcp-protocol-version": modernVersion,
    "mcp-method": "tools/call",
    "mcp-name": name,
    ...parameterHeader("mcp-param-project", memberOf(input, "projectId")),
    ...parameterHeader("mcp-param-environment", memberOf(input, "environment"))
  },
  body: {
    ...call(name, input),
    params: {
      name,
      arguments: input,
      ...more,
      _meta: {
        "io.modelcontextprotocol/protocolVersion": modernVersion,
        "io.modelcontextprotocol/clientInfo": { name: "raw", version: "1" },
        "io.modelcontextprotocol/clientCapabilities": capabilities
      }
    }
  }
})

/** Answer of one tool, over the modern revision: each half throws when it was the other. */
export const use = <N extends ToolName>(base: string, bearer: string, tool: N, input: Record<string, unknown> = {}) =>
  Effect.map(raw(base, "POST", { bearer, ...modernCall(tool, input) }), (answer) => ({
    answer,
    get output() {
      return answer.output(tool)
    },
    get refusal() {
      return answer.refusal
    }
  }))

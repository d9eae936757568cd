/** The official clients of both eras, and a bare one for what they would never send. */
import { Client as ModernClient, StreamableHTTPClientTransport as ModernTransport } from "@modelcontextprotocol/client"
import { Client as LegacyClient } from "@modelcontextprotocol/sdk/client/index.js"
import { StreamableHTTPClientTransport as LegacyTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js"
import * as Effect from "effect/Effect"

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

export interface Answer {
  readonly status: number
  readonly headers: Headers
  // Untyped on purpose: tests look at what is on the wire.
  // eslint-disable-next-line typescript/no-explicit-any
  readonly json: any
}

export const raw = (
  base: string,
  method: string,
  options: { readonly bearer?: string; readonly headers?: Record<string, string>; readonly body?: unknown } = {}
): Effect.Effect<Answer> =>
  Effect.promise(async () => {
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
    const isJson = response.headers.get("content-type")?.startsWith("application/json") === true && text !== ""
    return { status: response.status, headers: response.headers, json: isJson ? JSON.parse(text) : text }
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

/** The same call as a request of the modern revision, with its headers. */
export const modernCall = (
  name: string,
  input: Record<string, unknown>,
  capabilities: Record<string, unknown> = {},
  more: Record<string, unknown> = {}
) => ({
  headers: {
    "mcp-protocol-version": modernVersion,
    "mcp-method": "tools/call",
    "mcp-name": name,
    ...(typeof input["projectId"] === "string" ? { "mcp-param-project": input["projectId"] } : {}),
    ...(typeof input["environment"] === "string" ? { "mcp-param-environment": input["environment"] } : {})
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

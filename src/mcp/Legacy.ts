/**
 * The revisions before 2026-07-28 (`initialize`, sessions, a GET stream), on `@modelcontextprotocol/sdk`. Every message
 * gets a server and a transport of its own: nothing of one client can reach another (CVE-2026-25536), and any process
 * answers. What lasts between messages is the session's row.
 */
import { Server } from "@modelcontextprotocol/sdk/server/index.js"
import { WebStandardStreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js"
import {
  type CallToolResult,
  CallToolRequestSchema,
  ErrorCode,
  GetPromptRequestSchema,
  ListPromptsRequestSchema,
  ListResourcesRequestSchema,
  ListResourceTemplatesRequestSchema,
  ListToolsRequestSchema,
  McpError,
  ReadResourceRequestSchema,
  SubscribeRequestSchema,
  SUPPORTED_PROTOCOL_VERSIONS,
  type Tool,
  UnsubscribeRequestSchema,
  UrlElicitationRequiredError
} from "@modelcontextprotocol/sdk/types.js"
import * as Effect from "effect/Effect"
import * as Runtime from "effect/Runtime"
import type { Caller, CurrentCaller } from "#schema/Caller.ts"
import { instructions } from "#schema/McpTools.ts"
import type { Answer, Protocol } from "./Protocol.ts"
import { parseEnvironmentUri } from "./Resources.ts"
import type { Session, Sessions } from "./Sessions.ts"
import { serverInfo } from "./ServerInfo.ts"

export const versions: ReadonlyArray<string> = SUPPORTED_PROTOCOL_VERSIONS

/** `-32002`, the code of these revisions for a resource that is not there. */
const resourceNotFound = -32_002

const member = (value: unknown, name: string): unknown =>
  typeof value === "object" && value !== null ? (value as Readonly<Record<string, unknown>>)[name] : undefined

/** Elicitation by address is a capability of its own since 2025-11-25. */
const opensPages = (session: Session | undefined): boolean =>
  member(member(session?.clientCapabilities, "elicitation"), "url") !== undefined

const withoutSchemas = {
  getValidator: () => (input: unknown) => ({ valid: true, data: input, errorMessage: undefined })
}

/** Results are built by our own types; the SDK's want mutable arrays and open objects, which they are on the wire. */
const toResult = (result: Extract<Answer, { readonly _tag: "Result" }>["result"]) =>
  structuredClone(result) as unknown as CallToolResult

export interface Exchange {
  readonly caller: Caller
  readonly session: Session | undefined
  /** One message, or the few of a batch of 2025-03-26; parsed and counted by the caller. */
  readonly message: unknown
  readonly headers: Headers
  readonly url: string
}

/** Answers a POST of these revisions as the SDK does; sessions and their header are the caller's. */
export const answer = (
  protocol: Protocol,
  sessions: Sessions,
  { caller, headers, message, session, url }: Exchange
): Effect.Effect<Response, never, CurrentCaller> =>
  Effect.gen(function* () {
    const runtime = yield* Effect.runtime<CurrentCaller>()
    const abort = new AbortController()
    const run = <A>(effect: Effect.Effect<A, never, CurrentCaller>) =>
      Runtime.runPromise(runtime)(effect, { signal: abort.signal })

    // eslint-disable-next-line typescript/no-deprecated -- McpServer takes zod schemas only; ours are JSON Schema.
    const server = new Server(serverInfo, {
      capabilities: { tools: { listChanged: true }, resources: { listChanged: true, subscribe: true }, prompts: {} },
      instructions,
      jsonSchemaValidator: withoutSchemas as never
    })
    server.setRequestHandler(ListToolsRequestSchema, () => ({
      tools: structuredClone(protocol.tools(caller)) as unknown as Array<Tool>
    }))
    server.setRequestHandler(CallToolRequestSchema, async ({ params }) => {
      const name = protocol.tool(params.name)
      if (name === undefined) throw new McpError(ErrorCode.InvalidParams, "No such tool")
      const around = { opensPages: opensPages(session), confirms: false, said: undefined, continues: undefined }
      const outcome = await run(protocol.call(name, params.arguments, around))
      if (outcome._tag === "Result") return toResult(outcome.result)
      if (outcome._tag === "Confirm") throw new McpError(ErrorCode.InternalError, "Nobody can be asked here")
      if (!around.opensPages) return toResult(outcome.otherwise)
      if (session !== undefined) await run(sessions.elicit(session.id, outcome.requestId))
      throw new UrlElicitationRequiredError([
        { mode: "url", elicitationId: outcome.requestId, url: outcome.url, message: outcome.message }
      ])
    })
    server.setRequestHandler(ListResourcesRequestSchema, async () => {
      const listed = await run(protocol.resources)
      if ("error" in listed) throw new McpError(ErrorCode.InternalError, listed.error.message)
      return { resources: listed.map((one) => ({ ...one })) }
    })
    server.setRequestHandler(ListResourceTemplatesRequestSchema, () => ({
      resourceTemplates: protocol.resourceTemplates.map((one) => ({ ...one }))
    }))
    server.setRequestHandler(ReadResourceRequestSchema, async ({ params }) => {
      const found = await run(protocol.read(params.uri))
      if (found === undefined || "error" in found) {
        throw new McpError(resourceNotFound, found?.error.message ?? "No such resource")
      }
      return { contents: [found] }
    })
    const subscribe = (on: boolean) => async (uri: string) => {
      if (session === undefined || parseEnvironmentUri(uri) === undefined) {
        throw new McpError(resourceNotFound, "No such resource")
      }
      await run(sessions.subscribe(session.id, uri, on))
      return {}
    }
    server.setRequestHandler(SubscribeRequestSchema, ({ params }) => subscribe(true)(params.uri))
    server.setRequestHandler(UnsubscribeRequestSchema, ({ params }) => subscribe(false)(params.uri))
    server.setRequestHandler(ListPromptsRequestSchema, () => ({
      prompts: protocol.prompts.map((prompt) => ({ ...prompt }))
    }))
    server.setRequestHandler(GetPromptRequestSchema, ({ params }) => {
      const prompt = protocol.prompt(params.name, params.arguments ?? {})
      if (prompt === undefined) throw new McpError(ErrorCode.InvalidParams, "No such prompt, or not these arguments")
      return {
        description: prompt.description,
        messages: [{ role: "user" as const, content: { type: "text" as const, text: prompt.text } }]
      }
    })

    const transport = new WebStandardStreamableHTTPServerTransport({ enableJsonResponse: true })
    return yield* Effect.promise(async () => {
      await server.connect(transport)
      return transport.handleRequest(new Request(url, { method: "POST", headers }), { parsedBody: message })
    }).pipe(
      Effect.onExit(() =>
        Effect.promise(async () => {
          abort.abort()
          await server.close()
        })
      )
    )
  })

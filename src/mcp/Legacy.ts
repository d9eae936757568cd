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
import { instructions } from "#schema/McpPrompts.ts"
import { memberOf } from "./Message.ts"
import * as Prompts from "./Prompts.ts"
import type { Protocol } from "./Protocol.ts"
import { parseEnvironmentUri, templates } from "./Resources.ts"
import type { Session, Sessions } from "./Sessions.ts"
import { serverInfo } from "./ServerInfo.ts"
import type { ListedTool, ToolResult } from "./Tool.ts"

export const versions: ReadonlyArray<string> = SUPPORTED_PROTOCOL_VERSIONS

/** `-32002`, the code of these revisions for a resource that is not there. */
const resourceNotFound = -32_002

/** Elicitation by address is a capability of its own since 2025-11-25. */
const opensPages = (session: Session | undefined): boolean =>
  memberOf(memberOf(session?.clientCapabilities, "elicitation"), "url") !== undefined

const withoutSchemas = {
  getValidator: () => (input: unknown) => ({ valid: true, data: input, errorMessage: undefined })
}

/** The SDK's types want mutable arrays and open objects, which results and lists are on the wire. */
const toResult = (result: ToolResult) => structuredClone(result) as unknown as CallToolResult
const toTools = (tools: ReadonlyArray<ListedTool>) => structuredClone(tools) as unknown as Array<Tool>

export interface LegacyRequest {
  readonly caller: Caller
  readonly session: Session | undefined
  /** One message, or the few of a batch of 2025-03-26; already parsed and counted. */
  readonly message: unknown
  readonly headers: Headers
  readonly url: string
}

/** What the handlers of one request share. */
interface Needs {
  readonly protocol: Protocol
  readonly sessions: Sessions
  readonly caller: Caller
  readonly session: Session | undefined
  readonly run: <A>(effect: Effect.Effect<A, never, CurrentCaller>) => Promise<A>
}

// eslint-disable-next-line typescript/no-deprecated -- McpServer takes zod schemas only; ours are JSON Schema.
type LegacyServer = Server

const serveTools = (server: LegacyServer, { caller, protocol, run, session, sessions }: Needs) => {
  server.setRequestHandler(ListToolsRequestSchema, () => ({ tools: toTools(protocol.visibleTools(caller)) }))
  server.setRequestHandler(CallToolRequestSchema, async ({ params }) => {
    const tool = protocol.tools.get(params.name)
    if (tool === undefined) throw new McpError(ErrorCode.InvalidParams, "No such tool")
    const context = { opensPages: opensPages(session), confirms: false, said: undefined, continues: undefined }
    const outcome = await run(tool.call(params.arguments, context))
    if (outcome._tag === "Result") return toResult(outcome.result)
    if (outcome._tag === "Confirm") throw new McpError(ErrorCode.InternalError, "These revisions cannot ask the person")
    if (!context.opensPages) return toResult(outcome.otherwise)
    if (session !== undefined) await run(sessions.elicit(session.id, outcome.requestId))
    throw new UrlElicitationRequiredError([
      { mode: "url", elicitationId: outcome.requestId, url: outcome.url, message: outcome.message }
    ])
  })
}

const serveResources = (server: LegacyServer, { protocol, run, session, sessions }: Needs) => {
  server.setRequestHandler(ListResourcesRequestSchema, async () => {
    const listed = await run(protocol.resources)
    if ("error" in listed) throw new McpError(ErrorCode.InternalError, listed.error.message)
    return { resources: listed.map((one) => ({ ...one })) }
  })
  server.setRequestHandler(ListResourceTemplatesRequestSchema, () => ({
    resourceTemplates: templates.map((one) => ({ ...one }))
  }))
  server.setRequestHandler(ReadResourceRequestSchema, async ({ params }) => {
    const content = await run(protocol.read(params.uri))
    if (content === undefined || "error" in content) {
      throw new McpError(resourceNotFound, content?.error.message ?? "No such resource")
    }
    return { contents: [content] }
  })
  const subscribe = async (uri: string, on: boolean) => {
    if (session === undefined || parseEnvironmentUri(uri) === undefined) {
      throw new McpError(resourceNotFound, "No such resource")
    }
    await run(sessions.subscribe(session.id, uri, on))
    return {}
  }
  server.setRequestHandler(SubscribeRequestSchema, ({ params }) => subscribe(params.uri, true))
  server.setRequestHandler(UnsubscribeRequestSchema, ({ params }) => subscribe(params.uri, false))
}

const servePrompts = (server: LegacyServer) => {
  server.setRequestHandler(ListPromptsRequestSchema, () => ({
    prompts: Prompts.listed.map((prompt) => ({ ...prompt }))
  }))
  server.setRequestHandler(GetPromptRequestSchema, ({ params }) => {
    const prompt = Prompts.promptText(params.name, params.arguments ?? {})
    if (prompt === undefined) throw new McpError(ErrorCode.InvalidParams, "No such prompt, or not these arguments")
    return {
      description: prompt.description,
      messages: [{ role: "user" as const, content: { type: "text" as const, text: prompt.text } }]
    }
  })
}

/** Answers a POST of these revisions as the SDK does; sessions and their header are for the caller to handle. */
export const respond = (
  protocol: Protocol,
  sessions: Sessions,
  { caller, headers, message, session, url }: LegacyRequest
): Effect.Effect<Response, never, CurrentCaller> =>
  Effect.gen(function* () {
    const runtime = yield* Effect.runtime<CurrentCaller>()
    const abort = new AbortController()
    const needs: Needs = {
      protocol,
      sessions,
      caller,
      session,
      run: (effect) => Runtime.runPromise(runtime)(effect, { signal: abort.signal })
    }
    // eslint-disable-next-line typescript/no-deprecated -- see `LegacyServer`.
    const server = new Server(serverInfo, {
      capabilities: { tools: { listChanged: true }, resources: { listChanged: true, subscribe: true }, prompts: {} },
      instructions,
      // The SDK's type asks for a generic method; this one fits every type that it could be asked for.
      jsonSchemaValidator: withoutSchemas as never
    })
    serveTools(server, needs)
    serveResources(server, needs)
    servePrompts(server)

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

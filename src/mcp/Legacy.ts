/**
 * Revisions before 2026-07-28 (`initialize`, sessions, a GET stream), on `@modelcontextprotocol/sdk`. Every message
 * gets a new server and transport, so that no data of one client can reach another (CVE-2026-25536). Any process can
 * respond, because only the session's row lasts between messages.
 */
import { Server } from "@modelcontextprotocol/sdk/server/index.js"
import { WebStandardStreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js"
import {
  type CallToolResult,
  CallToolRequestSchema,
  CompleteRequestSchema,
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
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Effect from "effect/Effect"
import * as Runtime from "effect/Runtime"
import type { Caller, CurrentCaller } from "#schema/Caller.ts"
import { instructions } from "#schema/McpPrompts.ts"
import { countUse } from "#src/http/authentication/Authentication.ts"
import type { RateLimiter } from "#src/limits/RateLimiter.ts"
import { type AuthenticatedClient, teamOf } from "./Credentials.ts"
import {
  fromWeb,
  isObject,
  isStaged,
  jsonOf,
  type JsonObject,
  maxBatch,
  memberOf,
  methodsOf,
  rpcError,
  sessionHeader,
  toolsHeader
} from "./Message.ts"
import { type Protocol, serverInfo } from "./Protocol.ts"
import { parseEnvironmentUri, templates } from "./Resources.ts"
import type { Session, Sessions } from "./Sessions.ts"
import * as SessionStream from "./SessionStream.ts"
import type { ListedTool, ToolResult } from "./Tool.ts"

export interface LegacyNeeds extends SessionStream.StreamNeeds {
  readonly url: string
  readonly protocol: Protocol
  readonly sessions: Sessions
  readonly limiter: RateLimiter
}

/** Code of these revisions for a missing resource. */
const resourceNotFound = -32_002

/** Elicitation by address is a separate capability since 2025-11-25. */
const opensPages = (session: Session | undefined): boolean =>
  memberOf(memberOf(session?.clientCapabilities, "elicitation"), "url") !== undefined

const withoutSchemas = {
  getValidator: () => (input: unknown) => ({ valid: true, data: input, errorMessage: undefined })
}

/** Copies for the SDK's types, which require mutable arrays and open objects. */
const toResult = (result: ToolResult) => structuredClone(result) as unknown as CallToolResult
const toTools = (tools: ReadonlyArray<ListedTool>) => structuredClone(tools) as unknown as Array<Tool>

interface Request {
  readonly caller: Caller
  readonly session: Session | undefined
  /** One message, or a batch of 2025-03-26; already parsed and counted. */
  readonly message: unknown
  readonly headers: Headers
}

/** Values that the handlers of one request share. */
interface Needs extends Pick<LegacyNeeds, "protocol" | "sessions">, Pick<Request, "caller" | "session"> {
  readonly staged: boolean
  readonly run: <A>(effect: Effect.Effect<A, never, CurrentCaller>) => Promise<A>
}

// eslint-disable-next-line typescript/no-deprecated -- McpServer takes zod schemas only; ours are JSON Schema.
type LegacyServer = Server

const serveTools = (server: LegacyServer, { caller, protocol, run, session, sessions, staged }: Needs) => {
  const lister = { caller, staged }
  server.setRequestHandler(ListToolsRequestSchema, () => ({ tools: toTools(protocol.visibleTools(lister)) }))
  server.setRequestHandler(CallToolRequestSchema, async ({ method, params }) => {
    const tool = protocol.tools.get(params.name)
    if (tool === undefined) {
      throw new McpError(ErrorCode.InvalidParams, protocol.unknownTool(lister, { method, params }) ?? "No such tool")
    }
    const context = { opensPages: opensPages(session), confirms: false, answer: undefined, continues: undefined }
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
    const resources = await run(protocol.resources)
    if ("error" in resources) throw new McpError(ErrorCode.InternalError, resources.error.message)
    return { resources: resources.map((one) => ({ ...one })) }
  })
  server.setRequestHandler(ListResourceTemplatesRequestSchema, () => ({
    resourceTemplates: templates.map((one) => ({ ...one }))
  }))
  server.setRequestHandler(ReadResourceRequestSchema, async ({ params }) => {
    const content = await run(protocol.readResource(params.uri))
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

const servePrompts = (server: LegacyServer, { protocol, run }: Needs) => {
  server.setRequestHandler(ListPromptsRequestSchema, () => ({ prompts: protocol.listedPrompts }))
  server.setRequestHandler(CompleteRequestSchema, ({ params: { argument, context } }) =>
    run(protocol.complete({ ...argument, given: context?.arguments ?? {} }))
  )
  server.setRequestHandler(GetPromptRequestSchema, ({ params }) => {
    const prompt = protocol.prompt(params.name, params.arguments)
    if (prompt === undefined) throw new McpError(ErrorCode.InvalidParams, "No such prompt, or not these arguments")
    return prompt
  })
}

/** A constant reason, because the default one creates an error with its stack for each request. */
const overNow = "over"

/** Responds to a POST of these revisions as the SDK does. The caller handles sessions and their header. */
const respond = (
  { protocol, sessions, url }: LegacyNeeds,
  { caller, headers, message, session }: Request
): Effect.Effect<Response, never, CurrentCaller> =>
  Effect.gen(function* () {
    const runtime = yield* Effect.runtime<CurrentCaller>()
    const abort = new AbortController()
    const needs: Needs = {
      protocol,
      sessions,
      caller,
      session,
      staged: isStaged(headers.get(toolsHeader)),
      run: (effect) => Runtime.runPromise(runtime)(effect, { signal: abort.signal })
    }
    // eslint-disable-next-line typescript/no-deprecated -- see `LegacyServer`.
    const server = new Server(serverInfo, {
      capabilities: {
        tools: { listChanged: true },
        resources: { listChanged: true, subscribe: true },
        prompts: {},
        completions: {}
      },
      instructions,
      // The SDK's type asks for a generic method; this one fits every type that it could be asked for.
      jsonSchemaValidator: withoutSchemas as never
    })
    // A server lives for one request, so it gets only the handlers that the message needs.
    const methods = methodsOf(message)
    if (methods.has("tools")) serveTools(server, needs)
    if (methods.has("resources")) serveResources(server, needs)
    if (methods.has("prompts") || methods.has("completion")) servePrompts(server, needs)

    const transport = new WebStandardStreamableHTTPServerTransport({ enableJsonResponse: true })
    return yield* Effect.promise(async () => {
      await server.connect(transport)
      return transport.handleRequest(new Request(url, { method: "POST", headers }), { parsedBody: message })
    }).pipe(
      Effect.onExit(() =>
        Effect.promise(async () => {
          abort.abort(overNow)
          await server.close()
        })
      )
    )
  })

/** The only revision with batches. */
const batchRevision = "2025-03-26"

/** The session that the request names, or the refusal: 404 for a session of another credential. */
const sessionOf = Effect.fnUntraced(function* ({ sessions }: LegacyNeeds, principal: string) {
  const { headers } = yield* HttpServerRequest.HttpServerRequest
  const id = headers[sessionHeader]
  const version = headers["mcp-protocol-version"]
  if (version !== undefined && !SUPPORTED_PROTOCOL_VERSIONS.includes(version)) {
    return rpcError(400, -32_000, "Unsupported protocol version")
  }
  if (id === undefined) return rpcError(400, -32_000, "Mcp-Session-Id is required")
  const session = /^[0-9A-Za-z]{32}$/.test(id) ? yield* sessions.find(id, principal) : undefined
  return session ?? rpcError(404, -32_001, "Session not found")
})

const initialize = Effect.fnUntraced(function* (
  needs: LegacyNeeds,
  { caller, principal }: AuthenticatedClient,
  message: JsonObject,
  headers: Headers
) {
  const response = yield* respond(needs, { caller, session: undefined, message, headers })
  const body = yield* jsonOf(response)
  const protocolVersion = memberOf(memberOf(body, "result"), "protocolVersion")
  if (typeof protocolVersion !== "string") return yield* fromWeb(response)
  const capabilities = memberOf(memberOf(message, "params"), "capabilities")
  const id = yield* needs.sessions.open(
    { principal, teamId: teamOf(caller) },
    { protocolVersion, clientCapabilities: isObject(capabilities) ? capabilities : {} }
  )
  return yield* fromWeb(response, { [sessionHeader]: id })
})

export const post = Effect.fnUntraced(function* (
  needs: LegacyNeeds,
  client: AuthenticatedClient,
  message: unknown,
  headers: Headers
) {
  const { caller, principal } = client
  // A message without an id is a notification and starts no session.
  if (isObject(message) && message["method"] === "initialize" && "id" in message) {
    return yield* initialize(needs, client, message, headers)
  }
  const session = yield* sessionOf(needs, principal)
  if (HttpServerResponse.isServerResponse(session)) return session
  if (Array.isArray(message)) {
    if (session.protocolVersion !== batchRevision || message.length === 0 || message.length > maxBatch) {
      return rpcError(400, -32_600, "Batches are not part of this protocol version")
    }
    if (message.some((one) => memberOf(one, "method") === "initialize")) {
      return rpcError(400, -32_600, "A batch does not initialize")
    }
    // Rate limits count each message of a batch as one request.
    for (let i = 1; i < message.length; i++) yield* countUse(needs.limiter, caller)
  }
  // Without the header, the version of the session's start applies.
  if (!headers.has("mcp-protocol-version")) headers.set("mcp-protocol-version", session.protocolVersion)
  const response = yield* respond(needs, { caller, session, message, headers })
  return yield* fromWeb(response, { [sessionHeader]: session.id })
})

export const get = Effect.fnUntraced(function* (needs: LegacyNeeds, client: AuthenticatedClient) {
  const { headers } = yield* HttpServerRequest.HttpServerRequest
  if (headers["accept"]?.includes("text/event-stream") !== true) {
    return rpcError(406, -32_000, "The client must accept text/event-stream")
  }
  const session = yield* sessionOf(needs, client.principal)
  return HttpServerResponse.isServerResponse(session)
    ? session
    : yield* SessionStream.open(needs, { ...client, staged: isStaged(headers[toolsHeader]) }, session)
})

/** Ends the session. */
export const remove = Effect.fnUntraced(function* (needs: LegacyNeeds, { principal }: AuthenticatedClient) {
  const session = yield* sessionOf(needs, principal)
  if (HttpServerResponse.isServerResponse(session)) return session
  yield* needs.sessions.end(session.id, principal)
  return HttpServerResponse.empty({ status: 200 })
})

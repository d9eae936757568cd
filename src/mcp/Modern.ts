/**
 * The revision 2026-07-28 (no sessions, everything in the request), on `@modelcontextprotocol/server`: a POST each, whose
 * response is JSON. `subscriptions/listen`, whose response is a stream, is `Listening.ts`.
 */
import {
  type CallToolResult,
  createMcpHandler,
  createRequestStateCodec,
  fromJsonSchema,
  inputRequired,
  inputResponse,
  type JsonSchemaType,
  McpServer,
  ProtocolError,
  ProtocolErrorCode,
  type RequestStateCodec,
  ResourceNotFoundError,
  type ServerContext,
  type StandardSchemaWithJSON,
  type Tool as SdkTool
} from "@modelcontextprotocol/server"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Runtime from "effect/Runtime"
import { createHash } from "node:crypto"
import type { Caller, CurrentCaller } from "#schema/Caller.ts"
import { instructions } from "#schema/McpPrompts.ts"
import type { ServiceKeys } from "#src/crypto/ServiceKeys.ts"
import type { AuthenticatedClient } from "./Credentials.ts"
import { fromWeb, isObject, isStaged, jsonOf, type JsonObject, memberOf, methodsOf, toolsHeader } from "./Message.ts"
import { type Protocol, serverInfo } from "./Protocol.ts"
import { templates } from "./Resources.ts"
import type { CallContext, ListedTool, Tool, ToolResult } from "./Tool.ts"

export interface ModernNeeds {
  readonly url: string
  readonly protocol: Protocol
  readonly keys: ServiceKeys
}

/** Elements of a tool's input; counted again by the SDK (GHSA-f897-62hf-6gxq). */
const maxToolInputElements = 2_000
/** A list of tools or prompts is good for five minutes, for this credential (docs/contract/mcp.md). */
const hint = { ttlMs: 300_000, cacheScope: "private" } as const
const volatile = { ttlMs: 0, cacheScope: "private" } as const
const cacheHints = {
  "server/discover": hint,
  "tools/list": hint,
  "prompts/list": hint,
  "resources/templates/list": hint,
  "resources/list": volatile,
  "resources/read": volatile
} as const

/** Each tool decodes and checks its input; the SDK only shows the schema. */
const accepting = { getValidator: () => (input: unknown) => ({ valid: true, data: input, errorMessage: undefined }) }
/** JSON Schema of our own making, in the SDK's types: the dialect is theirs, and the validator fits every type. */
const shown = (schema: JsonObject): StandardSchemaWithJSON =>
  fromJsonSchema(schema as JsonSchemaType, accepting as never)

/** The tools' schemas in the SDK's form; made once, because a server is made for each request. */
const schemasOf = (() => {
  const made = new WeakMap<
    Tool,
    { readonly inputSchema: StandardSchemaWithJSON; readonly outputSchema: StandardSchemaWithJSON }
  >()
  return (tool: Tool) => {
    const { inputSchema, outputSchema } = tool.listed
    const schemas = made.get(tool) ?? { inputSchema: shown(inputSchema), outputSchema: shown(outputSchema) }
    made.set(tool, schemas)
    return schemas
  }
})()

/** What a signed `requestState` says: which question of which call it continues. */
interface State {
  readonly requestId: string | null
  readonly digest: string
}
const digestOf = (name: string, given: unknown): string =>
  createHash("sha256")
    .update(JSON.stringify([name, given]))
    .digest("base64url")

type States = RequestStateCodec<State>
/** Bound to the principal: what one client was given does not continue another's call. Lives 10 minutes. */
const makeStates = (key: Uint8Array): States =>
  createRequestStateCodec<State>({ key, ttlSeconds: 600, bind: (ctx) => ctx.http?.authInfo?.clientId ?? "" })

/** The SDK's types want mutable arrays and open objects, which results and lists are on the wire. */
const toResult = (result: ToolResult) => structuredClone(result) as unknown as CallToolResult
const toTools = (tools: ReadonlyArray<ListedTool>) => structuredClone(tools) as unknown as Array<SdkTool>

/** Keys of the two questions in `inputRequests`. */
const page = "page"
const confirmation = "confirmation"
const confirmationForm = {
  type: "object" as const,
  properties: { confirm: { type: "boolean" as const, title: "Yes, do it" } },
  required: ["confirm"]
}

/** The person's answer; accepting without the tick is declining. */
const answerIn = (ctx: ServerContext): CallContext["said"] => {
  const opened = inputResponse(ctx.mcpReq.inputResponses, page)
  if (opened.kind === "elicit") return opened.action === "accept" ? "accept" : "decline"
  const confirmed = inputResponse(ctx.mcpReq.inputResponses, confirmation)
  if (confirmed.kind !== "elicit") return undefined
  return confirmed.action === "accept" && confirmed.content?.["confirm"] === true ? "accept" : "decline"
}

interface ModernRequest {
  readonly client: AuthenticatedClient
  readonly message: unknown
  readonly headers: Headers
  readonly signal: AbortSignal
}

/** What the handlers of one request share. */
interface Needs {
  readonly protocol: Protocol
  readonly states: States
  readonly caller: Caller
  readonly staged: boolean
  readonly run: <A>(effect: Effect.Effect<A, never, CurrentCaller>) => Promise<A>
}

const callTool = async ({ run, states }: Needs, mcp: McpServer, tool: Tool, given: unknown, ctx: ServerContext) => {
  const elicitation = mcp.server.getClientCapabilities()?.elicitation
  const digest = digestOf(tool.listed.name, given)
  const state = ctx.mcpReq.requestState<State>()
  const continued = state !== undefined && state.digest === digest ? state : undefined
  const context: CallContext = {
    opensPages: elicitation?.url !== undefined,
    confirms: elicitation?.form !== undefined,
    // An answer counts only with the question that it belongs to.
    said: continued === undefined ? undefined : answerIn(ctx),
    continues: continued?.requestId ?? undefined
  }
  const outcome = await run(tool.call(given, context))
  switch (outcome._tag) {
    case "Result":
      return toResult(outcome.result)
    case "OpenPage":
      // A person who was sent to the page once and has not finished is not sent there again.
      if (!context.opensPages || context.continues === outcome.requestId) return toResult(outcome.otherwise)
      return inputRequired({
        inputRequests: { [page]: inputRequired.elicitUrl({ message: outcome.message, url: outcome.url }) },
        requestState: await states.mint({ requestId: outcome.requestId, digest }, ctx)
      })
    case "Confirm":
      return inputRequired({
        inputRequests: {
          [confirmation]: inputRequired.elicit({ message: outcome.message, requestedSchema: confirmationForm })
        },
        requestState: await states.mint({ requestId: null, digest }, ctx)
      })
  }
}

/**
 * Registers the tool that is called, whoever calls: what the caller may not do is refused by the rules, in their words.
 * One that is not there is refused by the SDK, which does so when there is any.
 */
const serveTools = (mcp: McpServer, needs: Needs, message: unknown) => {
  const { tools } = needs.protocol
  const called = memberOf(memberOf(message, "params"), "name")
  const [anyTool] = tools.values()
  const tool = (typeof called === "string" ? tools.get(called) : undefined) ?? anyTool
  if (tool !== undefined) {
    const { annotations, description, name, title } = tool.listed
    mcp.registerTool(
      name,
      { title, description, annotations, ...schemasOf(tool) },
      (given: unknown, ctx: ServerContext) => callTool(needs, mcp, tool, given, ctx)
    )
  }
  mcp.server.setRequestHandler("tools/list", () => ({ tools: toTools(needs.protocol.visibleTools(needs)) }))
}

const serveResources = ({ server }: McpServer, { protocol, run }: Needs) => {
  server.setRequestHandler("resources/list", async () => {
    const listed = await run(protocol.resources)
    if ("error" in listed) throw new ProtocolError(ProtocolErrorCode.InternalError, listed.error.message)
    return { resources: listed.map((one) => ({ ...one })) }
  })
  server.setRequestHandler("resources/templates/list", () => ({
    resourceTemplates: templates.map((one) => ({ ...one }))
  }))
  server.setRequestHandler("resources/read", async ({ params }) => {
    const content = await run(protocol.read(params.uri))
    if (content === undefined || "error" in content) throw new ResourceNotFoundError(params.uri)
    return { contents: [content] }
  })
}

const servePrompts = ({ server }: McpServer, { protocol, run }: Needs) => {
  server.setRequestHandler("completion/complete", ({ params: { argument, context } }) =>
    run(protocol.complete({ ...argument, given: context?.arguments ?? {} }))
  )
  server.setRequestHandler("prompts/list", () => ({ prompts: protocol.listedPrompts }))
  server.setRequestHandler("prompts/get", ({ params }) => {
    const prompt = protocol.prompt(params.name, params.arguments)
    if (prompt !== undefined) return prompt
    throw new ProtocolError(ProtocolErrorCode.InvalidParams, "No such prompt, or not these arguments")
  })
}

/** A server lives for one request: what the message does not ask for is not made. */
const serverFor = (needs: Needs, message: unknown): McpServer => {
  const mcp = new McpServer(serverInfo, {
    capabilities: {
      tools: { listChanged: true },
      resources: { listChanged: true, subscribe: true },
      prompts: {},
      completions: {}
    },
    instructions,
    // A list that grows is not kept: also clients without a stream ask again.
    cacheHints: needs.staged ? { ...cacheHints, "tools/list": volatile } : cacheHints,
    maxToolInputElements,
    requestState: { verify: needs.states.verify }
  })
  const methods = methodsOf(message)
  if (methods.has("tools")) serveTools(mcp, needs, message)
  if (methods.has("resources")) serveResources(mcp, needs)
  if (methods.has("prompts") || methods.has("completion")) servePrompts(mcp, needs)
  return mcp
}

/** Answers a POST of this revision; a handler, a server and a transport of its own for each. */
const respond = (
  { keys, protocol, url }: ModernNeeds,
  { client: { caller, principal }, headers, message, signal }: ModernRequest
) =>
  Effect.gen(function* () {
    const runtime = yield* Effect.runtime<CurrentCaller>()
    const needs: Needs = {
      protocol,
      states: makeStates(Redacted.value(yield* keys.get("mcp-request-state"))),
      caller,
      staged: isStaged(headers.get(toolsHeader)),
      run: (effect) => Runtime.runPromise(runtime)(effect, { signal })
    }
    const handler = createMcpHandler(() => serverFor(needs, message), { legacy: "reject" })
    return yield* Effect.promise(() =>
      handler.fetch(new Request(url, { method: "POST", headers, signal }), {
        parsedBody: message,
        // Who calls, for what is bound to it. The token itself goes no further.
        authInfo: { token: "", clientId: principal, scopes: [] }
      })
    )
  })

/** The SDK's own refusal of a tool that is not there, in our words; another error, of a header perhaps, as it is. */
const saying = (text: string, response: Response) =>
  Effect.map(jsonOf(response), (body) => {
    const error = memberOf(body, "error")
    if (!isObject(body) || !isObject(error) || error["code"] !== ProtocolErrorCode.InvalidParams) return response
    const { headers, status } = response
    return new Response(JSON.stringify({ ...body, error: { ...error, message: text } }), { status, headers })
  })

export const post = Effect.fnUntraced(function* (
  needs: ModernNeeds,
  client: AuthenticatedClient,
  message: unknown,
  headers: Headers
) {
  const abort = new AbortController()
  const request = { client, message, headers, signal: abort.signal }
  const response = yield* Effect.onInterrupt(respond(needs, request), () => Effect.sync(() => abort.abort()))
  // Streams are not the SDK's (`Listening.ts`), and this one would have no end.
  if (response.headers.get("content-type")?.startsWith("text/event-stream") === true) {
    abort.abort()
    return yield* Effect.dieMessage("the SDK opened a stream")
  }
  const instead = needs.protocol.unknownTool(
    { caller: client.caller, staged: isStaged(headers.get(toolsHeader)) },
    message
  )
  return yield* fromWeb(instead === undefined ? response : yield* saying(instead, response))
})

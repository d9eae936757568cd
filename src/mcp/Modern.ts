/**
 * The revision 2026-07-28 (no sessions, all state in the request), on `@modelcontextprotocol/server`. Each call is a
 * POST with a JSON response. `Listening.ts` handles `subscriptions/listen`, which responds with a stream.
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
import * as Runtime from "effect/Runtime"
import { createHash } from "node:crypto"
import type { Caller, CurrentCaller } from "#schema/Caller.ts"
import { instructions } from "#schema/McpPrompts.ts"
import type { KeyRing, RingKey } from "#src/crypto/KeyRing.ts"
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

/** Elements of a tool's input, a limit of the SDK (GHSA-f897-62hf-6gxq). */
const maxToolInputElements = 2_000
/** Clients may cache lists of tools and prompts for five minutes per credential (docs/contract/mcp.md). */
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

/** Accepts any input, because each tool decodes its own. The SDK only publishes the schema. */
const acceptingAll = { getValidator: () => (input: unknown) => ({ valid: true, data: input, errorMessage: undefined }) }
/** Converts our JSON Schema to the SDK's type. The casts hold: same dialect, and a validator for every type. */
const sdkSchema = (schema: JsonObject): StandardSchemaWithJSON =>
  fromJsonSchema(schema as JsonSchemaType, acceptingAll as never)

/** Schemas of a tool in the SDK's form; cached, because each request creates a server. */
const schemasOf = (() => {
  const cache = new WeakMap<
    Tool,
    { readonly inputSchema: StandardSchemaWithJSON; readonly outputSchema: StandardSchemaWithJSON }
  >()
  return (tool: Tool) => {
    const { inputSchema, outputSchema } = tool.entry
    const schemas = cache.get(tool) ?? { inputSchema: sdkSchema(inputSchema), outputSchema: sdkSchema(outputSchema) }
    cache.set(tool, schemas)
    return schemas
  }
})()

/** Content of a signed `requestState`: the question and the call that it continues. */
interface State {
  readonly requestId: string | null
  readonly digest: string
}
const digestOf = (name: string, args: unknown): string =>
  createHash("sha256")
    .update(JSON.stringify([name, args]))
    .digest("base64url")

type States = RequestStateCodec<State>
/** Bound to the principal, so that one client's state cannot continue another's call. Expires after 10 minutes. */
const statesUnder = ({ key }: RingKey): States =>
  createRequestStateCodec<State>({
    key: key.export(),
    ttlSeconds: 600,
    bind: (ctx) => ctx.http?.authInfo?.clientId ?? ""
  })

/** Signed with the newest key. A state of an older live key is verified too. */
const makeStates = ({ live, newest }: KeyRing): States => {
  const { mint, verify } = statesUnder(newest)
  const older = [...live.values()].filter((key) => key !== newest)
  if (older.length === 0) return { mint, verify }
  return {
    mint,
    verify: (state, ctx) =>
      older.reduce((verified, key) => verified.catch(() => statesUnder(key).verify(state, ctx)), verify(state, ctx))
  }
}

/** Copies for the SDK's types, which require mutable arrays and open objects. */
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

/** The person's answer. Accepting without the tick counts as declining. */
const answerIn = (ctx: ServerContext): CallContext["answer"] => {
  const toPage = inputResponse(ctx.mcpReq.inputResponses, page)
  if (toPage.kind === "elicit") return toPage.action === "accept" ? "accept" : "decline"
  const toQuestion = inputResponse(ctx.mcpReq.inputResponses, confirmation)
  if (toQuestion.kind !== "elicit") return undefined
  return toQuestion.action === "accept" && toQuestion.content?.["confirm"] === true ? "accept" : "decline"
}

interface ModernRequest {
  readonly client: AuthenticatedClient
  readonly message: unknown
  readonly headers: Headers
  readonly signal: AbortSignal
}

/** Values that the handlers of one request share. */
interface Needs {
  readonly protocol: Protocol
  readonly states: States
  readonly caller: Caller
  readonly staged: boolean
  readonly run: <A>(effect: Effect.Effect<A, never, CurrentCaller>) => Promise<A>
}

const callTool = async ({ run, states }: Needs, mcp: McpServer, tool: Tool, args: unknown, ctx: ServerContext) => {
  const elicitation = mcp.server.getClientCapabilities()?.elicitation
  const digest = digestOf(tool.entry.name, args)
  const state = ctx.mcpReq.requestState<State>()
  const continuedState = state !== undefined && state.digest === digest ? state : undefined
  const context: CallContext = {
    opensPages: elicitation?.url !== undefined,
    confirms: elicitation?.form !== undefined,
    // An answer counts only for its own question.
    answer: continuedState === undefined ? undefined : answerIn(ctx),
    continues: continuedState?.requestId ?? undefined
  }
  const outcome = await run(tool.call(args, context))
  switch (outcome._tag) {
    case "Result":
      return toResult(outcome.result)
    case "OpenPage":
      // Do not open the same page twice for a person who has not finished there.
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
 * Registers the called tool for every caller, since the use case refuses callers without the right. For an unknown tool
 * it registers any other one: with at least one tool, the SDK refuses unknown names.
 */
const serveTools = (mcp: McpServer, needs: Needs, message: unknown) => {
  const { tools } = needs.protocol
  const called = memberOf(memberOf(message, "params"), "name")
  const [anyTool] = tools.values()
  const tool = (typeof called === "string" ? tools.get(called) : undefined) ?? anyTool
  if (tool !== undefined) {
    const { annotations, description, name, title } = tool.entry
    mcp.registerTool(
      name,
      { title, description, annotations, ...schemasOf(tool) },
      (args: unknown, ctx: ServerContext) => callTool(needs, mcp, tool, args, ctx)
    )
  }
  mcp.server.setRequestHandler("tools/list", () => ({ tools: toTools(needs.protocol.visibleTools(needs)) }))
}

const serveResources = ({ server }: McpServer, { protocol, run }: Needs) => {
  server.setRequestHandler("resources/list", async () => {
    const resources = await run(protocol.resources)
    if ("error" in resources) throw new ProtocolError(ProtocolErrorCode.InternalError, resources.error.message)
    return { resources: resources.map((one) => ({ ...one })) }
  })
  server.setRequestHandler("resources/templates/list", () => ({
    resourceTemplates: templates.map((one) => ({ ...one }))
  }))
  server.setRequestHandler("resources/read", async ({ params }) => {
    const content = await run(protocol.readResource(params.uri))
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

/** A server for one request, with only the handlers that the message needs. */
const serverFor = (needs: Needs, message: unknown): McpServer => {
  const mcp = new McpServer(serverInfo, {
    capabilities: {
      tools: { listChanged: true },
      resources: { listChanged: true, subscribe: true },
      prompts: {},
      completions: {}
    },
    instructions,
    // A growing list is not cached, so that clients without a stream list it again.
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

/** Responds to a POST of this revision, with a new handler, server and transport. */
const respond = (
  { keys, protocol, url }: ModernNeeds,
  { client: { caller, principal }, headers, message, signal }: ModernRequest
) =>
  Effect.gen(function* () {
    const runtime = yield* Effect.runtime<CurrentCaller>()
    const needs: Needs = {
      protocol,
      states: makeStates(yield* keys.ring("mcp-request-state")),
      caller,
      staged: isStaged(headers.get(toolsHeader)),
      run: (effect) => Runtime.runPromise(runtime)(effect, { signal })
    }
    const handler = createMcpHandler(() => serverFor(needs, message), { legacy: "reject" })
    return yield* Effect.promise(() =>
      handler.fetch(new Request(url, { method: "POST", headers, signal }), {
        parsedBody: message,
        // The principal, to which states are bound. The token itself goes no further.
        authInfo: { token: "", clientId: principal, scopes: [] }
      })
    )
  })

/** Replaces the text of the SDK's refusal of an unknown tool. Other errors, such as a wrong header, stay unchanged. */
const withErrorText = (text: string, response: Response) =>
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
  // `Listening.ts` serves streams, and a stream of the SDK would never end.
  if (response.headers.get("content-type")?.startsWith("text/event-stream") === true) {
    abort.abort()
    return yield* Effect.dieMessage("the SDK opened a stream")
  }
  const instead = needs.protocol.unknownTool(
    { caller: client.caller, staged: isStaged(headers.get(toolsHeader)) },
    message
  )
  return yield* fromWeb(instead === undefined ? response : yield* withErrorText(instead, response))
})

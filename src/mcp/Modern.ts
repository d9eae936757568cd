/** The revision 2026-07-28 (no sessions, everything in the request), on `@modelcontextprotocol/server`. */
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
  type ServerEvent,
  type StandardSchemaWithJSON,
  type Tool as SdkTool
} from "@modelcontextprotocol/server"
import * as Effect from "effect/Effect"
import * as Runtime from "effect/Runtime"
import { createHash } from "node:crypto"
import type { Caller, CurrentCaller } from "#schema/Caller.ts"
import { instructions } from "#schema/McpPrompts.ts"
import type { JsonObject } from "./Message.ts"
import * as Prompts from "./Prompts.ts"
import type { Protocol } from "./Protocol.ts"
import { templates } from "./Resources.ts"
import { serverInfo } from "./ServerInfo.ts"
import type { CallContext, ListedTool, Tool, ToolResult } from "./Tool.ts"

/** Elements of a tool's input; counted again by the SDK (GHSA-f897-62hf-6gxq). */
export const maxToolInputElements = 2_000
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

export type States = RequestStateCodec<State>
/** Bound to the principal: what one client was given does not continue another's call. Lives 10 minutes. */
export const makeStates = (key: Uint8Array): States =>
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

export interface ModernRequest {
  readonly caller: Caller
  readonly principal: string
  readonly message: unknown
  readonly headers: Headers
  readonly url: string
  readonly signal: AbortSignal
  /** For `subscriptions/listen`: calls the listener until the function that it returns is called. */
  readonly listen: (listener: (event: ServerEvent) => void) => () => void
}

export interface ModernResponse {
  readonly response: Response
  /** Ends an open event stream in the protocol's way. */
  readonly close: () => Promise<void>
}

/** What the handlers of one request share. */
interface Needs {
  readonly protocol: Protocol
  readonly states: States
  readonly caller: Caller
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

/** Registers all tools: what the caller may not do is refused by the rules, with the error of the rules. */
const serveTools = (mcp: McpServer, needs: Needs) => {
  for (const tool of needs.protocol.tools.values()) {
    const { annotations, description, name, title } = tool.listed
    mcp.registerTool(
      name,
      { title, description, annotations, ...schemasOf(tool) },
      (given: unknown, ctx: ServerContext) => callTool(needs, mcp, tool, given, ctx)
    )
  }
  mcp.server.setRequestHandler("tools/list", () => ({ tools: toTools(needs.protocol.visibleTools(needs.caller)) }))
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

const servePrompts = ({ server }: McpServer) => {
  server.setRequestHandler("prompts/list", () => ({ prompts: Prompts.listed.map((prompt) => ({ ...prompt })) }))
  server.setRequestHandler("prompts/get", ({ params }) => {
    const prompt = Prompts.promptText(params.name, params.arguments ?? {})
    if (prompt === undefined) {
      throw new ProtocolError(ProtocolErrorCode.InvalidParams, "No such prompt, or not these arguments")
    }
    return {
      description: prompt.description,
      messages: [{ role: "user" as const, content: { type: "text" as const, text: prompt.text } }]
    }
  })
}

const serverFor = (needs: Needs): McpServer => {
  const mcp = new McpServer(serverInfo, {
    capabilities: {
      tools: { listChanged: true },
      resources: { listChanged: true, subscribe: true },
      prompts: {}
    },
    instructions,
    cacheHints,
    maxToolInputElements,
    requestState: { verify: needs.states.verify }
  })
  serveTools(mcp, needs)
  serveResources(mcp, needs)
  servePrompts(mcp)
  return mcp
}

/** Answers a POST of this revision; a handler, a server and a transport of its own for each. */
export const respond = (
  protocol: Protocol,
  states: States,
  { caller, headers, listen, message, principal, signal, url }: ModernRequest
): Effect.Effect<ModernResponse, never, CurrentCaller> =>
  Effect.gen(function* () {
    const runtime = yield* Effect.runtime<CurrentCaller>()
    const needs: Needs = {
      protocol,
      states,
      caller,
      run: (effect) => Runtime.runPromise(runtime)(effect, { signal })
    }
    const handler = createMcpHandler(() => serverFor(needs), {
      legacy: "reject",
      bus: { publish: () => undefined, subscribe: listen }
    })
    const response = yield* Effect.promise(() =>
      handler.fetch(new Request(url, { method: "POST", headers, signal }), {
        parsedBody: message,
        // Who calls, for what is bound to it. The token itself goes no further.
        authInfo: { token: "", clientId: principal, scopes: [] }
      })
    )
    return { response, close: handler.close }
  })

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
  type Tool
} from "@modelcontextprotocol/server"
import * as Effect from "effect/Effect"
import * as Runtime from "effect/Runtime"
import { createHash } from "node:crypto"
import type { Caller, CurrentCaller } from "#schema/Caller.ts"
import { instructions, type ToolName } from "#schema/McpTools.ts"
import type { Protocol, ToolResult } from "./Protocol.ts"
import { serverInfo } from "./ServerInfo.ts"
import { listed } from "./ToolList.ts"
import type { Surroundings } from "./Tools.ts"

/** Elements of a tool's input; counted again by the SDK (GHSA-f897-62hf-6gxq). */
export const maxToolInputElements = 2_000
/** A list of tools or prompts is good for five minutes, for this credential (mcp 4.2). */
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

/** The table decodes and checks what it gets: the SDK only shows the schema. */
const accepting = { getValidator: () => (input: unknown) => ({ valid: true, data: input, errorMessage: undefined }) }
const shown = (schema: unknown): StandardSchemaWithJSON => fromJsonSchema(schema as JsonSchemaType, accepting as never)

const toolSchemas = new Map(
  [...listed.values()].map(({ inputSchema, name, outputSchema }) => [
    name,
    { inputSchema: shown(inputSchema), outputSchema: shown(outputSchema) }
  ])
)

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

const toResult = (result: ToolResult) => structuredClone(result) as unknown as CallToolResult

/** Keys of the two questions in `inputRequests`. */
const page = "page"
const confirmation = "confirmation"

/** What a person said; an agreement without its tick is none. */
const saidIn = (ctx: ServerContext): Surroundings["said"] => {
  const opened = inputResponse(ctx.mcpReq.inputResponses, page)
  if (opened.kind === "elicit") return opened.action === "accept" ? "accept" : "decline"
  const confirmed = inputResponse(ctx.mcpReq.inputResponses, confirmation)
  if (confirmed.kind !== "elicit") return undefined
  return confirmed.action === "accept" && confirmed.content?.["confirm"] === true ? "accept" : "decline"
}

export interface Exchange {
  readonly caller: Caller
  readonly principal: string
  readonly message: unknown
  readonly headers: Headers
  readonly url: string
  readonly signal: AbortSignal
  /** For `subscriptions/listen`: calls the listener until the handle that it gets is called. */
  readonly listen: (listener: (event: ServerEvent) => void) => () => void
}

export interface Handled {
  readonly response: Response
  /** Ends an open event stream in the protocol's way. */
  readonly close: () => Promise<void>
}

const build = (
  protocol: Protocol,
  states: States,
  caller: Caller,
  run: <A>(effect: Effect.Effect<A, never, CurrentCaller>) => Promise<A>
): McpServer => {
  const mcp = new McpServer(serverInfo, {
    capabilities: {
      tools: { listChanged: true },
      resources: { listChanged: true, subscribe: true },
      prompts: {}
    },
    instructions,
    cacheHints,
    maxToolInputElements,
    requestState: { verify: states.verify }
  })

  const call = async (name: ToolName, given: unknown, ctx: ServerContext) => {
    const elicitation = mcp.server.getClientCapabilities()?.elicitation
    const state = ctx.mcpReq.requestState<State>()
    const continued = state !== undefined && state.digest === digestOf(name, given) ? state : undefined
    const around: Surroundings = {
      opensPages: elicitation?.url !== undefined,
      confirms: elicitation?.form !== undefined,
      // An answer without the question it belongs to is none.
      said: continued === undefined ? undefined : saidIn(ctx),
      continues: continued?.requestId ?? undefined
    }
    const outcome = await run(protocol.call(name, given, around))
    if (outcome._tag === "Result") return toResult(outcome.result)
    if (outcome._tag === "OpenPage") {
      // The person was sent there once and has not finished: what is left is to tell.
      if (!around.opensPages || around.continues === outcome.requestId) return toResult(outcome.otherwise)
      return inputRequired({
        inputRequests: { [page]: inputRequired.elicitUrl({ message: outcome.message, url: outcome.url }) },
        requestState: await states.mint({ requestId: outcome.requestId, digest: digestOf(name, given) }, ctx)
      })
    }
    return inputRequired({
      inputRequests: {
        [confirmation]: inputRequired.elicit({
          message: outcome.message,
          requestedSchema: {
            type: "object",
            properties: { confirm: { type: "boolean", title: "Yes, do it" } },
            required: ["confirm"]
          }
        })
      },
      requestState: await states.mint({ requestId: null, digest: digestOf(name, given) }, ctx)
    })
  }

  // All of them: what the caller may not do is refused by the rules, in the words of the rules.
  for (const { annotations, description, name, title } of protocol.allTools) {
    const schemas = toolSchemas.get(name)
    if (schemas === undefined) continue
    mcp.registerTool(name, { title, description, annotations, ...schemas }, (given: unknown, ctx: ServerContext) =>
      call(name, given, ctx)
    )
  }

  const { server } = mcp
  server.setRequestHandler("tools/list", () => ({
    tools: structuredClone(protocol.tools(caller)) as unknown as Array<Tool>
  }))
  server.setRequestHandler("resources/list", async () => {
    const found = await run(protocol.resources)
    if ("error" in found) throw new ProtocolError(ProtocolErrorCode.InternalError, found.error.message)
    return { resources: found.map((one) => ({ ...one })) }
  })
  server.setRequestHandler("resources/templates/list", () => ({
    resourceTemplates: protocol.resourceTemplates.map((one) => ({ ...one }))
  }))
  server.setRequestHandler("resources/read", async ({ params }) => {
    const found = await run(protocol.read(params.uri))
    if (found === undefined || "error" in found) throw new ResourceNotFoundError(params.uri)
    return { contents: [found] }
  })
  server.setRequestHandler("prompts/list", () => ({ prompts: protocol.prompts.map((prompt) => ({ ...prompt })) }))
  server.setRequestHandler("prompts/get", ({ params }) => {
    const prompt = protocol.prompt(params.name, params.arguments ?? {})
    if (prompt === undefined) {
      throw new ProtocolError(ProtocolErrorCode.InvalidParams, "No such prompt, or not these arguments")
    }
    return {
      description: prompt.description,
      messages: [{ role: "user" as const, content: { type: "text" as const, text: prompt.text } }]
    }
  })
  return mcp
}

/** Answers a POST of this revision; a handler, a server and a transport of its own for each. */
export const answer = (
  protocol: Protocol,
  states: States,
  { caller, headers, listen, message, principal, signal, url }: Exchange
): Effect.Effect<Handled, never, CurrentCaller> =>
  Effect.gen(function* () {
    const runtime = yield* Effect.runtime<CurrentCaller>()
    const run = <A>(effect: Effect.Effect<A, never, CurrentCaller>) => Runtime.runPromise(runtime)(effect, { signal })
    const handler = createMcpHandler(() => build(protocol, states, caller, run), {
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

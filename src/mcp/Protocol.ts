/**
 * Tools, prompts and resources of `/mcp`, independent of the protocol revision. `Legacy.ts` and `Modern.ts` translate.
 */
import * as Effect from "effect/Effect"
import type { Caller } from "#schema/Caller.ts"
import { environmentResource, prompts } from "#schema/McpPrompts.ts"
import type { Scope } from "#schema/Scopes.ts"
import * as Actions from "#src/access/Actions.ts"
import { AppConfig } from "#src/AppConfig.ts"
import * as Arguments from "./Arguments.ts"
import * as Completions from "./Completions.ts"
import { missingScopes } from "./Credentials.ts"
import { type JsonObject, memberOf } from "./Message.ts"
import * as Resources from "./Resources.ts"
import { type ListedTool, withErrorValue, type Tool } from "./Tool.ts"
import * as Tools from "./Tools.ts"
import { version } from "#src/Release.ts"

/** Name and version of this server, in every revision. */
export const serverInfo = { name: "ampoule", title: "Ampoule", version } as const

type ToolTable = ReadonlyMap<string, Tool>

/** The caller that lists the tools. `staged` means that it lists only the tools that it may call. */
interface Lister {
  readonly caller: Caller
  readonly staged: boolean
}

/**
 * An OAuth client sees all tools, since it can request more scopes. A staged client sees the tools that its scopes
 * allow, and `more_tools`. An API token has fixed scopes, and sees only the tools that it may call.
 */
const isVisible = ({ caller, staged }: Lister, { entry, scopes }: Tool): boolean => {
  if (entry.name === "more_tools") return staged && caller.kind !== "api_token"
  if (caller.kind !== "api_token") return !staged || missingScopes(caller, scopes).length === 0
  const role = caller.teams[0]?.role ?? null
  return (
    missingScopes(caller, scopes).length === 0 &&
    scopes.every((scope) => role === null || Actions.byRole[role].has(scope))
  )
}

const visibleTools = (tools: ToolTable, lister: Lister): ReadonlyArray<ListedTool> =>
  [...tools.values()].filter((tool) => isVisible(lister, tool)).map(({ entry }) => entry)

/** Sentence for a call of an unknown tool, without its name; undefined for any other message. */
const unknownTool = (tools: ToolTable, lister: Lister, message: unknown): string | undefined => {
  if (memberOf(message, "method") !== "tools/call") return undefined
  const name = memberOf(memberOf(message, "params"), "name")
  if (typeof name === "string" && tools.has(name)) return undefined
  return `No such tool. Call one of ${visibleTools(tools, lister)
    .map(({ name }) => name)
    .join(", ")}.`
}

/** Scopes that a request needs, by its method and parameters; undefined for none. */
const scopesNeeded = (
  tools: ToolTable,
  method: string,
  params: JsonObject
): { readonly operation: string; readonly scopes: ReadonlyArray<Scope> } | undefined => {
  const { arguments: given, name, uri } = params
  switch (method) {
    case "tools/call": {
      const tool = typeof name === "string" ? tools.get(name) : undefined
      return tool === undefined ? undefined : { operation: tool.entry.name, scopes: tool.scopesOf(given) }
    }
    case "resources/read":
    case "resources/subscribe":
      return typeof uri === "string" && Resources.parseEnvironmentUri(uri) !== undefined
        ? { operation: "This resource", scopes: environmentResource.scopes }
        : undefined
    default:
      return undefined
  }
}

// Prompts are texts with which a person starts a conversation.

/** Arguments become text for a model, so they are limited to the characters of ids, slugs and keys. */
const plainArgument = /^[A-Za-z0-9_-]{1,255}$/

const listedPrompts = Object.entries(prompts).map(([name, { arguments: given, description, title }]) => ({
  name,
  title,
  description,
  arguments: Object.entries(given).map(([argument, description]) => ({
    name: argument,
    description,
    required: true
  }))
}))

/** Undefined for an unknown prompt, or for a missing or invalid argument. */
const prompt = (name: string, given: Readonly<Record<string, string>> = {}) => {
  if (name !== "wire_up_project" && name !== "rotate_credential") return undefined
  const values = Object.keys(prompts[name].arguments).map((argument) => given[argument] ?? "")
  if (!values.every((value) => plainArgument.test(value))) return undefined
  const [projectId, environment, key] = values
  const text =
    name === "wire_up_project"
      ? prompts.wire_up_project.text(projectId, environment)
      : prompts.rotate_credential.text(projectId, environment, key)
  return {
    description: prompts[name].description,
    messages: [{ role: "user" as const, content: { type: "text" as const, text } }]
  }
}

export class Protocol extends Effect.Service<Protocol>()("mcp/Protocol", {
  effect: Effect.gen(function* () {
    const { mcpReveal } = yield* AppConfig
    const all = yield* Tools.make
    // `AMPOULE_MCP_REVEAL=off` removes the tools that return plaintext.
    const tools: ToolTable = new Map([...all].filter(([, tool]) => mcpReveal || !tool.returnsPlaintext))
    const resources = yield* Resources.make
    const complete = yield* Completions.make
    return {
      tools,
      visibleTools: (lister: Lister) => visibleTools(tools, lister),
      unknownTool: (lister: Lister, message: unknown) => unknownTool(tools, lister, message),
      /** The message, or each one of a batch, with the arguments of tool calls read. */
      read: (message: unknown) => {
        const one = (message: unknown) => Arguments.inMessage((name) => tools.get(name)?.entry.inputSchema, message)
        return Array.isArray(message) ? message.map(one) : one(message)
      },
      scopesNeeded: (method: string, params: JsonObject) => scopesNeeded(tools, method, params),
      listedPrompts,
      prompt,
      complete,
      resources: withErrorValue(resources.list, "resources"),
      /** Undefined for a resource that does not exist or that the caller cannot see. */
      readResource: (uri: string) => withErrorValue(resources.read(uri), "resource")
    } as const
  })
}) {}

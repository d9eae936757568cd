/** The table of tools: each definition of `schema/McpTools.ts` with its handler over the same use cases as REST. */
import * as Effect from "effect/Effect"
import { toolNames } from "#schema/McpTools.ts"
import * as ReadTools from "./ReadTools.ts"
import { type Handlers, make as tool, type Tool } from "./Tool.ts"
import * as WriteTools from "./WriteTools.ts"

export const make = Effect.gen(function* () {
  const handlers: Handlers = { ...(yield* ReadTools.handlers), ...(yield* WriteTools.handlers) }
  return new Map<string, Tool>(toolNames.map((name) => [name, tool(name, handlers[name])]))
})

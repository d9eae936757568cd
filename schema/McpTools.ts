/**
 * Tools of `/mcp`, with inputs, outputs and needs: one table for all protocol revisions. All texts are constants, the
 * same for each caller, so that no tenant's words reach a model as instructions.
 */
import type * as Schema from "effect/Schema"
import { auditTools, connectionTools } from "./McpConnectionTools.ts"
import { nameTools } from "./McpNameTools.ts"
import { revealTools } from "./McpRevealTools.ts"
import { useTools } from "./McpUseTools.ts"
import { writeTools } from "./McpWriteTools.ts"

/** In the order of `tools/list`. */
export const tools = {
  ...connectionTools,
  ...nameTools,
  ...useTools,
  ...writeTools,
  ...revealTools,
  ...auditTools
} as const

type Tools = typeof tools
export type ToolName = keyof Tools
export type ToolInput<N extends ToolName> = Schema.Schema.Type<Tools[N]["input"]>
export type ToolOutput<N extends ToolName> = Schema.Schema.Type<Tools[N]["output"]>
// `Object.keys` loses the type of the names.
export const toolNames: ReadonlyArray<ToolName> = Object.keys(tools) as Array<ToolName>

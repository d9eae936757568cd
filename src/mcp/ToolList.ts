/** The table as clients see it. Made once: the same bytes for everybody (security 3.8). */
import * as JSONSchema from "effect/JSONSchema"
import * as ParseResult from "effect/ParseResult"
import type * as Schema from "effect/Schema"
import type { Caller } from "#schema/Caller.ts"
import { type ToolDefinition, type ToolName, toolNames, tools } from "#schema/McpTools.ts"
import * as Policy from "#src/access/Policy.ts"
import { missingScopes } from "./Credentials.ts"

export type JsonObject = { readonly [member: string]: unknown }

export interface ListedTool {
  readonly name: ToolName
  readonly title: string
  readonly description: string
  readonly inputSchema: JsonObject
  readonly outputSchema: JsonObject
  readonly annotations: JsonObject
}

/** A table of different schemas, as one that can be looked up by name: what each takes is checked when it decodes. */
const definitions = tools as unknown as Record<
  ToolName,
  ToolDefinition<Schema.Schema<unknown, unknown>, Schema.Schema<unknown, unknown>>
>

/** The dialect is said by neither era's messages: 2020-12 is what both assume. */
const schemaOf = (schema: Schema.Schema<unknown, unknown>): JsonObject => {
  const { $schema: _, ...rest } = JSONSchema.make(schema, { target: "jsonSchema2020-12" }) as unknown as JsonObject
  return rest
}

export const listed: ReadonlyMap<ToolName, ListedTool> = new Map(
  toolNames.map((name) => {
    const { annotations, description, input, output, title } = definitions[name]
    return [
      name,
      {
        name,
        title,
        description,
        inputSchema: schemaOf(input),
        outputSchema: schemaOf(output),
        annotations: { title, ...annotations }
      }
    ]
  })
)

/** A tool of this server; `AMPOULE_MCP_REVEAL=off` removes those that return plaintext. */
export const toolNamed = (name: string, reveals: boolean): ToolName | undefined => {
  const found = toolNames.find((one) => one === name)
  return found !== undefined && (reveals || tools[found].plaintext !== true) ? found : undefined
}

/**
 * An OAuth client sees all tools, since it can ask for more scopes; what an API token may call is fixed, and it sees
 * that (mcp 4.2).
 */
export const visibleTo = (caller: Caller, reveals: boolean): ReadonlyArray<ListedTool> =>
  [...listed.values()].filter(({ name }) => {
    if (toolNamed(name, reveals) === undefined) return false
    const { scopes } = tools[name]
    if (caller.kind !== "api_token") return true
    const role = caller.teams[0]?.role ?? null
    return (
      missingScopes(caller, scopes).length === 0 &&
      scopes.every((scope) => role === null || Policy.roleAllows(role, scope))
    )
  })

export const decodeInput = (name: ToolName) => ParseResult.decodeUnknown(definitions[name].input)
export const encodeOutput = (name: ToolName) => ParseResult.encodeUnknown(definitions[name].output)

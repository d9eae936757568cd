/**
 * Routes of the OpenAPI document, for clients without the declarations of Effect 3. The build derives them and packs the
 * result (src/packRoutes.mjs).
 */
import { contractDocument } from "#schema/OpenApi.ts"

export interface Route {
  /** Such as `secrets.readValue`. */
  readonly id: string
  readonly method: string
  /** With `{name}` for each parameter. */
  readonly path: string
  /** Declared codes of refusals. */
  readonly codes: ReadonlyArray<string>
}

interface Response {
  readonly content?: Readonly<Record<string, unknown>>
  readonly "x-error-codes"?: ReadonlyArray<string>
}
interface Operation {
  readonly operationId: string
  readonly responses: Readonly<Record<string, Response>>
}
/** The members of the document that a route needs. */
interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  readonly components: { readonly schemas: Readonly<Record<string, ErrorSchema>> }
}
interface ErrorSchema {
  readonly allOf?: ReadonlyArray<{ readonly properties?: Readonly<Record<string, { readonly description?: string }>> }>
}

/** Answers of these are not one JSON text: streams, and the protocol of MCP. */
const isPlain = ({ operationId, responses }: Operation): boolean =>
  !operationId.startsWith("mcp.") && !Object.hasOwn(responses["200"]?.content ?? {}, "text/event-stream")

// The document is built by `schema/OpenApi.ts`; its type is any JSON.
const { components, paths } = contractDocument as unknown as Document

export const routes: ReadonlyArray<Route> = Object.entries(paths).flatMap(([path, operations]) =>
  Object.entries(operations)
    .filter(([, operation]) => isPlain(operation))
    .map(([method, { operationId, responses }]) => ({
      id: operationId,
      method: method.toUpperCase(),
      path,
      codes: Object.values(responses).flatMap((response) => response["x-error-codes"] ?? [])
    }))
)

/** Names of the members that a refusal of one code has; the document describes them as `With CODE`. */
export const refusalMembers: ReadonlyArray<string> = Object.values(components.schemas)
  .flatMap(({ allOf = [] }) => allOf.flatMap(({ properties = {} }) => Object.entries(properties)))
  .flatMap(([name, { description = "" }]) => (description.startsWith("With ") ? [name] : []))

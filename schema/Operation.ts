/** Texts and examples of an operation for the document, which `OpenApi.ts` prints. */
import * as OpenApi from "@effect/platform/OpenApi"
import * as Context from "effect/Context"
import { RequiredScope, type Scope } from "./Scopes.ts"

/** Examples in their wire form; a test decodes each with its schema. */
interface ExampleBodies {
  readonly request?: unknown
  readonly response?: unknown
  /** Body of a 202. */
  readonly accepted?: unknown
}
export class Examples extends Context.Tag("schema/Examples")<Examples, ExampleBodies>() {}

export const operation = (options: {
  readonly summary: string
  readonly description: string
  /**
   * CLI scope of the route; "none": the route is about the caller itself (docs/contract/credentials.md). Absent: CLI
   * grants are not accepted.
   */
  readonly scope?: Scope | "none"
  readonly request?: unknown
  readonly response?: unknown
  readonly accepted?: unknown
}): Context.Context<never> => {
  const { summary, description, scope, ...examples } = options
  const base = Context.merge(OpenApi.annotations({ summary, description }), Context.make(Examples, examples))
  // The annotations of an endpoint are untyped: `annotateContext` drops the context's content from the types.
  return (scope === undefined ? base : Context.add(base, RequiredScope, scope)) as Context.Context<never>
}

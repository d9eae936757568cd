/** What the document says of an operation, next to its declaration; `OpenApi.ts` prints it. */
import * as OpenApi from "@effect/platform/OpenApi"
import * as Context from "effect/Context"
import { RequiredScope, type Scope } from "./Scopes.ts"

/** Examples as they stand on the wire; a test decodes each with the schema it illustrates. */
interface ExampleBodies {
  readonly request?: unknown
  readonly response?: unknown
  /** What a 202 answers. */
  readonly accepted?: unknown
}
export class Examples extends Context.Tag("schema/Examples")<Examples, ExampleBodies>() {}

export const operation = (options: {
  readonly summary: string
  readonly description: string
  /**
   * CLI scope of the route; "none" = its subject is the caller itself (docs/contract/credentials.md). Absent: no CLI
   * grant gets here.
   */
  readonly scope?: Scope | "none"
  readonly request?: unknown
  readonly response?: unknown
  readonly accepted?: unknown
}): Context.Context<never> => {
  const { summary, description, scope, ...examples } = options
  const base = Context.merge(OpenApi.annotations({ summary, description }), Context.make(Examples, examples))
  // The annotations of an endpoint are an untyped bag: `annotateContext` drops what the context holds from the types.
  return (scope === undefined ? base : Context.add(base, RequiredScope, scope)) as Context.Context<never>
}

/** One tool: its entry in `tools/list`, and a call that decodes the input, runs the handler and encodes the outcome. */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as JSONSchema from "effect/JSONSchema"
import * as ParseResult from "effect/ParseResult"
import type * as Schema from "effect/Schema"
import { type AnyApiError, isApiError } from "#schema/ApiError.ts"
import type { CurrentCaller } from "#schema/Caller.ts"
import { InternalError } from "#schema/Errors.ts"
import { uuidPattern } from "#schema/Ids.ts"
import type { ToolDefinition } from "#schema/McpToolParts.ts"
import { type ToolInput, type ToolName, type ToolOutput, tools } from "#schema/McpTools.ts"
import { allScopes, type Scope } from "#schema/Scopes.ts"
import { environmentSlugPattern } from "#schema/Values.ts"
import { judge, validationFailed } from "#src/http/engine/ErrorEnvelope.ts"
import { CurrentExchange } from "#src/http/engine/RequestContext.ts"
import type { Proposed } from "#src/secrets/SecretWrites.ts"
import { isObject, type JsonObject, memberOf } from "./Message.ts"
import { explained } from "./NextCall.ts"

/** What the protocol revision and the client can do, and what the person answered. */
export interface CallContext {
  /** The client opens addresses for its person (URL-mode elicitation). */
  readonly opensPages: boolean
  /** The client can ask its person a yes-or-no question (form-mode elicitation). */
  readonly confirms: boolean
  /** The person's answer to the question of this call. */
  readonly said: "accept" | "decline" | undefined
  /** The value request that this call continues; verified to be of this caller and this question. */
  readonly continues: string | undefined
}

/** What a handler returns. `OpenPage`: a person has to act; `otherwise` is for clients that cannot open pages. */
export type Outcome<O> =
  | { readonly _tag: "Done"; readonly output: O }
  | {
      readonly _tag: "OpenPage"
      readonly requestId: string
      readonly url: string
      readonly message: string
      readonly otherwise: O
    }
  | { readonly _tag: "Confirm"; readonly message: string }

export const done = <O>(output: O): Outcome<O> => ({ _tag: "Done", output })

type Handler<N extends ToolName> = (
  input: ToolInput<N>,
  context: CallContext
) => Effect.Effect<Outcome<ToolOutput<N>>, AnyApiError | Proposed, CurrentCaller>
export type Handlers = { readonly [N in ToolName]: Handler<N> }

export interface ToolResult {
  readonly content: ReadonlyArray<{
    readonly type: "text"
    readonly text: string
    readonly annotations?: { readonly audience: ReadonlyArray<"user"> }
  }>
  /** Of the output's schema; a failure has none, since a structured result must conform to that schema (server/tools). */
  readonly structuredContent?: JsonObject
  readonly isError?: true
}

/** A finished call, or one that a person has to act on first. */
type CallResult =
  | { readonly _tag: "Result"; readonly result: ToolResult }
  | {
      readonly _tag: "OpenPage"
      readonly requestId: string
      readonly url: string
      readonly message: string
      readonly otherwise: ToolResult
    }
  | { readonly _tag: "Confirm"; readonly message: string }

/** A tool as `tools/list` shows it. */
export interface ListedTool {
  readonly name: ToolName
  readonly title: string
  readonly description: string
  readonly inputSchema: JsonObject
  readonly outputSchema: JsonObject
  readonly annotations: JsonObject
}

export interface Tool {
  readonly listed: ListedTool
  readonly scopes: ReadonlyArray<Scope>
  /** What a call with these arguments needs. */
  readonly scopesOf: (given: unknown) => ReadonlyArray<Scope>
  readonly returnsPlaintext: boolean
  readonly call: (input: unknown, context: CallContext) => Effect.Effect<CallResult, never, CurrentCaller>
}

/** Runs the work; a failure of any kind becomes its error, with the code and the log entry that REST would have. */
export const settled = <A, R>(work: Effect.Effect<A, AnyApiError, R>, what: string) =>
  Effect.catchAllCause(work, (cause) =>
    Effect.gen(function* () {
      const error = yield* judge(cause, yield* CurrentExchange, "POST", `/mcp/${what}`)
      return { error: isApiError(error) ? error : new InternalError() }
    })
  )

/** A schema as models read it, with every list: `format: uuid` says what the pattern does, in a tenth of its tokens. */
const brief = (schema: unknown): unknown => {
  if (Array.isArray(schema)) return schema.map(brief)
  if (!isObject(schema)) return schema
  const members = Object.entries(schema).filter(([member]) => member !== "pattern" || schema["format"] !== "uuid")
  return Object.fromEntries(members.map(([member, value]) => [member, brief(value)]))
}

/** The dialect is 2020-12, which both eras assume and neither names. */
const schemaOf = (schema: Schema.Schema.AnyNoContext): JsonObject => {
  const { $schema: _, ...rest } = { ...JSONSchema.make(schema, { target: "jsonSchema2020-12" }) }
  const shown = brief(rest)
  return isObject(shown) ? shown : {}
}

/** Names of what the caller sees, for ids. */
export interface Names {
  /** The id of the project with this slug. */
  readonly project: (slug: string) => Effect.Effect<string, AnyApiError, CurrentCaller>
  /** Slugs of the environments that the caller sees in the project with this id; empty where it may not list them. */
  readonly environments: (projectId: string) => Effect.Effect<ReadonlyArray<string>, never, CurrentCaller>
}

/** A slug that cannot be an id. */
const isSlug = (text: unknown): text is string =>
  typeof text === "string" && text.length <= 50 && environmentSlugPattern.test(text) && !uuidPattern.test(text)

/** The input with the id of the project that it names by its slug. */
const withProjectId = (names: Names, inputs: ReadonlyArray<string>, given: unknown) => {
  const slug = memberOf(given, "projectId")
  return inputs.includes("projectId") && isObject(given) && isSlug(slug)
    ? Effect.map(names.project(slug), (projectId): unknown => ({ ...given, projectId }))
    : Effect.succeed(given)
}

/** An error that helps: what to call next, with the slugs that exist where one was wrong. */
const failed = Effect.fnUntraced(function* (
  names: Names,
  { inputs, tool }: { readonly tool: ToolName; readonly inputs: ReadonlyArray<string> },
  error: AnyApiError,
  given: unknown
) {
  const projectId =
    error._tag === "ENVIRONMENT_NOT_FOUND"
      ? yield* Effect.orElseSucceed(withProjectId(names, inputs, given), () => undefined)
      : undefined
  const id = memberOf(projectId, "projectId")
  const environments = typeof id === "string" && uuidPattern.test(id) ? yield* names.environments(id) : []
  const body = explained(error, { tool, inputs, environments })
  return { content: [{ type: "text", text: JSON.stringify(body) }], isError: true } satisfies ToolResult
})

/** What REST answers with 202: nothing is written yet, so what the tool declares did not come about. */
const waiting = ({ request }: Proposed): CallResult => {
  const message = "Nothing is written yet: the change waits until another person approves it. Do not send it again."
  const text = JSON.stringify({ statusCode: 202, message, changeRequest: request })
  return { _tag: "Result", result: { content: [{ type: "text", text }], isError: true } }
}

type Scoped = Pick<
  ToolDefinition<Schema.Schema.AnyNoContext, Schema.Schema.AnyNoContext>,
  "scopeIn" | "scopes" | "scopesWith"
>

const neededScopes = ({ scopeIn, scopes, scopesWith }: Scoped, given: unknown): ReadonlyArray<Scope> => {
  const named = scopeIn === undefined ? undefined : memberOf(given, scopeIn)
  const also = scopesWith === undefined || memberOf(given, scopesWith.member) === undefined ? [] : scopesWith.scopes
  return [...scopes, ...also, ...allScopes.filter((scope) => scope === named)]
}

/** Clients that tell content for the person from content for the model keep plaintext from the model. */
const forTheUser = { annotations: { audience: ["user"] } } as const

export const make = <N extends ToolName>(name: N, handler: Handler<N>, names: Names): Tool => {
  // The definition of this name: the compiler does not follow which name has which of the table's types.
  const definition = tools[name] as unknown as ToolDefinition<
    Schema.Schema<ToolInput<N>, JsonObject>,
    Schema.Schema<ToolOutput<N>, JsonObject>
  >
  const { annotations, description, input, output, plaintext = false, title } = definition
  const decode = ParseResult.decodeUnknownEither(input)
  const encode = ParseResult.encodeEither(output)
  const inputSchema = schemaOf(input)
  const inputs = isObject(inputSchema["properties"]) ? Object.keys(inputSchema["properties"]) : []

  const succeeded = (value: ToolOutput<N>) =>
    Effect.map(Effect.orDie(encode(value)), (structuredContent): ToolResult => ({
      content: [{ type: "text", text: JSON.stringify(structuredContent), ...(plaintext ? forTheUser : {}) }],
      structuredContent
    }))

  const run = Effect.fnUntraced(function* (given: unknown, context: CallContext) {
    const decoded = yield* Either.mapLeft(decode((yield* withProjectId(names, inputs, given)) ?? {}), (issue) =>
      validationFailed(ParseResult.ArrayFormatter.formatIssueSync(issue))
    )
    const handled = yield* Effect.map(handler(decoded, context), (outcome) => ({ outcome })).pipe(
      Effect.catchTag("Proposed", (proposed) => Effect.succeed({ waits: waiting(proposed) }))
    )
    if ("waits" in handled) return handled.waits
    const { outcome } = handled
    switch (outcome._tag) {
      case "Done":
        return { _tag: "Result", result: yield* succeeded(outcome.output) } satisfies CallResult
      case "OpenPage":
        return { ...outcome, otherwise: yield* succeeded(outcome.otherwise) } satisfies CallResult
      case "Confirm":
        return outcome satisfies CallResult
    }
  })

  return {
    listed: {
      name,
      title,
      description,
      inputSchema,
      outputSchema: schemaOf(output),
      annotations: { title, ...annotations }
    },
    scopes: definition.scopes,
    scopesOf: (given) => neededScopes(definition, given),
    returnsPlaintext: plaintext,
    call: (given, context) =>
      Effect.flatMap(settled(run(given, context), name), (result) =>
        "error" in result
          ? Effect.map(failed(names, { tool: name, inputs }, result.error, given), (result): CallResult => ({
              _tag: "Result",
              result
            }))
          : Effect.succeed(result)
      )
  }
}

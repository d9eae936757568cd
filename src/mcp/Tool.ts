/** One tool: its entry in `tools/list`, and a call that decodes the input, runs the handler and encodes the result. */
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
import { judge } from "#src/http/engine/ErrorEnvelope.ts"
import { CurrentExchange } from "#src/http/engine/RequestContext.ts"
import type { Proposed } from "#src/secrets/SecretStore.ts"
import * as Arguments from "./Arguments.ts"
import { isObject, type JsonObject, memberOf } from "./Message.ts"
import { explained } from "./NextCall.ts"

/** Abilities of the protocol revision and the client, and the person's answer. */
export interface CallContext {
  /** The client opens addresses for its person (URL-mode elicitation). */
  readonly opensPages: boolean
  /** The client can ask its person a yes-or-no question (form-mode elicitation). */
  readonly confirms: boolean
  /** The person's answer to the question of this call. */
  readonly answer: "accept" | "decline" | undefined
  /** The value request that this call continues; verified to belong to this caller and this question. */
  readonly continues: string | undefined
}

/** A call that needs a person first. `otherwise` is for clients that cannot open pages. */
type NeedsPerson<O> =
  | {
      readonly _tag: "OpenPage"
      readonly requestId: string
      readonly url: string
      readonly message: string
      readonly otherwise: O
    }
  | { readonly _tag: "Confirm"; readonly message: string }
export type HandlerResult<O> = { readonly _tag: "Done"; readonly output: O } | NeedsPerson<O>

export const done = <O>(output: O): HandlerResult<O> => ({ _tag: "Done", output })

type Handler<N extends ToolName> = (
  input: ToolInput<N>,
  context: CallContext
) => Effect.Effect<HandlerResult<ToolOutput<N>>, AnyApiError | Proposed, CurrentCaller>
export type Handlers = { readonly [N in ToolName]: Handler<N> }

export interface ToolResult {
  readonly content: ReadonlyArray<{
    readonly type: "text"
    readonly text: string
    readonly annotations?: { readonly audience: ReadonlyArray<"user"> }
  }>
  /** Absent for a failure, since structured content must conform to the output schema (server/tools). */
  readonly structuredContent?: JsonObject
  readonly isError?: true
}

type CallResult = { readonly _tag: "Result"; readonly result: ToolResult } | NeedsPerson<ToolResult>

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
  readonly entry: ListedTool
  readonly scopes: ReadonlyArray<Scope>
  /** Scopes that a call with these arguments needs. */
  readonly scopesOf: (args: unknown) => ReadonlyArray<Scope>
  readonly returnsPlaintext: boolean
  /** `input` has been read (`Arguments.read`). */
  readonly call: (input: unknown, context: CallContext) => Effect.Effect<CallResult, never, CurrentCaller>
}

/** Turns any failure into an error value, with the code and the log entry that REST would have. */
export const withErrorValue = <A, R>(work: Effect.Effect<A, AnyApiError, R>, operation: string) =>
  Effect.catchAllCause(work, (cause) =>
    Effect.gen(function* () {
      const error = yield* judge(cause, yield* CurrentExchange, "POST", `/mcp/${operation}`)
      return { error: isApiError(error) ? error : new InternalError() }
    })
  )

/** Shortens a schema for models: `format: uuid` replaces the pattern with a tenth of its tokens. */
const brief = (schema: unknown): unknown => {
  if (Array.isArray(schema)) return schema.map(brief)
  if (!isObject(schema)) return schema
  const members = Object.entries(schema).filter(([member]) => member !== "pattern" || schema["format"] !== "uuid")
  return Object.fromEntries(members.map(([member, value]) => [member, brief(value)]))
}

/** Puts each definition where it is referred to: several clients and models resolve no `$ref`. */
const inlined = (schema: unknown, definitions: unknown): unknown => {
  if (Array.isArray(schema)) return schema.map((one) => inlined(one, definitions))
  if (!isObject(schema)) return schema
  const name = schema["$ref"]
  if (typeof name === "string") return inlined(memberOf(definitions, name.replace("#/$defs/", "")), definitions)
  return Object.fromEntries(Object.entries(schema).map(([member, value]) => [member, inlined(value, definitions)]))
}

/** Uses the dialect 2020-12, which both SDKs assume without naming it. */
const schemaOf = (schema: Schema.Schema.AnyNoContext): JsonObject => {
  const { $defs, $schema: _, ...rest } = { ...JSONSchema.make(schema, { target: "jsonSchema2020-12" }) }
  const short = brief(inlined(rest, $defs))
  return isObject(short) ? short : {}
}

/** Look-ups between names and ids, limited to what the caller can see. */
export interface Names {
  /** The id of the project with this slug. */
  readonly project: (slug: string) => Effect.Effect<string, AnyApiError, CurrentCaller>
  /** Slugs of the environments that the caller sees in this project; empty if it may not list them. */
  readonly environments: (projectId: string) => Effect.Effect<ReadonlyArray<string>, never, CurrentCaller>
}

/** A slug that cannot be an id. */
const isSlug = (text: unknown): text is string =>
  typeof text === "string" && text.length <= 50 && environmentSlugPattern.test(text) && !uuidPattern.test(text)

/** The input, with a project's slug replaced by its id. */
const withProjectId = (names: Names, inputs: ReadonlyArray<string>, args: unknown) => {
  const slug = memberOf(args, "projectId")
  return inputs.includes("projectId") && isObject(args) && isSlug(slug)
    ? Effect.map(names.project(slug), (projectId): unknown => ({ ...args, projectId }))
    : Effect.succeed(args)
}

/** Result of a failed call: the error, the suggested next call, and existing slugs if the environment was wrong. */
const failed = Effect.fnUntraced(function* (
  names: Names,
  { inputs, tool }: { readonly tool: ToolName; readonly inputs: ReadonlyArray<string> },
  error: AnyApiError,
  args: unknown
) {
  const projectId =
    error._tag === "ENVIRONMENT_NOT_FOUND"
      ? yield* Effect.orElseSucceed(withProjectId(names, inputs, args), () => undefined)
      : undefined
  const id = memberOf(projectId, "projectId")
  const environments = typeof id === "string" && uuidPattern.test(id) ? yield* names.environments(id) : []
  const body = explained(error, { tool, inputs, environments })
  return { content: [{ type: "text", text: JSON.stringify(body) }], isError: true } satisfies ToolResult
})

/** Result for a change request, where REST responds with 202. An error, because the declared output does not exist. */
const proposedResult = ({ request }: Proposed): CallResult => {
  const message = "Nothing is written yet. The change waits until another person approves it. Do not send it again."
  const text = JSON.stringify({ statusCode: 202, message, changeRequest: request })
  return { _tag: "Result", result: { content: [{ type: "text", text }], isError: true } }
}

type Scoped = Pick<
  ToolDefinition<Schema.Schema.AnyNoContext, Schema.Schema.AnyNoContext>,
  "scopeIn" | "scopes" | "scopesWith"
>

const neededScopes = ({ scopeIn, scopes, scopesWith }: Scoped, args: unknown): ReadonlyArray<Scope> => {
  const scopeName = scopeIn === undefined ? undefined : memberOf(args, scopeIn)
  const also = scopesWith === undefined || memberOf(args, scopesWith.member) === undefined ? [] : scopesWith.scopes
  return [...scopes, ...also, ...allScopes.filter((scope) => scope === scopeName)]
}

/** Marks content for the person, so that clients which support the mark keep plaintext from the model. */
const forTheUser = { annotations: { audience: ["user"] } } as const

export const make = <N extends ToolName>(name: N, handler: Handler<N>, names: Names): Tool => {
  // A cast, because the compiler does not relate a name to its type in the table.
  const definition = tools[name] as unknown as ToolDefinition<
    Schema.Schema<ToolInput<N>, JsonObject>,
    Schema.Schema<ToolOutput<N>, JsonObject>
  >
  const { annotations, description, input, output, plaintext = false, title } = definition
  const decode = ParseResult.decodeUnknownEither(input)
  const encode = ParseResult.encodeEither(output)
  const inputSchema = schemaOf(input)
  const inputs = isObject(inputSchema["properties"]) ? Object.keys(inputSchema["properties"]) : []

  const resultOf = (value: ToolOutput<N>) =>
    Effect.map(Effect.orDie(encode(value)), (structuredContent): ToolResult => ({
      content: [{ type: "text", text: JSON.stringify(structuredContent), ...(plaintext ? forTheUser : {}) }],
      structuredContent
    }))

  const run = Effect.fnUntraced(function* (args: unknown, context: CallContext) {
    const sent = yield* withProjectId(names, inputs, args)
    const decoded = yield* Either.mapLeft(decode(sent), (issue) =>
      Arguments.refusal(inputSchema, sent, ParseResult.ArrayFormatter.formatIssueSync(issue))
    )
    const result = yield* Effect.map(handler(decoded, context), (outcome) => ({ outcome })).pipe(
      Effect.catchTag("Proposed", (proposed) => Effect.succeed({ waits: proposedResult(proposed) }))
    )
    if ("waits" in result) return result.waits
    const { outcome } = result
    switch (outcome._tag) {
      case "Done":
        return { _tag: "Result", result: yield* resultOf(outcome.output) } satisfies CallResult
      case "OpenPage":
        return { ...outcome, otherwise: yield* resultOf(outcome.otherwise) } satisfies CallResult
      case "Confirm":
        return outcome satisfies CallResult
    }
  })

  return {
    entry: {
      name,
      title,
      description,
      inputSchema,
      outputSchema: schemaOf(output),
      annotations: { title, ...annotations }
    },
    scopes: definition.scopes,
    scopesOf: (args) => neededScopes(definition, args),
    returnsPlaintext: plaintext,
    call: (args, context) =>
      Effect.flatMap(withErrorValue(run(args, context), name), (result) =>
        "error" in result
          ? Effect.map(failed(names, { tool: name, inputs }, result.error, args), (result): CallResult => ({
              _tag: "Result",
              result
            }))
          : Effect.succeed(result)
      )
  }
}

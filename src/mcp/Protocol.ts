/** What `/mcp` can do, said in no revision's words: `Legacy.ts` and `Modern.ts` translate. */
import * as Effect from "effect/Effect"
import * as ParseResult from "effect/ParseResult"
import { type AnyApiError, bodyOf, isApiError } from "#schema/ApiError.ts"
import type { Caller, CurrentCaller } from "#schema/Caller.ts"
import { InternalError } from "#schema/Errors.ts"
import { environmentResource, prompts, type ToolName, tools } from "#schema/McpTools.ts"
import type { Scope } from "#schema/Scopes.ts"
import { AppConfig } from "#src/AppConfig.ts"
import { judge, validationFailed } from "#src/http/ErrorEnvelope.ts"
import { CurrentExchange } from "#src/http/RequestContext.ts"
import * as Resources from "./Resources.ts"
import {
  decodeInput,
  encodeOutput,
  type JsonObject,
  listed,
  type ListedTool,
  toolNamed,
  visibleTo
} from "./ToolList.ts"
import * as Tools from "./Tools.ts"

export interface ToolResult {
  readonly content: ReadonlyArray<{
    readonly type: "text"
    readonly text: string
    readonly annotations?: { readonly audience: ReadonlyArray<"user"> }
  }>
  readonly structuredContent: JsonObject
  readonly isError?: true
}

/** A finished call, or one that a person has to act on first. */
export type Answer =
  | { readonly _tag: "Result"; readonly result: ToolResult }
  | {
      readonly _tag: "OpenPage"
      readonly requestId: string
      readonly url: string
      readonly message: string
      readonly otherwise: ToolResult
    }
  | { readonly _tag: "Confirm"; readonly message: string }

const failed = (error: AnyApiError): ToolResult => {
  const structuredContent = bodyOf(error)
  return { content: [{ type: "text", text: JSON.stringify(structuredContent) }], structuredContent, isError: true }
}

/** Clients that tell what is for the person from what is for the model keep plaintext out of the latter. */
const forTheUser = { annotations: { audience: ["user"] } } as const

const succeeded = (name: ToolName, structuredContent: JsonObject): ToolResult => ({
  content: [
    {
      type: "text",
      text: JSON.stringify(structuredContent),
      ...(tools[name].plaintext === true ? forTheUser : {})
    }
  ],
  structuredContent
})

export interface PromptText {
  readonly description: string
  readonly text: string
}

/** Values of prompts' arguments become text for a model: what is in them is cut to what such a name can be. */
const plainArgument = /^[A-Za-z0-9_-]{1,255}$/

export class Protocol extends Effect.Service<Protocol>()("mcp/Protocol", {
  effect: Effect.gen(function* () {
    const { mcpReveal } = yield* AppConfig
    const handlers = yield* Tools.make
    const resources = yield* Resources.make

    /** A failure of any kind is an answer: with the code that REST would have, and in the log where REST would log it. */
    const settled = <A, R>(work: Effect.Effect<A, AnyApiError, R>, what: string) =>
      Effect.catchAllCause(work, (cause) =>
        Effect.gen(function* () {
          const told = yield* judge(cause, yield* CurrentExchange, "POST", `/mcp/${what}`)
          return { error: isApiError(told) ? told : new InternalError() }
        })
      )

    const run = <N extends ToolName>(name: N, given: unknown, around: Tools.Surroundings) =>
      Effect.gen(function* () {
        const input = yield* decodeInput(name)(given ?? {}).pipe(
          Effect.mapError((issue) => validationFailed(ParseResult.ArrayFormatter.formatIssueSync(issue)))
        )
        // The table binds a name to its input; TypeScript does not follow that through a look-up by name.
        const handler = handlers[name] as unknown as (
          input: unknown,
          around: Tools.Surroundings
        ) => Effect.Effect<Tools.Outcome<unknown>, AnyApiError, CurrentCaller>
        const outcome = yield* handler(input, around)
        const shown = (output: unknown) =>
          Effect.map(Effect.orDie(encodeOutput(name)(output)), (encoded) => succeeded(name, encoded as JsonObject))
        switch (outcome._tag) {
          case "Done":
            return { _tag: "Result", result: yield* shown(outcome.output) } satisfies Answer
          case "OpenPage": {
            const { message, requestId, url } = outcome
            return {
              _tag: "OpenPage",
              message,
              requestId,
              url,
              otherwise: yield* shown(outcome.otherwise)
            } satisfies Answer
          }
          case "Confirm":
            return outcome satisfies Answer
        }
      })

    const call = (
      name: ToolName,
      given: unknown,
      around: Tools.Surroundings
    ): Effect.Effect<Answer, never, CurrentCaller> =>
      Effect.map(settled(run(name, given, around), name), (answer): Answer =>
        "error" in answer ? { _tag: "Result", result: failed(answer.error) } : answer
      )

    /** What a request needs, by method and parameters; undefined: nothing. */
    const needs = (
      method: string,
      params: JsonObject
    ): { readonly what: string; readonly scopes: ReadonlyArray<Scope> } | undefined => {
      if (method === "tools/call") {
        const name = typeof params["name"] === "string" ? toolNamed(params["name"], mcpReveal) : undefined
        return name === undefined ? undefined : { what: name, scopes: tools[name].scopes }
      }
      if (method === "resources/read" || method === "resources/subscribe") {
        const uri = params["uri"]
        return typeof uri === "string" && Resources.parseEnvironmentUri(uri) !== undefined
          ? { what: "This resource", scopes: environmentResource.scopes }
          : undefined
      }
      return undefined
    }

    return {
      needs,
      call,
      tool: (name: string): ToolName | undefined => toolNamed(name, mcpReveal),
      allTools: [...listed.values()].filter(({ name }) => toolNamed(name, mcpReveal) !== undefined),
      tools: (caller: Caller): ReadonlyArray<ListedTool> => visibleTo(caller, mcpReveal),
      resources: settled(resources.list, "resources"),
      resourceTemplates: [
        {
          uriTemplate: environmentResource.uriTemplate,
          name: environmentResource.name,
          title: environmentResource.title,
          description: environmentResource.description,
          mimeType: environmentResource.mimeType
        }
      ],
      /** Undefined: no such resource, or none that the caller sees. */
      read: (uri: string) => settled(resources.read(uri), "resource"),
      prompts: Object.entries(prompts).map(([name, prompt]) => ({
        name,
        title: prompt.title,
        description: prompt.description,
        arguments: Object.entries(prompt.arguments).map(([argument, description]) => ({
          name: argument,
          description,
          required: true
        }))
      })),
      /** Undefined: no such prompt, or an argument that is missing or no name. */
      prompt: (name: string, given: Readonly<Record<string, string>>): PromptText | undefined => {
        if (name !== "wire_up_project" && name !== "rotate_credential") return undefined
        const values = Object.keys(prompts[name].arguments).map((argument) => given[argument] ?? "")
        if (!values.every((value) => plainArgument.test(value))) return undefined
        const [projectId, environment, key] = values
        const text =
          name === "wire_up_project"
            ? prompts.wire_up_project.text(projectId, environment)
            : prompts.rotate_credential.text(projectId, environment, key)
        return { description: prompts[name].description, text }
      }
    } as const
  })
}) {}

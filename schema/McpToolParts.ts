/** Shared parts of tool definitions: members of inputs and outputs, and hints. */
import * as Schema from "effect/Schema"
import { ProjectId, SecretId } from "./Ids.ts"
import type { Scope } from "./Scopes.ts"
import { OpenSealedValues, sealedEntries, SealingKey } from "./SealedApi.ts"
import { optional, strict } from "./Strict.ts"
import { boundedList, codePoints, EnvironmentSlug, isPlainName, SecretKey } from "./Values.ts"
import { Integer, Key, Slug, Uuid } from "./Wire.ts"

// --- members of inputs ---

/** An input without members. */
export const nothing = strict(
  Schema.Struct({}).pipe(
    Schema.filter((input): Schema.FilterOutput => {
      const members = Object.keys(input)
      return members.length === 0 || { path: members.slice(0, 1), message: "is not accepted: this tool takes no input" }
    })
  )
).annotations({ jsonSchema: { type: "object", properties: {}, additionalProperties: false } })

// `x-mcp-header`: clients repeat these two in headers, so that a gateway can route without reading the body.
/** For a project's slug, the call is decoded with the id that the slug has for its caller (src/mcp/Tool.ts). */
export const projectId = ProjectId.annotations({
  message: () => "must be the id or the slug of a project",
  jsonSchema: { type: "string", description: "Id or slug.", "x-mcp-header": "Project" }
})
export const environment = EnvironmentSlug.annotations({
  jsonSchema: {
    type: "string",
    description: "Slug.",
    "x-mcp-header": "Environment"
  }
})
export const location = { projectId, environment }

/** Text that people and models read later, without control, bidi or zero-width characters. */
export const plainText = (max: number, description: string) =>
  Schema.String.pipe(
    Schema.filter(
      (s) =>
        (s.length <= max * 2 && codePoints(s) <= max && isPlainName(s)) ||
        `must be 1 to ${max} characters without control, bidi or zero-width ones`
    )
  ).annotations({ jsonSchema: { type: "string", minLength: 1, maxLength: max, description } })

const distinct = <S extends Schema.Schema.Any>(item: S, min: number, max: number, what: string) =>
  boundedList(item, min, max).pipe(
    Schema.filter(
      (list): Schema.FilterOutput => {
        const at = list.findIndex((one, i) => list.indexOf(one) < i)
        return at < 0 ? undefined : { path: [at], message: `must not repeat an earlier ${what}` }
      },
      { jsonSchema: { uniqueItems: true } }
    )
  )
/** Key of an existing secret, without the pattern: only tools that create a key describe it. */
const existingKey = SecretKey.annotations({ jsonSchema: { type: "string" } })
export const keys = (max: number) => distinct(existingKey, 1, max, "key")

/** Sealed file: entries by name of the variable. */
export const sealedFile = {
  ...location,
  keyId: OpenSealedValues.fields.keyId,
  entries: sealedEntries
}
export const newerKey = optional(
  SealingKey.annotations({ description: "Present after a rotation of the key: seal the file again with it." })
)

/** Another environment of the same project. */
export const otherEnvironment = EnvironmentSlug.annotations({
  jsonSchema: { type: "string", description: "Slug." }
})
export const query = optional(plainText(255, "Part of a key; case does not count."))

// A secret is named by its id, or by project, environment and key.
const byName = ["projectId", "environment", "key"] as const
interface NamedSecret {
  readonly secretId?: SecretId
  readonly projectId?: ProjectId
  readonly environment?: EnvironmentSlug
  readonly key?: SecretKey
}
export const oneSecret = {
  secretId: optional(
    SecretId.annotations({ jsonSchema: { type: "string", description: "Id; or projectId, environment and key." } })
  ),
  // Without a description: that of `secretId` and the other tools have it.
  projectId: optional(projectId.annotations({ jsonSchema: { type: "string", "x-mcp-header": "Project" } })),
  environment: optional(environment.annotations({ jsonSchema: { type: "string", "x-mcp-header": "Environment" } })),
  key: optional(existingKey)
}
export const namesOneSecret = (input: NamedSecret): Schema.FilterIssue | undefined => {
  if (input.secretId !== undefined) {
    const also = byName.find((name) => input[name] !== undefined)
    return also === undefined ? undefined : { path: [also], message: "must not be given together with secretId" }
  }
  const missing = byName.find((name) => input[name] === undefined)
  return missing === undefined
    ? undefined
    : { path: [missing], message: "must be given with projectId, environment and key, or secretId alone" }
}
/** Several secrets of one environment, by ids or by keys. */
export const secretsOf = (max: number) => ({
  ids: optional(distinct(SecretId, 1, max, "id")),
  keys: optional(keys(max))
})
export const namesSecrets = (input: {
  readonly ids?: ReadonlyArray<SecretId>
  readonly keys?: ReadonlyArray<SecretKey>
}): Schema.FilterIssue | undefined =>
  (input.ids === undefined) === (input.keys === undefined)
    ? { path: ["keys"], message: "must be given, or ids, and not both" }
    : undefined

// --- members of outputs ---

/** Call that returns more; absent: the list is complete. */
export const next = optional(Schema.String.annotations({ description: "What to call for more. Absent: this is all." }))
/** Overview that a list returns before its members. */
export const groups = optional(
  Schema.Array(Schema.Struct({ prefix: Schema.String, count: Integer })).annotations({
    description: "Keys by the text before their first underscore, the largest groups first; each is a query."
  })
)

export const keyList = Schema.Array(Key)
export const environmentList = Schema.Array(
  Schema.Struct({ id: Uuid, slug: Slug, name: Schema.String, protected: Schema.Boolean })
)
/** Warnings about the written keys. */
export const warnings = optional(
  Schema.Array(Schema.String).annotations({
    description: "Keys written that can change which code runs: tell the person. Absent: none."
  })
)
export const refOutput = { id: Uuid, key: Key, version: Integer, warnings }
export const outcomes = { created: keyList, updated: keyList, warnings }
export const problem = Schema.Struct({ key: Key, reason: Schema.String })

// --- definitions ---

/** Hints for the client's approval of a call. The server relies on none of them. */
interface Annotations {
  readonly readOnlyHint: boolean
  readonly destructiveHint: boolean
  readonly idempotentHint: boolean
  readonly openWorldHint: false
}
export interface ToolDefinition<I extends Schema.Schema.AnyNoContext, O extends Schema.Schema.AnyNoContext> {
  readonly title: string
  readonly description: string
  /** A call needs all of them. */
  readonly scopes: ReadonlyArray<Scope>
  /** Additional scopes for a call that has the member. */
  readonly scopesWith?: { readonly member: string; readonly scopes: ReadonlyArray<Scope> }
  /** Member of the input that names an additional scope. */
  readonly scopeIn?: string
  readonly input: I
  readonly output: O
  readonly annotations: Annotations
  /** Returns plain text: available only when the operator allows it (`AMPOULE_MCP_REVEAL`). */
  readonly plaintext?: true
}

export const reads = { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false } as const
export const writes = { ...reads, readOnlyHint: false, idempotentHint: false } as const
export const overwrites = { ...writes, destructiveHint: true } as const

export const tool = <I extends Schema.Schema.AnyNoContext, O extends Schema.Schema.AnyNoContext>(
  definition: ToolDefinition<I, O>
): ToolDefinition<I, O> => definition

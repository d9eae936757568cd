/** Source of a value that a tool writes: the server generates, copies or composes it, or the input has it. */
import * as Schema from "effect/Schema"

import { optional } from "./Strict.ts"
import { integer, EnvironmentSlug, SecretKey, type SecretKind, SecretText } from "./Values.ts"

/** Alphabets of generated values, without `$`: a generated value must never be taken for a template. */
export const charsets = {
  alphanumeric: "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
  hex: "0123456789abcdef",
  base64url: "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_",
  symbols: "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!#%&()*+,-./:;<=>?@[]^_{|}~"
} as const

export const Charset = Schema.Literal("alphanumeric", "hex", "base64url", "symbols").annotations({
  message: () => "must be alphanumeric, hex, base64url or symbols",
  description: "alphanumeric by default."
})

export const Generate = Schema.Struct({
  length: integer(16, 128, "Characters."),
  charset: optional(Charset)
}).annotations({ description: "Random, made on the server." })
type Generate = typeof Generate.Type

export const CopyFrom = Schema.Struct({ environment: EnvironmentSlug, key: SecretKey }).annotations({
  description: "A secret of the same project, copied inside the server."
})
type CopyFrom = typeof CopyFrom.Type
/**
 * Form for tools, without patterns: both parts exist already, and models read this three times in each list of tools.
 */
const CopySource = Schema.Struct({
  environment: EnvironmentSlug.annotations({ jsonSchema: { type: "string" } }),
  key: SecretKey.annotations({ jsonSchema: { type: "string" } })
}).annotations({ description: "Of the same project, copied inside the server." })

/** Members of an input. Exactly one of them must be present. */
export const valueSourceFields = {
  generate: optional(Generate),
  copyFrom: optional(CopySource),
  template: optional(
    Schema.Struct({ source: SecretText }).annotations({
      description: "Composed of other secrets: ${KEY}; $${ is a plain ${."
    })
  ),
  value: optional(
    SecretText.annotations({
      jsonSchema: {
        type: "string",
        maxLength: 65_536,
        description: "It becomes part of this conversation: prefer the others."
      }
    })
  )
}
const sources = ["generate", "copyFrom", "template", "value"] as const

/** Decoded members. Exactly one is present, as `exactlyOneSource` checks. */
export interface ValueSourceInput {
  readonly generate?: Generate
  readonly copyFrom?: CopyFrom
  readonly template?: { readonly source: SecretText }
  readonly value?: SecretText
  /** Of `value`, where the input can say it. */
  readonly kind?: SecretKind
}
export const exactlyOneSource = (input: ValueSourceInput): Schema.FilterIssue | undefined => {
  const [first, second] = sources.filter((name) => input[name] !== undefined)
  if (first === undefined) return { path: ["generate"], message: "must be given, or one of copyFrom, template, value" }
  return second === undefined
    ? undefined
    : { path: [second], message: "must not be given together with another of them" }
}

/**
 * The source of a value that a tool writes: the server generates, copies or composes the value, or the input holds it.
 */
import * as Schema from "effect/Schema"

import { optional } from "./Strict.ts"
import { integer, EnvironmentSlug, SecretKey, SecretText } from "./Values.ts"

/** Alphabets of generated values. None holds a `$`: a generated value is never taken for a template. */
export const charsets = {
  alphanumeric: "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
  hex: "0123456789abcdef",
  base64url: "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_",
  symbols: "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!#%&()*+,-./:;<=>?@[]^_{|}~"
} as const

const Generate = Schema.Struct({
  length: integer(16, 128, "Characters, 16 to 128."),
  charset: optional(
    Schema.Literal("alphanumeric", "hex", "base64url", "symbols").annotations({
      message: () => "must be alphanumeric, hex, base64url or symbols",
      description: "alphanumeric by default."
    })
  )
}).annotations({ description: "A random value, made on the server and never shown." })
type Generate = typeof Generate.Type

const CopyFrom = Schema.Struct({ environment: EnvironmentSlug, key: SecretKey }).annotations({
  description: "Another secret of the same project, copied as written inside the server."
})
type CopyFrom = typeof CopyFrom.Type

/** Members of an input. Exactly one of them must be present. */
export const valueSourceFields = {
  generate: optional(Generate),
  copyFrom: optional(CopyFrom),
  template: optional(
    Schema.Struct({ source: SecretText }).annotations({
      description: "Composed from other secrets of the environment: ${KEY}; $${ writes a plain ${."
    })
  ),
  value: optional(
    SecretText.annotations({
      jsonSchema: {
        type: "string",
        maxLength: 65_536,
        description:
          "The value itself. It becomes part of this conversation: prefer generate, copyFrom or request_secret_value."
      }
    })
  )
}
const sources = ["generate", "copyFrom", "template", "value"] as const

/** The decoded members. Exactly one is present, as `exactlyOneSource` checks. */
export interface ValueSourceInput {
  readonly generate?: Generate
  readonly copyFrom?: CopyFrom
  readonly template?: { readonly source: SecretText }
  readonly value?: SecretText
}
export const exactlyOneSource = (given: ValueSourceInput): Schema.FilterIssue | undefined => {
  const [first, second] = sources.filter((name) => given[name] !== undefined)
  if (first === undefined) return { path: ["generate"], message: "must be given, or one of copyFrom, template, value" }
  return second === undefined
    ? undefined
    : { path: [second], message: "must not be given together with another of them" }
}

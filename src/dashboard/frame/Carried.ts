/**
 * A sent form that waits for a confirmation. The browser carries it through the pages of the confirmation, and sends it
 * again afterwards: nothing typed is lost, and the server stores none of it.
 */
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import type * as Form from "./Form.ts"
import * as Paths from "./Paths.ts"

const Carried = Schema.Struct({
  to: Schema.String.pipe(Schema.filter(Paths.isOwnPage)),
  fields: Schema.Array(Schema.Tuple(Schema.String, Schema.String))
})
export type Carried = typeof Carried.Type
const Text = Schema.parseJson(Carried)

/** The hidden field of the confirmation's forms. */
export const field = "carried"

/** Fields that prove who the person is. A form with one of them starts again instead. */
const proofs: ReadonlySet<string> = new Set(["password", "currentPassword", "newPassword", "code", "passkey", field])

export const textOf = (to: string, { entries }: Form.Form): string =>
  entries.some(([name]) => proofs.has(name)) || !Paths.isOwnPage(to)
    ? ""
    : JSON.stringify({ to, fields: entries } satisfies Carried)

/** Undefined when nothing is carried. */
export const parse = (text: string): Carried | undefined => Either.getOrUndefined(Schema.decodeEither(Text)(text))

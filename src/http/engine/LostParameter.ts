/**
 * Refuses the one query parameter that no schema sees. The platform copies a query into an object, where `__proto__`
 * sets the prototype and creates no member. An unknown parameter is a 400 that names it (docs/contract/errors.md).
 */
import * as Effect from "effect/Effect"
import { ValidationFailed } from "#schema/Errors.ts"

export const name = "__proto__"

/** True when the query of a URL, with its `?`, has the parameter. */
export const isIn = (query: string): boolean => query !== "" && new URLSearchParams(query).has(name)

/** Fails with the 400 of any other unknown parameter. */
export const refuse = (present: boolean): Effect.Effect<void, ValidationFailed> =>
  present ? new ValidationFailed({ field: name, message: "This member is not accepted here." }) : Effect.void

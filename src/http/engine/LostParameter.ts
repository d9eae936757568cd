/**
 * The one query parameter that no schema sees: the platform copies a query into an object, where `__proto__` is not a
 * member but the object's prototype. An unknown parameter is a 400 that names it (docs/contract/errors.md), so it is
 * refused here.
 */
import * as Effect from "effect/Effect"
import { ValidationFailed } from "#schema/Errors.ts"

export const name = "__proto__"

/** Whether a query as it stands in a URL, `?` included, has the parameter. */
export const isIn = (query: string): boolean => query !== "" && new URLSearchParams(query).has(name)

/** Fails with the 400 of any other unknown parameter. */
export const refuse = (present: boolean): Effect.Effect<void, ValidationFailed> =>
  present ? new ValidationFailed({ field: name, message: "This member is not accepted here." }) : Effect.void

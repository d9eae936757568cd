/** Keys as a person types them, and what is said of one that is not there. */
import * as Effect from "effect/Effect"
import * as Patterns from "#schema/Patterns.ts"
import type { SecretKey } from "#schema/Values.ts"
import { type CliError, CliFailure, ServerRefused, usage } from "./Failure.ts"

export const parseKey = (text: string): Effect.Effect<SecretKey, CliFailure> => {
  if (text.length <= Patterns.longestKey && Patterns.secretKey.test(text)) {
    // What its schema checks, which is more than a command for one value is without it.
    return Effect.succeed(text as SecretKey)
  }
  // The text is not repeated: it may be a value at the wrong place.
  return text.startsWith("-")
    ? usage(
        "This command has no such option, or it stands behind a key: options come first.",
        "Example: ampoule secrets unset --disposition flatten OLD_TOKEN"
      )
    : usage("That is not a secret key.", "Keys are A-Z, 0-9 and _, starting with a letter, like DATABASE_URL.")
}

export const noSuchKey = (key: string, environment: string) =>
  new CliFailure({
    message: `${environment} has no secret ${key}.`,
    hint: `\`ampoule secrets list --env ${environment}\` shows the keys.`
  })

/** A refusal for one secret names it: the server's sentence is for every caller. */
export const namingKey =
  (key: string, environment: string) =>
  <A, E extends CliError, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E | ServerRefused, R> =>
    Effect.mapError(self, (error) => {
      if (error._tag !== "ServerRefused" || error.code !== "SECRET_NOT_FOUND") return error
      const { hint, message } = noSuchKey(key, environment)
      return new ServerRefused({ ...error, message, ...(hint === undefined ? {} : { hint }) })
    })

/** Keys that the user types, and the error for a key that does not exist. */
import * as Effect from "effect/Effect"
import * as Patterns from "#schema/Patterns.ts"
import type { SecretKey } from "#schema/Values.ts"
import { type CliError, CliFailure, ServerRefused, usage } from "./Failure.ts"

export const parseKey = (text: string): Effect.Effect<SecretKey, CliFailure> => {
  if (text.length <= Patterns.longestKey && Patterns.secretKey.test(text)) {
    // Same check as its schema, which would be slow to load for a small command.
    return Effect.succeed(text as SecretKey)
  }
  // Not repeated: the text may be a value in the wrong place.
  return text.startsWith("-")
    ? usage(
        "This command has no such option, or the option comes after a key: put options first.",
        "Example: ampoule secrets unset --disposition flatten OLD_TOKEN"
      )
    : usage("That is not a secret key.", "Keys are A-Z, 0-9 and _, starting with a letter, like DATABASE_URL.")
}

export const noSuchKey = (key: string, environment: string) =>
  new CliFailure({
    message: `${environment} has no secret ${key}.`,
    hint: `\`ampoule secrets list --env ${environment}\` shows the keys.`
  })

/** Names the secret in a refusal; the server's own sentence is the same for all routes. */
export const withKey =
  (key: string, environment: string) =>
  <A, E extends CliError, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E | ServerRefused, R> =>
    Effect.mapError(self, (error) => {
      if (error._tag !== "ServerRefused" || error.code !== "SECRET_NOT_FOUND") return error
      const { hint, message } = noSuchKey(key, environment)
      return new ServerRefused({ ...error, message, ...(hint === undefined ? {} : { hint }) })
    })

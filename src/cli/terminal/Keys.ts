/** Keys that the user types, and the error for a key that does not exist. */
import * as Effect from "effect/Effect"
import * as Patterns from "#schema/Patterns.ts"
import type { SecretKey } from "#schema/Values.ts"
import { didYouMean } from "#src/cli/terminal/Closest.ts"
import { type CliError, CliFailure, ServerRefused, usage, withQuestion } from "./Failure.ts"
import { keyMeant } from "./KeyNames.ts"

const form = "Keys are A-Z, 0-9 and _, starting with a letter, like DATABASE_URL."

/** `mayBeValue`: the command also takes a value, so that a word in the wrong place is never repeated. */
export const parseKey = (text: string, mayBeValue = false): Effect.Effect<SecretKey, CliFailure> => {
  if (text.length <= Patterns.longestKey && Patterns.secretKey.test(text)) {
    // Same check as its schema, which would be slow to load for a small command.
    return Effect.succeed(text as SecretKey)
  }
  // Only a text that looks like a name is repeated: another may be a value.
  const meant = mayBeValue ? undefined : keyMeant(text)
  return meant === undefined
    ? usage("That is not a secret key.", form)
    : usage(`${text} is not a secret key.`, `Did you mean ${meant}? ${form}`)
}

/** `keys`: those that exist, as far as the caller knows them. */
export const noSuchKey = (key: string, environment: string, keys: ReadonlyArray<string> = []) => {
  const hint = `\`ampoule secrets list --env ${environment}\` shows the keys.`
  return new CliFailure({
    message: `${environment} has no secret ${key}.`,
    hint: withQuestion(didYouMean(key, keys), hint)
  })
}

/** Names the secret in a refusal; the server's own sentence is the same for all routes. */
export const withKey =
  (key: string, environment: string, keys: Effect.Effect<ReadonlyArray<string>>) =>
  <A, E extends CliError, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E | ServerRefused, R> =>
    Effect.catchAll(self, (error): Effect.Effect<never, E | ServerRefused> => {
      if (error._tag !== "ServerRefused" || error.code !== "SECRET_NOT_FOUND") return Effect.fail(error)
      return Effect.flatMap(keys, (names) => {
        const { hint, message } = noSuchKey(key, environment, names)
        return new ServerRefused({ ...error, message, ...(hint === undefined ? {} : { hint }) })
      })
    })

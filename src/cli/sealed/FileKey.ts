/** The sealing key of a file. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { CliFailure } from "#src/cli/terminal/Failure.ts"
import * as Credential from "#src/cli/connection/Credential.ts"
import type { EnvironmentOptions } from "#src/cli/connection/Reach.ts"
import type * as SealedFile from "./File.ts"
import * as Target from "#src/cli/connection/Target.ts"
import * as SealingKeys from "./Keys.ts"
import { decodeEnvironmentId, foreignFile } from "./Open.ts"

/** Values of one file, at most. */
export const maximumEntries = 500

/**
 * Active key of the file's environment, which must be the key of the file. Without a file, the environment of the
 * target counts. An --env or a variable of another environment is an error.
 */
export const keyFor = Effect.fnUntraced(function* (
  current: SealedFile.SealedFile | undefined,
  options: EnvironmentOptions & { readonly file: string; readonly offline: boolean },
  open: ReturnType<typeof Credential.open> = Credential.open(options)
) {
  const environment = Option.flatMap(Option.fromNullable(current?.environmentId), decodeEnvironmentId)
  const own = yield* Target.fromCaller(options)
  const key =
    Option.isNone(environment) || own.environment !== undefined
      ? yield* SealingKeys.active(options, open)
      : yield* SealingKeys.ofFile(options, environment.value, open)
  if (Option.isSome(environment) && key.environmentId !== environment.value) {
    return yield* foreignFile(own)
  }
  if (current === undefined || current.keyId === key.keyId) return key
  return yield* new CliFailure({
    message: `${options.file} is sealed with ${current.keyId}; the active key is ${key.keyId}.`,
    hint: `\`ampoule reseal ${options.file}\` seals it with the active key.`
  })
})

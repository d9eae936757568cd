/** Sealed files: reading them, and opening them on the server. */
import * as Args from "@effect/cli/Args"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { EnvironmentId } from "#schema/Ids.ts"
import { SealingKeyId } from "#schema/Values.ts"
import * as Ask from "#src/cli/terminal/Ask.ts"
import * as Capabilities from "#src/cli/connection/Capabilities.ts"
import type { Parts } from "#src/ClientTarget.ts"
import { call } from "#src/cli/connection/Client.ts"
import type * as Credential from "#src/cli/connection/Credential.ts"
import { CliFailure } from "#src/cli/terminal/Failure.ts"
import { plain } from "#src/cli/terminal/Output.ts"
import * as SealedFile from "./File.ts"
import * as SealingKeys from "./Keys.ts"
import * as Target from "#src/cli/connection/Target.ts"
import * as TargetWords from "#src/cli/connection/TargetWords.ts"

export const defaultFile = ".env.sealed"

export const fileArgument = Args.text({ name: "FILE" }).pipe(
  Args.withDescription(`Sealed file (default: ${defaultFile})`),
  Args.withDefault(defaultFile)
)

export const faultLines = (file: string, faults: ReadonlyArray<SealedFile.Fault>): ReadonlyArray<string> =>
  faults.map(({ line, reason }) => `${file}${line === 0 ? "" : `:${line}`}: ${plain(reason)}`)

export const readSealed = Effect.fnUntraced(function* (file: string) {
  const text = yield* Ask.fileText(file)
  const parsed = SealedFile.read(text)
  if (Either.isRight(parsed)) return { text, ...parsed.right }
  return yield* new CliFailure({
    message: `${file} is not a sealed file.`,
    hint: faultLines(file, parsed.left).slice(0, 10).join("\n  ")
  })
})

export const decodeEnvironmentId = Schema.decodeUnknownOption(EnvironmentId)
const decodeKeyId = Schema.decodeUnknownOption(SealingKeyId)

export const foreignFile = ({ environment, project }: Parts) => {
  const other =
    environment === undefined
      ? `in a project other than ${project === undefined ? "" : TargetWords.described("project", project)}`
      : `for an environment other than ${TargetWords.described("environment", environment)}`
  const sources = TargetWords.hasVariable({ environment, project })
    ? "--project, --env, AMPOULE_PROJECT and AMPOULE_ENVIRONMENT"
    : "--project and --env"
  return new CliFailure({
    message: `The file is sealed ${other}.`,
    hint: `Without ${sources}, the file's own environment is used.`
  })
}

/** Environment of the header, else of the target. An option or a variable that contradicts the header is an error. */
const environmentOf = Effect.fnUntraced(function* (
  session: Credential.Session,
  file: SealedFile.SealedFile,
  options: Target.TargetOptions
) {
  const headerId = Option.flatMap(Option.fromNullable(file.environmentId), decodeEnvironmentId)
  if (Option.isNone(headerId)) return yield* SealingKeys.environmentId(session, yield* Target.target(options, session))
  const own = yield* Target.fromCaller(options)
  if (own.environment === undefined && own.project === undefined) return headerId.value
  const allowed =
    own.environment === undefined
      ? (yield* SealingKeys.environments(session, yield* Target.project(options.project, session))).map(({ id }) => id)
      : [yield* SealingKeys.environmentId(session, yield* Target.target(options, session))]
  if (allowed.includes(headerId.value)) return headerId.value
  return yield* foreignFile(own)
})

/** Opens a file on the server, completely or not at all. */
export const openOnServer = Effect.fnUntraced(function* (
  session: Credential.Session,
  file: SealedFile.SealedFile,
  options: Target.TargetOptions
) {
  yield* Capabilities.requireFeature(session, "sealedValues")
  const envId = yield* environmentOf(session, file, options)
  const keyId = decodeKeyId(file.keyId)
  if (Option.isNone(keyId)) return yield* new CliFailure({ message: "The file does not name a sealing key." })
  const client = yield* SealingKeys.sealed(session)
  const opened = yield* call(
    session,
    client.open({ path: { envId }, payload: { keyId: keyId.value, entries: Object.fromEntries(file.entries) } })
  )
  return { envId, ...opened }
})

/** `ampoule seal export`: a sealed file of stored values, which the server seals. No value comes to this machine. */
import * as Options from "@effect/cli/Options"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import * as SealedEnv from "#src/sealed/SealedEnv.ts"
import { call } from "#src/cli/connection/Client.ts"
import * as Credential from "#src/cli/connection/Credential.ts"
import * as Help from "#src/cli/help/Help.ts"
import { CliFailure, UnexpectedAnswer } from "#src/cli/terminal/Failure.ts"
import { writeWhole } from "#src/cli/terminal/Folders.ts"
import { parseKey } from "#src/cli/terminal/Keys.ts"
import * as Shared from "#src/cli/terminal/Options.ts"
import { json, note, plain } from "#src/cli/terminal/Output.ts"
import * as SealedFile from "./File.ts"
import { keyFor, maximumEntries } from "./FileKey.ts"
import * as SealingKeys from "./Keys.ts"
import { decodeEnvironmentId, fileArgument, readSealed } from "./Open.ts"

const onlyKeys = Options.repeated(Shared.text("only", "key", "Only this key; may be repeated"))

/** The text with these entries at their places, and a manifest over all that it has then. */
const withEntries = Effect.fnUntraced(function* (
  key: SealingKeys.Key,
  current: Effect.Effect.Success<ReturnType<typeof readSealed>>,
  entries: ReadonlyMap<string, string>
) {
  const all = new Map([...current.entries, ...entries])
  all.delete(SealedEnv.manifestName)
  if (all.size > maximumEntries) {
    return yield* new CliFailure({ message: `A sealed file holds at most ${maximumEntries} values.` })
  }
  let text = current.text
  for (const [name, entry] of entries) text = SealedFile.put(text, name, entry)
  return SealedFile.put(text, SealedEnv.manifestName, yield* SealingKeys.sealManifest(key, all))
})

export const exportSealed = Help.command(
  "export",
  {
    says: "Write the stored values of an environment into a sealed file. The server seals them: no value comes to this machine.",
    more: [
      "In a file that exists, the entries of these keys are replaced; other entries and comments stay.",
      "The trail records sealed.export. No value counts as handed out until the file is opened."
    ],
    examples: [
      "ampoule seal export --project shop --env production",
      "ampoule seal export --only DATABASE_URL --only API_KEY config/.env.sealed"
    ]
  },
  { ...Shared.inEnvironment, json: Shared.json, only: onlyKeys, file: fileArgument },
  Effect.fnUntraced(function* (options) {
    const only = yield* Effect.forEach([...new Set(options.only)], (key) => parseKey(key))
    const fs = yield* FileSystem.FileSystem
    const exists = yield* Effect.orElseSucceed(fs.exists(options.file), () => false)
    const current = exists ? yield* readSealed(options.file) : undefined
    const session = yield* Credential.open(options)
    const key = yield* keyFor(current, { ...options, offline: false }, Effect.succeed(session))
    const envId = yield* Effect.orDie(decodeEnvironmentId(key.environmentId))
    const client = yield* SealingKeys.sealed(session)
    const payload = only.length === 0 ? {} : { keys: only }
    const answer = yield* call(session, client.export({ path: { envId }, payload }))
    if (answer.keyId !== key.keyId) {
      const reason = "the environment's key was rotated at this moment: run the command again"
      return yield* new UnexpectedAnswer({ url: session.url, status: 200, reason })
    }
    const entries = new Map(Object.entries(answer.entries).filter(([name]) => name !== SealedEnv.manifestName))
    if (entries.size === 0) return yield* new CliFailure({ message: "The environment has no secrets." })
    const text =
      current === undefined
        ? SealedFile.print(key.environmentId, key.keyId, new Map(Object.entries(answer.entries)))
        : yield* withEntries(key, current, entries)
    yield* writeWhole(options.file, text, "the sealed file", { keepMode: true })
    if (options.json) return yield* json({ file: options.file, keyId: key.keyId, keys: [...entries.keys()] })
    const count = entries.size === 1 ? "1 value" : `${entries.size} values`
    yield* note(`${plain(options.file)}: ${count}, sealed with ${key.keyId}`)
  })
)

/** `ampoule unseal` and `reseal`, which need the private key on the server. */
import * as Options from "@effect/cli/Options"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as SealedEnv from "#src/sealed/SealedEnv.ts"
import * as Credential from "#src/cli/connection/Credential.ts"
import { writeWhole } from "#src/cli/terminal/Folders.ts"
import { printEntries } from "#src/cli/values/Formats.ts"
import { formats } from "#src/formats/FormatNames.ts"
import { selectEntries } from "#src/cli/values/Selection.ts"
import { fileArgument, openOnServer, readSealed } from "./Open.ts"
import * as Help from "#src/cli/help/Help.ts"
import * as Shared from "#src/cli/terminal/Options.ts"
import { json, note, plain, stdoutIsTerminal, value, warn } from "#src/cli/terminal/Output.ts"
import * as SealedFile from "./File.ts"
import * as SealingKeys from "./Keys.ts"

export const unseal = Help.command(
  "unseal",
  {
    says: "Open a sealed file on the server and print its values. An altered entry makes the whole file fail.",
    examples: ["ampoule unseal", "ampoule unseal --names alias", "ampoule unseal --format json config/.env.sealed"]
  },
  {
    ...Shared.inEnvironment,
    ...Shared.selection,
    format: Options.choice("format", formats).pipe(
      Options.withDefault("dotenv" as const),
      Options.withDescription("Format of the output")
    ),
    file: fileArgument
  },
  Effect.fnUntraced(function* (options) {
    const file = yield* readSealed(options.file)
    const session = yield* Credential.open(options)
    const { activeKey, values } = yield* openOnServer(session, file, options)
    const ordered = [...file.entries.keys()].filter((name) => Object.hasOwn(values, name))
    const entries = yield* selectEntries(
      ordered.map((key) => ({ key, value: values[key] ?? "" })),
      { ...options, aliases: file.aliases }
    )
    const text = yield* printEntries(options.format, entries, "--format")
    if (activeKey !== undefined)
      yield* warn(`sealed with an old key: \`ampoule reseal ${options.file}\` seals it with ${plain(activeKey.keyId)}.`)
    if (stdoutIsTerminal())
      yield* warn("the values are now on this terminal; `ampoule run --sealed` passes them on without showing them.")
    yield* value(text, { raw: false })
  })
)

export const reseal = Help.command(
  "reseal",
  {
    says: "Seal a file again with the active key of its environment, after the key was rotated.",
    examples: ["ampoule reseal", "ampoule reseal config/.env.sealed"]
  },
  {
    ...Shared.inEnvironment,
    json: Shared.json,
    force: Shared.flag("force", "Seal again even if the file has the active key already"),
    file: fileArgument
  },
  Effect.fnUntraced(function* (options) {
    const file = yield* readSealed(options.file)
    const session = yield* Credential.open(options)
    const { activeKey, envId, values } = yield* openOnServer(session, file, options)
    const summary = { file: options.file, before: file.keyId }
    if (activeKey === undefined && !options.force) {
      if (options.json) return yield* json({ ...summary, keyId: file.keyId, resealed: 0 })
      return yield* note(`${options.file} has the active key, ${file.keyId}.`)
    }
    const key = yield* SealingKeys.fetch(session, envId)
    const entries = yield* SealingKeys.sealAll(
      key,
      [...file.entries.keys()]
        .filter((name) => Object.hasOwn(values, name))
        .map((name) => [name, Redacted.make(values[name] ?? "")] as const),
      file.entries.has(SealedEnv.manifestName)
    )
    yield* writeWhole(options.file, SealedFile.print(envId, key.keyId, entries, file.aliases), "the sealed file", {
      keepMode: true
    })
    if (options.json) return yield* json({ ...summary, keyId: key.keyId, resealed: entries.size })
    yield* note(`${options.file}: ${entries.size} entries sealed with ${key.keyId} (before: ${file.keyId})`)
  })
)

/** `ampoule seal`: a `.env` file that can be committed. Sealing needs only the public key. */
import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as SealedEnv from "#src/sealed/SealedEnv.ts"
import * as Ask from "#src/cli/terminal/Ask.ts"
import * as Credential from "#src/cli/connection/Credential.ts"
import { CliFailure } from "#src/cli/terminal/Failure.ts"
import { writeWhole } from "#src/cli/terminal/Folders.ts"
import { codecs } from "#src/cli/values/Formats.ts"
import { readFormats } from "#src/formats/FormatNames.ts"
import * as Help from "#src/cli/help/Help.ts"
import { decodeEnvironmentId, defaultFile, faultLines, fileArgument, readSealed } from "./Open.ts"
import * as Shared from "#src/cli/terminal/Options.ts"
import { exitWith, json, note, out, plain } from "#src/cli/terminal/Output.ts"
import { parseKey } from "#src/cli/terminal/Keys.ts"
import { exportSealed } from "./Export.ts"
import { keyFor, maximumEntries } from "./FileKey.ts"
import { install, merge, resolve } from "./Git.ts"
import * as SealedFile from "./File.ts"
import * as SealingKeys from "./Keys.ts"
import { withKeys } from "#src/cli/values/FileNames.ts"
import * as ValueInput from "#src/cli/values/Input.ts"
import * as WriteRisks from "#src/cli/values/WriteRisks.ts"

const offline = Shared.flag("offline", "Use the public key of an earlier run, without the server")
const fileOption = Options.text("file").pipe(
  Options.withPseudoName("file"),
  Options.withDefault(defaultFile),
  Options.withDescription("Sealed file")
)
const tooMany = new CliFailure({ message: `A sealed file holds at most ${maximumEntries} values.` })

// --- seal ---

const set = Help.command(
  "set",
  {
    says: "Seal one value into the file, and change nothing else in it. Works offline after the key was fetched once.",
    examples: ["ampoule seal set STRIPE_KEY", "pbpaste | ampoule seal set STRIPE_KEY --file config/.env.sealed"]
  },
  {
    ...Shared.inEnvironment,
    offline,
    json: Shared.json,
    file: fileOption,
    valueFile: ValueInput.valueFile,
    allowEmpty: ValueInput.allowEmpty,
    key: Shared.argument("KEY", "Name of the variable"),
    more: ValueInput.more
  },
  Effect.fnUntraced(function* (options) {
    yield* ValueInput.refuseArgument(options)
    const name = yield* parseKey(options.key, true)
    const fs = yield* FileSystem.FileSystem
    const exists = yield* Effect.orElseSucceed(fs.exists(options.file), () => false)
    const current = exists ? yield* readSealed(options.file) : undefined
    const key = yield* keyFor(current, options)
    const text = yield* ValueInput.read(name, { ...options, keepNewline: false })
    yield* WriteRisks.warnOfRisks([{ key: name, value: text }], [])
    const one = yield* SealingKeys.sealAll(key, [[name, Redacted.make(text)]], false)
    const entry = one.get(name) ?? ""
    const start = current?.text ?? SealedFile.print(key.environmentId, key.keyId, new Map())
    let sealed = SealedFile.put(start, name, entry)
    const entries = new Map([...(current?.entries ?? []), [name, entry]])
    if (entries.size > maximumEntries + 1) return yield* tooMany
    if (entries.has(SealedEnv.manifestName)) {
      sealed = SealedFile.put(sealed, SealedEnv.manifestName, yield* SealingKeys.sealManifest(key, entries))
    }
    yield* writeWhole(options.file, sealed, "the sealed file", { keepMode: true })
    if (options.json) return yield* json({ file: options.file, keyId: key.keyId, key: name })
    yield* note(`${name}: sealed with ${key.keyId} in ${options.file}`)
  })
)

const manifest = Help.command(
  "manifest",
  {
    says: "Seal the list of a file's entries again, after a merge or after you removed a line.",
    more: ["Review the changes first: the new list confirms the entries that the file has now."],
    examples: ["ampoule seal manifest", "ampoule seal manifest --offline config/.env.sealed"]
  },
  {
    ...Shared.inEnvironment,
    offline,
    json: Shared.json,
    file: fileArgument
  },
  Effect.fnUntraced(function* (options) {
    const current = yield* readSealed(options.file)
    const key = yield* keyFor(current, options)
    const entries = new Map([...current.entries].filter(([name]) => name !== SealedEnv.manifestName))
    const sealed = yield* SealingKeys.sealManifest(key, entries)
    yield* writeWhole(options.file, SealedFile.put(current.text, SealedEnv.manifestName, sealed), "the sealed file", {
      keepMode: true
    })
    if (options.json) return yield* json({ file: options.file, keyId: key.keyId, entries: entries.size })
    yield* note(`${options.file}: the list of its ${entries.size} entries was sealed with ${key.keyId}`)
  })
)

const check = Help.command(
  "check",
  {
    says: "Check sealed files, for CI and pre-commit hooks. The exit code is 1 when a value is not sealed, or sealed with an old key.",
    examples: ["ampoule seal check", "ampoule seal check --offline config/*.env.sealed"]
  },
  {
    ...Shared.connection,
    json: Shared.json,
    offline: Shared.flag(
      "offline",
      "Only check the files, without asking the server whether their key is still active"
    ),
    files: Args.text({ name: "FILE" }).pipe(
      Args.withDescription(`Files to check (default: ${defaultFile})`),
      Args.repeated
    )
  },
  Effect.fnUntraced(function* (options) {
    const files = options.files.length === 0 ? [defaultFile] : options.files
    const problems: Array<{ readonly file: string; readonly line: number; readonly reason: string }> = []
    const session = options.offline ? Option.none() : Option.some(yield* Credential.open(options))
    for (const file of files) {
      const parsed = SealedFile.read(yield* Ask.fileText(file))
      if (Either.isLeft(parsed)) {
        for (const fault of parsed.left) problems.push({ file, ...fault })
        continue
      }
      const environment = Option.flatMap(Option.fromNullable(parsed.right.environmentId), decodeEnvironmentId)
      if (Option.isNone(environment)) {
        problems.push({ file, line: 0, reason: "the header names no environment" })
      } else if (Option.isSome(session)) {
        const key = yield* SealingKeys.fetch(session.value, environment.value)
        if (key.keyId !== parsed.right.keyId) {
          problems.push({ file, line: 0, reason: `sealed with ${parsed.right.keyId}; the active key is ${key.keyId}` })
        }
      }
    }
    if (problems.length > 0) yield* exitWith(1)
    if (options.json) return yield* json(problems)
    for (const { file, ...fault } of problems) for (const line of faultLines(file, [fault])) yield* out(`${line}\n`)
    if (problems.length === 0) yield* note(`${files.length === 1 ? files[0] : `${files.length} files`}: sealed`)
  })
)

const sealFile = Help.command(
  "file",
  {
    says: "Seal a plain .env file, and print the result. Needs only the public key.",
    more: ["Anyone with the public key can seal a new value. Review changes of the file as you review code."],
    examples: [
      "ampoule seal .env > .env.sealed",
      "ampoule seal --upper-case appsettings.env > .env.sealed",
      "ampoule seal --manifest --project shop --env production .env > .env.sealed"
    ]
  },
  {
    ...Shared.inEnvironment,
    offline,
    format: Options.choice("format", readFormats).pipe(
      Options.withDescription("Format of the plain file (default: detected from its name and content)"),
      Options.optional
    ),
    upperCase: Shared.flag(
      "upper-case",
      "Seal names like db-url as DB_URL; `run --sealed --names alias` gives them back"
    ),
    manifest: Shared.flag(
      "manifest",
      "Also seal the list of entries: opening the file then notices a missing or an older entry"
    ),
    file: Shared.argument("FILE", "Plain file to seal; - is standard input")
  },
  Effect.fnUntraced(function* (options) {
    const { detect, parse } = yield* codecs
    const text = yield* Ask.input(options.file)
    const format = Option.getOrElse(options.format, () => detect(options.file, text))
    const parsed = parse(format, text)
    const source = options.file === Ask.standardInputName ? "Standard input" : plain(options.file)
    if (Either.isLeft(parsed)) {
      return yield* new CliFailure({ message: `${source} as ${format}: ${parsed.left.message}.` })
    }
    if (parsed.right.length === 0) return yield* new CliFailure({ message: `${source} has no entries.` })
    if (parsed.right.length > maximumEntries) return yield* tooMany
    const named = options.upperCase ? yield* withKeys(parsed.right) : parsed.right
    for (const { key } of named) yield* parseKey(key)
    yield* WriteRisks.warnOfRisks(named, [])
    const key = yield* SealingKeys.active(options)
    const entries = yield* SealingKeys.sealAll(
      key,
      named.map((entry) => [entry.key, Redacted.make(entry.value)] as const),
      options.manifest
    )
    const aliases = new Map(
      named.flatMap(({ alias, key }) => (SealedFile.isAlias(alias) ? [[key, alias] as const] : []))
    )
    yield* out(SealedFile.print(key.environmentId, key.keyId, entries, aliases))
  })
)

const commands = [sealFile, exportSealed, set, manifest, check, merge, resolve, install] as const
export const seal = Help.described(
  Command.make("seal").pipe(Command.withSubcommands(commands)),
  {
    says: "Seal values into a .env file that can be committed: `seal FILE`, `seal set KEY`, `seal check`.",
    examples: ["ampoule seal .env > .env.sealed", "ampoule seal set STRIPE_KEY", "ampoule seal check"]
  },
  commands,
  true
)

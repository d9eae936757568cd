/** `ampoule seal`, `unseal` and `reseal`: a `.env` file that can be committed. Sealing needs the public key alone. */
import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { EnvironmentId } from "#schema/Ids.ts"
import { SealingKeyId } from "#schema/Values.ts"
import * as SealedEnv from "#src/sealed/SealedEnv.ts"
import * as Ask from "./Ask.ts"
import * as Capabilities from "./Capabilities.ts"
import { call, type Connection } from "./Client.ts"
import * as Credential from "./Credential.ts"
import { CliFailure, usage } from "./Failure.ts"
import { readNamed, writeWhole } from "./Folders.ts"
import * as Help from "./Help.ts"
import { codecs, formats, readFormats } from "./Formats.ts"
import * as Shared from "./Options.ts"
import { json, note, out, plain, stdinIsTerminal, stdoutIsTerminal, value, warn } from "./Output.ts"
import { parseKey } from "./Reach.ts"
import * as SealedFile from "./SealedFile.ts"
import * as SealingKeys from "./SealingKeys.ts"
import * as Target from "./Target.ts"

const defaultFile = ".env.sealed"
const mostEntries = 500

const offline = Options.boolean("offline").pipe(
  Options.withDescription("Use the public key that was fetched last, without asking the server")
)
const fileOption = Options.text("file").pipe(
  Options.withPseudoName("file"),
  Options.withDefault(defaultFile),
  Options.withDescription("The sealed file")
)
const fileArgument = Args.text({ name: "FILE" }).pipe(
  Args.withDescription(`The sealed file; else ${defaultFile}`),
  Args.withDefault(defaultFile)
)

const readText = Effect.fnUntraced(function* (file: string) {
  const bytes = yield* readNamed(file)
  return yield* Ask.text(bytes, file)
})

const faultLines = (file: string, faults: ReadonlyArray<SealedFile.Fault>): ReadonlyArray<string> =>
  faults.map(({ line, reason }) => `${file}${line === 0 ? "" : `:${line}`}: ${plain(reason)}`)

export const readSealed = Effect.fnUntraced(function* (file: string) {
  const text = yield* readText(file)
  const read = SealedFile.read(text)
  if (Either.isRight(read)) return { text, ...read.right }
  return yield* new CliFailure({
    message: `${file} is not a sealed file.`,
    hint: faultLines(file, read.left).slice(0, 10).join("\n  ")
  })
})

const decodeId = Schema.decodeUnknownOption(EnvironmentId)
const decodeKeyId = Schema.decodeUnknownOption(SealingKeyId)

/** Of the header, else of the options. */
const environmentOf = Effect.fnUntraced(function* (
  session: Connection,
  file: SealedFile.SealedFile,
  options: Target.TargetOptions
) {
  const named = Option.flatMap(Option.fromNullable(file.environmentId), decodeId)
  if (Option.isSome(named)) return named.value
  return yield* SealingKeys.environmentId(session, yield* Target.target(options))
})

/** Opens a file on the server: all of it or nothing. */
export const openOnServer = Effect.fnUntraced(function* (
  session: Connection,
  file: SealedFile.SealedFile,
  options: Target.TargetOptions
) {
  yield* Capabilities.need(session, "sealedValues")
  const envId = yield* environmentOf(session, file, options)
  const keyId = decodeKeyId(file.keyId)
  if (Option.isNone(keyId)) return yield* new CliFailure({ message: "The file names no sealing key." })
  const client = yield* SealingKeys.sealed(session)
  const opened = yield* call(
    session,
    client.open({ path: { envId }, payload: { keyId: keyId.value, entries: Object.fromEntries(file.entries) } })
  )
  return { envId, ...opened }
})

const sealAll = Effect.fnUntraced(
  function* (
    key: SealingKeys.Key,
    values: ReadonlyArray<readonly [name: string, value: Redacted.Redacted]>,
    withManifest: boolean
  ) {
    const to = yield* SealingKeys.recipient(key)
    const entries = new Map<string, string>()
    for (const [name, value] of values) entries.set(name, yield* SealedEnv.sealEntry(to, name, value))
    if (withManifest) entries.set(SealedEnv.manifestName, yield* SealedEnv.sealManifest(to, entries))
    return entries
  },
  Effect.catchTag("SealingKeyInvalid", () => new CliFailure({ message: "The server's sealing key is not a key." }))
)

const tooMany = new CliFailure({ message: `A sealed file holds at most ${mostEntries} values.` })

// --- seal ---

const set = Command.make(
  "set",
  {
    ...Shared.connection,
    ...Shared.target,
    offline,
    file: fileOption,
    valueFile: Options.text("value-from-file").pipe(
      Options.withPseudoName("file"),
      Options.withDescription("Take the value from a file, exactly as it is"),
      Options.optional
    ),
    key: Args.text({ name: "KEY" }).pipe(Args.withDescription("Name of the variable")),
    more: Args.text({ name: Help.notAnArgument }).pipe(Args.repeated)
  },
  (options) =>
    Effect.gen(function* () {
      if (options.more.length > 0 || options.key.includes("=")) {
        return yield* usage(
          "The value is not taken from the command line: other users and the shell's history can see it there.",
          "Type it when asked, pipe it in, or say --value-from-file. A value given this way should be replaced."
        )
      }
      const name = yield* parseKey(options.key)
      const fs = yield* FileSystem.FileSystem
      const exists = yield* Effect.orElseSucceed(fs.exists(options.file), () => false)
      const current = exists ? yield* readSealed(options.file) : undefined
      const environment = Option.flatMap(Option.fromNullable(current?.environmentId), decodeId)
      const key = yield* Option.match(environment, {
        onNone: () => SealingKeys.active(options, options.offline),
        onSome: (id) => SealingKeys.ofFile(options, id, options.offline)
      })
      if (current !== undefined && current.keyId !== key.keyId) {
        return yield* new CliFailure({
          message: `${options.file} is sealed with ${current.keyId}; the active key is ${key.keyId}.`,
          hint: `\`ampoule reseal ${options.file}\` brings it to the active key.`
        })
      }
      const value = Option.isSome(options.valueFile)
        ? Redacted.make(yield* readText(options.valueFile.value))
        : stdinIsTerminal()
          ? yield* Ask.hidden(`Value of ${name} (not shown): `)
          : Redacted.make(Ask.withoutFinalNewline(yield* Ask.standardInput))
      const one = yield* sealAll(key, [[name, value]], false)
      const entry = one.get(name) ?? ""
      const start = current?.text ?? SealedFile.print(key.environmentId, key.keyId, new Map())
      let text = SealedFile.put(start, name, entry)
      const entries = new Map([...(current?.entries ?? []), [name, entry]])
      if (entries.size > mostEntries + 1) return yield* tooMany
      if (entries.has(SealedEnv.manifestName)) {
        const to = yield* SealingKeys.recipient(key)
        const manifest = yield* SealedEnv.sealManifest(to, entries).pipe(
          Effect.mapError(() => new CliFailure({ message: "The sealing key is not a key." }))
        )
        text = SealedFile.put(text, SealedEnv.manifestName, manifest)
      }
      yield* writeWhole(options.file, text, "the sealed file", { keepMode: true })
      yield* note(`${name}: sealed with ${key.keyId} in ${options.file}`)
    })
).pipe(
  Command.withDescription(
    Shared.describe(
      "Seal one value into the file; nothing else in it changes. Works offline once the key was fetched.",
      {
        examples: ["ampoule seal set STRIPE_KEY", "pbpaste | ampoule seal set STRIPE_KEY --file config/.env.sealed"]
      }
    )
  )
)

const manifest = Command.make(
  "manifest",
  {
    ...Shared.connection,
    ...Shared.target,
    offline,
    file: fileArgument
  },
  (options) =>
    Effect.gen(function* () {
      const current = yield* readSealed(options.file)
      const environment = Option.flatMap(Option.fromNullable(current.environmentId), decodeId)
      const key = yield* Option.match(environment, {
        onNone: () => SealingKeys.active(options, options.offline),
        onSome: (id) => SealingKeys.ofFile(options, id, options.offline)
      })
      if (current.keyId !== key.keyId) {
        return yield* new CliFailure({
          message: `${options.file} is sealed with ${current.keyId}; the active key is ${key.keyId}.`,
          hint: `\`ampoule reseal ${options.file}\` brings it to the active key.`
        })
      }
      const to = yield* SealingKeys.recipient(key)
      const entries = new Map([...current.entries].filter(([name]) => name !== SealedEnv.manifestName))
      const sealed = yield* SealedEnv.sealManifest(to, entries).pipe(
        Effect.mapError(() => new CliFailure({ message: "The sealing key is not a key." }))
      )
      yield* writeWhole(options.file, SealedFile.put(current.text, SealedEnv.manifestName, sealed), "the sealed file", {
        keepMode: true
      })
      yield* note(`${options.file}: the list of its ${entries.size} entries is sealed with ${key.keyId}`)
    })
).pipe(
  Command.withDescription(
    Shared.describe(
      "Seal the list of a file's entries, or seal it again: after a merge, or a line taken out by hand.",
      {
        more: ["Look at what changed first: from then on the entries that are there are the ones that are meant."],
        examples: ["ampoule seal manifest", "ampoule seal manifest --offline config/.env.sealed"]
      }
    )
  )
)

const check = Command.make(
  "check",
  {
    ...Shared.connection,
    json: Shared.json,
    offline: Options.boolean("offline").pipe(
      Options.withDescription("Look at the files alone; do not ask whether their key is still the active one")
    ),
    files: Args.text({ name: "FILE" }).pipe(Args.withDescription(`Files to check; else ${defaultFile}`), Args.repeated)
  },
  (options) =>
    Effect.gen(function* () {
      const files = options.files.length === 0 ? [defaultFile] : options.files
      const problems: Array<{ readonly file: string; readonly line: number; readonly reason: string }> = []
      const session = options.offline ? Option.none() : Option.some(yield* Credential.open(options))
      for (const file of files) {
        const read = SealedFile.read(yield* readText(file))
        if (Either.isLeft(read)) {
          problems.push(...read.left.map((fault) => ({ file, ...fault })))
          continue
        }
        const environment = Option.flatMap(Option.fromNullable(read.right.environmentId), decodeId)
        if (Option.isNone(environment)) {
          problems.push({ file, line: 0, reason: "the header names no environment" })
        } else if (Option.isSome(session)) {
          const key = yield* SealingKeys.fetch(session.value, environment.value)
          if (key.keyId !== read.right.keyId) {
            problems.push({ file, line: 0, reason: `sealed with ${read.right.keyId}; the active key is ${key.keyId}` })
          }
        }
      }
      if (problems.length > 0) {
        yield* Effect.sync(() => {
          process.exitCode = 1
        })
      }
      if (options.json) return yield* json(problems)
      for (const { file, ...fault } of problems) for (const line of faultLines(file, [fault])) yield* out(`${line}\n`)
      if (problems.length === 0) yield* note(`${files.length === 1 ? files[0] : `${files.length} files`}: sealed`)
    })
).pipe(
  Command.withDescription(
    Shared.describe("For CI and pre-commit hooks: ends with 1 when a value is not sealed, or sealed with an old key.", {
      examples: ["ampoule seal check", "ampoule seal check --offline config/*.env.sealed"]
    })
  )
)

const sealFile = Command.make(
  "file",
  {
    ...Shared.connection,
    ...Shared.target,
    offline,
    format: Options.choice("format", readFormats).pipe(
      Options.withDescription("Of the plain file; else told from its name and content"),
      Options.optional
    ),
    manifest: Options.boolean("manifest").pipe(
      Options.withDescription(
        "Also seal the list of entries: a dropped or an older one is noticed when the file is opened"
      )
    ),
    file: Args.text({ name: "FILE" }).pipe(Args.withDescription("Plain file to seal; - is standard input"))
  },
  (options) =>
    Effect.gen(function* () {
      const { detect, parse } = yield* codecs
      const text = options.file === Ask.standardInputName ? yield* Ask.standardInput : yield* readText(options.file)
      const format = Option.getOrElse(options.format, () => detect(options.file, text))
      const parsed = parse(format, text)
      const named = options.file === Ask.standardInputName ? "Standard input" : plain(options.file)
      if (Either.isLeft(parsed)) {
        return yield* new CliFailure({ message: `${named} as ${format}: ${parsed.left.message}.` })
      }
      if (parsed.right.length === 0) return yield* new CliFailure({ message: `${named} holds no entries.` })
      if (parsed.right.length > mostEntries) return yield* tooMany
      for (const { key } of parsed.right) yield* parseKey(key)
      const key = yield* SealingKeys.active(options, options.offline)
      const entries = yield* sealAll(
        key,
        parsed.right.map((entry) => [entry.key, Redacted.make(entry.value)] as const),
        options.manifest
      )
      yield* out(SealedFile.print(key.environmentId, key.keyId, entries))
    })
).pipe(
  Command.withDescription(
    Shared.describe("Seal a plain .env file: the sealed one goes to standard output. Needs the public key alone.", {
      more: [
        "Not protected against: anyone who has the public key can seal a new value. Review changes of the file as you review code."
      ],
      examples: [
        "ampoule seal .env > .env.sealed",
        "ampoule seal --manifest --project shop --env production .env > .env.sealed"
      ]
    })
  )
)

export const seal = Command.make("seal").pipe(
  Command.withDescription(
    Shared.describe("Seal values into a .env file that can be committed: `seal FILE`, `seal set KEY`, `seal check`.", {
      examples: ["ampoule seal .env > .env.sealed", "ampoule seal set STRIPE_KEY", "ampoule seal check"]
    })
  ),
  Command.withSubcommands([sealFile, set, manifest, check])
)
export const sealHelp = Help.group(seal, Help.node(sealFile), Help.node(set), Help.node(manifest), Help.node(check))
export const sealWords: ReadonlyArray<string> = ["file", "set", "manifest", "check"]

// --- unseal, reseal ---

export const unseal = Command.make(
  "unseal",
  {
    ...Shared.connection,
    ...Shared.target,
    format: Options.choice("format", formats).pipe(
      Options.withDefault("dotenv" as const),
      Options.withDescription("Of the text on standard output")
    ),
    file: fileArgument
  },
  (options) =>
    Effect.gen(function* () {
      const file = yield* readSealed(options.file)
      const session = yield* Credential.open(options)
      const { activeKey, values } = yield* openOnServer(session, file, options)
      const ordered = [...file.entries.keys()].filter((name) => Object.hasOwn(values, name))
      const printed = (yield* codecs).print(
        options.format,
        ordered.map((key) => ({ key, value: values[key] ?? "" }))
      )
      if (Either.isLeft(printed)) {
        return yield* new CliFailure({
          message: `${options.format} cannot carry ${printed.left.message}.`,
          hint: "Choose another --format."
        })
      }
      if (activeKey !== undefined)
        yield* warn(
          `sealed with an old key: \`ampoule reseal ${options.file}\` brings it to ${plain(activeKey.keyId)}.`
        )
      if (stdoutIsTerminal())
        yield* warn("the values stand on this terminal now; `ampoule run --sealed` passes them on unseen.")
      yield* value(printed.right, { raw: false })
    })
).pipe(
  Command.withDescription(
    Shared.describe(
      "Open a sealed file on the server and print its values. Refused as a whole if any entry was altered.",
      {
        examples: ["ampoule unseal", "ampoule unseal --format json config/.env.sealed"]
      }
    )
  )
)

export const reseal = Command.make(
  "reseal",
  {
    ...Shared.connection,
    ...Shared.target,
    force: Options.boolean("force").pipe(Options.withDescription("Also when the file has the active key already")),
    file: fileArgument
  },
  (options) =>
    Effect.gen(function* () {
      const file = yield* readSealed(options.file)
      const session = yield* Credential.open(options)
      const { activeKey, envId, values } = yield* openOnServer(session, file, options)
      if (activeKey === undefined && !options.force)
        return yield* note(`${options.file} has the active key, ${file.keyId}.`)
      const key = yield* SealingKeys.fetch(session, envId)
      const entries = yield* sealAll(
        key,
        [...file.entries.keys()]
          .filter((name) => Object.hasOwn(values, name))
          .map((name) => [name, Redacted.make(values[name] ?? "")] as const),
        file.entries.has(SealedEnv.manifestName)
      )
      yield* writeWhole(options.file, SealedFile.print(envId, key.keyId, entries), "the sealed file", {
        keepMode: true
      })
      yield* note(`${options.file}: ${entries.size} entries sealed with ${key.keyId} (before: ${file.keyId})`)
    })
).pipe(
  Command.withDescription(
    Shared.describe("Seal a file again with the active key of its environment, after the key was rotated.", {
      examples: ["ampoule reseal", "ampoule reseal config/.env.sealed"]
    })
  )
)

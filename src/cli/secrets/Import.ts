/** `ampoule secrets import`: files of other programs, read, shown by name, and written. */
import type * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import type { ParsedEntry, ParseFailure } from "#src/formats/Entry.ts"
import { type Meaning, meaningOf } from "#src/formats/Meaning.ts"
import { preview } from "#src/formats/Preview.ts"
import * as Ask from "#src/cli/terminal/Ask.ts"
import { refuseTooLong, writeAll } from "./BulkWrites.ts"
import { CliFailure, orRemedy, usage } from "#src/cli/terminal/Failure.ts"
import { codecs } from "#src/cli/values/Formats.ts"
import { readFormats } from "#src/formats/FormatNames.ts"
import * as Help from "#src/cli/help/Help.ts"
import { inPlan, refusal, remarks, remarksForPrograms } from "#src/formats/ImportPlan.ts"
import { writeNotes } from "./ImportNotes.ts"
import { withKeys } from "#src/cli/values/FileNames.ts"
import * as Shared from "#src/cli/terminal/Options.ts"
import { json, note, plain, showPlan, stdinIsTerminal } from "#src/cli/terminal/Output.ts"
import { at as within, listAll, open as openEnvironment } from "#src/cli/connection/Reach.ts"
import * as WriteRisks from "#src/cli/values/WriteRisks.ts"

/** Of an environment (docs/contract/limits.md): the server refuses more, but only the requests beyond it. */
const mostSecrets = 5_000
const tooMany = (there: number, more: number) =>
  new CliFailure({
    message: `An environment holds at most ${mostSecrets} secrets: ${there === 0 ? "" : `it has ${there}, `}${more} would come.`,
    hint: "Nothing was written. Spread them over several environments or projects."
  })

/** Names outside the key grammar, and values that are too long, by their lines. */
export const refuseInvalid = Effect.fnUntraced(function* (entries: ReadonlyArray<ParsedEntry>) {
  const { invalidKeys } = preview(entries, new Set())
  if (invalidKeys.length > 0) {
    const where = invalidKeys.slice(0, 5).map(({ line, name }) => `line ${line}: ${plain(name.slice(0, 60))}`)
    return yield* new CliFailure({
      message: `${invalidKeys.length === 1 ? "A name is" : `${invalidKeys.length} names are`} no secret key. ${where.join("; ")}.`,
      hint: "Keys are A-Z, 0-9 and _, starting with a letter. Rename them in the file, or say --upper-case."
    })
  }
  return yield* refuseTooLong(
    entries.map((entry) => ({ key: entry.key, value: entry.value, line: entry.line, references: [] }))
  )
})

const importOptions = {
  ...Shared.inEnvironment,
  yes: Shared.yes,
  json: Shared.json,
  format: Options.choice("format", readFormats).pipe(
    Options.withDescription("Format of the file; else recognised by its name and content"),
    Options.optional
  ),
  upperCase: Shared.flag("upper-case", "Write names like db-url as DB_URL"),
  literal: Shared.flag("literal", "Take ${KEY} as text, not as a reference"),
  bareReferences: Shared.flag(
    "bare-references",
    "Take $KEY as a reference too, where the file or the environment has KEY"
  ),
  flatten: Options.optional(
    Shared.text("flatten", "divider", "Join the names of nested JSON, YAML and TOML with this: __ makes db.url db__url")
  ),
  lastWins: Shared.flag("last-wins", "Of a key that the file has several times, take the last entry"),
  allow: Shared.allow,
  dryRun: Shared.flag("dry-run", "Show what would be done, and stop"),
  file: Shared.argument("FILE", "File to read; - is standard input")
} as const
const asText = "Where the value is text: single quotes in a .env file, or --literal for the whole file."
const remedies = new Map([
  ["TEMPLATE_REFERENCE_MISSING", asText],
  ["TEMPLATE_INVALID", asText]
])

type ImportOptions = Command.Command.ParseConfig<typeof importOptions>

const notRead = (name: string, format: string, options: ImportOptions, failure: ParseFailure) => {
  const isNamed = Option.isSome(options.format)
  const remedies = {
    "last-wins": "To take the last entry of a key: --last-wins.",
    flatten: "To make keys of nested names: --flatten __."
  }
  const hint = [
    ...(failure.remedy === undefined ? [] : [remedies[failure.remedy]]),
    ...(isNamed ? [] : [`--format says which format it is, if it is not ${format}.`])
  ]
  return new CliFailure({
    message: `${name} as ${format}: ${failure.message}.`,
    ...(hint.length === 0 ? {} : { hint: hint.join(" ") })
  })
}

const readFile = Effect.fnUntraced(function* (options: ImportOptions) {
  const { detect, read } = yield* codecs
  if (options.file === Ask.standardInputName && stdinIsTerminal()) {
    return yield* usage("Nothing is piped in.", "Name a file, or pipe one in.")
  }
  const text = yield* Ask.input(options.file)
  const format = Option.getOrElse(options.format, () => detect(options.file, text))
  const name = options.file === Ask.standardInputName ? "standard input" : plain(options.file)
  const parsed = read(format, text, {
    lastWins: options.lastWins,
    ...Option.match(options.flatten, { onNone: () => ({}), onSome: (flatten) => ({ flatten }) })
  })
  if (Either.isLeft(parsed)) return yield* notRead(name, format, options, parsed.left)
  const { entries, leftOut, origin } = parsed.right
  if (entries.length === 0) return yield* new CliFailure({ message: `${name} holds no entries.` })
  if (entries.length > mostSecrets) yield* tooMany(0, entries.length)
  const renamed = options.upperCase ? yield* withKeys(entries) : entries
  yield* refuseInvalid(renamed)
  const readAs = origin === undefined ? format : `${format} of \`${origin}\``
  if (!options.json)
    yield* note(`${name}: ${readAs}, ${entries.length === 1 ? "1 entry" : `${entries.length} entries`}`)
  if (!options.json && leftOut.length > 0)
    yield* note(`Left out, as ${readAs} adds them by itself: ${leftOut.join(", ")}.`)
  return { entries: renamed, format, leftOut, origin }
})

const sayPlan = Effect.fnUntraced(function* (
  meanings: ReadonlyArray<Meaning>,
  { create, update }: { readonly create: ReadonlyArray<string>; readonly update: ReadonlyArray<string> },
  environment: string
) {
  yield* showPlan("+", inPlan(meanings, create))
  yield* showPlan("~", inPlan(meanings, update))
  yield* note(
    `${create.length} new, ${update.length} there already (unchanged ones stay as they are), in ${environment}`
  )
  for (const remark of remarks(meanings)) yield* note(remark)
})

export const importFile = Effect.fnUntraced(function* (options: ImportOptions) {
  const opened = yield* openEnvironment(options)
  const { entries, format, leftOut, origin } = yield* readFile(options)
  yield* within(
    opened,
    Effect.fnUntraced(function* ({ session, ...location }) {
      const existing = yield* listAll(session, location)
      const existingKeys = new Set(existing.map((item) => item.key))
      const bareKeys = new Set([...existingKeys, ...entries.map(({ key }) => key)])
      const meanings = entries.map((entry) =>
        meaningOf(entry, { format, literal: options.literal, ...(options.bareReferences ? { bareKeys } : {}) })
      )
      const { create, update } = preview(entries, existingKeys)
      if (existing.length + create.length > mostSecrets) {
        yield* tooMany(existing.length, create.length)
      }
      if (!options.json) yield* sayPlan(meanings, { create, update }, location.environment)
      const refused = refusal(meanings, existing, location.environment)
      if (refused !== undefined) return yield* new CliFailure(refused)
      const dangerous = yield* WriteRisks.warnOfRisks(meanings, options.allow)
      if (options.dryRun) {
        const plan = { format, origin, create, update, dangerous, leftOut, ...remarksForPrograms(meanings) }
        return options.json ? yield* json(plan) : undefined
      }
      yield* WriteRisks.refuseUnasked(dangerous, !options.yes && stdinIsTerminal())
      if (!options.yes && !(yield* Ask.confirm(`Write ${meanings.length} to ${location.environment}?`))) {
        return yield* new CliFailure({ message: "Nothing was written." })
      }
      const totals = yield* orRemedy(remedies)(writeAll(session, location, meanings))
      const notes = yield* writeNotes(session, location, meanings)
      if (options.json) return yield* json(totals)
      yield* note(`${totals.created} created, ${totals.updated} updated, ${totals.unchanged} unchanged`)
      if (notes > 0)
        yield* note(
          `${notes} ${notes === 1 ? "secret has" : "secrets have"} a name or note of the file now (\`ampoule secrets notes\`)`
        )
    })
  )
})

export const importCommand = Help.command(
  "import",
  {
    says: "Write the entries of a file: dotenv, JSON, YAML, TOML, CSV, shell files, docker env-file, and what other secret managers print.",
    more: [
      "Shows the keys and asks first. Up to 1000 entries are written together or not at all; more go in several steps. What the server would refuse is found before anything is written.",
      "In a .env file ${KEY} is a reference to another secret. In single quotes, or with a backslash in front ('${KEY}', \"\\${KEY}\"), it is text. Text that only looks like a reference ($KEY, ${KEY:-x}, $(command)) is named and stays text.",
      "Keys that are known to change which code runs (PATH, NODE_OPTIONS, ...) are pointed out; with --yes they need --allow. The list of such keys cannot be complete.",
      "Also reads what these print: doppler secrets, infisical export (comments become notes), vault kv get, aws secretsmanager and ssm, gcloud secrets, az keyvault secret show, kubectl get secret and configmap (JSON or YAML), op item get, vercel env, netlify env:list, terraform output. Encrypted files (dotenvx, SOPS) are refused: decrypt them on the way in."
    ],
    examples: [
      "ampoule secrets import .env --project shop --env development",
      "ampoule secrets import .env --dry-run --json",
      "doppler secrets --json | ampoule secrets import - --yes",
      "infisical export --format=json | ampoule secrets import - --yes",
      "vault kv get -format=json secret/shop | ampoule secrets import - --upper-case --yes",
      "kubectl get secret shop -o yaml | ampoule secrets import - --upper-case",
      "ampoule secrets import appsettings.json --flatten __ --upper-case",
      "ampoule secrets import secrets.toml --flatten __ --upper-case",
      "dotenvx decrypt --stdout | ampoule secrets import - --yes",
      "ampoule secrets import backup.yaml --dry-run"
    ]
  },
  importOptions,
  importFile
)

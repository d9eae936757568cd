/** `ampoule secrets import` and `export`: files of other programs, in and out. */
import type * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { ParsedEntry } from "#src/formats/Entry.ts"
import { preview } from "#src/formats/Preview.ts"
import { BulkEntry } from "#schema/SecretRequests.ts"
import * as Ask from "#src/cli/terminal/Ask.ts"
import type { Connection } from "#src/cli/connection/Client.ts"
import { requireWritten } from "./Changes.ts"
import { CliFailure, usage } from "#src/cli/terminal/Failure.ts"
import { inject } from "#src/cli/values/EnvironmentSource.ts"
import { codecs, formats, printValues, readFormats } from "#src/cli/values/Formats.ts"
import * as Help from "#src/cli/help/Help.ts"
import * as Shared from "#src/cli/terminal/Options.ts"
import {
  json,
  note,
  plain,
  showPlan,
  progress,
  progressDone,
  stdinIsTerminal,
  stdoutIsTerminal,
  value,
  warn
} from "#src/cli/terminal/Output.ts"
import { listAll, type Location, withKeyOfEntry, onEnvironment, within } from "#src/cli/connection/Reach.ts"
import { secrets as secretsClient } from "#src/cli/connection/Routes.ts"
import { selectValues } from "#src/cli/values/Selection.ts"
import * as Target from "#src/cli/connection/Target.ts"
import * as WriteRisks from "#src/cli/values/WriteRisks.ts"

// --- export ---

export const exportCommand = Help.command(
  "export",
  {
    says: "Print an environment with its values, in a format that other programs read.",
    more: ["A format that cannot carry a value refuses and names its key; nothing is printed then."],
    examples: [
      "ampoule secrets export --format json --project shop --env development",
      "ampoule secrets export --only 'PUBLIC_*' --names camel --format json",
      "docker run --env-file <(ampoule secrets export --format docker) image",
      'eval "$(ampoule secrets export --format shell)"'
    ]
  },
  {
    ...Shared.inEnvironment,
    ...Shared.selection,
    format: Options.choice("format", formats).pipe(
      Options.withDescription("Format of the output"),
      Options.withDefault("dotenv" as const)
    ),
    source: Shared.flag("source", "The texts as written, references not expanded")
  },
  onEnvironment(
    Effect.fnUntraced(function* ({ environment, projectId, session }, options) {
      const representation = options.source ? "source" : "materialized"
      const resolved = yield* inject(session, { projectId, environment, representation })
      const all = Option.match(resolved, { onNone: () => ({}), onSome: (found) => found.values })
      const values = yield* selectValues(all, options)
      const text = yield* printValues(options.format, values, "--format")
      if (stdoutIsTerminal()) yield* warn("the values are on this terminal now; `ampoule run` passes them on unseen.")
      yield* value(text, { raw: false })
    })
  )
)

// --- import ---

/** Of an environment (docs/contract/limits.md): the server refuses more, but only the requests beyond it. */
const mostSecrets = 5_000
const tooMany = (there: number, more: number) =>
  new CliFailure({
    message: `An environment holds at most ${mostSecrets} secrets: ${there === 0 ? "" : `${there} are there, `}${more} would come.`,
    hint: "Nothing was written. Spread them over several environments or projects."
  })
const entriesOfOneRequest = 100
const bytesOfOneRequest = 24 * 1024 * 1024

/** What the server takes for a reference or for the escape of one (docs/contract/secrets.md, "Kind"). */
const reference = /\$\{([A-Z][A-Z0-9_]{0,254})\}/g
export const isTemplate = (value: string): boolean => /\$\{[A-Z][A-Z0-9_]{0,254}\}|\$\$\{/.test(value)

/** A template that means this very text. Values that the server keeps as they are stay as they are. */
export const literally = (value: string): string => (isTemplate(value) ? value.split("${").join("$${") : value)

/** What is referred to comes first: each request is checked by itself against what is there by then. */
export const inOrderOfReference = (entries: ReadonlyArray<ParsedEntry>): ReadonlyArray<ParsedEntry> => {
  const byKey = new Map(entries.map((entry) => [entry.key, entry]))
  const done = new Set<string>()
  const ordered: Array<ParsedEntry> = []
  const pending: Array<{ readonly entry: ParsedEntry; readonly uses: Array<string> }> = []
  const enter = (entry: ParsedEntry) => {
    done.add(entry.key)
    pending.push({ entry, uses: [...entry.value.matchAll(reference)].map((match) => match[1] ?? "") })
  }
  for (const entry of entries) {
    if (!done.has(entry.key)) enter(entry)
    for (let top = pending.at(-1); top !== undefined; top = pending.at(-1)) {
      const next = byKey.get(top.uses.pop() ?? "")
      if (next !== undefined && !done.has(next.key)) enter(next)
      else if (top.uses.length === 0) {
        ordered.push(top.entry)
        pending.pop()
      }
    }
  }
  return ordered
}

/** At most 100 entries and well under the size limit of a request, each. */
export const inRequests = (entries: ReadonlyArray<ParsedEntry>): ReadonlyArray<ReadonlyArray<ParsedEntry>> => {
  const requests: Array<Array<ParsedEntry>> = []
  let size = 0
  for (const entry of entries) {
    const bytes = Buffer.byteLength(JSON.stringify(entry))
    const current = requests.at(-1)
    if (current === undefined || current.length >= entriesOfOneRequest || size + bytes > bytesOfOneRequest) {
      requests.push([entry])
      size = bytes
    } else {
      current.push(entry)
      size += bytes
    }
  }
  return requests
}

/** `db-url`, `db.url` and `dbUrl` as DB_URL. */
const upperCase = (name: string): string =>
  name
    .replace(/([a-z0-9])([A-Z])/g, "$1_$2")
    .replace(/[^A-Za-z0-9]+/g, "_")
    .replace(/^_+|_+$/g, "")
    .toUpperCase()

const unlikeEachOther = Effect.fnUntraced(function* (
  entries: ReadonlyArray<ParsedEntry>,
  renamed: ReadonlyArray<ParsedEntry>
) {
  const first = new Map<string, number>()
  for (const [i, { key, line }] of renamed.entries()) {
    const other = first.get(key)
    if (other !== undefined) {
      return yield* new CliFailure({
        message: `line ${line}: ${plain(entries[i]?.key ?? "")} and ${plain(entries[other]?.key ?? "")} would both be ${plain(key)}.`,
        hint: "Rename one of them in the file, then try again."
      })
    }
    first.set(key, i)
  }
})

const decodeEntry = Schema.decodeUnknownOption(BulkEntry)

export const checked = Effect.fnUntraced(function* (entries: ReadonlyArray<ParsedEntry>) {
  const { invalidKeys } = preview(entries, new Set())
  const [bad] = invalidKeys
  if (bad !== undefined) {
    const where = invalidKeys.slice(0, 5).map(({ line, name }) => `line ${line}: ${plain(name.slice(0, 60))}`)
    return yield* new CliFailure({
      message: `${invalidKeys.length === 1 ? "A name is" : `${invalidKeys.length} names are`} no secret key. ${where.join("; ")}.`,
      hint: "Keys are A-Z, 0-9 and _, starting with a letter. Rename them in the file, or say --upper-case."
    })
  }
  const tooLong = entries.find(({ key, value }) => Option.isNone(decodeEntry({ key, value })))
  if (tooLong !== undefined) {
    return yield* new CliFailure({
      message: `line ${tooLong.line}: the value of ${tooLong.key} has more than 65536 characters.`
    })
  }
  return yield* Effect.forEach(entries, ({ key, line, value }) =>
    Effect.mapError(decodeEntry({ key, value }), () => new CliFailure({ message: `line ${line}: not a secret.` }))
  )
})

/** In several requests; a failure says how many were written before it. */
export const writeAll = Effect.fnUntraced(function* (
  session: Connection,
  location: Location,
  entries: ReadonlyArray<ParsedEntry>
) {
  const client = yield* secretsClient(session)
  const totals = { created: 0, updated: 0, unchanged: 0 }
  let sent = 0
  const stopped = Effect.suspend(() =>
    sent === 0
      ? note("Nothing was written.")
      : note(`${sent} of ${entries.length} were written before this. Running the import again is safe.`)
  )
  for (const request of inRequests(inOrderOfReference(entries))) {
    yield* progress(`${sent} of ${entries.length} written`)
    const secrets = yield* checked(request)
    const result = yield* requireWritten(
      session,
      client.createBulk({ payload: { ...location, secrets }, headers: {} })
    ).pipe(
      withKeyOfEntry(secrets),
      Effect.tapError(() => Effect.zipRight(progressDone, stopped))
    )
    sent += request.length
    totals.created += result.created
    totals.updated += result.updated
    totals.unchanged += result.unchanged
  }
  yield* progressDone
  return totals
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
  allow: Shared.allow,
  dryRun: Shared.flag("dry-run", "Show what would be done, and stop"),
  file: Shared.argument("FILE", "File to read; - is standard input")
} as const

export const importFile = Effect.fnUntraced(function* (options: Command.Command.ParseConfig<typeof importOptions>) {
  yield* Target.target(options)
  const { detect, read } = yield* codecs
  if (options.file === Ask.standardInputName && stdinIsTerminal()) {
    return yield* usage("Nothing is piped in.", "Name a file, or pipe one in.")
  }
  const text = yield* Ask.input(options.file)
  const format = Option.getOrElse(options.format, () => detect(options.file, text))
  const name = options.file === Ask.standardInputName ? "standard input" : plain(options.file)
  const parsed = read(format, text)
  if (Either.isLeft(parsed)) {
    return yield* new CliFailure({
      message: `${name} as ${format}: ${parsed.left.message}.`,
      ...(Option.isSome(options.format) ? {} : { hint: `--format says which format it is, if it is not ${format}.` })
    })
  }
  const { entries, origin } = parsed.right
  if (entries.length === 0) return yield* new CliFailure({ message: `${name} holds no entries.` })
  if (entries.length > mostSecrets) yield* tooMany(0, entries.length)
  const meant = entries.map((entry) => ({
    ...entry,
    key: options.upperCase ? upperCase(entry.key) : entry.key,
    value: options.literal ? literally(entry.value) : entry.value
  }))
  yield* unlikeEachOther(entries, meant)
  yield* checked(meant)
  const readAs = origin === undefined ? format : `${format} of \`${origin}\``
  if (!options.json) yield* note(`${name}: ${readAs}, ${meant.length === 1 ? "1 entry" : `${meant.length} entries`}`)

  yield* within(
    options,
    Effect.fnUntraced(function* ({ session, ...location }) {
      const existing = yield* listAll(session, location)
      const { create, update } = preview(meant, new Set(existing.map((item) => item.key)))
      if (existing.length + create.length > mostSecrets) {
        yield* tooMany(existing.length, create.length)
      }
      if (!options.json) {
        yield* showPlan("+", create)
        yield* showPlan("~", update)
        yield* note(
          `${create.length} new, ${update.length} there already (unchanged ones stay as they are), in ${location.environment}`
        )
      }
      const dangerous = yield* WriteRisks.warnOfRisks(meant, options.allow)
      if (options.dryRun) return options.json ? yield* json({ format, origin, create, update, dangerous }) : undefined
      yield* WriteRisks.refuseUnasked(dangerous, !options.yes && stdinIsTerminal())
      if (!options.yes && !(yield* Ask.confirm(`Write ${meant.length} to ${location.environment}?`))) {
        return yield* new CliFailure({ message: "Nothing was written." })
      }
      const totals = yield* writeAll(session, location, meant)
      if (options.json) return yield* json(totals)
      yield* note(`${totals.created} created, ${totals.updated} updated, ${totals.unchanged} unchanged`)
    })
  )
})

export const importCommand = Help.command(
  "import",
  {
    says: "Write the entries of a file: dotenv, JSON, YAML, CSV, shell, docker env-file, and what other secret managers print.",
    more: [
      "Shows the keys and asks first. Up to 100 entries are written together or not at all; more go in several steps.",
      "Keys that are known to change which code runs (PATH, NODE_OPTIONS, ...) are pointed out; with --yes they need --allow. The list of such keys cannot be complete.",
      "Also reads the JSON of: doppler secrets, infisical export, vault kv get, aws secretsmanager and ssm, gcloud secrets, kubectl get secret. Encrypted files (dotenvx, SOPS) are refused: decrypt them on the way in."
    ],
    examples: [
      "ampoule secrets import .env --project shop --env development",
      "doppler secrets --json | ampoule secrets import - --yes",
      "infisical export --format=json | ampoule secrets import - --yes",
      "vault kv get -format=json secret/shop | ampoule secrets import - --upper-case --yes",
      "dotenvx decrypt --stdout | ampoule secrets import - --yes",
      "ampoule secrets import backup.yaml --dry-run"
    ]
  },
  importOptions,
  importFile
)

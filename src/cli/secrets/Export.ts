/** `ampoule secrets export`: an environment as a file of another program. */
import * as Options from "@effect/cli/Options"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { Entry } from "#src/formats/Entry.ts"
import { usage } from "#src/cli/terminal/Failure.ts"
import { injectOnly } from "#src/cli/values/EnvironmentSource.ts"
import { codecs, printEntries } from "#src/cli/values/Formats.ts"
import { type Format, formats, readers } from "#src/formats/FormatNames.ts"
import * as Help from "#src/cli/help/Help.ts"
import * as Shared from "#src/cli/terminal/Options.ts"
import { stdoutIsTerminal, value, warn } from "#src/cli/terminal/Output.ts"
import { aliasesOf, listAll, onEnvironment } from "#src/cli/connection/Reach.ts"
import { selectEntries, wantsAliases } from "#src/cli/values/Selection.ts"
import { sourceTexts } from "#src/cli/values/SourceTexts.ts"

const mostNamed = 10
const named = (keys: ReadonlyArray<string>) =>
  keys.length > mostNamed
    ? `${keys.slice(0, mostNamed).join(", ")} and ${keys.length - mostNamed} more`
    : keys.join(", ")

type Formats = Effect.Effect.Success<typeof codecs>

/** Keys by the readers that differ: one sentence for those that have the same. */
const sayReaders = Effect.fnUntraced(function* ({ readOtherwise }: Formats, entries: ReadonlyArray<Entry>) {
  const byReaders = new Map<string, Array<string>>()
  for (const { key, readers } of readOtherwise(entries)) {
    const names = readers.join(", ")
    byReaders.set(names, [...(byReaders.get(names) ?? []), key])
  }
  for (const [names, keys] of byReaders) {
    yield* warn(
      `${names} read this otherwise: ${named(keys)}. --for names the reader of the file; --format json carries it.`
    )
  }
})

const sayKinds = Effect.fnUntraced(function* (
  { changesKind }: Formats,
  format: Format,
  entries: ReadonlyArray<Entry>,
  source: boolean
) {
  const keys = changesKind(format, entries, { source })
  if (keys.length === 0) return
  yield* warn(
    source
      ? `these are templates without a reference, and ${format} cannot say so: an import makes texts of the same value of them: ${named(keys)}.`
      : `these texts look like references, and an import of this file takes them for that: ${named(keys)}. Import it with --literal, or export with --source.`
  )
})

export const exportCommand = Help.command(
  "export",
  {
    says: "Print an environment with its values, in a format that other programs read.",
    more: [
      "A format that cannot carry a value refuses and names its key; nothing is printed then.",
      "Readers of .env files disagree on some values: these are named on standard error. --for writes the file for one reader: npm (dotenv), node (--env-file), compose, python (python-dotenv), shell.",
      "With --source, an import of the file gives the same texts, references and kinds again."
    ],
    examples: [
      "ampoule secrets export --format json --project shop --env development",
      "ampoule secrets export --only 'PUBLIC_*' --names camel --format json",
      "ampoule secrets export --for compose > .env",
      "ampoule secrets export --source > backup.env",
      "docker run --env-file <(ampoule secrets export --format docker) image",
      'eval "$(ampoule secrets export --format shell)"',
      "ampoule secrets export --format fish | source",
      "ampoule secrets export --format powershell | Out-String | Invoke-Expression",
      "ampoule secrets export --format nushell | from nuon | load-env"
    ]
  },
  {
    ...Shared.inEnvironment,
    ...Shared.selection,
    format: Options.choice("format", formats).pipe(
      Options.withDescription("Format of the output"),
      Options.withDefault("dotenv" as const)
    ),
    for: Options.choice("for", readers).pipe(
      Options.withDescription("Program that reads the .env file: its quotes and escapes are used"),
      Options.optional
    ),
    source: Shared.flag("source", "The texts as written, references not expanded")
  },
  onEnvironment(
    Effect.fnUntraced(function* ({ session, ...location }, options) {
      const reader = Option.getOrUndefined(options.for)
      if (reader !== undefined && options.format !== "dotenv") {
        return yield* usage("--for goes with --format dotenv.", "Other formats have one meaning for all their readers.")
      }
      if (reader !== undefined && options.source) {
        return yield* usage("--for and --source exclude each other.", "--source is for an import into Ampoule.")
      }
      const all = options.source
        ? (yield* sourceTexts(session, location)).entries
        : Option.match(yield* injectOnly(session, location, options.only), {
            onNone: (): ReadonlyArray<Entry> => [],
            onSome: ({ values }) => Object.entries(values).map(([key, value]) => ({ key, value }))
          })
      const aliases = wantsAliases(options) ? aliasesOf(yield* listAll(session, location)) : new Map<string, string>()
      const entries = yield* selectEntries(all, { ...options, aliases })
      const text = yield* printEntries(options.format, entries, "--format", {
        source: options.source,
        ...(reader === undefined ? {} : { reader })
      })
      const formatsOf = yield* codecs
      if (options.format === "dotenv" && reader === undefined && !options.source) yield* sayReaders(formatsOf, entries)
      yield* sayKinds(formatsOf, options.format, entries, options.source)
      if (stdoutIsTerminal()) yield* warn("the values are on this terminal now; `ampoule run` passes them on unseen.")
      yield* value(text, { raw: false })
    })
  )
)

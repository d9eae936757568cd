/** `ampoule secrets edit`: opens an environment as a file in an editor, and writes the changes back. */
import * as Args from "@effect/cli/Args"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import { tmpdir } from "node:os"
import type { Entry } from "#src/formats/Entry.ts"
import { type Meaning, meaningOf } from "#src/formats/Meaning.ts"
import { isTemplate } from "#src/formats/References.ts"
import * as Ask from "#src/cli/terminal/Ask.ts"
import { compose } from "#src/cli/terminal/ChildEnvironment.ts"
import * as ChildProcess from "#src/cli/run/ChildProcess.ts"
import { call, type Connection } from "#src/cli/connection/Client.ts"
import { variable } from "#src/cli/terminal/Environment.ts"
import { inject } from "#src/cli/values/EnvironmentSource.ts"
import { type CliError, CliFailure, print, usage } from "#src/cli/terminal/Failure.ts"
import { writeAll } from "./BulkWrites.ts"
import { refuseInvalid } from "./Import.ts"
import { inPlan, refusal, remarks } from "#src/formats/ImportPlan.ts"
import { codecs } from "#src/cli/values/Formats.ts"
import { sourceTexts } from "#src/cli/values/SourceTexts.ts"
import * as Help from "#src/cli/help/Help.ts"
import * as Shared from "#src/cli/terminal/Options.ts"
import { note, showPlan, stderrIsTerminal, stdinIsTerminal, warn } from "#src/cli/terminal/Output.ts"
import { noSuchKey, parseKey } from "#src/cli/terminal/Keys.ts"
import { keysOf, idOf, listAll, type Location, onEnvironment } from "#src/cli/connection/Reach.ts"
import { secrets as secretsClient } from "#src/cli/connection/Routes.ts"
import * as Signals from "#src/cli/terminal/Signals.ts"
import * as WriteRisks from "#src/cli/values/WriteRisks.ts"
import * as Windows from "#src/cli/terminal/Windows.ts"

/** Private folder in memory, removed with the scope. Only Linux has one; elsewhere a warning names the disk. */
const memoryFolder = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  for (const directory of ["/dev/shm", variable("XDG_RUNTIME_DIR") ?? "/nowhere"]) {
    const temporary = yield* Effect.option(fs.makeTempDirectoryScoped({ directory, prefix: "ampoule-" }))
    if (Option.isSome(temporary)) return temporary.value
  }
  yield* warn("this system has no folder in memory, so the file stays on a disk until the editor ends.")
  return yield* fs
    .makeTempDirectoryScoped({ directory: tmpdir(), prefix: "ampoule-" })
    .pipe(Effect.mapError(() => new CliFailure({ message: "Cannot create a folder for the file." })))
})

/** Editor command for the shell, as in `git`, with the file as its argument. */
const editorCommand = (file: string) => {
  const editor = variable("VISUAL") ?? variable("EDITOR")
  return Windows.isWindows
    ? Windows.editor(editor, file)
    : (["/bin/sh", "-c", `${editor ?? "vi"} "$1"`, "editor", file] as const)
}

/** Ignores ^C and ^Z, which belong to the editor. */
const openEditor = Effect.fnUntraced(function* (file: string) {
  const [command, ...args] = editorCommand(file)
  yield* Signals.handledBy(() => {})
  const environment = compose({
    inherited: process.env,
    values: {},
    keepsExisting: () => true,
    passCredentials: false
  })
  const outcome = yield* (yield* ChildProcess.start({ command, args, environment, redactor: undefined })).ended
  if (outcome.code === 0) return
  return yield* new CliFailure({
    message: "The editor failed, so nothing was written.",
    hint: "VISUAL or EDITOR names the editor, with its options: EDITOR='code --wait'."
  })
}, Effect.scoped)

interface Change {
  readonly written: ReadonlyArray<Meaning>
  readonly added: ReadonlyArray<string>
  readonly changed: ReadonlyArray<string>
  readonly removed: ReadonlyArray<string>
}

/** A text that looks like a template is the same only if it is of the same kind. */
const isSame = (before: Entry | undefined, { kind, value }: Meaning): boolean =>
  before !== undefined &&
  before.value === value &&
  (!isTemplate(value) || (before.kind === "template") === (kind !== "literal"))

/** `inFile`: the content of the file. Keys of `all` outside it also count as existing. */
const difference = (all: ReadonlyArray<Entry>, inFile: ReadonlyArray<Entry>, after: ReadonlyArray<Meaning>): Change => {
  const before = new Map(all.map((entry) => [entry.key, entry]))
  const written = after.filter((meaning) => !isSame(before.get(meaning.key), meaning))
  const remaining = new Set(after.map(({ key }) => key))
  return {
    written,
    added: written.filter(({ key }) => !before.has(key)).map(({ key }) => key),
    changed: written.filter(({ key }) => before.has(key)).map(({ key }) => key),
    removed: inFile.map(({ key }) => key).filter((key) => !remaining.has(key))
  }
}

const deleteAll = Effect.fnUntraced(function* (session: Connection, location: Location, keys: ReadonlyArray<string>) {
  const client = yield* secretsClient(session)
  const live = new Map((yield* listAll(session, location)).map(({ id, key }): [string, string] => [key, id]))
  const ids = yield* Effect.forEach(
    keys.flatMap((key) => live.get(key) ?? []),
    (id) => idOf(session, id)
  )
  for (let i = 0; i < ids.length; i += 100) {
    yield* call(session, client.deleteBulk({ payload: { ids: ids.slice(i, i + 100), ...location }, headers: {} }))
  }
})

/** Shows the changes and writes them, after the user confirms and if no other change was made in the meantime. */
const save = Effect.fnUntraced(function* (
  session: Connection,
  location: Location,
  etag: Option.Option<string>,
  { added, changed, removed, written }: Change
) {
  yield* showPlan("+", inPlan(written, added))
  yield* showPlan("~", inPlan(written, changed))
  yield* showPlan("-", removed)
  for (const remark of remarks(written)) yield* note(remark)
  const existing = (yield* listAll(session, location)).filter(({ key }) => !removed.includes(key))
  const refused = refusal(written, existing, location.environment)
  if (refused !== undefined) return yield* new CliFailure(refused)
  yield* WriteRisks.warnOfRisks(written, [])
  if (!(yield* Ask.confirm(`Write this to ${location.environment}?`))) return yield* note("Nothing was written.")
  const latest = yield* inject(session, {
    ...location,
    representation: "source",
    etag: Option.getOrElse(etag, () => "")
  })
  if (Option.isSome(latest)) {
    return yield* new CliFailure({
      message: `${location.environment} was changed by someone else in the meantime, so nothing was written.`,
      hint: "Open it again, and repeat your changes."
    })
  }
  if (written.length > 0) yield* writeAll(session, location, written)
  if (removed.length > 0) yield* deleteAll(session, location, removed)
  yield* note(`${added.length} created, ${changed.length} updated, ${removed.length} deleted`)
})

const header = (environment: string) =>
  [
    `# Secrets of ${environment}, one a line. \${OTHER_KEY} is a reference, except in single quotes.`,
    "# Removing a line deletes the secret (30 days: `ampoule secrets restore`). Nothing is written before you confirm.",
    ""
  ].join("\n")

export const edit = Help.command(
  "edit",
  {
    says: "Change secrets in your editor (VISUAL, EDITOR). The changed keys are shown before they are written.",
    more: [
      "The file is in memory, readable only by you (0600), and deleted when the editor ends. The editor itself may keep copies elsewhere, such as backups and registers.",
      "Nothing is written if someone else has changed the environment in the meantime."
    ],
    examples: ["ampoule secrets edit --env staging", "EDITOR='code --wait' ampoule secrets edit DB_HOST DB_PORT"]
  },
  {
    ...Shared.inEnvironment,
    keys: Args.text({ name: "KEY" }).pipe(Args.withDescription("Keys to show (default: all)"), Args.repeated)
  },
  onEnvironment(
    Effect.fnUntraced(function* ({ session, ...location }, options) {
      if (!stdinIsTerminal() || !stderrIsTerminal()) {
        return yield* usage("An editor needs a terminal.", "Without one: `ampoule secrets import FILE --yes`.")
      }
      const keys = yield* Effect.forEach(options.keys, (key) => parseKey(key))
      const { entries, etag } = yield* sourceTexts(session, location)
      const missing = keys.find((key) => !entries.some((entry) => entry.key === key))
      if (missing !== undefined) {
        return yield* noSuchKey(missing, location.environment, keysOf(entries))
      }
      const inFile = entries.filter(
        ({ key, value }) => !value.includes("\0") && (keys.length === 0 || keys.some((requested) => requested === key))
      )
      const { parse, print: toText } = yield* codecs
      const text = toText("dotenv", inFile, { source: true })
      const path = yield* Path.Path
      const fs = yield* FileSystem.FileSystem
      const file = path.join(yield* memoryFolder, `${location.environment}.env`)
      const failed = () => new CliFailure({ message: "Cannot write or read the editor's file." })
      const first = header(location.environment) + Either.getOrElse(text, () => "")
      yield* Effect.mapError(fs.writeFileString(file, first, { flag: "wx", mode: 0o600 }), failed)
      const once = Effect.gen(function* () {
        yield* openEditor(file)
        const parsed = parse("dotenv", yield* Ask.fileText(file, "The editor's file"))
        if (Either.isLeft(parsed)) return yield* new CliFailure({ message: `${parsed.left.message}.` })
        yield* refuseInvalid(parsed.right)
        const meanings = parsed.right.map((entry) => meaningOf(entry, { format: "dotenv" }))
        const change = difference(entries, inFile, meanings)
        if (change.written.length + change.removed.length === 0) return yield* note("Nothing was changed.")
        yield* save(session, location, etag, change)
      })
      for (;;) {
        const result: Either.Either<void, CliError> = yield* Effect.either(once)
        if (Either.isRight(result)) return
        yield* note(print(result.left, false).trimEnd())
        if (!(yield* Ask.confirm("Open it again?")))
          return yield* new CliFailure({ message: "The changes were discarded." })
      }
    }, Effect.scoped)
  )
)

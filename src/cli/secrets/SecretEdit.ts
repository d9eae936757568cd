/** `ampoule secrets edit`: an environment as a file in an editor, and what changed in it written back. */
import * as Args from "@effect/cli/Args"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import { tmpdir } from "node:os"
import type { ParsedEntry } from "#src/formats/Entry.ts"
import * as Ask from "#src/cli/terminal/Ask.ts"
import { compose } from "#src/cli/terminal/ChildEnvironment.ts"
import * as ChildProcess from "#src/cli/run/ChildProcess.ts"
import { call, type Connection } from "#src/cli/connection/Client.ts"
import { variable } from "#src/cli/terminal/Environment.ts"
import { inject, type Resolved } from "#src/cli/values/EnvironmentSource.ts"
import { type CliError, CliFailure, print, usage } from "#src/cli/terminal/Failure.ts"
import { checked, writeAll } from "./Files.ts"
import { codecs } from "#src/cli/values/Formats.ts"
import * as Help from "#src/cli/help/Help.ts"
import * as Shared from "#src/cli/terminal/Options.ts"
import { note, planned, stderrIsTerminal, stdinIsTerminal, warn } from "#src/cli/terminal/Output.ts"
import { noSuchKey, parseKey } from "#src/cli/terminal/Keys.ts"
import { idOf, listAll, type Location, onEnvironment } from "#src/cli/connection/Reach.ts"
import { secrets as secretsClient } from "#src/cli/connection/Routes.ts"
import * as Signals from "#src/cli/terminal/Signals.ts"
import * as WriteRisks from "#src/cli/values/WriteRisks.ts"
import * as Windows from "#src/cli/terminal/Windows.ts"

/** A folder in memory, for this user alone, gone with the scope. Linux has one; elsewhere it is said that it is on a disk. */
const memoryFolder = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  for (const directory of ["/dev/shm", variable("XDG_RUNTIME_DIR") ?? "/nowhere"]) {
    const made = yield* Effect.option(fs.makeTempDirectoryScoped({ directory, prefix: "ampoule-" }))
    if (Option.isSome(made)) return made.value
  }
  yield* warn("this system has no folder in memory: the file is on a disk until the editor ends.")
  return yield* fs
    .makeTempDirectoryScoped({ directory: tmpdir(), prefix: "ampoule-" })
    .pipe(Effect.mapError(() => new CliFailure({ message: "No folder for the file can be made." })))
})

/** The line for the shell that `git` and others run, with the file behind it. */
const editorCommand = (file: string) => {
  const editor = variable("VISUAL") ?? variable("EDITOR")
  return Windows.isWindows
    ? Windows.editor(editor, file)
    : (["/bin/sh", "-c", `${editor ?? "vi"} "$1"`, "editor", file] as const)
}

/** ^C and ^Z are the editor's. */
const openEditor = Effect.fnUntraced(function* (file: string) {
  const [command, ...args] = editorCommand(file)
  yield* Signals.handledBy(() => {})
  const environment = compose({
    inherited: process.env,
    values: {},
    keepsExisting: () => true,
    passCredentials: false
  })
  const ended = yield* (yield* ChildProcess.start({ command, args, environment, redactor: undefined })).ended
  if (ended.code === 0) return
  return yield* new CliFailure({
    message: "The editor did not end well, so nothing was written.",
    hint: "VISUAL or EDITOR names the editor, with its options: EDITOR='code --wait'."
  })
}, Effect.scoped)

interface Change {
  readonly written: ReadonlyArray<ParsedEntry>
  readonly added: ReadonlyArray<string>
  readonly changed: ReadonlyArray<string>
  readonly removed: ReadonlyArray<string>
}

/** `shown`: what the file held; a key of `all` that it did not hold is there all the same. */
const difference = (all: Resolved["values"], shown: Resolved["values"], after: ReadonlyArray<ParsedEntry>): Change => {
  const had = new Map(Object.entries(all))
  const written = after.filter(({ key, value }) => had.get(key) !== value)
  const kept = new Set(after.map(({ key }) => key))
  return {
    written,
    added: written.filter(({ key }) => !had.has(key)).map(({ key }) => key),
    changed: written.filter(({ key }) => had.has(key)).map(({ key }) => key),
    removed: Object.keys(shown).filter((key) => !kept.has(key))
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

/** Shows what changed and writes it, when the person says so and nobody else wrote meanwhile. */
const save = Effect.fnUntraced(function* (
  session: Connection,
  location: Location,
  etag: Option.Option<string>,
  { added, changed, removed, written }: Change
) {
  yield* checked(written)
  yield* planned("+", added)
  yield* planned("~", changed)
  yield* planned("-", removed)
  yield* WriteRisks.tell(written, [])
  if (!(yield* Ask.confirm(`Write this to ${location.environment}?`))) return yield* note("Nothing was written.")
  const now = yield* inject(session, { ...location, representation: "source", etag: Option.getOrElse(etag, () => "") })
  if (Option.isSome(now)) {
    return yield* new CliFailure({
      message: `Somebody else changed ${location.environment} meanwhile, so nothing was written.`,
      hint: "Open it anew, and make your changes there."
    })
  }
  if (written.length > 0) yield* writeAll(session, location, written)
  if (removed.length > 0) yield* deleteAll(session, location, removed)
  yield* note(`${added.length} created, ${changed.length} updated, ${removed.length} deleted`)
})

const header = (environment: string) =>
  [
    `# Secrets of ${environment}, one a line. References like \${OTHER_KEY} stay references.`,
    "# A line that you take out deletes the secret (30 days: `ampoule secrets restore`). Nothing is written before you say so.",
    ""
  ].join("\n")

export const edit = Help.command(
  "edit",
  {
    says: "Change secrets in your editor (VISUAL, EDITOR): what changed is shown by name, then written.",
    more: [
      "The file is in memory, for you alone (0600), and gone when the editor ends. What the editor itself keeps elsewhere (copies, a history of registers) is up to it.",
      "Nothing is written when somebody else changed the environment meanwhile."
    ],
    examples: ["ampoule secrets edit --env staging", "EDITOR='code --wait' ampoule secrets edit DB_HOST DB_PORT"]
  },
  {
    ...Shared.inEnvironment,
    keys: Args.text({ name: "KEY" }).pipe(Args.withDescription("Keys to show; else all"), Args.repeated)
  },
  onEnvironment(
    Effect.fnUntraced(function* ({ session, ...location }, options) {
      if (!stdinIsTerminal() || !stderrIsTerminal()) {
        return yield* usage("An editor needs a terminal.", "Without one: `ampoule secrets import FILE --yes`.")
      }
      const keys = yield* Effect.forEach(options.keys, (key) => parseKey(key))
      const resolved = yield* inject(session, { ...location, representation: "source" })
      const { etag, values } = Option.getOrElse(resolved, (): Resolved => ({ values: {}, etag: Option.none() }))
      const absent = keys.find((key) => !Object.hasOwn(values, key))
      if (absent !== undefined) return yield* noSuchKey(absent, location.environment)
      const shown = Object.fromEntries(
        Object.entries(values).filter(
          ([key, value]) => !value.includes("\0") && (keys.length === 0 || keys.some((wanted) => wanted === key))
        )
      )
      const { parse, print: toText } = yield* codecs
      const text = toText(
        "dotenv",
        Object.entries(shown).map(([key, value]) => ({ key, value }))
      )
      const path = yield* Path.Path
      const fs = yield* FileSystem.FileSystem
      const file = path.join(yield* memoryFolder, `${location.environment}.env`)
      const failed = () => new CliFailure({ message: "The file of the editor cannot be written or read." })
      const first = header(location.environment) + Either.getOrElse(text, () => "")
      yield* Effect.mapError(fs.writeFileString(file, first, { flag: "wx", mode: 0o600 }), failed)
      const once = Effect.gen(function* () {
        yield* openEditor(file)
        const parsed = parse("dotenv", yield* Ask.fileText(file, "What the editor wrote"))
        if (Either.isLeft(parsed)) return yield* new CliFailure({ message: `${parsed.left.message}.` })
        const change = difference(values, shown, parsed.right)
        if (change.written.length + change.removed.length === 0) return yield* note("Nothing was changed.")
        yield* save(session, location, etag, change)
      })
      for (;;) {
        const done: Either.Either<void, CliError> = yield* Effect.either(once)
        if (Either.isRight(done)) return
        yield* note(print(done.left, false).trimEnd())
        if (!(yield* Ask.confirm("Open it again?"))) return yield* new CliFailure({ message: "The changes are gone." })
      }
    }, Effect.scoped)
  )
)

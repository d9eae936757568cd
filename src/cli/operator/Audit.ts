/**
 * `ampoule audit`: verify, export, cut, accept-restore, rebuild, public-key. All but `verify FILE` run on the server's
 * machine.
 */
import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as SignedNote from "#src/audit/SignedNote.ts"
import * as Ask from "#src/cli/terminal/Ask.ts"
import { verifyFile } from "./AuditFile.ts"
import { plural, print } from "./AuditReport.ts"
import { CliFailure, usage } from "#src/cli/terminal/Failure.ts"
import * as Help from "#src/cli/help/Help.ts"
import * as Shared from "#src/cli/terminal/Options.ts"
import { instant } from "#src/cli/terminal/Times.ts"
import { note, out, progress, progressDone, stdinIsTerminal, stdoutIsTerminal } from "#src/cli/terminal/Output.ts"
import { maintenancePrograms } from "./ServerSide.ts"

const checkpoints = Options.repeated(
  Shared.text("checkpoints", "file", "File of signed checkpoints; may be repeated. Default: the file in the settings")
)
const publicKey = Options.repeated(
  Shared.text(
    "public-key",
    "key-or-file",
    "Key of the checkpoints, as `ampoule audit public-key` prints it, or a file of such lines"
  )
)

const incident = Options.repeated(
  Shared.text("incident", "file", "Signed burn-down of an incident, checked against FILE; needs --public-key")
)

const keysOf = Effect.fnUntraced(function* (texts: ReadonlyArray<string>) {
  const fs = yield* FileSystem.FileSystem
  const keys: Array<SignedNote.NoteKey> = []
  for (const text of texts) {
    const lines = Option.isSome(SignedNote.parseKey(text))
      ? [text]
      : (yield* fs
          .readFileString(text)
          .pipe(Effect.mapError(() => usage(`--public-key: neither a key nor a readable file.`))))
          .split("\n")
          .filter((line) => line.trim() !== "" && !line.startsWith("#"))
    for (const line of lines) {
      const key = SignedNote.parseKey(line)
      if (Option.isNone(key)) return yield* usage("--public-key: a line is not a public key of checkpoints.")
      keys.push(key.value)
    }
  }
  return keys
})

const entryProgress = (verb: string) => (entries: number) => progress(`${entries} entries ${verb}`)

// --- verify ---

interface VerifyCommand {
  readonly checkpoints: ReadonlyArray<string>
  readonly publicKey: ReadonlyArray<string>
  readonly values: boolean
  readonly json: boolean
  readonly file: Option.Option<string>
  readonly incident: ReadonlyArray<string>
}

const verifyTrail = (options: VerifyCommand) =>
  Effect.gen(function* () {
    const keys = yield* keysOf(options.publicKey)
    if (Option.isSome(options.file)) {
      if (options.values) return yield* usage("--values needs the database: leave out FILE.")
      if (options.checkpoints.length > 0 && keys.length === 0) {
        return yield* usage(
          "--checkpoints with a FILE needs --public-key.",
          "`ampoule audit public-key > audit.pub` prints the keys, on the server's machine."
        )
      }
      if (options.incident.length > 0 && keys.length === 0) return yield* usage("--incident needs --public-key.")
      return yield* print(
        yield* verifyFile(options.file.value, { checkpoints: options.checkpoints, incidents: options.incident, keys }),
        options.json
      )
    }
    if (options.incident.length > 0) return yield* usage("--incident needs a FILE: name an exported trail.")
    const programs = yield* maintenancePrograms
    const report = yield* programs
      .auditVerify({
        checkpoints: options.checkpoints,
        publicKeys: keys,
        values: options.values,
        progress: entryProgress("verified")
      })
      .pipe(Effect.ensuring(progressDone))
    const notes =
      report.checkpoints.count > 0
        ? []
        : ["No checkpoint was found: an older copy of the database, or a deleted stream, would not be noticed."]
    yield* print({ ...report, notes }, options.json)
  })

const verify = Help.command(
  "verify",
  {
    says: "Verify that the audit trail was not altered. Exit code 0: whole; 1: altered; 2: cannot tell.",
    more: [
      "With FILE it verifies an export offline; add --checkpoints and --public-key. Without FILE it runs on the server's machine, with its settings, and checks seals of the vault, columns and checkpoints.",
      "2 means that no checkpoint was found: an older copy of the database, or the deletion of a whole stream, would not be noticed. 0 also counts streams that are not closed yet, after a crash, and entries that wait for a seal; both are printed.",
      "It cannot notice the loss of entries without a seal: the last 10 seconds or 1,000 entries of a stream, or all entries since the vault became unreachable."
    ],
    examples: [
      "ampoule audit verify --values",
      "ampoule audit verify --json | jq -r .result      # whole, altered or unknown",
      "ampoule audit verify trail.jsonl --checkpoints audit-checkpoints --public-key audit.pub",
      "ampoule audit verify trail.jsonl --public-key audit.pub --incident incident.note"
    ]
  },
  {
    checkpoints,
    publicKey,
    incident,
    values: Shared.flag("values", "Also compare every secret with its last recorded write (not with FILE)"),
    json: Shared.json,
    file: Args.text({ name: "FILE" }).pipe(
      Args.withDescription("Exported trail to verify offline; default: the database in the settings"),
      Args.optional
    )
  },
  (options) => verifyTrail(options)
)

// --- export ---

const day = (name: string, sentence: string) => Options.optional(Shared.text(name, "time", sentence))

const writeOut = (text: string): Effect.Effect<void> =>
  Effect.async((resume) => {
    // Waits for the stream to drain, so that a long trail does not fill the memory.
    process.stdout.write(text, () => resume(Effect.void))
  })

const exportCommand = Help.command(
  "export",
  {
    says: "Write the audit trail to standard output, in full or for a period.",
    more: ["Run it on the server's machine, with its settings. Members export their team's trail in the dashboard."],
    examples: [
      "ampoule audit export > trail.jsonl",
      "ampoule audit export --since 2026-11-01 --until 2026-12-01 --format csv > november.csv"
    ]
  },
  {
    since: day("since", "Entries from this day or time on"),
    until: day("until", "Entries before this day or time"),
    format: Options.choice("format", ["jsonl", "csv"]).pipe(
      Options.withDefault("jsonl" as const),
      Options.withDescription("jsonl can be verified; csv is for spreadsheets")
    )
  },
  Effect.fnUntraced(function* (options) {
    const since = yield* Effect.transposeOption(Option.map(options.since, (text) => instant("since", text)))
    const until = yield* Effect.transposeOption(Option.map(options.until, (text) => instant("until", text)))
    const programs = yield* maintenancePrograms
    const entries = yield* programs
      .auditExport({
        since: Option.getOrNull(since),
        until: Option.getOrNull(until),
        format: options.format,
        write: writeOut,
        progress: (entries) => (stdoutIsTerminal() ? Effect.void : progress(`${entries} entries exported`))
      })
      .pipe(Effect.ensuring(progressDone))
    yield* note(`${plural(entries, "entry", "entries")} exported`)
  })
)

// --- cut ---

const cut = Help.command(
  "cut",
  {
    says: "Delete old audit entries. A signed note marks where each stream continues, so that the rest still verifies.",
    more: ["Verifies the trail and the secrets first, and deletes nothing if that fails."],
    examples: ["ampoule audit cut --before 2025-11-21"]
  },
  {
    before: Shared.text("before", "time", "Delete entries older than this day or time"),
    checkpoints,
    publicKey,
    yes: Shared.yes
  },
  Effect.fnUntraced(function* (options) {
    const before = yield* instant("before", options.before)
    const publicKeys = yield* keysOf(options.publicKey)
    if (!options.yes && !(yield* Ask.confirm(`Delete all audit entries before ${before.toISOString()} for good?`))) {
      return yield* new CliFailure({ message: "Nothing was cut." })
    }
    const programs = yield* maintenancePrograms
    const removed = yield* programs
      .auditCut({
        before,
        checkpoints: options.checkpoints,
        publicKeys,
        progress: entryProgress("verified"),
        removed: entryProgress("removed")
      })
      .pipe(Effect.ensuring(progressDone))
    yield* note(`${plural(removed, "entry", "entries")} removed; the trail continues after signed cuts.`)
  })
)

// --- accept-restore ---

const accept = Help.command(
  "accept-restore",
  {
    says: "Record that an older database was restored on purpose, so that the trail verifies again.",
    more: [
      "Run it once after restoring a backup beside newer checkpoints, or after a fail-over that lost entries, also while servers run. The loss stays on record."
    ],
    examples: ["ampoule audit accept-restore"]
  },
  { checkpoints, publicKey, yes: Shared.yes },
  Effect.fnUntraced(function* (options) {
    const publicKeys = yield* keysOf(options.publicKey)
    const programs = yield* maintenancePrograms
    let isNeeded = false
    const isAccepted = yield* programs
      .auditAccept(
        { checkpoints: options.checkpoints, publicKeys, progress: entryProgress("verified") },
        ({ accepted, closed }) =>
          Effect.gen(function* () {
            isNeeded = true
            yield* progressDone
            for (const { present: held, signed } of accepted) {
              yield* note(
                `Stream ${held.stream}: the database holds ${held.seq} entries, ${signed.seq} had been signed.`
              )
            }
            for (const { seq, stream } of closed) {
              yield* note(`Stream ${stream}: ends with entry ${seq}, without a seal.`)
            }
            return (
              options.yes || (yield* Effect.orElseSucceed(Ask.confirm("Accept this state, on record?"), () => false))
            )
          })
      )
      .pipe(Effect.ensuring(progressDone))
    if (isAccepted) return yield* note("Accepted: both heads of each stream are recorded.")
    // A non-zero exit: later steps of a script must not take the state for accepted.
    if (!isNeeded) {
      return yield* new CliFailure({
        message: "There is nothing to accept: every ended stream has its seal, and no stream has lost entries."
      })
    }
    return yield* new CliFailure({
      message: "Nothing was accepted.",
      ...(stdinIsTerminal() ? {} : { hint: "Without a terminal, use --yes." })
    })
  })
)

// --- rebuild ---

const rebuild = Help.command(
  "rebuild",
  {
    says: "Rebuild the ledger of who received which version, from the trail.",
    more: [
      "The result is the same as before, unless the database was altered. The trail records the rebuild.",
      "After an upgrade it counts the authors of older values, and the parts of composed ones, at once. Without it, the servers add them behind the requests."
    ],
    examples: ["ampoule audit rebuild"]
  },
  {},
  Effect.fnUntraced(function* () {
    const programs = yield* maintenancePrograms
    yield* programs.auditRebuild({ progress: entryProgress("read") }).pipe(Effect.ensuring(progressDone))
    yield* note("The ledger was rebuilt.")
  })
)

// --- public-key ---

const publicKeyCommand = Help.command(
  "public-key",
  {
    says: "Print the public keys of the signed checkpoints, one per root key.",
    more: ["Keep them where you verify exports. Each rotation of the root key adds one."],
    examples: ["ampoule audit public-key > audit.pub"]
  },
  {},
  Effect.fnUntraced(function* () {
    const programs = yield* maintenancePrograms
    for (const key of yield* programs.auditKeys) yield* out(`${SignedNote.printKey(key)}\n`)
  })
)

const commands = [verify, exportCommand, cut, accept, rebuild, publicKeyCommand] as const
export const audit = Help.described(
  Command.make("audit").pipe(Command.withSubcommands(commands)),
  { says: "Verify, export and cut the audit trail." },
  commands,
  true
)

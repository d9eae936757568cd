/** `ampoule audit`: verify, export, cut, accept-restore, public-key. All but `verify FILE` run where the server runs. */
import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import * as Checkpoint from "#src/audit/Checkpoint.ts"
import * as Export from "#src/audit/Export.ts"
import type { Head } from "#src/audit/Chain.ts"
import * as SignedNote from "#src/audit/SignedNote.ts"
import { type Expected, type Problem, type Report, Verifier } from "#src/audit/Verify.ts"
import * as Ask from "./Ask.ts"
import { CliFailure, usage } from "./Failure.ts"
import * as Help from "./Help.ts"
import * as Shared from "./Options.ts"
import { json, note, out, plain, progress, progressDone, stdinIsTerminal, stdoutIsTerminal } from "./Output.ts"
import { maintenancePrograms } from "./ServerSide.ts"

const checkpoints = Options.text("checkpoints").pipe(
  Options.withPseudoName("file"),
  Options.withDescription("File of signed checkpoints; may be repeated. Else the one of the settings"),
  Options.repeated
)
const publicKey = Options.text("public-key").pipe(
  Options.withPseudoName("key-or-file"),
  Options.withDescription("Key of the checkpoints, as `ampoule audit public-key` prints it, or a file of such lines"),
  Options.repeated
)

const keysOf = Effect.fnUntraced(function* (given: ReadonlyArray<string>) {
  const fs = yield* FileSystem.FileSystem
  const keys: Array<SignedNote.NoteKey> = []
  for (const text of given) {
    const lines = Option.isSome(SignedNote.parseKey(text))
      ? [text]
      : (yield* fs
          .readFileString(text)
          .pipe(Effect.mapError(() => usage(`--public-key: neither a key nor a file that can be read.`))))
          .split("\n")
          .filter((line) => line.trim() !== "" && !line.startsWith("#"))
    for (const line of lines) {
      const key = SignedNote.parseKey(line)
      if (Option.isNone(key)) return yield* usage("--public-key: a line is no key of checkpoints.")
      keys.push(key.value)
    }
  }
  return keys
})

const entryProgress = (verb: string) => (entries: number) => progress(`${entries} entries ${verb}`)

// --- verify ---

interface Shown extends Report {
  readonly cuts: ReadonlyArray<Checkpoint.Cut>
  readonly seals: number | null
  readonly checkpoints: { readonly count: number; readonly lastAt: number | undefined; readonly fragments: number }
  /** What was not looked at, and why. */
  readonly notes: ReadonlyArray<string>
}

const time = (millis: number) => new Date(millis).toISOString()

const sentence = ({ seq, stream, what }: Problem): string =>
  stream === "" ? plain(what) : `Stream ${plain(stream)}${seq === null ? "" : `, entry ${seq}`}: ${plain(what)}.`

const plural = (n: number, one: string, more = `${one}s`) => `${n} ${n === 1 ? one : more}`

const report = Effect.fnUntraced(function* (shown: Shown, asJson: boolean) {
  const whole = shown.problemCount === 0
  if (asJson) {
    yield* json({
      verified: whole,
      entries: shown.entries,
      streams: shown.streams,
      from: shown.from === undefined ? null : time(shown.from),
      to: shown.to === undefined ? null : time(shown.to),
      unsealed: shown.unsealed,
      seals: shown.seals,
      cuts: shown.cuts.map(({ before, seq, stream }) => ({ stream, seq, before })),
      checkpoints: {
        count: shown.checkpoints.count,
        last: shown.checkpoints.lastAt === undefined ? null : time(shown.checkpoints.lastAt)
      },
      problemCount: shown.problemCount,
      problems: shown.problems,
      notes: shown.notes
    })
  } else {
    const span = shown.from === undefined || shown.to === undefined ? "" : `, ${time(shown.from)} to ${time(shown.to)}`
    const lines = [
      `${plural(shown.entries, "entry", "entries")} in ${plural(shown.streams, "stream")}${span}`,
      ...(shown.seals === null ? [] : [`${plural(shown.seals, "seal")} of the vault`]),
      ...(shown.checkpoints.count === 0 || shown.checkpoints.lastAt === undefined
        ? []
        : [`${plural(shown.checkpoints.count, "signed checkpoint")}, the last of ${time(shown.checkpoints.lastAt)}`]),
      ...(shown.cuts.length === 0
        ? []
        : [
            `${plural(shown.cuts.length, "stream")} cut with leave: ${plural(
              shown.cuts.reduce((sum, cut) => sum + cut.seq, 0),
              "entry",
              "entries"
            )} before ${plain(
              shown.cuts
                .map(({ before }) => before)
                .sort()
                .at(-1) ?? ""
            )}`
          ]),
      ...(shown.unsealed === 0 ? [] : [`${plural(shown.unsealed, "entry", "entries")} too young for a seal`]),
      ...shown.notes,
      ...shown.problems.slice(0, 20).map((problem) => `PROBLEM  ${sentence(problem)}`),
      ...(shown.problemCount > 20 ? [`… and ${shown.problemCount - 20} more`] : [])
    ]
    for (const line of lines) yield* out(`${line}\n`)
    if (whole) yield* out("The trail is whole.\n")
  }
  if (!whole) return yield* new CliFailure({ message: "The audit trail does not verify." })
})

const notAFile = (file: string) =>
  new CliFailure({
    message: `${file} is no export of an audit trail.`,
    hint: "`ampoule audit export > trail.jsonl` writes one; CSV cannot be verified."
  })

/** The first lines say what the file is; entries follow. Bounded by the number of streams. */
const verifyFile = Effect.fnUntraced(function* (
  file: string,
  given: { readonly checkpoints: ReadonlyArray<string>; readonly keys: ReadonlyArray<SignedNote.NoteKey> }
) {
  const fs = yield* FileSystem.FileSystem
  const lines = (path: string) =>
    fs.stream(path).pipe(
      Stream.decodeText(),
      Stream.splitLines,
      Stream.mapError(() => new CliFailure({ message: `Cannot read ${path}.` }))
    )
  const problems: Array<Problem> = []
  const cuts: Array<Checkpoint.Cut> = []
  const expected: Array<Expected> = []
  const starts = new Map<string, Head>()
  const notes: Array<string> = []
  let info: Export.ExportInfo | undefined
  let verifier: Verifier | undefined
  let entries = 0
  let end: number | undefined
  let reader = new Checkpoint.Reader([])

  const begin = Effect.gen(function* () {
    if (info === undefined) return yield* notAFile(file)
    reader = new Checkpoint.Reader(given.keys, Date.parse(info.at))
    for (const path of given.checkpoints) {
      yield* Stream.runForEach(lines(path), (line) => Effect.sync(() => reader.line(line)))
      reader.end()
    }
    for (const what of reader.problems) problems.push({ stream: "", seq: null, what })
    for (const pin of reader.pins.values()) {
      expected.push({ stream: pin.stream, seq: pin.seq, hash: pin.hash, source: `the checkpoint of ${time(pin.at)}` })
    }
    if (info.since !== null) notes.push(`Only from ${info.since} on: what is older is not in the file.`)
    if (info.until !== null) notes.push(`Only up to ${info.until}: what is younger is not in the file.`)
    return new Verifier({
      expected,
      cuts,
      starts,
      openEnd: info.until !== null,
      openStart: info.since !== null || info.until !== null
    })
  })

  yield* Stream.runForEach(
    lines(file),
    Effect.fnUntraced(function* (text) {
      if (text === "") return
      const line = Export.parse(text)
      if (line === undefined) {
        if (info === undefined) return yield* notAFile(file)
        problems.push({ stream: "", seq: null, what: `Line ${entries + 1} of the entries is none.` })
        return
      }
      if (end !== undefined) problems.push({ stream: "", seq: null, what: "Something follows the end of the export." })
      switch (line.type) {
        case "export":
          info = line.info
          return
        case "cut": {
          const opened = Checkpoint.openCut(line.note, given.keys)
          if (Either.isRight(opened)) cuts.push(opened.right)
          else if (given.keys.length > 0) {
            problems.push({ stream: "", seq: null, what: `A cut of the file ${opened.left}.` })
          } else {
            // Unsigned for us: it still says where the stream goes on.
            const claimed = Checkpoint.claimedCut(line.note)
            if (claimed !== undefined) cuts.push(claimed)
          }
          return
        }
        case "seal":
          expected.push({ ...line.head, source: "the seal in the file" })
          return
        case "start":
          starts.set(line.head.stream, line.head)
          return
        case "end":
          end = line.entries
          return
        case "entry": {
          verifier ??= yield* begin
          const place = Export.placeOf(line.body)
          if (place === undefined) problems.push({ stream: "", seq: null, what: `Entry ${entries + 1} is none.` })
          else verifier.add({ ...place, hash: line.hash, body: line.body })
          entries++
          if (entries % 1_000 === 0) yield* progress(`${entries} entries verified`)
        }
      }
    })
  )
  yield* progressDone
  verifier ??= yield* begin
  const found = verifier.finish()
  if (end === undefined) problems.push({ stream: "", seq: null, what: "The file ends in the middle." })
  else if (end !== entries) {
    problems.push({ stream: "", seq: null, what: `The file holds ${entries} entries and was written with ${end}.` })
  }
  if (given.checkpoints.length === 0) {
    notes.push(
      "No checkpoints were given: a trail that was rewritten as a whole, or ends too early, would not be noticed."
    )
  } else if (given.keys.length === 0) {
    notes.push("Checkpoints were given without --public-key.")
  }
  if (cuts.length > 0 && given.keys.length === 0) notes.push("The cuts were not checked: that needs --public-key.")
  const shown: Shown = {
    ...found,
    problems: [...problems, ...found.problems],
    problemCount: problems.length + found.problemCount,
    cuts,
    seals: null,
    checkpoints: reader,
    notes
  }
  return shown
})

const verify = Command.make(
  "verify",
  {
    checkpoints,
    publicKey,
    values: Options.boolean("values").pipe(
      Options.withDescription("Also compare every secret with its last write on record (not with FILE)")
    ),
    json: Shared.json,
    file: Args.text({ name: "FILE" }).pipe(
      Args.withDescription("An exported trail, verified offline; without it the database of the settings"),
      Args.optional
    )
  },
  (options) =>
    Effect.gen(function* () {
      const keys = yield* keysOf(options.publicKey)
      if (Option.isSome(options.file)) {
        if (options.values) return yield* usage("--values needs the database: leave out FILE.")
        return yield* report(
          yield* verifyFile(options.file.value, { checkpoints: options.checkpoints, keys }),
          options.json
        )
      }
      const programs = yield* maintenancePrograms
      const outcome = yield* programs
        .auditVerify({
          checkpoints: options.checkpoints,
          publicKeys: keys,
          values: options.values,
          progress: entryProgress("verified")
        })
        .pipe(Effect.ensuring(progressDone))
      const notes =
        outcome.checkpoints.count > 0
          ? []
          : ["No checkpoints were found: an older copy of the whole database would not be noticed."]
      yield* report({ ...outcome, notes }, options.json)
    })
).pipe(
  Command.withDescription(
    Shared.describe("Verify that the audit trail is what was written. Exit code 0: it is; 1: it is not.", {
      more: [
        "With FILE offline, from an export alone; --checkpoints and --public-key also find what was cut off or rewritten. Without FILE on the machine of the server, with its settings: seals of the vault, columns, checkpoints.",
        "Entries of the last seconds (10 s, or 1,000 per stream) may wait for their seal and checkpoint: what is cut off there is not noticed."
      ],
      examples: [
        "ampoule audit verify --values",
        "ampoule audit verify trail.jsonl --checkpoints audit-checkpoints --public-key audit.pub"
      ]
    })
  )
)

// --- export ---

const day = (name: string, sentence: string) =>
  Options.text(name).pipe(Options.withPseudoName("time"), Options.withDescription(sentence), Options.optional)

const instant = (name: string, text: string): Effect.Effect<Date, CliFailure> => {
  const shape = /^\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?(?:Z|[+-]\d\d:\d\d))?$/
  const at = Date.parse(text)
  return shape.test(text) && !Number.isNaN(at)
    ? Effect.succeed(new Date(at))
    : usage(`--${name} is a day (2026-11-21) or a time (2026-11-21T08:00:00Z).`)
}

const written = (text: string): Effect.Effect<void> =>
  Effect.async((resume) => {
    // Waits until it is taken, so that a long trail does not pile up in memory.
    process.stdout.write(text, () => resume(Effect.void))
  })

const exportCommand = Command.make(
  "export",
  {
    since: day("since", "From this day or time on"),
    until: day("until", "Before this day or time"),
    format: Options.choice("format", ["jsonl", "csv"]).pipe(
      Options.withDefault("jsonl" as const),
      Options.withDescription("jsonl can be verified; csv is for spreadsheets")
    )
  },
  (options) =>
    Effect.gen(function* () {
      const since = yield* Effect.transposeOption(Option.map(options.since, (text) => instant("since", text)))
      const until = yield* Effect.transposeOption(Option.map(options.until, (text) => instant("until", text)))
      const programs = yield* maintenancePrograms
      const entries = yield* programs
        .auditExport({
          since: Option.getOrNull(since),
          until: Option.getOrNull(until),
          format: options.format,
          write: written,
          progress: (entries) => (stdoutIsTerminal() ? Effect.void : progress(`${entries} entries exported`))
        })
        .pipe(Effect.ensuring(progressDone))
      yield* note(`${plural(entries, "entry", "entries")} exported`)
    })
).pipe(
  Command.withDescription(
    Shared.describe("Write the audit trail to standard output, whole or from a time to a time.", {
      more: [
        "Runs on the machine of the server, with its settings; people export their team's trail in the dashboard."
      ],
      examples: [
        "ampoule audit export > trail.jsonl",
        "ampoule audit export --since 2026-11-01 --until 2026-12-01 --format csv > november.csv"
      ]
    })
  )
)

// --- cut ---

const cut = Command.make(
  "cut",
  {
    before: Options.text("before").pipe(
      Options.withPseudoName("time"),
      Options.withDescription("Entries older than this day or time go")
    ),
    checkpoints,
    publicKey,
    yes: Shared.yes
  },
  (options) =>
    Effect.gen(function* () {
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
      yield* note(`${plural(removed, "entry", "entries")} removed; the trail goes on after signed cuts.`)
    })
).pipe(
  Command.withDescription(
    Shared.describe(
      "Delete old audit entries. A signed note says where each stream goes on, so that the rest verifies.",
      {
        more: ["Verifies the trail and the secrets first, and cuts nothing when they do not verify."],
        examples: ["ampoule audit cut --before 2025-11-21"]
      }
    )
  )
)

// --- accept-restore ---

const accept = Command.make("accept-restore", { checkpoints, publicKey, yes: Shared.yes }, (options) =>
  Effect.gen(function* () {
    const publicKeys = yield* keysOf(options.publicKey)
    const programs = yield* maintenancePrograms
    const done = yield* programs
      .auditAccept(
        { checkpoints: options.checkpoints, publicKeys, progress: entryProgress("verified") },
        ({ accepted, closed }) =>
          Effect.gen(function* () {
            yield* progressDone
            for (const { held, signed } of accepted) {
              yield* note(
                `Stream ${held.stream}: the database holds ${held.seq} entries, ${signed.seq} had been signed.`
              )
            }
            for (const { seq, stream } of closed) {
              yield* note(`Stream ${stream}: ends with entry ${seq}, under no seal.`)
            }
            return (
              options.yes || (yield* Effect.orElseSucceed(Ask.confirm("Accept this state, on record?"), () => false))
            )
          })
      )
      .pipe(Effect.ensuring(progressDone))
    if (done) return yield* note("Accepted: both heads of each stream are recorded.")
    // What comes after it in a script must not take the state for accepted.
    return yield* new CliFailure({
      message: "Nothing was accepted.",
      ...(stdinIsTerminal() ? {} : { hint: "There is no terminal to ask at: say --yes." })
    })
  })
).pipe(
  Command.withDescription(
    Shared.describe("Record that an older database was restored on purpose, so that the trail verifies again.", {
      more: ["Run it once after restoring a backup beside newer checkpoints. What was lost stays on record."],
      examples: ["ampoule audit accept-restore"]
    })
  )
)

// --- public-key ---

const publicKeyCommand = Command.make("public-key", {}, () =>
  Effect.gen(function* () {
    const programs = yield* maintenancePrograms
    for (const key of yield* programs.auditKeys) yield* out(`${SignedNote.printKey(key)}\n`)
  })
).pipe(
  Command.withDescription(
    Shared.describe("Print the public keys of the signed checkpoints, one per root key.", {
      more: ["Keep them where verification happens; after a rotation of the root key there is one more."],
      examples: ["ampoule audit public-key > audit.pub"]
    })
  )
)

export const audit = Command.make("audit").pipe(
  Command.withDescription("Verify, export and cut the audit trail."),
  Command.withSubcommands([verify, exportCommand, cut, accept, publicKeyCommand])
)
export const auditHelp = Help.group(
  audit,
  Help.node(verify),
  Help.node(exportCommand),
  Help.node(cut),
  Help.node(accept),
  Help.node(publicKeyCommand)
)

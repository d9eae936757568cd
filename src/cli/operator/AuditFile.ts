/** Offline verification of an exported trail. */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Stream from "effect/Stream"
import type { Head } from "#src/audit/Chain.ts"
import * as Checkpoint from "#src/audit/Checkpoint.ts"
import { Decisions } from "#src/audit/Decisions.ts"
import * as Export from "#src/audit/Export.ts"
import * as Incident from "#src/audit/Incident.ts"
import { IncidentProof } from "#src/audit/IncidentProof.ts"
import * as Chain from "#src/audit/Chain.ts"
import { Problems } from "#src/audit/Problems.ts"
import type * as SignedNote from "#src/audit/SignedNote.ts"
import { type ExpectedHead, Verifier } from "#src/audit/Verify.ts"
import { time, type VerifyReport } from "./AuditReport.ts"
import { CliFailure } from "#src/cli/terminal/Failure.ts"
import { plain, progress, progressDone } from "#src/cli/terminal/Output.ts"

interface FileOptions {
  readonly checkpoints: ReadonlyArray<string>
  readonly keys: ReadonlyArray<SignedNote.NoteKey>
  /** Paths of signed burn-downs. */
  readonly incidents?: ReadonlyArray<string>
}

/** State after the lines read so far. Its size is bounded by the number of streams and of lists of keys. */
interface FileState {
  readonly file: string
  readonly options: FileOptions
  readonly problems: Problems
  readonly cuts: Array<Checkpoint.Cut>
  readonly expected: Array<ExpectedHead>
  readonly starts: Map<string, Head>
  /** Hashes of the lists of keys so far. */
  readonly lists: Set<string>
  readonly incidents: IncidentProof
  readonly decisions: Decisions
  info: Export.ExportInfo | undefined
  /** Undefined before the first entry. */
  verifier: Verifier | undefined
  reader: Checkpoint.Reader
  entries: number
  /** Number of entries, from the last line; undefined until it is read. */
  end: number | undefined
}

const notAnExport = (file: string) =>
  new CliFailure({
    message: `${file} is not an export of an audit trail.`,
    hint: "`ampoule audit export > trail.jsonl` writes one; CSV cannot be verified."
  })

const linesOf = (path: string) =>
  Stream.unwrap(
    Effect.map(FileSystem.FileSystem, (fs) =>
      fs.stream(path).pipe(
        Stream.decodeText(),
        Stream.splitLines,
        Stream.mapError(() => new CliFailure({ message: `Cannot read ${path}.` }))
      )
    )
  )

/** Starts the verifier from the lines before the first entry, which describe the file. */
const begin = Effect.fnUntraced(function* (state: FileState) {
  const { cuts, expected, file, info, lists, options, problems, starts } = state
  if (info === undefined) return yield* notAnExport(file)
  state.reader = new Checkpoint.Reader(options.keys, Date.parse(info.at))
  for (const path of options.checkpoints) {
    yield* Stream.runForEach(linesOf(path), (line) => Effect.sync(() => state.reader.line(line)))
    state.reader.end()
  }
  problems.addReport(state.reader)
  for (const { at, hash, seq, stream } of state.reader.pins.values()) {
    expected.push({ stream, seq, hash, source: `the checkpoint of ${time(at)}` })
  }
  const openEnd = info.until !== null
  return new Verifier({ expected, cuts, starts, lists, openEnd, openStart: openEnd || info.since !== null })
})

const readCut = ({ cuts, options, problems }: FileState, note: string) => {
  const opened = Checkpoint.openCut(note, options.keys)
  if (Either.isRight(opened)) return void cuts.push(opened.right)
  if (options.keys.length > 0) return problems.say(`A cut in the file ${opened.left}.`)
  // Without a key its signature is not checked; the note still gives the continuation of the stream.
  const claimed = Checkpoint.claimedCut(note)
  if (claimed !== undefined) cuts.push(claimed)
}

const readEntry = Effect.fnUntraced(function* (state: FileState, hash: Uint8Array, body: string) {
  const verifier = (state.verifier ??= yield* begin(state))
  const place = Export.placeOf(body)
  if (place === undefined) state.problems.say(`Line ${state.entries + 1} of the entries is not an entry.`)
  else verifier.add({ ...place, hash, body })
  state.incidents.add(body)
  state.decisions.add(body)
  state.entries++
  if (state.entries % 1_000 === 0) yield* progress(`${state.entries} entries verified`)
})

const readLine = Effect.fnUntraced(function* (state: FileState, text: string) {
  if (text === "") return
  const line = Export.parse(text)
  if (line === undefined) {
    if (state.info === undefined) return yield* notAnExport(state.file)
    return state.problems.say(`Line ${state.entries + 1} of the entries is not an entry.`)
  }
  if (state.end !== undefined) state.problems.say("There is text after the end of the export.")
  switch (line.type) {
    case "export":
      state.info = line.info
      return
    case "cut":
      return readCut(state, line.note)
    case "seal":
      state.expected.push({ ...line.head, source: "the seal in the file" })
      return
    case "start":
      state.starts.set(line.head.stream, line.head)
      return
    case "keys":
      // An altered list is left out, and so reported as missing.
      if (Chain.isList(line.keys, line.hash)) {
        state.lists.add(line.hash)
        state.incidents.addList(line.hash, line.keys)
      }
      return
    case "end":
      state.end = line.entries
      return
    case "entry":
      return yield* readEntry(state, line.hash, line.body)
  }
})

/** Burn-downs signed by a known key; all others are problems. */
const readIncidents = Effect.fnUntraced(function* ({ incidents = [], keys }: FileOptions, problems: Problems) {
  const fs = yield* FileSystem.FileSystem
  const burnDowns: Array<Incident.BurnDown> = []
  for (const file of incidents) {
    const note = yield* Effect.mapError(
      fs.readFileString(file),
      () => new CliFailure({ message: `Cannot read ${file}.` })
    )
    const opened = Incident.open(note, keys)
    if (Either.isRight(opened)) burnDowns.push(opened.right)
    else problems.say(`The burn-down in ${file} ${opened.left}.`)
  }
  return new IncidentProof(burnDowns)
})

const incidentNotes = ({ notes }: IncidentProof): ReadonlyArray<string> =>
  notes.map(({ exposed, head: { at, subject } }) => {
    const out = Incident.stillExposed(exposed).length
    return `Burn-down of ${plain(subject.name)}: ${exposed.length} values were handed out, ${out} still out at ${plain(at)}.`
  })

/** Period that the file covers completely. Each cut removed the entries before its time. */
const boundsOf = ({ cuts, info }: FileState) => {
  const cut = cuts.reduce((last, { before }) => (before > last ? before : last), info?.since ?? "")
  return { since: cut === "" ? null : cut, until: info?.until ?? null }
}

const notesOf = (
  { cuts, decisions, incidents, info, options }: FileState,
  notProven: number
): ReadonlyArray<string> => [
  ...(info?.since === null || info === undefined ? [] : [`The file begins at ${info.since}: it has no older entries.`]),
  ...(info?.until === null || info === undefined ? [] : [`The file ends at ${info.until}: it has no younger entries.`]),
  ...(options.checkpoints.length > 0
    ? []
    : [
        "No checkpoints were given: a trail that was rewritten completely, or that ends too early, would not be noticed."
      ]),
  ...(cuts.length > 0 && options.keys.length === 0 ? ["The cuts were not checked: that needs --public-key."] : []),
  ...incidentNotes(incidents),
  ...decisions.notes.map(plain),
  ...(notProven === 0
    ? []
    : [`${notProven} times in the burn-downs lie outside the period of the file, and are not proven.`])
]

export const verifyFile = Effect.fnUntraced(function* (file: string, options: FileOptions) {
  const problems = new Problems()
  const state: FileState = {
    file,
    options,
    problems,
    cuts: [],
    expected: [],
    starts: new Map(),
    lists: new Set(),
    incidents: yield* readIncidents(options, problems),
    decisions: new Decisions(),
    info: undefined,
    verifier: undefined,
    reader: new Checkpoint.Reader([]),
    entries: 0,
    end: undefined
  }
  yield* Stream.runForEach(linesOf(file), (text) => readLine(state, text))
  yield* progressDone
  const verifier = state.verifier ?? (yield* begin(state))
  const { end, entries } = state
  if (end === undefined) problems.say("The file is cut off before its end.")
  else if (end !== entries) problems.say(`The file holds ${entries} entries, but was written with ${end}.`)
  const notProven = state.incidents.finish(problems, boundsOf(state))
  const trailReport = verifier.finish()
  problems.addReport(trailReport)
  const report: VerifyReport = {
    ...trailReport,
    problems: problems.listed,
    problemCount: problems.count,
    cuts: state.cuts,
    seals: null,
    checkpoints: state.reader,
    notes: notesOf(state, notProven)
  }
  return report
})

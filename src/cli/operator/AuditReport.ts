/** Report of a verification, for people and for programs. */
import * as Effect from "effect/Effect"
import type * as Checkpoint from "#src/audit/Checkpoint.ts"
import type { Problem } from "#src/audit/Problems.ts"
import type { Report } from "#src/audit/Verify.ts"
import { CliFailure } from "#src/cli/terminal/Failure.ts"
import { exitWith, json, out, plain } from "#src/cli/terminal/Output.ts"

export interface VerifyReport extends Report {
  readonly cuts: ReadonlyArray<Checkpoint.Cut>
  /** Null when the seals were not checked. */
  readonly seals: number | null
  readonly checkpoints: { readonly count: number; readonly lastAt: number | undefined; readonly fragments: number }
  /** Checks that were left out, with the reason. */
  readonly notes: ReadonlyArray<string>
}

const problemsShown = 20

export const time = (millis: number) => new Date(millis).toISOString()

export const plural = (n: number, one: string, more = `${one}s`) => `${n} ${n === 1 ? one : more}`

/** Whole, altered or unknown. Without a checkpoint, missing streams cannot be noticed. */
const resultOf = ({ checkpoints, problemCount }: VerifyReport) =>
  problemCount > 0 ? "altered" : checkpoints.count === 0 ? "unknown" : "whole"

const asJson = (report: VerifyReport) => {
  const result = resultOf(report)
  return {
    result,
    verified: result === "unknown" ? null : result === "whole",
    entries: report.entries,
    streams: report.streams,
    from: report.from === undefined ? null : time(report.from),
    to: report.to === undefined ? null : time(report.to),
    unsealed: report.unsealed,
    notClosed: report.notClosed,
    seals: report.seals,
    cuts: report.cuts.map(({ before, seq, stream }) => ({ stream, seq, before })),
    checkpoints: {
      count: report.checkpoints.count,
      last: report.checkpoints.lastAt === undefined ? null : time(report.checkpoints.lastAt)
    },
    problemCount: report.problemCount,
    problems: report.problems,
    notes: report.notes
  }
}

const cutLine = (cuts: VerifyReport["cuts"]) => {
  const removed = cuts.reduce((sum, cut) => sum + cut.seq, 0)
  const before = cuts.reduce((last, cut) => (cut.before > last ? cut.before : last), "")
  return `${plural(cuts.length, "stream")} cut with a signed note: ${plural(removed, "entry", "entries")} before ${plain(before)}`
}

const sentence = ({ seq, stream, what }: Problem): string =>
  stream === "" ? plain(what) : `Stream ${plain(stream)}${seq === null ? "" : `, entry ${seq}`}: ${plain(what)}.`

const lines = (report: VerifyReport): ReadonlyArray<string> => {
  const { checkpoints, cuts, entries, from, notClosed, problemCount, seals, streams, to, unsealed } = report
  const span = from === undefined || to === undefined ? "" : `, ${time(from)} to ${time(to)}`
  return [
    `${plural(entries, "entry", "entries")} in ${plural(streams, "stream")}${span}`,
    ...(seals === null ? [] : [`${plural(seals, "seal")} of the vault`]),
    ...(checkpoints.lastAt === undefined
      ? []
      : [`${plural(checkpoints.count, "signed checkpoint")}, the last of ${time(checkpoints.lastAt)}`]),
    ...(cuts.length === 0 ? [] : [cutLine(cuts)]),
    ...(unsealed === 0 ? [] : [`${plural(unsealed, "entry waits", "entries wait")} for a seal`]),
    ...(notClosed === 0
      ? []
      : [
          `${plural(notClosed, "stream is", "streams are")} not closed yet: its process ended without closing it; ` +
            "the next server closes it within 5 minutes"
        ]),
    ...report.notes,
    ...report.problems.slice(0, problemsShown).map((problem) => `PROBLEM  ${sentence(problem)}`),
    ...(problemCount > problemsShown ? [`… and ${problemCount - problemsShown} more`] : [])
  ]
}

/** Exit code 0: whole; 1: altered; 2: unknown. */
export const print = Effect.fnUntraced(function* (report: VerifyReport, wantsJson: boolean) {
  const result = resultOf(report)
  if (wantsJson) yield* json(asJson(report))
  else {
    for (const line of lines(report)) yield* out(`${line}\n`)
    if (result === "whole") yield* out("The trail is whole.\n")
    if (result === "unknown")
      yield* out("No alteration was found, but without a checkpoint the trail may be incomplete.\n")
  }
  if (result === "altered") return yield* new CliFailure({ message: "The audit trail does not verify." })
  if (result === "unknown") yield* exitWith(2)
})

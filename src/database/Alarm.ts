/** The alarm for an altered trail or row, in the log and in a metric, once per stream or row. */
import * as Effect from "effect/Effect"
import * as Metrics from "#src/telemetry/Metrics.ts"

/** Bounds the log: a writer of the database can invent any number of streams. */
const maxStreams = 1_000

export interface Alarm {
  readonly raise: (stream: string, what: string) => Effect.Effect<void>
  /** Streams that have raised an alarm. */
  readonly alarmedStreams: ReadonlySet<string>
}

export const make = (sentence = "The audit trail was altered"): Alarm => {
  const raised = new Set<string>()
  const raise = (stream: string, what: string) =>
    Effect.suspend(() => {
      if (raised.has(stream) || raised.size >= maxStreams) return Effect.void
      raised.add(stream)
      Metrics.auditAltered()
      return Effect.logError(`${sentence}: ${what}. Run \`ampoule audit verify\`.`).pipe(
        Effect.annotateLogs({ stream })
      )
    })
  return { raise, alarmedStreams: raised }
}

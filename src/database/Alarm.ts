/** The alarm of an altered trail or row: in the log and in a metric, once per stream or row. */
import * as Effect from "effect/Effect"
import * as Metrics from "#src/telemetry/Metrics.ts"

/** Streams that are named in the log at most; a writer of the database can make up as many as they like. */
const namedAtMost = 1_000

export interface AuditAlarm {
  readonly raise: (stream: string, what: string) => Effect.Effect<void>
  /** Streams that an alarm was raised for. */
  readonly raised: ReadonlySet<string>
}

export const make = (sentence = "The audit trail was altered"): AuditAlarm => {
  const raised = new Set<string>()
  const raise = (stream: string, what: string) =>
    Effect.suspend(() => {
      if (raised.has(stream) || raised.size >= namedAtMost) return Effect.void
      raised.add(stream)
      Metrics.auditAltered()
      return Effect.logError(`${sentence}: ${what}. Run \`ampoule audit verify\`.`).pipe(
        Effect.annotateLogs({ stream })
      )
    })
  return { raise, raised }
}

/** Logging and end of the server-side programs: at a signal, or with one sentence for the operator. */
import * as Cause from "effect/Cause"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Option from "effect/Option"
import type { Settings } from "#src/AppConfig.ts"
import { CliFailure } from "#src/cli/terminal/Failure.ts"
import * as Signals from "#src/cli/terminal/Signals.ts"
import { causeText } from "#src/telemetry/CauseText.ts"

/** For programs that print a result on standard output. */
export const logToStandardError = (settings: Settings) =>
  Layer.merge(
    Logger.replace(Logger.defaultLogger, Logger.withConsoleError(Logger.logfmtLogger)),
    Logger.minimumLogLevel(settings.logLevel)
  )

const ownSentences = new Set(["StartRefused", "VaultKeyWrong", "VaultLogBroken", "CliFailure"])

/** One sentence for a program that cannot start. Messages of other libraries may hold values. */
const sentence = (error: unknown): string =>
  typeof error === "object" && error !== null && "_tag" in error && "message" in error
    ? ownSentences.has(String(error._tag))
      ? String(error.message)
      : error._tag === "SqlError"
        ? "The database failed while the server was starting. Check it and start again."
        : error._tag === "VaultUnavailable"
          ? `${String(error.message)} Check AMPOULE_VAULT_URL and run this again.`
          : "The data folder cannot be used. Check AMPOULE_DATA_DIR and its permissions."
    : "The server could not start."

export const orFailure = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.catchAllCause(effect, (cause) => {
    if (Cause.isInterruptedOnly(cause)) return Effect.failCause(Cause.stripFailures(cause))
    const failed = Cause.failureOption(cause)
    if (Option.isSome(failed) && failed.value instanceof CliFailure) return failed.value
    if (Option.isSome(failed)) return new CliFailure({ message: sentence(failed.value) })
    return Effect.zipRight(
      Effect.logFatal("internal error").pipe(
        Effect.annotateLogs("cause", causeText(cause)),
        Effect.provide(Logger.logFmt)
      ),
      new CliFailure({ message: "The server stopped because of an internal error; the log says where." })
    )
  })

/**
 * Ends with success at the first SIGINT, SIGTERM or SIGHUP, after everything was closed in order. A second signal ends
 * the process at once, unless `patient`.
 */
export const untilSignal = <A, E, R>(run: Effect.Effect<A, E, R>, patient: boolean) =>
  Effect.gen(function* () {
    const stop = yield* Deferred.make<void>()
    let isStopping = false
    yield* Signals.handledBy((signal) => {
      if (signal === "SIGUSR1" || signal === "SIGUSR2" || signal === "SIGWINCH") return
      if (isStopping && !patient) process.exit(Signals.exitCodeOf(signal))
      isStopping = true
      Deferred.unsafeDone(stop, Effect.void)
    })
    yield* Effect.raceFirst(run, Deferred.await(stop))
  }).pipe(Effect.scoped)

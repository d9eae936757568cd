/**
 * `ampoule inject --watch`: rewrites the file after changes of the environment or its template, and signals a program.
 */
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { constants } from "node:os"
import * as Ask from "#src/cli/terminal/Ask.ts"
import { type CliError, CliFailure, usage } from "#src/cli/terminal/Failure.ts"
import type { Resolved } from "#src/cli/values/EnvironmentSource.ts"
import { note, plain, warn } from "#src/cli/terminal/Output.ts"
import { watching } from "./Watching.ts"

// --- signal ---

export interface Receiver {
  readonly signal: NodeJS.Signals
  /** Read each time, because a restarted program has another id. */
  readonly pid: Effect.Effect<number, CliFailure>
}

const isSignal = (name: string): name is NodeJS.Signals => Object.hasOwn(constants.signals, name)
/** Accepts `HUP` and `SIGHUP`. */
const signalOf = (text: string): NodeJS.Signals | undefined => {
  const name = text.toUpperCase().replace(/^(?!SIG)/, "SIG")
  return isSignal(name) ? name : undefined
}

interface ReceiverOptions {
  readonly signal: Option.Option<string>
  readonly pid: Option.Option<number>
  readonly pidFile: Option.Option<string>
}

/** Zero, 1 and negative numbers could address groups of processes, or all. */
const isProcess = (pid: number): boolean => Number.isSafeInteger(pid) && pid > 1

const pidIn = (file: string) =>
  Effect.flatMap(Ask.fileText(file), (text) => {
    const pid = /^\s*(\d{1,10})\s*$/.exec(text)?.[1]
    return pid !== undefined && isProcess(Number(pid))
      ? Effect.succeed(Number(pid))
      : new CliFailure({ message: `${plain(file)} does not hold a process id.` })
  })

export const receiverOf = Effect.fnUntraced(function* ({ pid, pidFile, signal }: ReceiverOptions) {
  const name = signalOf(Option.getOrElse(signal, () => "HUP"))
  if (name === undefined) return yield* usage("--signal takes the name of a signal, like HUP or USR1.")
  if (Option.isSome(pid) && Option.isSome(pidFile)) return yield* usage("Give --pid or --pid-file, not both.")
  if (Option.isSome(pid)) {
    if (!isProcess(pid.value)) return yield* usage("--pid takes a process id.")
    return Option.some<Receiver>({ signal: name, pid: Effect.succeed(pid.value) })
  }
  if (Option.isSome(pidFile)) return Option.some<Receiver>({ signal: name, pid: pidIn(pidFile.value) })
  if (Option.isSome(signal)) return yield* usage("--signal needs --pid or --pid-file.")
  return Option.none<Receiver>()
})

/** A program that does not run needs no signal: it reads the file when it starts. */
const sendSignal = ({ pid, signal }: Receiver) =>
  Effect.flatMap(pid, (receiver) =>
    Effect.try({
      try: () => process.kill(receiver, signal),
      catch: () =>
        new CliFailure({
          message: `${signal} did not reach process ${receiver}: check that it runs, and as your user.`
        })
    })
  ).pipe(Effect.catchAll((error) => warn(error.message)))

// --- the file ---

interface Following<R> {
  readonly template: string
  readonly out: string
  readonly interval: Duration.Duration
  readonly receiver: Option.Option<Receiver>
  /** None when the content of the ETag is still current. */
  readonly update: (etag: string | undefined) => Effect.Effect<Option.Option<Resolved>, CliError, R>
  readonly render: (template: string, values: Resolved["values"]) => Effect.Effect<string, CliFailure>
  readonly write: (text: string) => Effect.Effect<unknown, CliFailure, R>
}

interface Rendered {
  readonly resolved: Resolved
  readonly text: string
}

/** Runs until a signal ends the command. */
export const follow = Effect.fnUntraced(function* <R>(job: Following<R>, first: Rendered) {
  let { resolved, text } = first
  const watch = watching(job.interval, `${plain(job.out)} stays as it is.`)
  const once = Effect.gen(function* () {
    const update = yield* job.update(Option.getOrUndefined(resolved.etag))
    watch.answered()
    resolved = Option.getOrElse(update, () => resolved)
    const next = yield* job.render(yield* Ask.fileText(job.template), resolved.values)
    if (next !== text) {
      yield* job.write(next)
      text = next
      yield* note(`${plain(job.out)} was rewritten`)
      if (Option.isSome(job.receiver)) yield* sendSignal(job.receiver.value)
    }
    watch.worked()
  })
  for (;;) {
    yield* watch.pause
    yield* Effect.catchAll(once, watch.failed)
  }
})

/** One command that runs with the environment, restarted under `--watch` when the environment changes. */
import * as Data from "effect/Data"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type { SelectionOptions } from "#src/cli/values/Selection.ts"
import * as Equal from "effect/Equal"
import * as Option from "effect/Option"
import type { Variables } from "#src/cli/terminal/ChildEnvironment.ts"
import * as ChildProcess from "./ChildProcess.ts"
import { become } from "./Become.ts"
import { type CliError, CliFailure } from "#src/cli/terminal/Failure.ts"
import type { Resolved } from "#src/cli/values/EnvironmentSource.ts"
import { serve } from "./Mount.ts"
import { staysParent } from "./ProcessOne.ts"
import { warn } from "#src/cli/terminal/Output.ts"
import { prepare, type Prepared } from "#src/cli/values/Prepare.ts"
import type { Masks } from "#src/masks/Redactor.ts"
import type { RunOptions } from "#src/cli/values/RunOptions.ts"
import * as Signals from "#src/cli/terminal/Signals.ts"
import { witness } from "./TerminalSignals.ts"
import { watching } from "./Watching.ts"

interface Job<R> {
  readonly command: readonly [program: string, ...ReadonlyArray<string>]
  readonly options: RunOptions & Pick<SelectionOptions, "aliases">
  /** None when the content of the ETag is still current. */
  readonly update: (etag: string | undefined) => Effect.Effect<Option.Option<Resolved>, CliError, R>
  /** Receives the masked output, with `--redact`. */
  readonly onOutput?: (bytes: Uint8Array) => void
}

interface Change {
  readonly _tag: "Changed"
  readonly prepared: Prepared
  readonly resolved: Resolved
}

/** Ends when another environment is available that a child can use. */
const nextChange = Effect.fnUntraced(function* <R>(job: Job<R>, current: Prepared, lastEtag: string | undefined) {
  let etag = lastEtag
  const watch = watching(job.options.interval, "The command keeps running with its present values.")
  for (;;) {
    yield* watch.pause
    const update = yield* Effect.either(job.update(etag))
    if (update._tag === "Left") {
      yield* watch.failed(update.left)
      continue
    }
    watch.answered()
    if (Option.isNone(update.right)) continue
    etag = Option.getOrUndefined(update.right.value.etag)
    const next = yield* Effect.either(prepare(update.right.value.values, job.command, job.options))
    if (next._tag === "Left") {
      yield* watch.failed(next.left)
      continue
    }
    watch.worked()
    // A new revision need not mean other values: a write may have been undone.
    if (!Equal.equals(Data.struct(next.right.values), Data.struct(current.values))) {
      return { _tag: "Changed", prepared: next.right, resolved: update.right.value } satisfies Change
    }
  }
})

/** Every value of the answer, selected or not, and the values of other keys that they hold: a program may print them. */
const handedOut = ({ contained = {}, values }: Resolved): ReadonlyArray<string> => [
  ...Object.values(values),
  ...Object.entries(contained).flatMap(([key, places]) =>
    places.map(({ end, start }) => (values[key] ?? "").slice(start, end))
  )
]

/** Undefined without `--redact`. */
const masksFor = Effect.fnUntraced(function* (values: Variables, resolved: Resolved, redact: boolean) {
  if (!redact) return undefined
  const { masks } = yield* Effect.promise(() => import("#src/masks/Redactor.ts"))
  const outputMasks = masks(values, handedOut(resolved))
  if (outputMasks === "too much") {
    return yield* new CliFailure({
      message: "The values are too large to search the output for them.",
      hint: "Select fewer with --only or --except."
    })
  }
  const { plainOnly, unmasked } = outputMasks
  if (unmasked.length > 0) {
    yield* warn(`not masked, because shorter than 4 characters: ${unmasked.join(", ")}`)
  }
  if (plainOnly.length > 0) yield* warn(`masked as plain text only, because of their size: ${plainOnly.join(", ")}`)
  return outputMasks
})

/** Time for a command to end before it is killed for a restart. */
const grace = Duration.seconds(10)

/** Milliseconds of a clock that only goes on. The build leaves `performance` out (`src/bundle.mjs`). */
const monotonic = (): number => Number(process.hrtime.bigint() / 1_000_000n)

/** Milliseconds after which a command that still runs has outlived a signal. */
const outlived = 2 * Duration.toMillis(grace)

const stop = Effect.fnUntraced(function* (child: ChildProcess.Child) {
  child.kill("SIGTERM")
  const ended = yield* Effect.timeoutOption(child.ended, grace)
  if (Option.isSome(ended)) return
  child.kill("SIGKILL")
  yield* child.ended
})

/**
 * Without SIGPIPE where this process writes to more than the command's output: the kernel sends it for a reader that is
 * gone, which would end the command.
 */
const forwardedSignals = ({ mount, watch }: RunOptions): ReadonlyArray<NodeJS.Signals> =>
  Signals.catchable().filter((signal) => signal !== "SIGPIPE" || !(watch || Option.isSome(mount)))

/**
 * Signals go to the child. One that ends it is also stored, for a restart under way; a child that outlives one handles
 * it itself, as nginx does SIGHUP. Others wait for a child that has not started yet.
 */
const forwardSignals = Effect.fnUntraced(function* (options: RunOptions) {
  let child: ChildProcess.Child | undefined
  let ending: { readonly signal: Signals.Signal; readonly at: number } | undefined
  const currentEnding = (): Signals.Signal | undefined =>
    ending !== undefined && (ending.signal === "SIGTERM" || monotonic() - ending.at < outlived)
      ? ending.signal
      : undefined
  let waiting: Array<Signals.Signal> = []
  const { unlessTerminal } = Signals.hasTerminal() ? yield* witness : { unlessTerminal: () => {} }
  const forward = (signal: Signals.Signal) => {
    if (Signals.asksToEnd(signal)) ending = { signal, at: monotonic() }
    const receiver = child
    if (receiver === undefined) {
      if (!Signals.asksToEnd(signal)) waiting.push(signal)
      return
    }
    if (!Signals.terminalSends(signal)) receiver.kill(signal)
    else if (signal !== "SIGWINCH") unlessTerminal(signal, () => receiver.kill(signal))
  }
  yield* Signals.realTimeHandledBy(forward)
  yield* Signals.handledBy(forward, forwardedSignals(options))
  yield* Signals.stoppedWith((signal) => child?.kill(signal))
  return {
    ending: currentEnding,
    to: (next: ChildProcess.Child | undefined) => {
      child = next
      if (next === undefined) return
      const signal = currentEnding()
      if (signal !== undefined) next.kill(signal)
      for (const signal of waiting) next.kill(signal)
      waiting = []
    }
  }
})

/** Runs one child until it ends, by itself or for a restart. */
const runOnce = Effect.fnUntraced(function* <R>(
  job: Job<R>,
  prepared: Prepared,
  mask: Masks | undefined,
  forward: (child: ChildProcess.Child) => void,
  change: Effect.Effect<Change, never, R>
) {
  const [command, ...args] = job.command
  const { environment, mounted } = prepared
  const { mount } = job.options
  if (mounted !== undefined && Option.isSome(mount)) yield* serve(mount.value, mounted)
  const child = yield* ChildProcess.start({
    command,
    args,
    environment,
    redactor: mask?.redactor,
    onOutput: job.onOutput
  })
  forward(child)
  if (!job.options.watch) return yield* child.ended
  const winner = yield* Effect.raceFirst(child.ended, change)
  if (winner._tag === "Changed") {
    yield* warn("the environment changed: restarting the command")
    yield* stop(child)
  }
  return winner
}, Effect.scoped)

export const supervise = Effect.fnUntraced(function* <R>(job: Job<R>, first: Resolved) {
  let current = yield* prepare(first.values, job.command, job.options)
  let resolved = first
  if (!staysParent(job.options)) yield* become(job.command, current.environment)
  // Installed before the child starts, so that no signal in between is lost.
  const signals = yield* forwardSignals(job.options)
  for (;;) {
    const mask = yield* masksFor(current.values, resolved, job.options.redact)
    const changed = nextChange(job, current, Option.getOrUndefined(resolved.etag))
    const outcome = yield* runOnce(job, current, mask, signals.to, changed)
    signals.to(undefined)
    if (outcome._tag !== "Changed") return outcome
    const ending = signals.ending()
    if (ending !== undefined) {
      return { _tag: "Ended", code: Signals.exitCodeOf(ending), signal: ending } satisfies ChildProcess.Ended
    }
    current = outcome.prepared
    resolved = outcome.resolved
  }
}, Effect.scoped)

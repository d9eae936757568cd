/** `ampoule run`: a process with the environment's secrets, without writing them to disk. */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Choice from "#src/cli/connection/Choice.ts"
import { dropRefused, fetchEnvironment, noSecrets, type Resolved } from "#src/cli/values/EnvironmentSource.ts"
import { type CliError, CliFailure, usage } from "#src/cli/terminal/Failure.ts"
import type { RunOptions } from "#src/cli/values/RunOptions.ts"
import { wantsAliases } from "#src/cli/values/Selection.ts"
import * as ProcessOne from "./ProcessOne.ts"
import { makeTail, send } from "./Report.ts"
import * as Signals from "#src/cli/terminal/Signals.ts"
import { supervise } from "./Supervisor.ts"
import { exitWith } from "#src/cli/terminal/Output.ts"
import * as Target from "#src/cli/connection/Target.ts"
import { intervalOf } from "./Watching.ts"
import * as Windows from "#src/cli/terminal/Windows.ts"

/** Words after the first `--` of the command line, unchanged. None without a `--`. */
export class ChildCommand extends Context.Tag("cli/ChildCommand")<
  ChildCommand,
  Option.Option<ReadonlyArray<string>>
>() {}

/** Exit code of our own failures, distinct from those of the child. `env`, `timeout` and `docker run` use it too. */
const ownFailure = 125

const noCommand = usage("No command to run.", "Put -- before it: ampoule run [options] -- node app.js")

/** Runs the text in the system's shell, as `system(3)` and `npm run` do. */
const inShell = (line: string) => (Windows.isWindows ? Windows.shell(line) : (["/bin/sh", "-c", line] as const))

const commandOf = Effect.fnUntraced(function* (
  { shellCommand }: RunOptions,
  childCommand: Option.Option<ReadonlyArray<string>>
) {
  const [program, ...args] = Option.getOrElse(childCommand, (): ReadonlyArray<string> => [])
  if (Option.isSome(shellCommand)) {
    if (program !== undefined) return yield* usage("--command replaces the command after --: use one of them.")
    return inShell(shellCommand.value)
  }
  return program === undefined ? yield* noCommand : ([program, ...args] as const)
})

/** Opens the file of `--sealed`. A parameter, because it loads more of the contract than everything else here. */
type OpenSealed<R> = (
  session: Choice.ChosenLink,
  file: string,
  options: Target.TargetOptions
) => Effect.Effect<Resolved, CliError, R>

/** A timer of Node takes no more than 24 days. */
const longestTimeout = Duration.hours(1)

const patienceOf = Effect.fnUntraced(function* ({ timeout }: RunOptions) {
  if (Option.isNone(timeout)) return {}
  const whole = timeout.value
  if (Duration.lessThan(whole, Duration.seconds(1)) || Duration.greaterThan(whole, longestTimeout)) {
    return yield* usage("--timeout takes 1s to 1h.")
  }
  return { patience: { whole } }
})

/** Connection and target. A sealed file has its own; --fallback-only asks no server which one it is. */
const reach = Effect.fnUntraced(function* <E extends CliError, R>(
  options: RunOptions,
  open: Effect.Effect<Choice.ChosenLink, E, R>
) {
  if (Option.isSome(options.sealed)) return { session: yield* open, target: undefined }
  yield* Target.fromCaller(options)
  const session = yield* open
  const target = options.fallbackOnly
    ? Target.targetOffline(options, Option.some(Choice.identityOf(session.chosen)))
    : Effect.tapError(Target.target(options, session, options.offline), (error) => dropRefused(session, error))
  return { session, target: yield* target }
})

/** Loaded on request: a plain run needs no names. */
const aliasesFor = Effect.fnUntraced(function* (
  session: Choice.ChosenLink,
  target: Target.Target | undefined,
  options: RunOptions
) {
  if (target === undefined || !wantsAliases(options)) return new Map<string, string>()
  const { fetchAliases } = yield* Effect.promise(() => import("#src/cli/values/Aliases.ts"))
  return yield* fetchAliases(session, target)
})

export const runCommand = Effect.fnUntraced(
  function* <R>(options: RunOptions, openSealed: OpenSealed<R>) {
    const command = yield* commandOf(options, yield* ChildCommand)
    const [program] = command
    if (options.watch) yield* intervalOf(options.interval)
    const patience = yield* patienceOf(options)
    if (options.fallbackOnly && (options.watch || Option.isSome(options.sealed) || Option.isSome(options.plan))) {
      return yield* usage("--fallback-only cannot be combined with --watch, --sealed or --plan.")
    }
    if (Option.isSome(options.sealed) && (options.watch || options.offline)) {
      return yield* usage("--sealed cannot be combined with --watch or --offline.")
    }
    if (Option.isSome(options.plan) && (options.watch || options.offline || Option.isSome(options.sealed))) {
      return yield* usage("--plan cannot be combined with --watch, --offline or --sealed.")
    }
    yield* ProcessOne.check(options, command)
    const open = Choice.open({ ...options, ...patience, impatient: options.offline, silent: options.watch })
    const { session, target } = yield* reach(options, open)
    const sealed = Option.getOrElse(options.sealed, () => "")
    const first =
      target === undefined
        ? yield* openSealed(session, sealed, options)
        : Option.getOrElse(yield* fetchEnvironment(session, target, options, { _tag: "first" }), () => noSecrets)
    const aliases = first.aliases ?? (yield* aliasesFor(session, target, options))
    const tail = options.redact ? makeTail() : undefined
    const started = yield* Clock.currentTimeMillis
    const outcome = yield* supervise(
      {
        command,
        options: { ...options, aliases },
        update: (etag) =>
          target === undefined
            ? Effect.succeedNone
            : fetchEnvironment(session, target, options, { _tag: "update", etag }),
        onOutput: (bytes) => tail?.push(bytes)
      },
      first
    )
    if (target !== undefined && Option.isSome(options.plan)) {
      const durationMillis = (yield* Clock.currentTimeMillis) - started
      yield* send(session, target, { plan: options.plan.value, exitCode: outcome.code, durationMillis, tail })
    }
    if (outcome._tag === "NotStarted") {
      return yield* new CliFailure({ message: `${program}: ${outcome.reason}.`, exitCode: outcome.code })
    }
    if (outcome.signal !== undefined) Signals.endLike(outcome.signal)
    yield* exitWith(outcome.code)
  },
  Effect.tapError((error) =>
    Effect.sync(() => {
      if (error._tag !== "CliFailure" || error.exitCode === undefined) process.exitCode = ownFailure
    })
  )
)

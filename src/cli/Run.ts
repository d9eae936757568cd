/** `ampoule run`: a process with the environment, and nothing written to disk. */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Credential from "./Credential.ts"
import { fetchEnvironment, openSealed, type Resolved } from "./EnvironmentSource.ts"
import { CliFailure, usage } from "./Failure.ts"
import * as Help from "./Help.ts"
import { options, type RunOptions } from "./RunOptions.ts"
import { makeTail, send } from "./RunReport.ts"
import * as Signals from "./Signals.ts"
import { supervise } from "./Supervisor.ts"
import { exitWith } from "./Output.ts"
import * as Target from "./Target.ts"

/** What follows the first `--` of the command line, untouched. None: there is no `--`. */
export class ChildCommand extends Context.Tag("cli/ChildCommand")<
  ChildCommand,
  Option.Option<ReadonlyArray<string>>
>() {}

/**
 * Exit code of our own failures, which differ from those of the child: `env`, `timeout` and `docker run` use it too.
 */
const ownFailure = 125

const noCommand = usage("No command to run.", "Put -- before it: ampoule run [options] -- node app.js")

/** What `--command` is for the shell of the system, as `system(3)` and `npm run` have it. */
const inShell = (line: string) =>
  process.platform === "win32" ? (["cmd.exe", "/d", "/s", "/c", line] as const) : (["/bin/sh", "-c", line] as const)

const commandOf = Effect.fnUntraced(function* (
  { shellCommand }: RunOptions,
  given: Option.Option<ReadonlyArray<string>>
) {
  const [program, ...args] = Option.getOrElse(given, (): ReadonlyArray<string> => [])
  if (Option.isSome(shellCommand)) {
    if (program !== undefined) return yield* usage("--command stands for the command after --: give one of them.")
    return inShell(shellCommand.value)
  }
  return program === undefined ? yield* noCommand : ([program, ...args] as const)
})

const noSecrets: Resolved = { values: {}, etag: Option.none() }

const handler = Effect.fnUntraced(
  function* (options: RunOptions) {
    const command = yield* commandOf(options, yield* ChildCommand)
    const [program] = command
    if (options.watch && Duration.lessThan(options.interval, Duration.seconds(1))) {
      return yield* usage("--watch-interval is at least 1s.")
    }
    if (Option.isSome(options.sealed) && (options.watch || options.offline)) {
      return yield* usage("--sealed cannot be combined with --watch or --offline.")
    }
    if (Option.isSome(options.plan) && (options.watch || options.offline || Option.isSome(options.sealed))) {
      return yield* usage("--plan cannot be combined with --watch, --offline or --sealed.")
    }
    const target = Option.isSome(options.sealed) ? undefined : yield* Target.target(options)
    const session = yield* Credential.open({ ...options, impatient: options.offline })
    const sealed = Option.getOrElse(options.sealed, () => "")
    const first =
      target === undefined
        ? yield* openSealed(session, sealed, options)
        : Option.getOrElse(yield* fetchEnvironment(session, target, options, { _tag: "first" }), () => noSecrets)
    const tail = options.redact ? makeTail() : undefined
    const started = yield* Clock.currentTimeMillis
    const ended = yield* supervise(
      {
        command,
        options,
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
      yield* send(session, target, { plan: options.plan.value, exitCode: ended.code, durationMillis, tail })
    }
    if (ended._tag === "NotStarted") {
      return yield* new CliFailure({ message: `${program}: ${ended.reason}.`, exitCode: ended.code })
    }
    if (ended.signal !== undefined) Signals.endLike(ended.signal)
    yield* exitWith(ended.code)
  },
  Effect.tapError((error) =>
    Effect.sync(() => {
      if (error._tag !== "CliFailure" || error.exitCode === undefined) process.exitCode = ownFailure
    })
  )
)

export const run = Help.command(
  "run",
  {
    says: "Run a command with the environment's secrets as variables; nothing is written to disk.",
    more: [
      "Ends as the command does: with its exit code, or by the signal that ended it (128+N to a shell). 126 when it is not executable, 127 when it is not found. 125: ampoule itself failed before the command ran.",
      "A secret whose name is known to change which code runs (PATH, NODE_OPTIONS, MAKEFLAGS, HTTPS_PROXY, ...) is passed on only with --allow. The list of such names cannot be complete: whoever may write an environment should be trusted by whoever runs it.",
      "The command does not inherit the credentials of Ampoule itself (AMPOULE_API_TOKEN, AMPOULE_DATABASE_URL, ...)."
    ],
    examples: [
      "ampoule run --project shop --env development -- node app.js",
      "ampoule run --only 'DATABASE_*' -- ./migrate.sh",
      "ampoule run --command 'echo $GREETING && ./serve'",
      "ampoule run --names tf-var --prefix AWS_ -- terraform plan",
      "ampoule run --allow HTTPS_PROXY -- npm test",
      "ampoule run --watch --offline -- npm start",
      "ampoule run --redact -- make test",
      "ampoule run --sealed .env.sealed -- node app.js"
    ]
  },
  options,
  handler
)

/** `ampoule run`: a process with the environment, and nothing written to disk. */
import * as Command from "@effect/cli/Command"
import * as HelpDoc from "@effect/cli/HelpDoc"
import * as Options from "@effect/cli/Options"
import * as ValidationError from "@effect/cli/ValidationError"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Equal from "effect/Equal"
import * as Data from "effect/Data"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import { readFileSync } from "node:fs"
import { secretKeyPattern } from "#schema/Values.ts"
import * as ChildEnvironment from "./ChildEnvironment.ts"
import * as ChildProcess from "./ChildProcess.ts"
import * as Credential from "./Credential.ts"
import { type CliError, CliFailure, describe as describeError, usage } from "./Failure.ts"
import { inject, type Resolved } from "./Inject.ts"
import * as OfflineCache from "./OfflineCache.ts"
import * as Shared from "./Options.ts"
import { warn } from "./Output.ts"
import { type Masks, masks, shortestMasked } from "./Redactor.ts"
import * as Signals from "./Signals.ts"
import * as Target from "./Target.ts"

/** What stands after the first `--` of the command line, untouched. None: there is no `--`. */
export class ChildCommand extends Context.Tag("cli/ChildCommand")<
  ChildCommand,
  Option.Option<ReadonlyArray<string>>
>() {}

/** Our own failures, so that they are told from those of the child: as `env`, `timeout` and `docker run` have it. */
export const ownFailure = 125

/** `30s`, `15m`, `24h`, `7d`; a bare number is seconds. */
const parseDuration = (text: string): Option.Option<Duration.Duration> => {
  const match = /^(\d{1,6})(s|m|h|d)?$/.exec(text)
  if (match === null) return Option.none()
  const unit = { s: 1, m: 60, h: 3_600, d: 86_400 }[match[2] ?? "s"] ?? 1
  return Option.some(Duration.seconds(Number(match[1]) * unit))
}

const duration = (name: string, fallback: string) =>
  Options.text(name).pipe(
    Options.withPseudoName("duration"),
    Options.withDefault(fallback),
    Options.mapEffect((text) =>
      Option.match(parseDuration(text), {
        onNone: () =>
          Effect.fail(ValidationError.invalidValue(HelpDoc.p(`--${name} takes a time like 30s, 15m, 24h or 7d`))),
        onSome: (parsed) => Effect.succeed(parsed)
      })
    )
  )

const options = {
  ...Shared.connection,
  ...Shared.target,
  only: Options.text("only").pipe(
    Options.withPseudoName("key"),
    Options.withDescription("Pass only this key; * stands for any text; may be repeated"),
    Options.repeated
  ),
  except: Options.text("except").pipe(
    Options.withPseudoName("key"),
    Options.withDescription("Do not pass this key; * stands for any text; may be repeated"),
    Options.repeated
  ),
  prefix: Options.text("prefix").pipe(
    Options.withDescription("Pass only keys that begin with this text"),
    Options.optional
  ),
  allow: Options.text("allow").pipe(
    Options.withPseudoName("key"),
    Options.withDescription(
      "Pass this key although it can change which code runs (PATH, NODE_OPTIONS, …); may be repeated"
    ),
    Options.repeated
  ),
  keepExisting: Options.boolean("no-override").pipe(
    Options.withDescription("A variable that is set already keeps its value (else the secret wins)")
  ),
  passCredentials: Options.boolean("pass-credentials").pipe(
    Options.withDescription("Let the child see AMPOULE_API_TOKEN and the like")
  ),
  watch: Options.boolean("watch").pipe(
    Options.withDescription("Restart the command when the environment changes; it runs on while the server is away")
  ),
  interval: duration("watch-interval", "15s").pipe(Options.withDescription("How often --watch asks (15s)")),
  offline: Options.boolean("offline").pipe(
    Options.withDescription("Keep an encrypted copy, and use it when the server does not answer")
  ),
  offlineAge: duration("offline-max-age", "24h").pipe(Options.withDescription("Oldest copy that --offline uses (24h)")),
  sealed: Options.text("sealed").pipe(
    Options.withPseudoName("file"),
    Options.withDescription(
      "Pass the values of a sealed file, opened on the server, instead of the environment's secrets"
    ),
    Options.optional
  ),
  redact: Options.boolean("redact").pipe(
    Options.withDescription("Mask the values in the output of the command (its output is then no terminal)")
  )
} as const

export interface RunOptions extends Credential.ConnectionOptions, Target.TargetOptions {
  readonly only: ReadonlyArray<string>
  readonly except: ReadonlyArray<string>
  readonly prefix: Option.Option<string>
  readonly allow: ReadonlyArray<string>
  readonly keepExisting: boolean
  readonly passCredentials: boolean
  readonly watch: boolean
  readonly interval: Duration.Duration
  readonly offline: boolean
  readonly offlineAge: Duration.Duration
  readonly sealed: Option.Option<string>
  readonly redact: boolean
}

const stackBytes = (): number | undefined => {
  if (process.platform !== "linux") return undefined
  const match = /^Max stack size\s+(\d+)/m.exec(readFileSync("/proc/self/limits", "latin1"))
  return match === null ? undefined : Number(match[1])
}

const names = (keys: ReadonlyArray<string>) => keys.join(", ")
const plural = (count: number, one: string, many: string) => (count === 1 ? one : many)

/** What the child gets, or the reason why it cannot have it. */
const prepare = (
  values: ChildEnvironment.Variables,
  command: ReadonlyArray<string>,
  options: Pick<RunOptions, "only" | "except" | "prefix" | "allow" | "keepExisting" | "passCredentials">
): Effect.Effect<
  { readonly environment: ChildEnvironment.Variables; readonly values: ChildEnvironment.Variables },
  CliFailure
> => {
  const absent = ChildEnvironment.missing(values, options.only)
  if (absent.length > 0) {
    return Effect.fail(new CliFailure({ message: `The environment has no ${names(absent)} (--only).` }))
  }
  const selected = ChildEnvironment.select(values, { ...options, prefix: Option.getOrUndefined(options.prefix) })
  const dangerous = ChildEnvironment.dangerousNames(selected, options.allow)
  if (dangerous.length > 0) {
    return Effect.fail(
      new CliFailure({
        message: `Not passed on: ${names(dangerous)}. Such ${plural(dangerous.length, "a variable", "variables")} can change which code runs.`,
        hint: `If that is meant: ${dangerous.map((name) => `--allow ${name}`).join(" ")}. To leave out: ${dangerous.map((name) => `--except ${name}`).join(" ")}.`
      })
    )
  }
  const environment = ChildEnvironment.compose({ inherited: process.env, values: selected, ...options })
  const limits = ChildEnvironment.systemLimits(process.platform, stackBytes())
  const problem = ChildEnvironment.uncarried(environment, selected, command, limits)
  switch (problem?._tag) {
    case undefined:
      return Effect.succeed({ environment, values: selected })
    case "Nul":
      return Effect.fail(
        new CliFailure({
          message: `A variable cannot hold a NUL character, and the value of ${names(problem.keys)} has one.`,
          hint: `Leave out what the command does not need: ${problem.keys.map((key) => `--except ${key}`).join(" ")}.`
        })
      )
    case "TooLong":
      return Effect.fail(
        new CliFailure({
          message: `Too long for a variable on this system (at most ${problem.limit} bytes each): ${names(problem.keys)}.`,
          hint: `Leave out what the command does not need: ${problem.keys.map((key) => `--except ${key}`).join(" ")}.`
        })
      )
    case "TooMuch":
      return Effect.fail(
        new CliFailure({
          message: `Too much for this system: ${problem.size} bytes of arguments and variables, at most ${problem.limit}.`,
          hint: `Leave out what the command does not need (--only, --except). The longest: ${names(problem.keys)}.`
        })
      )
  }
}

/** Network failures, 5xx and 429: the server did not say no. */
const didNotAnswer = (error: CliError): boolean => {
  switch (error._tag) {
    case "ServerUnreachable":
      return true
    case "ServerRefused":
    case "UnexpectedAnswer":
      return error.status >= 500 || error.status === 429
    case "CliFailure":
      return false
  }
}
const saidNo = (error: CliError): boolean =>
  (error._tag === "ServerRefused" || error._tag === "UnexpectedAnswer") && [401, 403, 404].includes(error.status)

const age = (millis: number): string => {
  const minutes = Math.floor(millis / 60_000)
  if (minutes < 1) return `${Math.floor(millis / 1_000)} s`
  return minutes < 120 ? `${minutes} min` : `${Math.floor(minutes / 60)} h`
}

const fetchEnvironment = Effect.fnUntraced(function* (
  session: Credential.Session,
  target: Target.Target,
  options: Pick<RunOptions, "offline" | "offlineAge">,
  /** `update`: there is a set already, with or without an ETag; a copy of earlier would be no news. */
  purpose: { readonly _tag: "first" } | { readonly _tag: "update"; readonly etag: string | undefined }
) {
  const etag = purpose._tag === "update" ? purpose.etag : undefined
  const place = (projectId: string): OfflineCache.Place => ({
    url: session.url,
    credential: session.chosen.credential,
    projectId,
    environment: target.environment
  })
  const online = Target.withProject(session, target.project, (projectId) =>
    inject(session, { projectId, environment: target.environment, ...(etag === undefined ? {} : { etag }) }).pipe(
      Effect.tap(
        Option.match({
          onNone: () => Effect.void,
          onSome: ({ values }) =>
            options.offline
              ? Effect.catchAll(OfflineCache.keep(place(projectId), values), (error) => warn(error.message))
              : Effect.void
        })
      )
    )
  )
  return yield* Effect.catchAll(
    online,
    Effect.fnUntraced(function* (error: CliError) {
      const projectId = yield* Target.knownProject(session, target.project)
      if (Option.isNone(projectId)) return yield* Effect.fail(error)
      // Whether or not --offline is given now: what an earlier run kept must not outlive the right to it.
      if (saidNo(error)) yield* OfflineCache.drop(place(projectId.value))
      if (!options.offline || !didNotAnswer(error) || purpose._tag === "update") return yield* Effect.fail(error)
      const kept = yield* OfflineCache.find(place(projectId.value), options.offlineAge)
      if (Option.isNone(kept)) return yield* Effect.fail(error)
      yield* warn(`${describeError(error).message} Using the offline copy of ${age(kept.value.ageMillis)} ago.`)
      return Option.some<Resolved>({ values: kept.value.values, etag: Option.none() })
    })
  )
})

/** Time until the next question: the interval, 20 % more or less, so that many watchers do not ask at once. */
const pause = (interval: Duration.Duration, failures: number) =>
  Effect.flatMap(Random.nextRange(0.8, 1.2), (jitter) =>
    Effect.sleep(
      Duration.min(
        Duration.times(interval, jitter * 2 ** Math.min(failures, 5)),
        Duration.max(interval, Duration.minutes(5))
      )
    )
  )

/** How long a command may take to end before it is killed for a restart. */
const grace = Duration.seconds(10)

const supervise = Effect.fnUntraced(function* (
  first: Resolved,
  update: (etag: string | undefined) => ReturnType<typeof fetchEnvironment>,
  command: ReadonlyArray<string>,
  options: RunOptions
) {
  const [program, ...args] = command
  if (program === undefined) return yield* noCommand
  let current = yield* prepare(first.values, command, options)
  let etag = Option.getOrUndefined(first.etag)

  // Before the child is started: a signal in between is handed on, not lost.
  let child: ChildProcess.Child | undefined
  let stop: NodeJS.Signals | undefined
  yield* Signals.handledBy((signal) => {
    if (signal !== "SIGWINCH" && signal !== "SIGUSR1" && signal !== "SIGUSR2") stop = signal
    if (child !== undefined && !Signals.terminalSends(signal)) child.kill(signal)
  })

  /** Ends when there is another environment that a child can have. */
  const changed = Effect.gen(function* () {
    let said = ""
    let failures = 0
    const report = (error: CliError) => {
      const { message } = describeError(error)
      failures++
      if (message === said) return Effect.void
      said = message
      return warn(`${message} The command runs on with what it has.`)
    }
    for (;;) {
      yield* pause(options.interval, failures)
      const asked = yield* Effect.either(update(etag))
      if (asked._tag === "Left") {
        yield* report(asked.left)
        continue
      }
      failures = 0
      if (Option.isNone(asked.right)) continue
      etag = Option.getOrUndefined(asked.right.value.etag)
      const next = yield* Effect.either(prepare(asked.right.value.values, command, options))
      if (next._tag === "Left") {
        yield* report(next.left)
        continue
      }
      said = ""
      // A new revision need not mean other values: one may have been written and taken back.
      if (!Equal.equals(Data.struct(next.right.values), Data.struct(current.values))) {
        return { _tag: "Changed", next: next.right } as const
      }
    }
  })

  const masked = (values: ChildEnvironment.Variables): Effect.Effect<Masks | undefined, CliFailure> => {
    if (!options.redact) return Effect.succeed(undefined)
    const found = masks(values)
    return found === "too much"
      ? Effect.fail(
          new CliFailure({
            message: "Too many bytes of values to look for in the output.",
            hint: "Select fewer with --only or --except."
          })
        )
      : Effect.succeed(found)
  }

  for (;;) {
    const mask = yield* masked(current.values)
    if (mask !== undefined && mask.unmasked.length > 0) {
      yield* warn(`not masked, being shorter than ${shortestMasked} characters: ${names(mask.unmasked)}`)
    }
    const outcome = yield* Effect.scoped(
      Effect.gen(function* () {
        const started = yield* ChildProcess.start({
          command: program,
          args,
          environment: current.environment,
          redactor: mask?.redactor
        })
        child = started
        // A signal that came before there was a child to have it.
        if (stop !== undefined) started.kill(stop)
        if (!options.watch) return yield* started.ended
        const winner = yield* Effect.raceFirst(started.ended, changed)
        if (winner._tag !== "Changed") return winner
        yield* warn("the environment changed: restarting the command")
        started.kill("SIGTERM")
        yield* Effect.timeoutTo(started.ended, {
          duration: grace,
          onSuccess: () => true,
          onTimeout: () => false
        }).pipe(
          Effect.filterOrElse(
            (ended) => ended,
            () =>
              Effect.zipRight(
                Effect.sync(() => started.kill("SIGKILL")),
                started.ended
              )
          )
        )
        return winner
      })
    )
    child = undefined
    if (outcome._tag !== "Changed") return outcome
    if (stop !== undefined) return { _tag: "Ended", code: Signals.exitCodeOf(stop) } satisfies ChildProcess.Ended
    current = outcome.next
  }
}, Effect.scoped)

const nothing: Resolved = { values: {}, etag: Option.none() }

const openSealed = Effect.fnUntraced(function* (session: Credential.Session, options: RunOptions) {
  const { openOnServer, readSealed } = yield* Effect.promise(() => import("./Sealing.ts"))
  const name = Option.getOrElse(options.sealed, () => "")
  const file = yield* readSealed(name)
  const { activeKey, values } = yield* openOnServer(session, file, options)
  const foreign = Object.keys(values).find((key) => !secretKeyPattern.test(key))
  if (foreign !== undefined) return yield* new CliFailure({ message: `${name} holds a name that is no secret key.` })
  if (activeKey !== undefined) {
    yield* warn(`${name} is sealed with an old key: \`ampoule reseal ${name}\` brings it to the active one.`)
  }
  return { values, etag: Option.none() } satisfies Resolved
})

const noCommand = usage("No command to run.", "Put -- before it: ampoule run [options] -- node app.js")

export const handler = Effect.fnUntraced(
  function* (options: RunOptions) {
    const command = Option.getOrElse(yield* ChildCommand, (): ReadonlyArray<string> => [])
    const [program] = command
    if (program === undefined) return yield* noCommand
    if (options.watch && Duration.lessThan(options.interval, Duration.seconds(1))) {
      return yield* usage("--watch-interval is at least 1s.")
    }
    if (Option.isSome(options.sealed) && (options.watch || options.offline)) {
      return yield* usage("--sealed goes with neither --watch nor --offline.")
    }
    const target = Option.isSome(options.sealed) ? undefined : yield* Target.target(options)
    const session = yield* Credential.open({ ...options, impatient: options.offline })
    const ended =
      target === undefined
        ? yield* supervise(yield* openSealed(session, options), () => Effect.succeedNone, command, options)
        : yield* supervise(
            Option.getOrElse(yield* fetchEnvironment(session, target, options, { _tag: "first" }), () => nothing),
            (etag) => fetchEnvironment(session, target, options, { _tag: "update", etag }),
            command,
            options
          )
    if (ended._tag === "NotStarted") {
      return yield* new CliFailure({ message: `${program}: ${ended.reason}.`, exitCode: ended.code })
    }
    yield* Effect.sync(() => {
      process.exitCode = ended.code
    })
  },
  Effect.tapError((error) =>
    Effect.sync(() => {
      if (error._tag !== "CliFailure" || error.exitCode === undefined) process.exitCode = ownFailure
    })
  )
)

export const run = Command.make("run", options, handler).pipe(
  Command.withDescription(
    Shared.describe("Run a command with the environment's secrets as variables; nothing is written to disk.", {
      more: [
        "Ends with the exit code of the command: 128+N when signal N ended it, 126 when it is not executable, 127 when it is not found. 125: ampoule itself failed before the command ran."
      ],
      examples: [
        "ampoule run --project shop --env development -- node app.js",
        "ampoule run --only 'DATABASE_*' -- ./migrate.sh",
        "ampoule run --watch --offline -- npm start",
        "ampoule run --redact -- make test",
        "ampoule run --sealed .env.sealed -- node app.js"
      ]
    })
  )
)

/**
 * Programs of the server side, run by the command line (`src/cli/operator/ServerSide.ts`): from settings to a running
 * server.
 */
import * as NodeContext from "@effect/platform-node/NodeContext"
import * as Console from "effect/Console"
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import cluster, { type Worker } from "node:cluster"
import { release } from "#src/Release.ts"
import { DependencyDown } from "#src/database/Dependency.ts"
import { UnsealedRows } from "#src/rows/OldRows.ts"
import { RowSeal } from "#src/rows/RowSeal.ts"
import { AppConfig, type Settings, StartRefused } from "#src/AppConfig.ts"
import { CliFailure } from "#src/cli/terminal/Failure.ts"
import type { OwnServer } from "#src/cli/operator/ServerSide.ts"
import { Setup } from "#src/credentials/Setup.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { ValueCipher } from "#src/crypto/Envelope.ts"
import { Vault } from "#src/crypto/Vault.ts"
import { durabilityOf, limitWarnings } from "#src/Deployment.ts"
import { Listening } from "#src/http/engine/Server.ts"
import { RateLimits } from "#src/limits/RateLimiter.ts"
import * as Config from "./Config.ts"
import * as DataFolder from "./DataFolder.ts"
import * as MetricsListener from "./MetricsListener.ts"
import { logToStandardError, orFailure, untilSignal } from "./ProgramEnd.ts"
import * as RateLimitMemory from "./RateLimitMemory.ts"
import * as Server from "./Server.ts"
import * as Services from "./Services.ts"
import * as Sql from "./Sql.ts"
import * as StartGarbage from "./StartGarbage.ts"
import * as Telemetry from "./Telemetry.ts"
import * as VaultChoice from "./VaultChoice.ts"

const rateLimits = (settings: Settings) =>
  Option.match(settings.redisUrl, {
    onNone: () => RateLimitMemory.layer,
    // The Redis client is loaded only if it is used.
    onSome: (url) =>
      Layer.unwrapEffect(
        Effect.map(
          Effect.promise(() => import("./RateLimitRedis.ts")),
          (redis) => redis.layer({ url, plaintextHosts: settings.plaintextHosts })
        )
      )
  })

/** Backends for `Services.ts`, chosen by the settings. */
const backends = (settings: Settings) =>
  Layer.unwrapEffect(
    Effect.gen(function* () {
      if (Option.isSome(settings.databaseUrl)) yield* DataFolder.keepPrivate(settings.dataDir)
      return (yield* VaultChoice.layer(settings)).pipe(
        Layer.map((context) => Context.make(Vault, Telemetry.vault(Context.get(context, Vault)))),
        Layer.provide(Crypto.Default),
        Layer.provideMerge(Layer.merge(Sql.layer, rateLimits(settings))),
        Layer.provideMerge(NodeContext.layer),
        Layer.provideMerge(Layer.succeed(AppConfig, settings))
      )
    })
  )

const application = (settings: Settings) =>
  Server.layer({
    host: settings.host,
    port: settings.port,
    traced: Option.isSome(settings.otlpEndpoint),
    measured: Telemetry.measured(settings)
  }).pipe(
    Layer.provideMerge(backends(settings)),
    Layer.provide(Layer.succeed(ValueCipher, settings.valueCipher)),
    Layer.provide(Layer.succeed(UnsealedRows, settings.sealRows)),
    Layer.provide(Layer.succeed(RateLimits, settings.rateLimits ? "on" : "off")),
    Layer.provide(Layer.merge(Telemetry.exporting(settings), Telemetry.process(settings)))
  )

/** A long-running server: it listens, but has not reported that yet. */
const lasting = (settings: Settings) => Layer.tap(application(settings), () => StartGarbage.collect)

const durability: ReadonlyMap<string, string> = new Map([
  ["power-loss", "An acknowledged write survives a crash and a power failure."],
  [
    "process-crash",
    "An acknowledged write survives a crash of the process, not a power failure: set AMPOULE_DATABASE_URL for that."
  ]
])

class SetupWaits extends Data.TaggedError("SetupWaits") {}

/** Fails without the vault: the setup code of a first start needs one of its keys. */
const setupAddress = Effect.flatMap(Effect.all([RowSeal, Setup]), ([rowSeal, setup]) =>
  Effect.zipRight(rowSeal.prepare, setup.prepare)
).pipe(
  Effect.catchSomeDefect((defect) =>
    defect instanceof DependencyDown && defect.dependency === "vault"
      ? Option.some(new SetupWaits())
      : Option.none<SetupWaits>()
  )
)
const setupAddressInTime = Effect.retry(setupAddress, {
  schedule: Schedule.spaced("1 second"),
  while: (error) => error._tag === "SetupWaits"
})

/** Plain lines for people. The setup address appears only here and in the data folder. */
const setupLine = (url: Option.Option<Redacted.Redacted>): ReadonlyArray<string> =>
  Option.match(url, { onNone: () => [], onSome: (url) => [`Set it up at ${Redacted.value(url)}`] })

const announcement = (settings: Settings, setup: ReadonlyArray<string>) => [
  `Ampoule ${release} listens on ${settings.baseUrl} (${settings.host}, port ${settings.port})`,
  ...setup,
  durability.get(durabilityOf(settings)) ?? "",
  ...Option.match(settings.metricsPort, {
    onNone: () => [],
    onSome: (port) => [`Metrics for Prometheus: http://${settings.metricsHost}:${port}/metrics`]
  }),
  ...limitWarnings(settings)
]
const say = (settings: Settings, lines: ReadonlyArray<string>) =>
  Effect.forEach(lines, (line) => (settings.logFormat === "json" ? Effect.log(line) : Console.log(line)), {
    discard: true
  })

const announce = (settings: Settings) =>
  Effect.gen(function* () {
    const setup = yield* Effect.map(setupAddress, Option.some).pipe(
      Effect.catchTag("SetupWaits", () => Effect.succeedNone)
    )
    const pending = "Setup is possible as soon as the vault responds; its address will appear here."
    yield* say(settings, announcement(settings, Option.match(setup, { onNone: () => [pending], onSome: setupLine })))
    if (Option.isNone(setup)) yield* say(settings, setupLine(yield* setupAddressInTime))
  })

const single = (settings: Settings) =>
  announce(settings).pipe(
    Layer.effectDiscard,
    Layer.provide(lasting(settings)),
    Layer.provide(MetricsListener.layer(settings)),
    Layer.launch
  )

const stopWithin = "10 seconds"

/** `AMPOULE_WORKERS` processes that share the port. The primary makes the first start once, before any of them runs. */
const several = (settings: Settings) =>
  Effect.gen(function* () {
    const setup = yield* Effect.provide(
      setupAddressInTime,
      Layer.provideMerge(
        Layer.provide(Services.layer, Layer.succeed(UnsealedRows, settings.sealRows)),
        backends(settings)
      )
    )
    const workers = new Set<Worker>()
    const listening = yield* Deferred.make<void, StartRefused>()
    const gone = yield* Deferred.make<void>()
    let serves = false
    let stopping = false
    const start = () => {
      const worker = cluster.fork()
      workers.add(worker)
      worker.once("listening", () => {
        serves = true
        Deferred.unsafeDone(listening, Effect.void)
      })
      worker.once("exit", () => {
        workers.delete(worker)
        if (stopping) {
          if (workers.size === 0) Deferred.unsafeDone(gone, Effect.void)
        } else if (!serves) {
          Deferred.unsafeDone(listening, new StartRefused({ message: "A worker could not start." }))
        } else {
          // A delay, so that a crash loop does not consume the machine.
          setTimeout(() => stopping || start(), 1_000)
        }
      })
    }
    yield* Effect.acquireRelease(
      Effect.sync(() => {
        for (let i = 0; i < settings.workers; i++) start()
      }),
      () =>
        Effect.suspend(() => {
          stopping = true
          if (workers.size === 0) return Effect.void
          for (const worker of workers) worker.process.kill("SIGTERM")
          return Deferred.await(gone).pipe(
            Effect.interruptible,
            Effect.timeout(stopWithin),
            Effect.ignore,
            Effect.andThen(() => {
              for (const worker of workers) worker.process.kill("SIGKILL")
            })
          )
        })
    )
    yield* Deferred.await(listening)
    yield* Layer.build(Layer.provide(MetricsListener.layerOfWorkers(settings), Telemetry.process(settings)))
    yield* say(settings, announcement(settings, setupLine(setup)))
    return yield* Effect.never
  }).pipe(Effect.scoped)

/**
 * A worker ends when its primary asks for it, or is gone. A terminal's ^C reaches all of them, and only the primary
 * counts it.
 */
const worker = (settings: Settings) =>
  Effect.raceFirst(
    Layer.launch(Layer.merge(lasting(settings), MetricsListener.layerWorker)),
    Effect.async<void>((resume) => {
      cluster.worker?.once("disconnect", () => resume(Effect.void))
    })
  )

export const server: Effect.Effect<void, CliFailure> = Effect.gen(function* () {
  const settings = yield* Config.server
  const unknown = Config.unknownVariables(Object.keys(process.env))
  const warned = cluster.isWorker
    ? Effect.void
    : Effect.forEach(unknown, (name) => Effect.logWarning(`${name} is not a setting of Ampoule and is ignored.`))
  const run: Effect.Effect<unknown, unknown> = cluster.isWorker
    ? worker(settings)
    : settings.workers > 1
      ? several(settings)
      : single(settings)
  yield* untilSignal(Effect.zipRight(warned, run), cluster.isWorker).pipe(Effect.provide(Telemetry.logging(settings)))
}).pipe(orFailure)

export const migrate: Effect.Effect<void, CliFailure> = Effect.gen(function* () {
  const settings = yield* Config.load
  yield* Effect.scoped(Layer.build(Layer.provide(Sql.layer, Layer.succeed(AppConfig, settings)))).pipe(
    Effect.provide(logToStandardError(settings))
  )
}).pipe(orFailure)

const alreadySetUp = new CliFailure({
  message: "This server is already set up.",
  hint: "Nothing was changed. Start it with `ampoule server` and sign in. For an owner who is locked out, use `ampoule admin reset-link EMAIL`."
})

export const ownServer: Effect.Effect<OwnServer, CliFailure, Scope.Scope> = Effect.gen(function* () {
  const settings = { ...(yield* Config.load), host: "127.0.0.1", port: 0, workers: 1 }
  const built = yield* Layer.build(application(settings))
  const { port } = Context.get(built, Listening)
  const url = yield* Context.get(built, Setup).prepare
  if (Option.isNone(url)) return yield* alreadySetUp
  const code = new URL(Redacted.value(url.value)).searchParams.get("code") ?? ""
  return { url: `http://127.0.0.1:${port}`, setupCode: Redacted.make(code) }
}).pipe(orFailure)

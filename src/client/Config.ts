/**
 * `ampoule/client/config`: an Effect program reads `Config.redacted("DATABASE_URL")` from Ampoule.
 *
 *     program.pipe(Effect.provide(Ampoule.layer()))
 */
import * as FetchHttpClient from "@effect/platform/FetchHttpClient"
import * as ConfigProvider from "effect/ConfigProvider"
import * as ConfigPathPatch from "effect/ConfigProviderPathPatch"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import * as Environment from "./Environment.ts"

export interface Options extends Environment.Options {
  /** Interval of refreshes (jittered). Absent: no refreshes. A failed refresh keeps the last values. */
  readonly refresh?: Duration.DurationInput
  /** Provides names that the environment lacks; the process's variables by default. */
  readonly fallback?: ConfigProvider.ConfigProvider
}

/** Reads the environment's current values at each read. */
const providerOf = (environment: Environment.Environment): ConfigProvider.ConfigProvider => {
  let lastValues: Environment.Environment["values"] | undefined
  let current = ConfigProvider.fromMap(new Map())
  const now = () => {
    if (lastValues !== environment.values) {
      lastValues = environment.values
      const plain = new Map([...lastValues].map(([key, value]) => [key, Redacted.value(value)]))
      current = ConfigProvider.fromMap(plain, { pathDelim: "_", seqDelim: "," })
    }
    return current
  }
  return ConfigProvider.fromFlat(
    ConfigProvider.makeFlat({
      load: (path, config, split) => Effect.suspend(() => now().flattened.load(path, config, split)),
      enumerateChildren: (path) => Effect.suspend(() => now().flattened.enumerateChildren(path)),
      patch: ConfigPathPatch.empty
    })
  )
}

export const make = Effect.fnUntraced(function* (options: Options = {}) {
  const environment = yield* Environment.open(options)
  if (options.refresh !== undefined) {
    yield* Effect.ignore(environment.refresh).pipe(
      Effect.delay(options.refresh),
      Effect.repeat(Schedule.jittered(Schedule.spaced(options.refresh))),
      Effect.forkScoped
    )
  }
  const fallback = options.fallback ?? ConfigProvider.fromEnv()
  return ConfigProvider.orElse(providerOf(environment), () => fallback)
})

/** Fails if the environment is unavailable at the start: a program must not run with half its settings. */
export const layer = (options: Options = {}): Layer.Layer<never, Environment.Failure> =>
  Layer.unwrapScoped(Effect.map(make(options), Layer.setConfigProvider)).pipe(Layer.provide(FetchHttpClient.layer))

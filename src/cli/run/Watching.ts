/** Polling for changes of an environment: `run --watch` and `inject --watch`. */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import { type CliError, describe, usage } from "#src/cli/terminal/Failure.ts"
import { warn } from "#src/cli/terminal/Output.ts"

/** Time until the next request: the interval, 20 % more or less, so that many watchers do not ask at once. */
const pause = (interval: Duration.Duration, failures: number) =>
  Effect.flatMap(Random.nextRange(0.8, 1.2), (jitter) =>
    Effect.sleep(
      Duration.min(
        Duration.times(interval, jitter * 2 ** Math.min(failures, 5)),
        Duration.max(interval, Duration.minutes(5))
      )
    )
  )

export const intervalOf = (interval: Duration.Duration) =>
  Duration.lessThan(interval, Duration.seconds(1))
    ? usage("--watch-interval takes at least 1s.")
    : Effect.succeed(interval)

/**
 * `meanwhile`: the state while requests fail. Repeated failures of the same kind are reported once, until it recovers.
 */
export const watching = (interval: Duration.Duration, meanwhile: string) => {
  let lastMessage = ""
  let failures = 0
  return {
    pause: Effect.suspend(() => pause(interval, failures)),
    failed: (error: CliError) => {
      const { message } = describe(error)
      failures++
      if (message === lastMessage) return Effect.void
      lastMessage = message
      return warn(`${message} ${meanwhile}`)
    },
    /** Resets the interval, because the server responds. */
    answered: () => {
      failures = 0
    },
    worked: () => {
      lastMessage = ""
    }
  }
}

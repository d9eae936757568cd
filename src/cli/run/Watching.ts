/** Asking again and again whether an environment has changed: `run --watch` and `inject --watch`. */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import { type CliError, describe, usage } from "#src/cli/terminal/Failure.ts"
import { warn } from "#src/cli/terminal/Output.ts"

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

export const intervalOf = (interval: Duration.Duration) =>
  Duration.lessThan(interval, Duration.seconds(1))
    ? usage("--watch-interval is at least 1s.")
    : Effect.succeed(interval)

/** `meanwhile`: what goes on although a question failed. The same failure is told once, until it is over. */
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
    /** The server answers: it is asked as often as before. */
    answered: () => {
      failures = 0
    },
    worked: () => {
      lastMessage = ""
    }
  }
}

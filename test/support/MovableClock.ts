/**
 * A clock that says what a test wants, for the whole server: it stops until it is moved. Sleeps are real, so
 * that background work of the server does not run through 90 days of two-second steps, as it would on the TestClock.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

export class MovableClock extends Context.Tag("test/MovableClock")<
  MovableClock,
  { readonly advance: (by: Duration.DurationInput) => Effect.Effect<void> }
>() {}

/** Put it under everything whose time it is to be; the test runs with `excludeTestServices`. */
export const layer = Layer.unwrapEffect(
  Effect.sync(() => {
    const live = Clock.make()
    let now = Date.parse("2026-11-21T08:00:00.000Z")
    const clock: Clock.Clock = {
      [Clock.ClockTypeId]: Clock.ClockTypeId,
      unsafeCurrentTimeMillis: () => now,
      unsafeCurrentTimeNanos: () => BigInt(now) * 1_000_000n,
      currentTimeMillis: Effect.sync(() => now),
      currentTimeNanos: Effect.sync(() => BigInt(now) * 1_000_000n),
      sleep: (duration) => live.sleep(duration)
    }
    const advance = (by: Duration.DurationInput) =>
      Effect.sync(() => {
        now += Duration.toMillis(by)
      })
    return Layer.merge(Layer.succeed(MovableClock, { advance }), Layer.setClock(clock))
  })
)

/** Moves the time of the server and of the test. */
export const advance = (by: Duration.DurationInput) => Effect.flatMap(MovableClock, (clock) => clock.advance(by))

/** Work repeated behind the requests: written-behind rows, purges, sweeps of caches. */
import * as Clock from "effect/Clock"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"

const wallClock = Clock.make()

/**
 * Repeats `work` for as long as the scope is open, first after one pause. What fails is tried again with the next turn.
 * Pauses are wall-clock pauses: a test that moves its clock by months does not mean thousands of turns.
 */
export const every = <E>(
  pause: Duration.DurationInput,
  work: Effect.Effect<unknown, E>
): Effect.Effect<void, never, Scope.Scope> =>
  Effect.sleep(pause).pipe(
    Effect.withClock(wallClock),
    Effect.zipRight(Effect.catchAllCause(work, () => Effect.void)),
    Effect.forever,
    Effect.forkScoped,
    Effect.asVoid
  )

/** Work repeated behind the requests: written-behind rows, purges, sweeps of caches. */
import * as Cause from "effect/Cause"
import * as Chunk from "effect/Chunk"
import * as Clock from "effect/Clock"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"

const wallClock = Clock.make()

const word = (u: unknown): string | undefined => (typeof u === "string" && /^\w{1,80}$/.test(u) ? u : undefined)

/** Names and codes only: messages may quote what was at hand. */
const kindOf = (error: unknown): string => {
  if (typeof error !== "object" || error === null) return typeof error
  const inner = "cause" in error && typeof error.cause === "object" && error.cause !== null ? error.cause : error
  const name = "_tag" in error ? word(error._tag) : "name" in error ? word(error.name) : undefined
  const code = "code" in inner ? word(inner.code) : undefined
  return [name ?? "Error", ...(code === undefined ? [] : [code])].join(" ")
}

/**
 * Repeats `work` while the scope is open, first after one pause. A failure is retried at the next turn. The log has the
 * first failure of a row, and its end. `name`: the work in the log. Pauses use the wall clock, because a test that moves
 * its clock by months must not cause thousands of turns.
 */
export const every = <E>(
  pause: Duration.DurationInput,
  work: Effect.Effect<unknown, E>,
  name = "upkeep"
): Effect.Effect<void, never, Scope.Scope> =>
  Effect.suspend(() => {
    let failing = false
    const tell = (cause: Cause.Cause<E>) =>
      Effect.suspend(() => {
        if (failing || Cause.isInterruptedOnly(cause)) return Effect.void
        failing = true
        const errors = [...Chunk.map(Cause.failures(cause), kindOf), ...Chunk.map(Cause.defects(cause), kindOf)]
        return Effect.logWarning("Work behind the requests failed; it is tried again.").pipe(
          Effect.annotateLogs({ work: name, error: errors[0] ?? "unknown" })
        )
      })
    const tellEnd = Effect.suspend(() => {
      if (!failing) return Effect.void
      failing = false
      return Effect.logInfo("Work behind the requests goes on.").pipe(Effect.annotateLogs({ work: name }))
    })
    return Effect.sleep(pause).pipe(
      Effect.withClock(wallClock),
      Effect.zipRight(Effect.catchAllCause(Effect.zipRight(work, tellEnd), tell)),
      Effect.forever,
      Effect.forkScoped,
      Effect.asVoid
    )
  })

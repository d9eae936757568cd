/** Periodic work in the background: deferred writes, purges, sweeps of caches. */
import * as Cause from "effect/Cause"
import * as Chunk from "effect/Chunk"
import * as Clock from "effect/Clock"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"

const wallClock = Clock.make()

const word = (u: unknown): string | undefined => (typeof u === "string" && /^\w{1,80}$/.test(u) ? u : undefined)

/** Names and codes only: messages may quote data. */
const kindOf = (error: unknown): string => {
  if (typeof error !== "object" || error === null) return typeof error
  const inner = "cause" in error && typeof error.cause === "object" && error.cause !== null ? error.cause : error
  const name = "_tag" in error ? word(error._tag) : "name" in error ? word(error.name) : undefined
  const code = "code" in inner ? word(inner.code) : undefined
  return [name ?? "Error", ...(code === undefined ? [] : [code])].join(" ")
}

/**
 * Repeats `work` until the scope closes, first after one pause. A failure is retried in the next turn. The log gets the
 * first of several failures in a row, and the recovery. `name` identifies the work in the log. Pauses use the wall
 * clock: a test that moves its clock by months must not cause thousands of turns.
 */
export const every = <E>(
  pause: Duration.DurationInput,
  work: Effect.Effect<unknown, E>,
  name = "upkeep"
): Effect.Effect<void, never, Scope.Scope> =>
  Effect.suspend(() => {
    let failing = false
    const logFailure = (cause: Cause.Cause<E>) =>
      Effect.suspend(() => {
        if (failing || Cause.isInterruptedOnly(cause)) return Effect.void
        failing = true
        const errors = [...Chunk.map(Cause.failures(cause), kindOf), ...Chunk.map(Cause.defects(cause), kindOf)]
        return Effect.logWarning("Background work failed; it is tried again.").pipe(
          Effect.annotateLogs({ work: name, error: errors[0] ?? "unknown" })
        )
      })
    const logRecovery = Effect.suspend(() => {
      if (!failing) return Effect.void
      failing = false
      return Effect.logInfo("Background work continues.").pipe(Effect.annotateLogs({ work: name }))
    })
    return Effect.sleep(pause).pipe(
      Effect.withClock(wallClock),
      Effect.zipRight(Effect.catchAllCause(Effect.zipRight(work, logRecovery), logFailure)),
      Effect.forever,
      Effect.forkScoped,
      Effect.asVoid
    )
  })

/** Limits that count failures only: wrong passwords, wrong user codes. */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import type { Policy, RateLimiter } from "./RateLimiter.ts"

interface Limit {
  readonly buckets: ReadonlyArray<string>
  readonly policy: Policy
}

/**
 * Runs `work` as one attempt in all buckets. It is counted at its start, so that parallel attempts cannot exceed the
 * limit. It stays counted only if it is interrupted, or fails with an error that `counts` accepts. If one bucket
 * refuses it, no bucket counts it: an exhausted address cannot use up a person's attempts.
 */
export const attempt = <A, E, R>(
  limiter: RateLimiter,
  { buckets, policy }: Limit,
  work: Effect.Effect<A, E, R>,
  counts: (error: E) => boolean
) => {
  const giveBack = (some: ReadonlyArray<string>) => Effect.forEach(some, limiter.giveBack, { discard: true })
  const take = Effect.forEach(
    buckets,
    (bucket, i) => Effect.tapError(limiter.take(bucket, policy), () => giveBack(buckets.slice(0, i))),
    { discard: true }
  )
  const isCounted = (exit: Exit.Exit<A, E>): boolean => {
    if (Exit.isSuccess(exit)) return false
    const error = Cause.failureOption(exit.cause)
    return Option.isSome(error) ? counts(error.value) : Cause.isInterrupted(exit.cause)
  }
  return Effect.zipRight(
    take,
    Effect.onExit(work, (exit) => (isCounted(exit) ? Effect.void : giveBack(buckets)))
  )
}

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
 * Runs `work` as one attempt in all buckets. It is counted before it starts, so that parallel attempts cannot slip past
 * the limit, and uncounted unless it fails with an error that `counts`, or is interrupted. An attempt that one bucket
 * refuses counts in none: an address without attempts left cannot use up a person's.
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
  const failed = (exit: Exit.Exit<A, E>): boolean => {
    if (Exit.isSuccess(exit)) return false
    const error = Cause.failureOption(exit.cause)
    return Option.isSome(error) ? counts(error.value) : Cause.isInterrupted(exit.cause)
  }
  return Effect.zipRight(
    take,
    Effect.onExit(work, (exit) => (failed(exit) ? Effect.void : giveBack(buckets)))
  )
}

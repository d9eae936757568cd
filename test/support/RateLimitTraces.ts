/** Policies and traces of requests for the tests of rate-limit stores. */
import * as FastCheck from "effect/FastCheck"
import type { Policy } from "#src/limits/RateLimiter.ts"

/** One to three windows, shortest first, with limits small enough to be reached. */
const policies: FastCheck.Arbitrary<Policy> = FastCheck.uniqueArray(
  FastCheck.record({
    limit: FastCheck.integer({ min: 1, max: 40 }),
    millis: FastCheck.integer({ min: 1, max: 5_000 })
  }),
  { minLength: 1, maxLength: 3, selector: (window) => window.millis }
).map((windows) => windows.toSorted((a, b) => a.millis - b.millis))

/** Bursts, pauses, the very edges of the windows, and a clock that steps back now and then. */
const gapOf = (policy: Policy) =>
  FastCheck.oneof(
    { weight: 12, arbitrary: FastCheck.constant(0) },
    { weight: 3, arbitrary: FastCheck.integer({ min: 1, max: 400 }) },
    {
      weight: 3,
      arbitrary: FastCheck.constantFrom(...policy.flatMap(({ millis }) => [millis - 1, millis, millis + 1]))
    },
    { weight: 1, arbitrary: FastCheck.integer({ min: -300, max: 6_000 }) }
  )
/** Mostly single requests; some that are worth more, and a few that are worth more than any window admits. */
const units = FastCheck.oneof(
  { weight: 8, arbitrary: FastCheck.constant(1) },
  { weight: 2, arbitrary: FastCheck.integer({ min: 2, max: 12 }) },
  { weight: 1, arbitrary: FastCheck.integer({ min: 2, max: 45 }) }
)
/** A policy and its requests, at most `length` of them: the pause before each, and how many units it is worth. */
export const scenario = (length: number) =>
  policies.chain((policy) =>
    FastCheck.tuple(
      FastCheck.constant(policy),
      FastCheck.array(FastCheck.tuple(gapOf(policy), units), { minLength: 1, maxLength: length })
    )
  )

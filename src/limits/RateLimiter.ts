/** Sliding windows per bucket (docs/contract/rate-limits.md), stored in process or in Redis. */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { RateLimited } from "#schema/Errors.ts"
import * as Metrics from "#src/telemetry/Metrics.ts"

interface Window {
  readonly limit: number
  readonly millis: number
}
/** All windows of a policy apply at once; shortest first. */
export type Policy = ReadonlyArray<Window>

/** Applies to the credential's own bucket. */
export const credentialPolicy: Policy = [
  { limit: 50, millis: 1_000 },
  { limit: 250, millis: 10_000 },
  { limit: 1_000, millis: 60_000 }
]
export const addressPolicy: Policy = [{ limit: 300, millis: 60_000 }]
export const deviceStartPolicy: Policy = [{ limit: 10, millis: 60_000 }]
export const signInPolicy: Policy = [{ limit: 10, millis: 600_000 }]
/** Changes to an email that another account has: each refusal reveals that the account exists. */
export const takenEmailPolicy: Policy = [{ limit: 5, millis: 86_400_000 }]
/** Confirmation links of one account: each one is an e-mail. */
export const confirmationPolicy: Policy = [{ limit: 3, millis: 3_600_000 }]
/** Confirmation links of all accounts of an address, which one mailbox receives. */
export const mailboxPolicy: Policy = [{ limit: 12, millis: 3_600_000 }]
/** Wrong codes of a second factor: three of a million are right at any time. */
export const factorPolicy: Policy = [
  { limit: 5, millis: 600_000 },
  { limit: 20, millis: 86_400_000 }
]
export const userCodePolicy: Policy = [{ limit: 10, millis: 600_000 }]
/**
 * Guesses by one person, or by one token, shared by REST, MCP and pages. `secrets/Guesses.ts` decides the cost of comparisons and
 * writes. It is charged after the checks of shape and rights. A request refused before that compares nothing, and
 * counts in the credential's own policy only.
 */
export const diffPolicy: Policy = [{ limit: 30, millis: 60_000 }]

/** State of the tightest window after a take, for the `RateLimit-*` headers; seconds are rounded up. */
export interface RateLimitState {
  readonly allowed: boolean
  readonly limit: number
  readonly remaining: number
  readonly resetSeconds: number
  /** 0 when allowed. */
  readonly retryAfterSeconds: number
}

/**
 * Counts `units` (1 by default) of `bucket` at `now` (milliseconds), unless a window lacks room for all of them. No
 * span of a window's length admits more than its limit. A refused request does not count, not even in part.
 */
export class RateLimitStore extends Context.Tag("limits/RateLimitStore")<
  RateLimitStore,
  {
    readonly take: (bucket: string, policy: Policy, now: number, units?: number) => Effect.Effect<RateLimitState>
    /** Returns the newest units (1 by default) to the bucket, as far as it has any. */
    readonly giveBack: (bucket: string, units?: number) => Effect.Effect<void>
  }
>() {}

/** `AMPOULE_RATE_LIMITS=off` is for benchmarks. */
export class RateLimits extends Context.Reference<RateLimits>()("limits/RateLimits", {
  defaultValue: (): "on" | "off" => "on"
}) {}

/**
 * The decision from the times of admitted units. `admitted` returns the time of the nth, newest first, from 0 to below
 * the largest limit, or minus infinity. More units than a window ever admits are refused with the window's length as
 * wait, though no wait helps.
 */
export const decide = (policy: Policy, admitted: (n: number) => number, now: number, units = 1): RateLimitState => {
  let wait = 0
  let room = Infinity
  let tightest: RateLimitState | undefined
  for (const { limit, millis } of policy) {
    wait = Math.max(wait, units > limit ? millis : admitted(limit - units) + millis - now)
    let used = 0
    let high = limit
    while (used < high) {
      const middle = (used + high) >> 1
      if (now - admitted(middle) < millis) used = middle + 1
      else high = middle
    }
    room = Math.min(room, limit - used)
    const remaining = Math.max(0, limit - used - units)
    const oldest = used === 0 ? now : admitted(used - 1)
    const resetSeconds = Math.ceil((oldest + millis - now) / 1000)
    // The tightest window refuses first: it bounds the requests that could come at this instant.
    if (
      tightest === undefined ||
      remaining < tightest.remaining ||
      (remaining === tightest.remaining && resetSeconds > tightest.resetSeconds)
    ) {
      tightest = { allowed: true, limit, remaining, resetSeconds, retryAfterSeconds: 0 }
    }
  }
  const state = tightest ?? { allowed: true, limit: 0, remaining: 0, resetSeconds: 1, retryAfterSeconds: 0 }
  if (wait === 0) return state
  return { ...state, allowed: false, remaining: room, retryAfterSeconds: Math.ceil(wait / 1000) }
}

export class RateLimiter extends Effect.Service<RateLimiter>()("limits/RateLimiter", {
  effect: Effect.gen(function* () {
    const store = yield* RateLimitStore
    const off = (yield* RateLimits) === "off"

    /** Counts a request; a full window is a result here, not a failure. `undefined`: limits are off. */
    const count = (bucket: string, policy: Policy, units = 1): Effect.Effect<RateLimitState | undefined> =>
      off
        ? Effect.succeed(undefined)
        : Effect.flatMap(Clock.currentTimeMillis, (now) =>
            Effect.map(store.take(bucket, policy, now, units), (state) => {
              if (!state.allowed) Metrics.rateLimited(bucket)
              return state
            })
          )

    /** Counts all units or none; fails with RATE_LIMITED. `undefined`: limits are off. */
    const take = Effect.fnUntraced(function* (bucket: string, policy: Policy, units = 1) {
      const state = yield* count(bucket, policy, units)
      if (state?.allowed === false) return yield* new RateLimited({ retryAfterSeconds: state.retryAfterSeconds })
      return state
    })

    /**
     * For limits that count failures only: take before an attempt, give back after a success. So parallel attempts
     * cannot exceed the limit.
     */
    const giveBack = (bucket: string) => (off ? Effect.void : store.giveBack(bucket))

    return { count, take, giveBack } as const
  })
}) {}

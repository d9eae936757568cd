/** Sliding windows per bucket (docs/contract/rate-limits.md). The store is a choice: in process or Redis. */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { RateLimited } from "#schema/Errors.ts"
import * as Metrics from "#src/telemetry/Metrics.ts"

interface Window {
  readonly limit: number
  readonly millis: number
}
/** All windows of a policy hold at once; shortest first. */
export type Policy = ReadonlyArray<Window>

/** Counted in the bucket of the credential itself, all three windows at once. */
export const credentialPolicy: Policy = [
  { limit: 50, millis: 1_000 },
  { limit: 250, millis: 10_000 },
  { limit: 1_000, millis: 60_000 }
]
export const addressPolicy: Policy = [{ limit: 300, millis: 60_000 }]
export const deviceStartPolicy: Policy = [{ limit: 10, millis: 60_000 }]
export const signInPolicy: Policy = [{ limit: 10, millis: 600_000 }]
/** Addresses that a person wanted and another account has: each refusal tells who has one. */
export const takenEmailPolicy: Policy = [{ limit: 5, millis: 86_400_000 }]
/** Wrong codes of a second factor: three of a million are right at any time. */
export const factorPolicy: Policy = [
  { limit: 5, millis: 600_000 },
  { limit: 20, millis: 86_400_000 }
]
export const userCodePolicy: Policy = [{ limit: 10, millis: 600_000 }]
/**
 * Guesses of one credential: what a comparison of two environments and a write take of it is decided in
 * `secrets/Guesses.ts`. REST, MCP and pages share it. It is taken after the shape of a request and the right to it were
 * checked: what is refused before that compares nothing and is counted by the credential's own policy alone.
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
 * Counts `units` (1 by default) of `bucket` at `now` (milliseconds) unless a window has no room for all of them. No
 * span of a window's length ever admits more than its limit; a refused request does not count, not even in part.
 */
export class RateLimitStore extends Context.Tag("limits/RateLimitStore")<
  RateLimitStore,
  {
    readonly take: (bucket: string, policy: Policy, now: number, units?: number) => Effect.Effect<RateLimitState>
    /** Uncounts the newest units (1 by default) of the bucket, as far as there are any. */
    readonly giveBack: (bucket: string, units?: number) => Effect.Effect<void>
  }
>() {}

/** `AMPOULE_RATE_LIMITS=off` for benchmarks. */
export class RateLimits extends Context.Reference<RateLimits>()("limits/RateLimits", {
  defaultValue: (): "on" | "off" => "on"
}) {}

/**
 * The decision over the times of admitted units, newest first: `admitted` tells the time of the nth (from 0 to below the
 * largest limit), minus infinity when there are not so many. More units than a window ever admits are refused, and no
 * wait helps them: they are told the length of that window.
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
    // The tightest is the one that refuses first: so many requests and no more could come at this instant.
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

    /** Counts a request and tells; a full window is an answer here, not a failure. `undefined` = limits are off. */
    const count = (bucket: string, policy: Policy, units = 1): Effect.Effect<RateLimitState | undefined> =>
      off
        ? Effect.succeed(undefined)
        : Effect.flatMap(Clock.currentTimeMillis, (now) =>
            Effect.map(store.take(bucket, policy, now, units), (taken) => {
              if (!taken.allowed) Metrics.rateLimited(bucket)
              return taken
            })
          )

    /** Counts all units or none; fails with RATE_LIMITED. `undefined` = limits are off. */
    const take = Effect.fnUntraced(function* (bucket: string, policy: Policy, units = 1) {
      const taken = yield* count(bucket, policy, units)
      if (taken?.allowed === false) return yield* new RateLimited({ retryAfterSeconds: taken.retryAfterSeconds })
      return taken
    })

    /**
     * For limits that count failures only: take before trying, give back after a success. Parallel tries cannot slip
     * past the limit that way.
     */
    const giveBack = (bucket: string) => (off ? Effect.void : store.giveBack(bucket))

    return { count, take, giveBack } as const
  })
}) {}

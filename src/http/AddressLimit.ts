/** "Unauthenticated: 300/min per address (health exempt)" (decisions 7). */
import * as Effect from "effect/Effect"
import { RequestInfo } from "#src/access/RequestInfo.ts"
import { addressBucket } from "#src/limits/AddressBucket.ts"
import { addressPolicy, type RateLimiter } from "#src/limits/RateLimiter.ts"

/** Counts a request that nobody vouches for; fails with RATE_LIMITED. */
export const countAddress = (limiter: RateLimiter) =>
  Effect.flatMap(RequestInfo, ({ ip }) => limiter.take(addressBucket(ip), addressPolicy))

/** Limits per address of requests that nobody vouches for (decisions 7). */
import * as Effect from "effect/Effect"
import { RequestInfo } from "#src/access/RequestInfo.ts"
import { addressBucket } from "#src/limits/AddressBucket.ts"
import { addressPolicy, deviceStartPolicy, type RateLimiter } from "#src/limits/RateLimiter.ts"

/** "300/min per address (health exempt)". Fails with RATE_LIMITED. */
export const countAddress = (limiter: RateLimiter) =>
  Effect.flatMap(RequestInfo, ({ ip }) => limiter.take(addressBucket(ip), addressPolicy))

/** Starts of device authorization, counted whatever their shape: 429 comes before 400 (decisions 3). */
export const countDeviceStart = (limiter: RateLimiter) =>
  Effect.flatMap(RequestInfo, ({ ip }) => limiter.take(`device-start:${addressBucket(ip)}`, deviceStartPolicy))

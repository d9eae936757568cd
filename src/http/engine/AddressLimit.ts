/** Limits per address, for requests without a valid credential. */
import * as Effect from "effect/Effect"
import { RequestInfo } from "#src/database/RequestInfo.ts"
import { addressBucket } from "#src/limits/AddressBucket.ts"
import { addressPolicy, deviceStartPolicy, type RateLimiter } from "#src/limits/RateLimiter.ts"

/** "300/min per address (health exempt)". Fails with RATE_LIMITED. */
export const countAddress = (limiter: RateLimiter) =>
  Effect.flatMap(RequestInfo, ({ ip }) => limiter.take(addressBucket(ip), addressPolicy))

/** Counts starts of device authorization before their input is checked: 429 precedes 400. */
export const countDeviceStart = (limiter: RateLimiter) =>
  Effect.flatMap(RequestInfo, ({ ip }) => limiter.take(`device-start:${addressBucket(ip)}`, deviceStartPolicy))

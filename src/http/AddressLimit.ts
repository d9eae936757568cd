/** "Unauthenticated: 300/min per address (health exempt)" (decisions 7). */
import * as Effect from "effect/Effect"
import { isIPv6 } from "node:net"
import { RequestInfo } from "#src/access/RequestInfo.ts"
import { addressPolicy, type RateLimiter } from "#src/limits/RateLimiter.ts"

/** One IPv6 subscriber holds a /64 and could use a new address for every request. */
export const addressBucket = (ip: string): string => {
  if (!isIPv6(ip)) return `address:${ip}`
  const [head, tail] = ip.split("::")
  const left = head === "" ? [] : head.split(":")
  const right = tail === undefined || tail === "" ? [] : tail.split(":")
  const groups = tail === undefined ? left : [...left, ...Array(8 - left.length - right.length).fill("0"), ...right]
  return `address:${groups
    .slice(0, 4)
    .map((group) => group.replace(/^0+(?=.)/, "").toLowerCase())
    .join(":")}::/64`
}

/** Counts a request that nobody vouches for; fails with RATE_LIMITED. */
export const countAddress = (limiter: RateLimiter) =>
  Effect.flatMap(RequestInfo, ({ ip }) => limiter.take(addressBucket(ip), addressPolicy))

/**
 * Limits the keys that leave a vault per second, so that an attacker on a server cannot take every team's keys at once
 * (docs/security.md, "Keys"). A token bucket: requests above the rate wait for a moment, then are refused.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { VaultUnavailable } from "#schema/Vault.ts"

/** Seconds of the rate that may leave at once, since a starting server needs many keys. */
export const burstSeconds = 5
/** Milliseconds; the server waits 2 s for an answer. */
const maxWaitMillis = 1_000

/** `perSecond` is at least 100, so that a batch of 500 fits. */
export const make = (perSecond: number) =>
  Effect.map(Clock.currentTimeMillis, (startedAt) => {
    let tokens = perSecond * burstSeconds
    let at = startedAt
    /** Takes `n` keys: at once, after a wait of at most a second, or not at all. */
    return (n: number): Effect.Effect<void, VaultUnavailable> =>
      Effect.flatMap(Clock.currentTimeMillis, (now) => {
        tokens = Math.min(perSecond * burstSeconds, tokens + (Math.max(0, now - at) / 1000) * perSecond)
        at = now
        // Waiting calls take their tokens in advance, so that calls stay in order.
        const wait = Math.max(0, ((n - tokens) / perSecond) * 1000)
        if (wait > maxWaitMillis)
          return new VaultUnavailable({ reason: "The vault hands out no more keys per second." })
        tokens -= n
        return wait === 0 ? Effect.void : Effect.sleep(wait)
      })
  })

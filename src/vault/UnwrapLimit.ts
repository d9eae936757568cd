/**
 * How many keys may leave a vault per second: who took over a server must not have every team's keys in one of them
 * (docs/security.md, "Keys"). A bucket of tokens: what comes too fast waits for a moment, then is refused.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { VaultUnavailable } from "#schema/Vault.ts"

/** A server that starts asks for many keys at once: as many seconds' worth as this may go at once. */
export const burstSeconds = 5
/** Milliseconds; the server waits 2 s for an answer. */
const longestWait = 1_000

/** `perSecond`: at least 100, so that a batch of 500 can go at all. */
export const make = (perSecond: number) =>
  Effect.map(Clock.currentTimeMillis, (started) => {
    let tokens = perSecond * burstSeconds
    let at = started
    /** Takes `n` keys' worth: at once, after a wait of a second at most, or not at all. */
    return (n: number): Effect.Effect<void, VaultUnavailable> =>
      Effect.flatMap(Clock.currentTimeMillis, (now) => {
        tokens = Math.min(perSecond * burstSeconds, tokens + (Math.max(0, now - at) / 1000) * perSecond)
        at = now
        // Those who wait have taken theirs in advance, so that they go in the order of their coming.
        const wait = Math.max(0, ((n - tokens) / perSecond) * 1000)
        if (wait > longestWait) return new VaultUnavailable({ reason: "The vault hands out no more keys per second." })
        tokens -= n
        return wait === 0 ? Effect.void : Effect.sleep(wait)
      })
  })

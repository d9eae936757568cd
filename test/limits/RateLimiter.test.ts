import { assert, describe, it, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import * as Layer from "effect/Layer"
import * as TestClock from "effect/TestClock"
import * as RateLimitMemory from "#layers/RateLimitMemory.ts"
import {
  credentialPolicy,
  type Policy,
  RateLimiter,
  RateLimitStore,
  type RateLimitState
} from "#src/limits/RateLimiter.ts"
import * as RateLimitTraces from "#test/support/RateLimitTraces.ts"

const scenario = RateLimitTraces.scenario(250)

const used = (admitted: ReadonlyArray<number>, now: number, millis: number) =>
  admitted.filter((time) => now - time < millis).length

/** The rule in its own words, over everything ever admitted. */
const expected = (policy: Policy, admitted: ReadonlyArray<number>, now: number, units: number) => {
  const allowed = policy.every(({ limit, millis }) => used(admitted, now, millis) + units <= limit)
  const rests = policy.map(({ limit, millis }) => limit - used(admitted, now, millis) - (allowed ? units : 0))
  return { allowed, remaining: Math.min(...rests) }
}

const run = (
  policy: Policy,
  requests: ReadonlyArray<readonly [gap: number, units: number]>,
  each: (taken: RateLimitState, now: number, admitted: ReadonlyArray<number>, units: number) => void
) =>
  Effect.gen(function* () {
    const store = yield* RateLimitStore
    const bucket = String(++buckets)
    const admitted: Array<number> = []
    let now = 1_000_000
    let latest = 0
    for (const [gap, units] of requests) {
      now += gap
      // A clock that steps back does not open a window again.
      latest = Math.max(latest, now)
      const state = yield* store.take(bucket, policy, now, units)
      each(state, latest, admitted, units)
      if (state.allowed) admitted.push(...Array.from({ length: units }, () => latest))
      // A refused request leaves no trace: of a bucket that admitted none, the store keeps no time.
      else latest = admitted.at(-1) ?? 0
    }
    return admitted
  }).pipe(Effect.provide(RateLimitMemory.layer))
let buckets = 0

describe("sliding windows", () => {
  it.effect.prop(
    "no span of a window's length ever admits more than its limit",
    [scenario],
    Effect.fnUntraced(function* ([[policy, requests]]) {
      const admitted = yield* run(policy, requests, () => {})
      for (const { limit, millis } of policy) {
        for (let i = 0; i + limit < admitted.length; i++) assert.isAtLeast(admitted[i + limit] - admitted[i], millis)
      }
    })
  )

  it.effect.prop(
    "a request is refused only when a window is full of admitted ones: refused ones do not count",
    [scenario],
    Effect.fnUntraced(function* ([[policy, requests]]) {
      yield* run(policy, requests, (taken, now, admitted, units) => {
        const { allowed, remaining } = expected(policy, admitted, now, units)
        assert.deepStrictEqual([taken.allowed, taken.remaining], [allowed, remaining])
        assert.isTrue(policy.some(({ limit }) => limit === taken.limit))
      })
    })
  )

  it.effect.prop(
    "a caller that waits for Retry-After is admitted, and would not be a second earlier",
    [scenario],
    Effect.fnUntraced(function* ([[policy, requests]]) {
      yield* run(policy, requests, (taken, now, admitted, units) => {
        if (taken.allowed) return assert.strictEqual(taken.retryAfterSeconds, 0)
        assert.isAtLeast(taken.retryAfterSeconds, 1)
        const after = now + taken.retryAfterSeconds * 1_000
        // No wait helps a request that is worth more than a window ever admits.
        const possible = policy.every(({ limit }) => units <= limit)
        assert.strictEqual(expected(policy, admitted, after, units).allowed, possible)
        if (possible && taken.retryAfterSeconds > 1) {
          assert.isFalse(expected(policy, admitted, after - 1_000, units).allowed)
        }
      })
    })
  )

  it.effect.prop(
    "what remains is what can still come at once",
    [scenario],
    Effect.fnUntraced(function* ([[policy, requests]]) {
      const store = yield* RateLimitStore
      let now = 0
      let last: RateLimitState | undefined
      for (const [gap, units] of requests) last = yield* store.take("a", policy, (now += Math.abs(gap)), units)
      for (let rest = last?.remaining ?? 0; rest > 0; rest--) {
        assert.isTrue((yield* store.take("a", policy, now)).allowed)
      }
      const { allowed, retryAfterSeconds } = yield* store.take("a", policy, now)
      assert.isFalse(allowed)
      assert.isAtLeast(retryAfterSeconds, 1)
    }, Effect.provide(RateLimitMemory.layer))
  )

  it.effect.prop(
    "a request given back was never there; buckets do not touch each other",
    [scenario, FastCheck.array(FastCheck.boolean(), { minLength: 250, maxLength: 250 })],
    Effect.fnUntraced(function* ([[policy, requests], backs]) {
      const store = yield* RateLimitStore
      const admitted: Array<number> = []
      let now = 0
      for (const [i, [gap, units]] of requests.entries()) {
        now += Math.abs(gap)
        yield* store.take("other", policy, now)
        const { allowed } = yield* store.take("this", policy, now, units)
        assert.strictEqual(allowed, expected(policy, admitted, now, units).allowed)
        if (!allowed) continue
        if (backs[i]) yield* store.giveBack("this", units)
        else admitted.push(...Array.from({ length: units }, () => now))
      }
      yield* store.giveBack("a bucket that nobody used")
    }, Effect.provide(RateLimitMemory.layer))
  )
})

describe("a clock that is set back by hours", () => {
  const policy: Policy = [{ limit: 3, millis: 10_000 }]
  const hours = 3_600_000

  it.effect("locks nobody out until it has caught up, and opens no window again", () =>
    Effect.gen(function* () {
      const store = yield* RateLimitStore
      const at = (now: number) => Effect.map(store.take("a", policy, now), ({ allowed }) => allowed)
      const ahead = 12 * hours
      assert.deepStrictEqual(yield* Effect.forEach([0, 4_000], (after) => at(ahead + after)), [true, true])
      // Set back: the two count as if the last of them came just now.
      assert.deepStrictEqual(yield* Effect.forEach([0, 0, 5_999], at), [true, false, false])
      assert.deepStrictEqual(yield* Effect.forEach([6_000, 6_000, 10_000, 10_000, 10_000], at), [
        true,
        false,
        true,
        true,
        false
      ])
    }).pipe(Effect.provide(RateLimitMemory.layer))
  )
})

layer(RateLimiter.Default.pipe(Layer.provide(RateLimitMemory.layer)))("the limiter", (it) => {
  it.effect("lets a credential ask 50 times a second, 250 times in 10 s and 1,000 times a minute, all at once", () =>
    Effect.gen(function* () {
      const limiter = yield* RateLimiter
      const ask = Effect.either(limiter.take("test:credential", credentialPolicy))
      /** As many requests as get through in one second, on the clock's whole seconds. */
      const second = Effect.gen(function* () {
        let through = 0
        for (let i = 0; i < 60; i++) if (Either.isRight(yield* ask)) through++
        yield* TestClock.adjust("1 seconds")
        return through
      })
      const perSecond: Array<number> = []
      for (let i = 0; i < 61; i++) perSecond.push(yield* second)
      const sum = (from: number, to: number) => perSecond.slice(from, to).reduce((a, b) => a + b, 0)
      assert.strictEqual(Math.max(...perSecond), 50)
      assert.strictEqual(perSecond[0], 50)
      for (let i = 0; i + 10 <= 60; i++) assert.isAtMost(sum(i, i + 10), 250)
      assert.strictEqual(sum(0, 10), 250)
      assert.strictEqual(sum(0, 60), 1_000)
      assert.strictEqual(perSecond[60], 50)
    })
  )

  it.effect("fails with the seconds to wait", () =>
    Effect.gen(function* () {
      const limiter = yield* RateLimiter
      const policy = [{ limit: 1, millis: 90_000 }]
      yield* limiter.take("test:waiting", policy)
      yield* TestClock.adjust("29500 millis")
      const refused = yield* Effect.flip(limiter.take("test:waiting", policy))
      assert.strictEqual(refused._tag, "RATE_LIMITED")
      assert.strictEqual(refused.retryAfterSeconds, 61)
      yield* TestClock.adjust("61 seconds")
      assert.isTrue((yield* limiter.take("test:waiting", policy))?.allowed)
    })
  )
})

/** Requests that the contract's limits let through, and the members of a decision, as fixed answers. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Metric from "effect/Metric"
import * as TestClock from "effect/TestClock"
import * as RateLimitMemory from "#layers/RateLimitMemory.ts"
import * as RateLimiter from "#src/limits/RateLimiter.ts"
import * as RateLimitTraces from "#test/support/RateLimitTraces.ts"

/** Admitted requests of a caller that never pauses: `most` before `seconds` have passed, and more afterwards. */
const contract = `
limit        most  seconds
credential     50        1
credential    250       10
credential   1000       60
address       300       60
device-start   10       60
sign-in        10      600
taken-email     5    86400
factor          5      600
factor         20    86400
user-code      10      600
diff           30       60
`
const policies: Readonly<Record<string, RateLimiter.Policy>> = {
  credential: RateLimiter.credentialPolicy,
  address: RateLimiter.addressPolicy,
  "device-start": RateLimiter.deviceStartPolicy,
  "sign-in": RateLimiter.signInPolicy,
  "taken-email": RateLimiter.takenEmailPolicy,
  factor: RateLimiter.factorPolicy,
  "user-code": RateLimiter.userCodePolicy,
  diff: RateLimiter.diffPolicy
}

/** The times, in milliseconds, at which the first `count` requests get through. */
const through = (policy: RateLimiter.Policy, count: number) =>
  Effect.gen(function* () {
    const store = yield* RateLimiter.RateLimitStore
    const times: Array<number> = []
    for (let now = 0; times.length < count;) {
      const { allowed, retryAfterSeconds } = yield* store.take("a", policy, now)
      if (allowed) times.push(now)
      else assert.isAbove(retryAfterSeconds, 0, "a refusal tells how long to wait")
      now += retryAfterSeconds * 1_000
    }
    return times
  }).pipe(Effect.provide(RateLimitMemory.layer))

/** The decision over these ages of admitted units, newest first, at a time that does not matter. */
const decided = (policy: RateLimiter.Policy, ages: ReadonlyArray<number>, units?: number) => {
  const now = 1_700_000_000_000
  const largest = Math.max(...policy.map(({ limit }) => limit))
  const admitted = (n: number) => {
    // A store keeps as many times as the largest limit, and is asked for no other.
    assert.isTrue(n >= 0 && n < largest, `the unit number ${n}`)
    return n < ages.length ? now - ages[n] : Number.NEGATIVE_INFINITY
  }
  const { allowed, limit, remaining, resetSeconds, retryAfterSeconds } = RateLimiter.decide(
    policy,
    admitted,
    now,
    units
  )
  return [allowed ? "admitted" : "refused", limit, remaining, resetSeconds, retryAfterSeconds]
}
const three = [{ limit: 3, millis: 10_000 }]

describe("the limits of the contract", () => {
  it.effect("let through what its table says, and more once that time has passed", () =>
    Effect.gen(function* () {
      const rows = contract
        .trim()
        .split("\n")
        .slice(1)
        .map((line) => line.split(/\s+/))
      for (const [name, most, seconds] of rows) {
        const times = yield* through(policies[name], Number(most) + 1)
        assert.isBelow(times[Number(most) - 1], Number(seconds) * 1_000, name)
        assert.strictEqual(times[Number(most)], Number(seconds) * 1_000, name)
      }
      assert.sameMembers(
        rows.map(([name]) => name),
        Object.entries(policies).flatMap(([name, policy]) => policy.map(() => name))
      )
    })
  )

  it("follow the tightest window, and count from the oldest request in it", () => {
    // Outcome, limit, remaining, reset and wait in seconds.
    assert.deepStrictEqual(decided(three, []), ["admitted", 3, 2, 10, 0])
    assert.deepStrictEqual(decided(three, [1_000]), ["admitted", 3, 1, 9, 0])
    assert.deepStrictEqual(decided(three, [1_000, 4_500]), ["admitted", 3, 0, 6, 0])
    assert.deepStrictEqual(decided(three, [1_000, 4_500, 9_999]), ["refused", 3, 0, 1, 1])
    assert.deepStrictEqual(decided(three, [1_000, 4_500, 8_999]), ["refused", 3, 0, 2, 2])
    // A window's length later a request is not in it any more.
    assert.deepStrictEqual(decided(three, [1_000, 4_500, 10_000]), ["admitted", 3, 0, 6, 0])
  })

  it("of several windows: all hold, and the answer has the one with the least left", () => {
    const two = [
      { limit: 2, millis: 1_000 },
      { limit: 4, millis: 10_000 }
    ]
    assert.deepStrictEqual(decided(two, []), ["admitted", 2, 1, 1, 0])
    assert.deepStrictEqual(decided(two, [200, 400]), ["refused", 2, 0, 1, 1])
    assert.deepStrictEqual(decided(two, [2_000, 3_000, 4_000]), ["admitted", 4, 0, 6, 0])
    assert.deepStrictEqual(decided(two, [2_000, 3_000, 4_000, 5_000]), ["refused", 4, 0, 5, 5])
    // Both are full: the answer has the longer wait, of either window.
    assert.deepStrictEqual(decided(two, [200, 400, 3_000, 4_000]), ["refused", 4, 0, 6, 6])
    assert.deepStrictEqual(decided(two.toReversed(), [200, 400, 3_000, 4_000]), ["refused", 4, 0, 6, 6])
    assert.deepStrictEqual(decided([two[1], { limit: 2, millis: 60_000 }], [200, 400]), ["refused", 2, 0, 60, 60])
  })

  it("of two windows with the same left: the one that is full for longer, and of equal ones the shorter", () => {
    const [second, five, six] = [1_000, 5_000, 6_000]
    const of = (short: number, long: number, limit = 2) => [
      { limit: 2, millis: short },
      { limit, millis: long }
    ]
    assert.deepStrictEqual(decided(of(second, five), []), ["admitted", 2, 1, 5, 0])
    // The request of 5.5 seconds ago is in the longer window alone, which has one place more, and leaves it soon.
    assert.deepStrictEqual(decided(of(five, six, 3), [5_500]), ["admitted", 2, 1, 5, 0])
    assert.deepStrictEqual(decided(of(second, 2_000, 3), [1_500]), ["admitted", 2, 1, 1, 0])
  })

  it("take several units together or none of them", () => {
    assert.deepStrictEqual(decided(three, [], 3), ["admitted", 3, 0, 10, 0])
    assert.deepStrictEqual(decided(three, [1_000], 2), ["admitted", 3, 0, 9, 0])
    // Refused whole: two are left for a smaller request.
    assert.deepStrictEqual(decided(three, [1_000], 3), ["refused", 3, 2, 9, 9])
    assert.deepStrictEqual(decided(three, [1_000, 2_000], 2), ["refused", 3, 1, 8, 8])
    // More than the window ever admits: told its length, for want of a better answer.
    assert.deepStrictEqual(decided(three, [], 4), ["refused", 3, 3, 10, 10])
    assert.deepStrictEqual(decided(three, [1_000], 4), ["refused", 3, 2, 9, 10])
  })

  it("that are none admit everything", () => {
    assert.deepStrictEqual(decided([], []), ["admitted", 0, 0, 1, 0])
  })

  it.prop(
    "are decided over the times that a store keeps, and no others",
    [RateLimitTraces.scenario(50)],
    ([[policy, requests]]) => {
      const ages = requests.map(([gap]) => Math.abs(gap)).sort((a, b) => a - b)
      for (const [, units] of requests) decided(policy, ages, units)
    }
  )
})

const refusals = Metric.counter("ampoule_rate_limited_total", {
  description:
    "Refused by a rate limit, by what it limits; `refusals` limits how often a denial goes into the audit trail.",
  incremental: true
})

describe("the limiter of a server", () => {
  const limiter = () => RateLimiter.RateLimiter.Default.pipe(Layer.provide(RateLimitMemory.layer))

  it.effect("counts what it refuses, by the name of the limit; `count` tells of a full window without failing", () =>
    Effect.gen(function* () {
      // It holds limits, when nobody said otherwise.
      assert.strictEqual(yield* RateLimiter.RateLimits, "on")
      const { count, giveBack, take } = yield* RateLimiter.RateLimiter
      const refused = Effect.map(Metric.value(Metric.tagged(refusals, "limit", "windows-test")), ({ count }) => count)
      const policy = [{ limit: 2, millis: 60_000 }]
      const bucket = "windows-test:somebody"
      const before = yield* refused
      assert.strictEqual((yield* count(bucket, policy))?.remaining, 1)
      assert.strictEqual((yield* take(bucket, policy))?.remaining, 0)
      assert.strictEqual((yield* refused) - before, 0)
      yield* TestClock.adjust("20 seconds")
      assert.deepInclude(yield* count(bucket, policy), { allowed: false, retryAfterSeconds: 40 })
      assert.deepInclude(yield* Effect.flip(take(bucket, policy)), { _tag: "RATE_LIMITED", retryAfterSeconds: 40 })
      assert.strictEqual((yield* refused) - before, 2)
      // Returned units, and they alone, can be taken again.
      yield* giveBack(bucket)
      assert.isTrue((yield* count(bucket, policy))?.allowed)
      assert.isFalse((yield* count(bucket, policy))?.allowed)
    }).pipe(Effect.provide(limiter()))
  )

  it.effect("admits and has no headers when limits are switched off", () =>
    Effect.gen(function* () {
      const { count, giveBack, take } = yield* RateLimiter.RateLimiter
      const policy = [{ limit: 1, millis: 60_000 }]
      for (let i = 0; i < 3; i++) {
        assert.isUndefined(yield* take("windows-test:off", policy))
        assert.isUndefined(yield* count("windows-test:off", policy))
      }
      yield* giveBack("windows-test:off")
    }).pipe(Effect.provide(limiter()), Effect.provide(Layer.succeed(RateLimiter.RateLimits, "off")))
  )
})

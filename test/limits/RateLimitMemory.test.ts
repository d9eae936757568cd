import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as RateLimitMemory from "#layers/RateLimitMemory.ts"
import { addressPolicy, RateLimitStore, signInPolicy } from "#src/limits/RateLimiter.ts"

layer(RateLimitMemory.layer)("rate limits in memory", (it) => {
  it.effect("a flood of buckets evicts the oldest of its own sort and no limit of guessing", () =>
    Effect.gen(function* () {
      const store = yield* RateLimitStore
      const guess = store.take("sign-in:email:victim", signInPolicy, 1_000)
      for (let i = 0; i < 10; i++) assert.isTrue((yield* guess).allowed)
      assert.isTrue((yield* store.take("address:first", [{ limit: 1, millis: 60_000 }], 1_000)).allowed)
      for (let i = 0; i < 20_000; i++) yield* store.take(`address:${i}`, addressPolicy, 1_000)
      assert.isTrue((yield* store.take("address:first", [{ limit: 1, millis: 60_000 }], 1_000)).allowed, "was dropped")
      assert.isFalse((yield* guess).allowed, "was kept")
    })
  )
})

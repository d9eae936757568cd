/** Rate-limit windows in this process: one ring of times per bucket serves all windows of its policy. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { decide, RateLimitStore } from "#src/limits/RateLimiter.ts"

/** Times of admitted requests, as many as the largest limit; grows on demand, since most buckets stay nearly empty. */
class Ring {
  private times = new Float64Array(16)
  private next = 0
  private count = 0
  newest = 0
  constructor(private readonly capacity: number) {}

  at(n: number): number {
    if (n >= this.count) return Number.NEGATIVE_INFINITY
    return this.times[(this.next - 1 - n + this.times.length * 2) % this.times.length]
  }
  push(time: number): void {
    if (this.count === this.times.length && this.count < this.capacity) {
      const grown = new Float64Array(Math.min(this.capacity, this.times.length * 4))
      for (let i = 0; i < this.count; i++) grown[this.count - 1 - i] = this.at(i)
      this.times = grown
      this.next = this.count % grown.length
    }
    this.times[this.next] = time
    this.next = (this.next + 1) % this.times.length
    this.count = Math.min(this.count + 1, this.times.length)
    this.newest = time
  }
  /** The clock was set back, and all times with it: what lies between them stays. */
  setBack(by: number): void {
    for (let i = 0; i < this.times.length; i++) this.times[i] -= by
    this.newest -= by
  }
  pop(): void {
    if (this.count === 0) return
    this.next = (this.next - 1 + this.times.length) % this.times.length
    this.count--
  }
}

/**
 * A clock that is further back than this since the last request was set back. Until it had caught up, a bucket would admit
 * no more than one window does: for hours, after a jump of hours.
 */
const setBackMillis = 60_000

/** Buckets beyond this are dropped oldest first: an attacker's addresses cannot fill the memory. */
const maxBuckets = 20_000

/** Kept apart from the others: limits of guessing must not be evicted by buckets that cost nothing to make. */
const guarded = ["sign-in:email:", "user-code:", "diff:"] as const

export const layer = Layer.sync(RateLimitStore, () => {
  const spaces = new Map([...guarded, ""].map((prefix) => [prefix, new Map<string, Ring>()]))
  const spaceOf = (bucket: string) =>
    spaces.get(guarded.find((prefix) => bucket.startsWith(prefix)) ?? "") ?? new Map<string, Ring>()
  return {
    take: (bucket, policy, now, units = 1) =>
      Effect.sync(() => {
        const rings = spaceOf(bucket)
        let ring = rings.get(bucket)
        if (ring === undefined) {
          ring = new Ring(Math.max(...policy.map((w) => w.limit)))
          if (rings.size >= maxBuckets) rings.delete(rings.keys().next().value ?? "")
        } else rings.delete(bucket)
        rings.set(bucket, ring)
        if (ring.newest - now > setBackMillis) ring.setBack(ring.newest - now)
        const at = Math.max(now, ring.newest)
        const held = ring
        const taken = decide(policy, (n) => held.at(n), at, units)
        if (taken.allowed) for (let i = 0; i < units; i++) ring.push(at)
        return taken
      }),
    giveBack: (bucket, units = 1) =>
      Effect.sync(() => {
        const ring = spaceOf(bucket).get(bucket)
        for (let i = 0; i < units; i++) ring?.pop()
      })
  }
})

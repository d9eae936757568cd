/** Rate-limit windows in this process. One ring of times per bucket serves all windows of its policy. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { decide, RateLimitStore } from "#src/limits/RateLimiter.ts"

/** Times of admitted requests, as many as the largest limit. Grows on demand, since most buckets stay nearly empty. */
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
  /** Moves all times after the clock was set back; the intervals stay. */
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
 * Milliseconds. A clock that is further back than at the last request was set back. Otherwise, until it catches up, a
 * bucket would admit only one window's requests: after a jump of hours, for hours.
 */
const setBackMillis = 60_000

/** Beyond this number the oldest buckets are dropped, so that an attacker's addresses cannot fill the memory. */
const maxBuckets = 20_000

/** Stored separately: cheap buckets must not evict the limits against guessing. */
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
        const times = ring
        const decision = decide(policy, (n) => times.at(n), at, units)
        if (decision.allowed) for (let i = 0; i < units; i++) ring.push(at)
        return decision
      }),
    giveBack: (bucket, units = 1) =>
      Effect.sync(() => {
        const ring = spaceOf(bucket).get(bucket)
        for (let i = 0; i < units; i++) ring?.pop()
      })
  }
})

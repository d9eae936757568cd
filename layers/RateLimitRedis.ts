/**
 * Rate-limit windows that all processes share: a list of times per bucket in Redis. The rule of
 * `src/limits/RateLimiter.ts` is one script, so that no two takes interleave.
 */
import type { Redis as Client } from "ioredis"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Redacted from "effect/Redacted"
import { createHash, randomUUID } from "node:crypto"
import { CacheHealth } from "#src/limits/CacheHealth.ts"
import { type Policy, RateLimitStore, type RateLimitState } from "#src/limits/RateLimiter.ts"
import * as PrivateConnection from "./PrivateConnection.ts"
import * as RateLimitMemory from "./RateLimitMemory.ts"
import * as Redis from "./Redis.ts"

/**
 * `decide` over a list with the newest time first. A bucket stores as many times as its largest limit, and expires some
 * seconds after its longest window. Processes whose clocks differ slightly still agree.
 */
const script = `
local now, units = tonumber(ARGV[1]), tonumber(ARGV[2])
local newest = tonumber(redis.call('LINDEX', KEYS[1], 0))
if newest and newest > now then now = newest end
local count = redis.call('LLEN', KEYS[1])
local function admitted(n)
  if n < count then return tonumber(redis.call('LINDEX', KEYS[1], n)) end
end
local wait, largest, longest, room = 0, 0, 0, math.huge
local tightest, remaining, reset
for i = 3, #ARGV, 2 do
  local limit, millis = tonumber(ARGV[i]), tonumber(ARGV[i + 1])
  largest, longest = math.max(largest, limit), math.max(longest, millis)
  if units > limit then wait = math.max(wait, millis) end
  local blocking = units <= limit and admitted(limit - units)
  if blocking and now - blocking < millis then wait = math.max(wait, blocking + millis - now) end
  local low, high = 0, math.min(limit, count)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if now - admitted(middle) < millis then low = middle + 1 else high = middle end
  end
  room = math.min(room, limit - low)
  local left = math.max(0, limit - low - units)
  local oldest = low == 0 and now or admitted(low - 1)
  local resets = math.max(1, math.ceil((oldest + millis - now) / 1000))
  if not tightest or left < remaining or (left == remaining and resets > reset) then
    tightest, remaining, reset = limit, left, resets
  end
end
if wait > 0 then return { 0, tightest, room, reset, math.max(1, math.ceil(wait / 1000)) } end
for _ = 1, units do redis.call('LPUSH', KEYS[1], string.format('%.0f', now)) end
redis.call('LTRIM', KEYS[1], 0, largest - 1)
redis.call('PEXPIRE', KEYS[1], longest + 10000)
return { 1, tightest, remaining, reset, 0 }
`
const digest = createHash("sha1").update(script).digest("hex")

/** Keys of one length, without the addresses that some buckets are named by. */
const keyOf = (bucket: string) =>
  `ampoule:limit:${createHash("sha256").update(bucket).digest("base64url").slice(0, 22)}`

const isScriptUnknown = (error: unknown) => error instanceof Error && error.message.startsWith("NOSCRIPT")

const run = (client: Client, key: string, policy: Policy, now: number, units: number): Promise<unknown> => {
  const args: Array<number> = [now, units]
  for (const { limit, millis } of policy) args.push(limit, millis)
  return client
    .evalsha(digest, 1, key, ...args)
    .catch((error: unknown) => (isScriptUnknown(error) ? client.eval(script, 1, key, ...args) : Promise.reject(error)))
}

const isCount = (value: unknown): value is number => Number.isInteger(value) && Number(value) >= 0

const read = (reply: unknown): RateLimitState | undefined => {
  if (!Array.isArray(reply) || reply.length !== 5 || !reply.every(isCount)) return undefined
  const [allowed, limit, remaining, resetSeconds, retryAfterSeconds] = reply
  return { allowed: allowed === 1, limit, remaining, resetSeconds, retryAfterSeconds }
}

/** Probe with a full take: a Redis that is read-only, or full, does not count as up. */
const makeProbe = () => {
  const key = keyOf(`probe:${randomUUID()}`)
  let time = 0
  return async (client: Client) => read(await run(client, key, [{ limit: 1, millis: 1 }], ++time, 1))?.allowed === true
}

/** The shared windows; undefined when Redis does not respond. */
export const windows = (redis: Redis.Redis) => ({
  take: (bucket: string, policy: Policy, now: number, units = 1) =>
    redis.ask((client) => run(client, keyOf(bucket), policy, now, units), read),
  giveBack: (bucket: string, units = 1) =>
    redis.ask(
      (client) => client.ltrim(keyOf(bucket), units, -1),
      () => true
    )
})

export const connect = (url: Redacted.Redacted) => Redis.make({ url, probe: makeProbe() })

/**
 * Counts every admitted request in this process too. An outage of Redis then starts from these counts, and its end does
 * not lose requests admitted in the meantime. This process's requests are a part of all requests. So while Redis is up,
 * the local count never refuses a request that the shared one admits.
 */
export const layer = (options: {
  readonly url: Redacted.Redacted
  /** Hosts that may be used without verified TLS; none by default. */
  readonly plaintextHosts?: ReadonlyArray<string>
}) =>
  Layer.scopedContext(
    Effect.gen(function* () {
      yield* PrivateConnection.required("redis", () => Redis.endpointOf(options.url), options.plaintextHosts)
      const redis = yield* connect(options.url)
      const shared = windows(redis)
      const local = Context.get(yield* Layer.build(RateLimitMemory.layer), RateLimitStore)

      return Context.make(RateLimitStore, {
        take: Effect.fnUntraced(function* (bucket, policy, now, units = 1) {
          const ours = yield* shared.take(bucket, policy, now, units)
          if (ours?.allowed === false) return ours
          const mine = yield* local.take(bucket, policy, now, units)
          if (ours === undefined || mine.allowed) return ours ?? mine
          yield* shared.giveBack(bucket, units)
          return mine
        }),
        giveBack: (bucket, units) => Effect.zipRight(shared.giveBack(bucket, units), local.giveBack(bucket, units))
      }).pipe(Context.add(CacheHealth, redis.status))
    })
  )

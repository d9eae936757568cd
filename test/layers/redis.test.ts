import { assert, describe, it, layer } from "@effect/vitest"
import { Redis as Client } from "ioredis"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import { randomUUID } from "node:crypto"
import * as net from "node:net"
import * as RateLimitMemory from "#layers/RateLimitMemory.ts"
import * as RateLimitRedis from "#layers/RateLimitRedis.ts"
import { CacheHealth } from "#src/limits/CacheHealth.ts"
import { RateLimitStore, type RateLimitState } from "#src/limits/RateLimiter.ts"
import * as FaultProxy from "#test/support/FaultProxy.ts"
import * as RedisServer from "#test/support/RedisServer.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"
import * as RateLimitTraces from "#test/support/RateLimitTraces.ts"

class Server extends Context.Tag("test/RedisServer")<Server, { readonly url: Redacted.Redacted }>() {}
const server = Layer.scoped(
  Server,
  Effect.map(RedisServer.url, (url) => ({ url: Redacted.make(url) }))
)

/** A store with a connection of its own, as another process would have. */
const store = Effect.flatMap(Server, ({ url }) =>
  Effect.map(Layer.build(RateLimitRedis.layer({ url })), (built) => Context.get(built, RateLimitStore))
)
const inMemory = Effect.map(Layer.build(RateLimitMemory.layer), (built) => Context.get(built, RateLimitStore))

const scenario = RateLimitTraces.scenario(200)
const start = 1_790_000_000_000

const until = <E, R>(condition: Effect.Effect<boolean, E, R>) =>
  Effect.repeat(condition, { until: (holds) => holds, schedule: Schedule.spaced("10 millis") })

describe.skipIf(!RedisServer.available)("rate limits in Redis", () => {
  layer(server, { excludeTestServices: true })((it) => {
    it.scoped.prop(
      "decide as the ones in memory do, number for number, also when the clock steps back",
      [scenario],
      Effect.fnUntraced(function* ([[policy, requests]]) {
        const { url } = yield* Server
        const shared = RateLimitRedis.windows(yield* RateLimitRedis.connect(url))
        const memory = yield* inMemory
        const bucket = randomUUID()
        let now = start
        for (const [gap, units] of requests) {
          now += gap
          const expected = yield* memory.take(bucket, policy, now, units)
          assert.deepStrictEqual(yield* shared.take(bucket, policy, now, units), expected)
        }
      }),
      { fastCheck: { numRuns: 30 } }
    )

    it.scoped.prop(
      "count for all processes together, and what is given back was never there",
      [scenario, FastCheck.array(FastCheck.tuple(FastCheck.nat(2), FastCheck.boolean()), { minLength: 200 })],
      Effect.fnUntraced(function* ([[policy, requests], choices]) {
        const processes = yield* Effect.all([store, store, store])
        const memory = yield* inMemory
        const bucket = randomUUID()
        let now = start
        for (const [i, [gap, units]] of requests.entries()) {
          now += Math.abs(gap)
          const [who, back] = choices[i]
          const expected = yield* memory.take(bucket, policy, now, units)
          assert.deepStrictEqual(yield* processes[who].take(bucket, policy, now, units), expected)
          if (!back || !expected.allowed) continue
          yield* processes[who].giveBack(bucket, units)
          yield* memory.giveBack(bucket, units)
        }
      }),
      { fastCheck: { numRuns: 20 } }
    )

    it.scoped("admit exactly the limit when processes race for it", () =>
      Effect.gen(function* () {
        const processes = yield* Effect.all([store, store, store, store])
        const policy = [
          { limit: 37, millis: 30_000 },
          { limit: 150, millis: 60_000 }
        ]
        for (let round = 0; round < 5; round++) {
          const bucket = randomUUID()
          const takes = Array.from({ length: 200 }, (_, i) => processes[i % 4].take(bucket, policy, start + (i % 7)))
          const states = yield* Effect.all(takes, { concurrency: "unbounded" })
          assert.strictEqual(states.filter(({ allowed }) => allowed).length, 37)
        }
      })
    )

    it.scoped("keep no more than the largest limit, not for long, and no name of a bucket", () =>
      Effect.gen(function* () {
        const { url } = yield* Server
        const client = yield* Effect.acquireRelease(
          Effect.sync(() => new Client(Redacted.value(url))),
          (client) => Effect.sync(() => client.disconnect())
        )
        const keys = () => client.keys("*")
        const before = new Set(yield* Effect.promise(keys))
        const { take } = yield* store
        const policy = [{ limit: 20, millis: 1_000 }]
        for (let i = 0; i < 500; i++) yield* take("sign-in:ada@example.com", policy, start + i * 60)
        const fresh = (yield* Effect.promise(keys)).filter((key) => !before.has(key))
        assert.notInclude(fresh.join(), "ada")
        let longest = 0
        for (const key of fresh) {
          longest = Math.max(longest, yield* Effect.promise(() => client.llen(key)))
          const lives = yield* Effect.promise(() => client.pttl(key))
          assert.isTrue(lives > 0 && lives <= 11_000, `${lives}`)
        }
        assert.strictEqual(longest, 20)
      })
    )
  })
})

/** Log lines of the layers built in the effect. */
const logged = <A, E, R>(use: (lines: () => ReadonlyArray<string>) => Effect.Effect<A, E, R>) => {
  const lines: Array<string> = []
  const logger = Logger.make(({ message }) => void lines.push(String(message)))
  return Effect.provide(
    use(() => lines),
    Logger.replace(Logger.defaultLogger, logger)
  )
}

const minute = [{ limit: 30, millis: 60_000 }]
const admittedOf = (taken: ReadonlyArray<RateLimitState>) => taken.filter(({ allowed }) => allowed).length

/** A process behind a proxy, and a look at what it says of Redis. */
const behind = (port: number) =>
  Effect.map(Layer.build(RateLimitRedis.layer({ url: Redacted.make(`redis://127.0.0.1:${port}`) })), (built) => ({
    store: Context.get(built, RateLimitStore),
    health: Context.get(built, CacheHealth)
  }))

describe.skipIf(!RedisServer.available)("Redis that goes away", () => {
  for (const mode of ["refuse", "reset", "blackhole"] as const) {
    it.scopedLive(`(${mode}) is logged once, noticed by no request, and back without a restart`, () =>
      logged((lines) =>
        Effect.gen(function* () {
          const redis = yield* RedisServer.own
          const proxy = yield* FaultProxy.make({ host: "127.0.0.1", port: redis.port })
          const { health, store } = yield* behind(proxy.port)
          assert.strictEqual(yield* health, "up")
          const states = [yield* store.take("a", minute, start)]

          yield* proxy.set(mode)
          const many = Effect.all(
            Array.from({ length: 10 }, () => store.take("a", minute, start + 1)),
            { concurrency: "unbounded" }
          )
          states.push(...(yield* many))
          yield* until(Effect.map(health, (status) => status === "down"))
          states.push(...(yield* many))

          yield* proxy.set("pass")
          yield* until(Effect.map(health, (status) => status === "up"))
          states.push(...(yield* many), ...(yield* many))
          // Requests that this process admitted alone still count.
          assert.strictEqual(admittedOf(states), 30)
          assert.deepStrictEqual(
            lines().map((line) => /Redis (?:is down|answers again)/.exec(line)?.[0]),
            ["Redis is down", "Redis answers again"]
          )
          assert.notInclude(lines().join(), String(proxy.port))
        })
      )
    )
  }

  it.scopedLive("is not missed by a server that stops", () =>
    logged((lines) =>
      Effect.gen(function* () {
        const redis = yield* RedisServer.own
        yield* Effect.scoped(Effect.flatMap(behind(redis.port), ({ store }) => store.take("a", minute, start)))
        yield* Effect.sleep("200 millis")
        assert.deepStrictEqual(lines(), [])
      })
    )
  )

  it.scopedLive("stops in the middle of the load: requests go on, limits hold in each process", () =>
    Effect.gen(function* () {
      const redis = yield* RedisServer.own
      const { health, store } = yield* behind(redis.port)
      yield* redis.signal("SIGSTOP")
      const states: Array<RateLimitState> = []
      for (let i = 0; i < 60; i++) states.push(yield* store.take("a", minute, start + i))
      assert.strictEqual(admittedOf(states), 30)
      assert.strictEqual(yield* health, "down")
      yield* redis.signal("SIGCONT")
      yield* until(Effect.map(health, (status) => status === "up"))
      assert.isFalse((yield* store.take("a", minute, start + 60)).allowed)
    })
  )

  it.scopedLive("was never there: the server starts, and finds it when it comes", () =>
    Effect.gen(function* () {
      const redis = yield* RedisServer.own
      const proxy = yield* FaultProxy.make({ host: "127.0.0.1", port: redis.port })
      yield* proxy.set("refuse")
      const { health, store } = yield* behind(proxy.port)
      assert.strictEqual(yield* health, "down")
      assert.isTrue((yield* store.take("a", minute, start)).allowed)
      yield* proxy.set("pass")
      yield* until(Effect.map(health, (status) => status === "up"))
    })
  )

  const liars = {
    "agrees to everything": "+OK\r\n",
    "may only be read": "-READONLY You can't write against a read only replica.\r\n",
    "wants a password": "-NOAUTH Authentication required.\r\n",
    "counts nonsense": "*5\r\n:1\r\n:-7\r\n$3\r\nabc\r\n:1\r\n:0\r\n",
    "does not speak the protocol": "HTTP/1.1 400 Bad Request\r\n\r\n"
  }
  for (const [name, reply] of Object.entries(liars)) {
    it.scopedLive(`${name}: is down, and limits hold`, () =>
      Effect.gen(function* () {
        const port = yield* Effect.acquireRelease(
          Effect.async<net.Server>((resume) => {
            const server = net.createServer((socket) => {
              socket.on("error", () => {})
              // One reply per command; commands are arrays of the protocol.
              socket.on("data", (chunk) => {
                for (const _ of String(chunk).matchAll(/^\*\d+\r$/gm)) socket.write(reply)
              })
            })
            server.listen(0, "127.0.0.1", () => resume(Effect.succeed(server)))
          }),
          (server) => Effect.sync(() => server.close())
        ).pipe(Effect.map((server) => (server.address() as net.AddressInfo).port))
        const { health, store } = yield* behind(port)
        const states: Array<RateLimitState> = []
        for (let i = 0; i < 40; i++) states.push(yield* store.take("a", minute, start))
        assert.strictEqual(admittedOf(states), 30)
        assert.strictEqual(yield* health, "down")
      })
    )
  }
})

class Between extends Context.Tag("test/Between")<
  Between,
  Effect.Effect.Success<ReturnType<typeof FaultProxy.make>>
>() {}
const between = Layer.scoped(
  Between,
  Effect.flatMap(RedisServer.own, ({ port }) => FaultProxy.make({ host: "127.0.0.1", port }))
)
const limitsBehind = Layer.unwrapEffect(
  Effect.map(Between, ({ port }) => RateLimitRedis.layer({ url: Redacted.make(`redis://127.0.0.1:${port}`) }))
)
const application = TestApp.server.pipe(
  Layer.provide(limitsBehind),
  Layer.provideMerge(Layer.mergeAll(TestApp.backends, TestApp.config(), between))
)

describe.skipIf(!RedisServer.available)("a server with Redis", () => {
  layer(application, { excludeTestServices: true })((it) => {
    it.effect("is not ready without it, and serves all the same", () =>
      Effect.gen(function* () {
        const proxy = yield* Between
        const bearer = (yield* World.token({ team: yield* World.team() })).text
        const ready = TestApp.get("/health/ready")
        const cache = Effect.map(ready, ({ json, status }) => [status, json.status, json.checks.cache.status])
        assert.deepStrictEqual(yield* cache, [200, "ready", "up"])
        for (const mode of ["blackhole", "refuse"] as const) {
          yield* proxy.set(mode)
          const answers = yield* Effect.all(
            Array.from({ length: 10 }, () => TestApp.get("/me/verify", { bearer })),
            { concurrency: 5 }
          )
          assert.deepStrictEqual(new Set(answers.map(({ status }) => status)), new Set([200]))
          yield* until(Effect.map(ready, ({ status }) => status === 503))
          assert.deepStrictEqual(yield* cache, [503, "unavailable", "down"])
          assert.strictEqual((yield* TestApp.get("/me/verify", { bearer })).status, 200)
          yield* proxy.set("pass")
          yield* until(Effect.map(ready, ({ status }) => status === 200))
        }
      })
    )
  })
})

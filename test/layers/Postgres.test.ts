import * as PgClient from "@effect/sql-pg/PgClient"
import * as SqlClient from "@effect/sql/SqlClient"
import { assert, describe, it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Stream from "effect/Stream"
import { inject } from "vitest"
import * as Postgres from "#layers/Postgres.ts"
import { isBusy, isDatabaseUnavailable } from "#src/database/Dependency.ts"
import { RequestInfo } from "#src/database/RequestInfo.ts"
import { EventBus } from "#src/events/EventBus.ts"
import * as FaultProxy from "#test/support/FaultProxy.ts"
import * as TestDatabase from "#test/support/TestDatabase.ts"
import * as Untraced from "#test/support/Untraced.ts"

/** A fresh database behind a proxy, and what serves from it. */
const behindProxy = (options?: Partial<Postgres.PostgresOptions>) =>
  Effect.gen(function* () {
    const server = inject("postgres")
    if (server === undefined) return yield* Effect.dieMessage("no Postgres in this run")
    const direct = yield* TestDatabase.freshPostgres(server)
    const url = new URL(direct.url)
    const proxy = yield* FaultProxy.make({ host: url.hostname, port: Number(url.port) })
    url.port = String(proxy.port)
    const context = yield* Layer.build(
      Postgres.layer({
        url: Redacted.make(url.href),
        poolSize: 4,
        unsafe: false,
        deadlineMillis: 800,
        checkoutMillis: 600,
        ...options
      })
    )
    return {
      direct: direct.url,
      name: direct.name,
      proxy,
      sql: Context.get(context, SqlClient.SqlClient),
      bus: Context.get(context, EventBus)
    }
  })

/** The superuser's connection to the same server, past the proxy. */
const direct = (database: string) =>
  Effect.gen(function* () {
    const server = inject("postgres")
    if (server === undefined) return yield* Effect.dieMessage("no Postgres in this run")
    const url = new URL(server.url)
    url.pathname = `/${database}`
    return Context.get(yield* Layer.build(PgClient.layer({ url: Redacted.make(url.href) })), SqlClient.SqlClient)
  })

/** Fails as an outage; anything else is a broken promise. */
const outage = (exit: Exit.Exit<unknown, unknown>) => {
  assert.isTrue(Exit.isFailure(exit))
  if (Exit.isFailure(exit)) assert.isTrue(isDatabaseUnavailable(exit.cause), Cause.pretty(exit.cause))
}

/** A database that is reached by two addresses, and a URL that names both. */
const twoHosts = Effect.gen(function* () {
  const server = inject("postgres")
  if (server === undefined) return yield* Effect.dieMessage("no Postgres in this run")
  const { url } = yield* TestDatabase.freshPostgres(server)
  const target = { host: new URL(url).hostname, port: Number(new URL(url).port) }
  const [one, two] = [yield* FaultProxy.make(target), yield* FaultProxy.make(target)]
  return { one, two, url: url.replace(/@[^/]*/, `@127.0.0.1:${one.port},127.0.0.1:${two.port}`) }
})

describe.runIf(TestDatabase.onPostgres)("on Postgres", () => {
  Untraced.scopedLive("every query fails in time while the server is out of reach, and works again afterwards", () =>
    Effect.gen(function* () {
      const { proxy, sql } = yield* behindProxy()
      yield* sql`CREATE TABLE counts (n int)`
      const write = (n: number) => sql`INSERT INTO counts (n) VALUES (${n})`
      const inTransaction = (n: number) => sql.withTransaction(Effect.zipRight(write(n), write(n)))
      for (const mode of ["blackhole", "reset", "refuse"] as const) {
        yield* Effect.all([write(1), inTransaction(1), write(1)], { concurrency: "unbounded" })
        yield* proxy.set(mode)
        const exits = yield* Effect.forEach(
          Array.from({ length: 12 }, (_, n) => n),
          (n) => Effect.exit(n % 2 === 0 ? write(-1) : inTransaction(-1)),
          { concurrency: "unbounded" }
        ).pipe(Effect.timeout("20 seconds"))
        exits.forEach(outage)
        yield* proxy.set("pass")
        yield* Effect.retry(write(2), { while: isDatabaseUnavailable, times: 20 })
        yield* Effect.all(
          Array.from({ length: 12 }, () => write(2)),
          { concurrency: "unbounded" }
        )
      }
    })
  )

  Untraced.scopedLive("a statement that the server delays is given up, and its connection goes", () =>
    Effect.gen(function* () {
      const { sql } = yield* behindProxy({ deadlineMillis: 300 })
      outage(yield* Effect.exit(sql`SELECT pg_sleep(${5}::int)`))
      outage(yield* Effect.exit(sql.withTransaction(sql`SELECT pg_sleep(${5}::int)`)))
      assert.deepStrictEqual(yield* sql`SELECT 1 AS one`, [{ one: 1 }])
    })
  )

  Untraced.scopedLive("a server that hangs is known in 3 s, also to those who wait for a connection", () =>
    Effect.gen(function* () {
      const { proxy, sql } = yield* behindProxy({ poolSize: 2, deadlineMillis: 600_000, checkoutMillis: 2_000 })
      yield* Effect.all([sql`SELECT 1`, sql`SELECT 1`], { concurrency: "unbounded" })
      yield* proxy.set("blackhole")
      const exits = yield* Effect.forEach(
        Array.from({ length: 12 }, (_, n) => n),
        (n) => Effect.exit(n % 2 === 0 ? sql`SELECT 1` : sql.withTransaction(sql`SELECT 1`)),
        { concurrency: "unbounded" }
        // Without a look at the server a statement would have ten minutes.
      ).pipe(Effect.timeout("20 seconds"))
      exits.forEach(outage)
    })
  )

  Untraced.scopedLive("a statement that is only slow has its time, as long as the server answers others", () =>
    Effect.gen(function* () {
      const { sql } = yield* behindProxy({ poolSize: 1, deadlineMillis: 60_000 })
      assert.deepStrictEqual(yield* sql`SELECT 1 AS one FROM pg_sleep(${4}::int)`, [{ one: 1 }])
    })
  )

  Untraced.scopedLive("transactions that wait for a lock leave connections to readers, and get SERVER_BUSY", () =>
    Effect.gen(function* () {
      const { sql } = yield* behindProxy({
        poolSize: 4,
        deadlineMillis: 1_000,
        checkoutMillis: 2_000,
        queueMillis: 60_000
      })
      yield* sql`CREATE TABLE counts (n int)`
      yield* sql`INSERT INTO counts (n) VALUES (1)`
      const change = sql.withTransaction(sql`UPDATE counts SET n = n + 1`)
      const holding = yield* Deferred.make<void>()
      const enough = yield* Deferred.make<void>()
      const holder = yield* Effect.fork(
        sql.withTransaction(
          Effect.all([sql`UPDATE counts SET n = 0`, Deferred.succeed(holding, undefined), Deferred.await(enough)])
        )
      )
      yield* Deferred.await(holding)
      const writers = yield* Effect.fork(
        Effect.forEach(Array.from({ length: 6 }), () => Effect.exit(change), { concurrency: "unbounded" })
      )
      const read = sql`SELECT n FROM counts`
      while (Option.isNone(yield* Fiber.poll(writers))) assert.deepStrictEqual(yield* read, [{ n: 1 }])
      for (const exit of yield* Fiber.join(writers)) {
        assert.isTrue(Exit.isFailure(exit) && isBusy(exit.cause))
      }
      yield* Deferred.succeed(enough, undefined)
      yield* Fiber.join(holder)
      yield* change
    })
  )

  Untraced.scopedLive(
    "teams take turns for a connection, the service goes first, and a request that waits too long gets SERVER_BUSY",
    () =>
      Effect.gen(function* () {
        const { sql } = yield* behindProxy({
          poolSize: 1,
          deadlineMillis: 60_000,
          checkoutMillis: 2_000,
          queueMillis: 3_000
        })
        const asking = (owner: string | undefined, seconds: number) => {
          const query = sql`SELECT pg_sleep(${seconds}::float8)`
          return Effect.fork(
            Effect.exit(
              owner === undefined
                ? query
                : Effect.provideService(query, RequestInfo, { id: "", ip: "", userAgent: null, via: "rest", owner })
            )
          )
        }
        const greedy = yield* Effect.forEach([0.3, 0.1, 5, 0.01], (seconds) => asking("greedy", seconds))
        const modest = yield* asking("modest", 0.01)
        const service = yield* asking(undefined, 0.01)
        const ends = [...greedy, modest, service].map(Fiber.join)
        const exits = yield* Effect.all(ends)
        assert.deepStrictEqual(exits.map(Exit.isSuccess), [true, true, true, false, true, true])
        assert.isTrue(exits.some((exit) => Exit.isFailure(exit) && isBusy(exit.cause)))
      })
  )

  Untraced.scopedLive("a transaction cut in the middle leaves nothing behind", () =>
    Effect.gen(function* () {
      const { proxy, sql } = yield* behindProxy()
      yield* sql`CREATE TABLE halves (n int)`
      const exit = yield* Effect.exit(
        sql.withTransaction(
          Effect.gen(function* () {
            yield* sql`INSERT INTO halves (n) VALUES (1)`
            yield* proxy.set("reset")
            yield* proxy.set("pass")
            yield* sql`INSERT INTO halves (n) VALUES (2)`
          })
        )
      )
      outage(exit)
      assert.deepStrictEqual(yield* sql`SELECT count(*)::int AS n FROM halves`, [{ n: 0 }])
    })
  )

  Untraced.scopedLive("a backend that an administrator ends is an outage for its query alone", () =>
    Effect.gen(function* () {
      const { sql } = yield* behindProxy({ deadlineMillis: 5_000 })
      const victim = yield* Effect.fork(Effect.exit(sql`SELECT pg_sleep(${4}::int) AS victim`))
      yield* Effect.sleep("200 millis")
      yield* sql`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND query LIKE '%AS victim' AND pid <> pg_backend_pid()`
      outage(yield* Fiber.join(victim))
      assert.deepStrictEqual(yield* sql`SELECT 1 AS one`, [{ one: 1 }])
    })
  )

  Untraced.scopedLive("prepared statements survive a change of the table under them", () =>
    Effect.gen(function* () {
      const { sql } = yield* behindProxy({ poolSize: 1 })
      yield* sql`CREATE TABLE changing (n int)`
      const read = sql`SELECT * FROM changing WHERE n = ${1}`
      for (let round = 0; round < 3; round++) yield* read
      yield* sql`ALTER TABLE changing ADD COLUMN m int`
      yield* Effect.exit(read)
      assert.deepStrictEqual(yield* read, [])
    })
  )

  const readOnly = (sql: SqlClient.SqlClient) =>
    Effect.all(
      Array.from({ length: 4 }, () =>
        sql.withTransaction(
          Effect.zipRight(sql`SELECT pg_sleep(${0.2}::float8)`, sql.unsafe("SET default_transaction_read_only = on"))
        )
      ),
      { concurrency: "unbounded" }
    )

  Untraced.scopedLive(
    "a server that stops taking writes costs one answer: its connections go, and new ones are made",
    () =>
      Effect.gen(function* () {
        const { sql } = yield* behindProxy()
        yield* sql`CREATE TABLE counts (n int)`
        const write = sql`INSERT INTO counts (n) VALUES (${1})`
        // As a failover behind a pooler does it: what is connected leads to the old server, what connects to the new.
        yield* readOnly(sql)
        outage(yield* Effect.exit(write))
        yield* Effect.all([write, write, write, write, sql.withTransaction(write)], { concurrency: "unbounded" })
        yield* readOnly(sql)
        outage(yield* Effect.exit(sql.withTransaction(write)))
        yield* Effect.replicateEffect(write, 4)
      })
  )

  Untraced.scopedLive("a database that is read-only for every connection is away, and back without a restart", () =>
    Effect.gen(function* () {
      const { name, sql } = yield* behindProxy()
      yield* readOnly(sql)
      const own = yield* direct(name)
      yield* own`ALTER DATABASE ${own(name)} SET default_transaction_read_only = on`
      outage(yield* Effect.exit(sql`CREATE TABLE counts (n int)`))
      outage(yield* Effect.exit(sql`SELECT 1`))
      yield* own`ALTER DATABASE ${own(name)} RESET default_transaction_read_only`
      yield* sql`CREATE TABLE counts (n int)`
    })
  )

  Untraced.scopedLive("of several hosts the one that can be reached serves, from the first query on", () =>
    Effect.gen(function* () {
      const { one, two, url } = yield* twoHosts
      yield* one.set("refuse")
      const context = yield* Layer.build(
        Postgres.layer({ url: Redacted.make(`${url}?target_session_attrs=read-write`), poolSize: 4, unsafe: false })
      )
      const sql = Context.get(context, SqlClient.SqlClient)
      const ask = sql`SELECT 1 AS one`
      yield* ask
      yield* one.set("pass")
      yield* two.set("refuse")
      // Open connections are cut; new ones go to the other.
      yield* Effect.retry(ask, { times: 4 })
      yield* Effect.all(
        Array.from({ length: 12 }, () => ask),
        { concurrency: "unbounded" }
      )
    })
  )

  Untraced.scopedLive("a host that hangs costs one answer: the others' words do not speak for its connections", () =>
    Effect.gen(function* () {
      const { one, url } = yield* twoHosts
      const context = yield* Layer.build(
        Postgres.layer({
          url: Redacted.make(url),
          poolSize: 4,
          unsafe: false,
          deadlineMillis: 600_000
        })
      )
      const sql = Context.get(context, SqlClient.SqlClient)
      const ask = sql`SELECT 1 AS one`
      const all = Effect.replicateEffect(ask, 8, { concurrency: "unbounded", discard: true })
      yield* all
      yield* one.set("blackhole")
      outage(yield* Effect.exit(ask))
      // Idle connections to it would each have ten minutes.
      yield* Effect.replicateEffect(all, 3, { discard: true }).pipe(Effect.timeout("20 seconds"))
    })
  )

  Untraced.scopedLive("notifications arrive, and everyone looks again after the connection was lost", () =>
    Effect.gen(function* () {
      const { bus, direct, proxy } = yield* behindProxy()
      const other = yield* Layer.build(Postgres.layer({ url: Redacted.make(direct), poolSize: 1, unsafe: false }))
      const heard = yield* bus.subscribe("topic")
      const next = Effect.flatMap(Effect.fork(Stream.runHead(heard)), Fiber.join).pipe(Effect.timeout("10 seconds"))
      yield* Context.get(other, EventBus).publish("topic")
      yield* next
      yield* proxy.set("reset")
      yield* proxy.set("pass")
      yield* next
      yield* Context.get(other, EventBus).publish("topic")
      yield* next
    })
  )
})

describe.runIf(TestDatabase.onPostgres)("the start on Postgres", () => {
  const start = (url: string, options?: Partial<Postgres.PostgresOptions>) =>
    Layer.build(
      Postgres.layer({ url: Redacted.make(url), poolSize: 2, unsafe: false, startWithin: "1 seconds", ...options })
    )

  const fresh = Effect.suspend(() => {
    const server = inject("postgres")
    return server === undefined
      ? Effect.dieMessage("no Postgres in this run")
      : TestDatabase.freshPostgres({ url: server.url })
  })

  Untraced.scopedLive("of several processes at once on an empty database migrates it once", () =>
    Effect.gen(function* () {
      const { url } = yield* fresh
      const contexts = yield* Effect.all([start(url), start(url), start(url), start(url)], { concurrency: "unbounded" })
      const sql = Context.get(contexts[0], SqlClient.SqlClient)
      const [row] = yield* sql<{
        n: number
      }>`SELECT count(*)::int AS n FROM effect_sql_migrations WHERE name = 'identity'`
      assert.strictEqual(row?.n, 1)
    })
  )

  Untraced.scopedLive("is refused while commits do not wait for the disk, unless that is allowed", () =>
    Effect.gen(function* () {
      const { name, url } = yield* fresh
      const sql = Context.get(yield* start(url), SqlClient.SqlClient)
      yield* sql`ALTER DATABASE ${sql(name)} SET synchronous_commit = off`
      const error = yield* Effect.flip(start(url))
      assert.strictEqual(error._tag, "StartRefused")
      assert.include(error.message, "synchronous_commit is off")
      yield* start(url, { unsafe: true })
    })
  )

  Untraced.scopedLive("is refused with a sentence that repeats nothing of the address", () =>
    Effect.gen(function* () {
      const { url } = yield* fresh
      const gone = new URL(url)
      gone.pathname = "/hunter2"
      const closed = new URL(url)
      closed.password = "hunter2"
      closed.port = "1"
      for (const [address, expected] of [
        [gone, "does not exist"],
        [closed, "cannot be reached (ECONNREFUSED)"]
      ] as const) {
        const error = yield* Effect.flip(start(address.href))
        assert.include(error.message, expected)
        assert.notInclude(error.message, "hunter2")
      }
    })
  )

  Untraced.scopedLive("waits for a server that is still coming up", () =>
    Effect.gen(function* () {
      const { url } = yield* fresh
      const target = new URL(url)
      const proxy = yield* FaultProxy.make({ host: target.hostname, port: Number(target.port) })
      target.port = String(proxy.port)
      yield* proxy.set("refuse")
      const starting = yield* Effect.fork(start(target.href, { startWithin: "30 seconds" }))
      yield* Effect.sleep("600 millis")
      yield* proxy.set("pass")
      yield* Fiber.join(starting)
    })
  )
})

describe("settings that lose acknowledged writes", () => {
  const safe = { fsync: "on", fullPageWrites: "on", synchronousCommit: "on" }

  it("are named as Postgres names them", () => {
    assert.deepStrictEqual(Postgres.lossySettings(safe), [])
    assert.deepStrictEqual(Postgres.lossySettings({ ...safe, fsync: "off" }), ["fsync"])
    assert.deepStrictEqual(Postgres.lossySettings({ ...safe, fullPageWrites: "off" }), ["full_page_writes"])
    assert.deepStrictEqual(Postgres.lossySettings({ ...safe, synchronousCommit: "off" }), ["synchronous_commit"])
    assert.deepStrictEqual(Postgres.lossySettings({ ...safe, synchronousCommit: "remote_apply" }), [])
  })
})

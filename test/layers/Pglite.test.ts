import * as SqlClient from "@effect/sql/SqlClient"
import { assert, describe } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { afterAll, beforeAll, inject } from "vitest"
import * as DataFolder from "#layers/DataFolder.ts"
import * as Pglite from "#layers/Pglite.ts"
import { safeWebAssembly } from "#layers/SafeWebAssembly.ts"
import { isDatabaseUnavailable } from "#src/database/Dependency.ts"
import { bundle, run } from "#test/support/Program.ts"
import { onPostgres } from "#test/support/TestDatabase.ts"
import * as Untraced from "#test/support/Untraced.ts"

const root = fs.mkdtempSync(path.join(os.tmpdir(), "ampoule-embedded-"))
const pristine = path.join(root, "pristine")
let copies = 0

/** A data folder with a database in it that was closed in order. */
const dataFolder = () => {
  const folder = path.join(root, `copy-${++copies}`)
  fs.cpSync(pristine, folder, { recursive: true, filter: (source) => !source.endsWith(".sock") })
  return folder
}

const open = (folder: string, options?: Partial<Pglite.EmbeddedOptions>) =>
  Pglite.make({ origin: { folder: `${folder}/postgres` }, checkoutMillis: 20_000, deadlineMillis: 20_000, ...options })

const count = Effect.flatMap(SqlClient.SqlClient, (sql) =>
  Effect.map(sql<{ n: number }>`SELECT count(*)::int AS n FROM teams`, ([row]) => row?.n)
)

const addTeam = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) =>
    sql`INSERT INTO teams (id, name, plan, created_at, updated_at) VALUES (gen_random_uuid(), 'a', 'team', now(), now())`
)

// A first start after one that was cut off half-way.
beforeAll(async () => {
  if (onPostgres) return
  fs.mkdirSync(`${pristine}/postgres.new/base`, { recursive: true })
  fs.writeFileSync(`${pristine}/postgres.new/PG_VERSION`, "18\n")
  await Effect.runPromise(Effect.provide(count, Pglite.layerFolder(pristine)))
}, 240_000)
afterAll(() => fs.rmSync(root, { recursive: true, force: true }))

// The other run of the tests, against Postgres, has nothing to add here.
const describeEmbedded = describe.skipIf(onPostgres)

describeEmbedded("the embedded database", { timeout: 240_000 }, () => {
  Untraced.scopedLive("has V8 inline no call of WebAssembly, which can end the process when it is given up", () =>
    Effect.gen(function* () {
      const program = yield* bundle("test/support/wasmCall.ts")
      const said = (args: ReadonlyArray<string>, flags: ReadonlyArray<string> = []) =>
        Effect.gen(function* () {
          const child = yield* run(program, args, flags)
          assert.strictEqual(yield* child.exit, 0, child.output.stderr)
          assert.include(child.output.stdout, "answered 7")
          return child.output.stdout
        })
      const inlined = "JS to Wasm builtin continuation"
      assert.include(yield* said([]), inlined)
      assert.notInclude(yield* said([dataFolder()]), inlined)
      // Nor in the processes that run the tests.
      assert.notInclude(yield* said([], [safeWebAssembly]), inlined)
      assert.include(process.execArgv, safeWebAssembly)
    })
  )

  Untraced.scopedLive("is private to its user, and keeps what was written for the next start", () =>
    Effect.gen(function* () {
      const folder = dataFolder()
      fs.chmodSync(folder, 0o755)
      yield* Effect.provide(addTeam, Pglite.layerFolder(folder))
      assert.strictEqual(fs.statSync(folder).mode & 0o777, 0o700)
      assert.strictEqual(fs.statSync(`${folder}/postgres`).mode & 0o777, 0o700)
      assert.notInclude(fs.readdirSync(pristine), "postgres.new")
      assert.strictEqual(yield* Effect.provide(count, Pglite.layerFolder(folder)), 1)
    })
  )

  Untraced.scopedLive("has every commit on the disk before it is acknowledged", () =>
    Effect.gen(function* () {
      const fsyncCounter = new SharedArrayBuffer(4)
      const calls = () => Atomics.load(new Int32Array(fsyncCounter), 0)
      const { layer } = yield* open(dataFolder(), { fsyncCounter })
      yield* Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        assert.deepStrictEqual(yield* sql`SELECT current_setting('fsync') AS fsync`, [{ fsync: "on" }])
        for (let write = 0; write < 20; write++) {
          const before = calls()
          yield* addTeam
          assert.isAbove(calls(), before)
        }
        const before = calls()
        yield* count
        assert.strictEqual(calls(), before)
      }).pipe(Effect.provide(layer))
    })
  )

  Untraced.scopedLive("leaves the event loop free while a query runs, and gives the query up at its deadline", () =>
    Effect.gen(function* () {
      const { layer } = yield* open(dataFolder(), { deadlineMillis: 200 })
      yield* Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        let ticks = 0
        const ticker = yield* Effect.fork(
          Effect.repeat(
            Effect.sync(() => ticks++),
            Schedule.spaced("10 millis")
          )
        )
        const busy = sql`SELECT count(*) FROM generate_series(1, 3000000)`
        const error = yield* Effect.flip(sql.withTransaction(Effect.zipRight(addTeam, busy)).pipe(Effect.sandbox))
        yield* Fiber.interrupt(ticker)
        assert.isTrue(isDatabaseUnavailable(error))
        assert.isAbove(ticks, 5)
        // The transaction that was given up is rolled back, and the next session is a fresh one.
        assert.strictEqual(yield* Effect.retry(count, { while: isDatabaseUnavailable, times: 100 }), 0)
      }).pipe(Effect.provide(layer))
    })
  )

  Untraced.scopedLive("says it is unavailable when its thread dies, and comes back with its data", () =>
    Effect.gen(function* () {
      const { crash, layer } = yield* open(dataFolder())
      yield* Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        yield* addTeam
        const running = yield* Effect.fork(Effect.exit(sql`SELECT count(*) FROM generate_series(1, 50000000)`))
        yield* Effect.sleep("100 millis")
        yield* crash
        const exit = yield* Fiber.join(running)
        assert.isTrue(exit._tag === "Failure" && isDatabaseUnavailable(exit.cause))
        assert.strictEqual(yield* count, 1)
      }).pipe(Effect.provide(layer))
    })
  )

  Untraced.scopedLive("stays unavailable when it lived in memory and its thread dies", () =>
    Effect.gen(function* () {
      const { crash, layer } = yield* Pglite.make({
        origin: { template: inject("embeddedTemplate") },
        migrated: false,
        checkoutMillis: 5_000,
        deadlineMillis: 5_000
      })
      yield* Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        yield* sql`SELECT 1`
        yield* crash
        assert.isTrue(isDatabaseUnavailable(yield* Effect.flip(sql`SELECT 1`)))
      }).pipe(Effect.provide(layer))
    })
  )
})

describeEmbedded("a data folder", { timeout: 240_000 }, () => {
  const refusal = (folder: string) =>
    Effect.map(
      Effect.flip(Effect.catchTag(Layer.build(Pglite.layerFolder(folder)), "SqlError", Effect.die)),
      ({ message }) => message
    )

  Untraced.scopedLive("that is damaged is refused with a sentence, and left as it is", () =>
    Effect.gen(function* () {
      const folder = dataFolder()
      const damages: Record<string, (file: (name: string) => string) => void> = {
        "PG_VERSION is missing": (file) => fs.rmSync(file("PG_VERSION")),
        "global/pg_control is missing": (file) => fs.rmSync(file("global/pg_control")),
        "was made by PostgreSQL 17, this program has 18": (file) => fs.writeFileSync(file("PG_VERSION"), "17\n"),
        "is damaged": (file) => fs.truncateSync(file("global/pg_control"), 100),
        "is damaged (": (file) => fs.writeFileSync(file("global/pg_control"), Buffer.alloc(8192, 0xa5)),
        "checkpoint record": (file) =>
          fs
            .readdirSync(file("pg_wal"))
            .filter((name) => /^[0-9A-F]{24}$/.test(name))
            .forEach((name) => fs.rmSync(file(`pg_wal/${name}`)))
      }
      for (const [expected, damage] of Object.entries(damages)) {
        const copy = dataFolder()
        damage((name) => `${copy}/postgres/${name}`)
        const before = fs.readdirSync(`${copy}/postgres`)
        const said = yield* refusal(copy)
        assert.include(said, expected)
        assert.include(said, copy)
        // Nothing was put in the place of what is missing.
        assert.includeMembers([...before, "postmaster.pid", "pg_wal"], fs.readdirSync(`${copy}/postgres`))
        fs.rmSync(copy, { recursive: true })
      }
      assert.strictEqual(yield* Effect.provide(count, Pglite.layerFolder(folder)), 0)
    })
  )

  Untraced.scopedLive("that cannot be made is refused with a sentence", () =>
    Effect.gen(function* () {
      const file = path.join(root, "a-file")
      fs.writeFileSync(file, "")
      const error = yield* Effect.flip(DataFolder.ensure(file))
      assert.include(error.message, file)
    })
  )

  Untraced.scopedLive("that was open to others is made private, also for a server on Postgres", () =>
    Effect.gen(function* () {
      const folder = path.join(root, "open")
      const mode = () => fs.statSync(folder).mode & 0o777
      fs.mkdirSync(folder)
      for (const make of [DataFolder.ensure(folder), DataFolder.keepPrivate(folder)]) {
        fs.chmodSync(folder, 0o755)
        yield* make
        assert.strictEqual(mode(), 0o700)
      }
    })
  )

  Untraced.scopedLive("is held by one holder at a time, and free again afterwards", () =>
    Effect.gen(function* () {
      const folder = yield* DataFolder.ensure(path.join(root, "held"))
      yield* Effect.scoped(
        Effect.gen(function* () {
          yield* DataFolder.lock(folder)
          const second = yield* Effect.flip(Effect.scoped(DataFolder.lock(folder)))
          assert.include(second.message, `The data folder ${folder} is in use`)
        })
      )
      yield* Effect.scoped(DataFolder.lock(folder))
    })
  )

  Untraced.scopedLive("whose path is too long for a socket is held all the same", () =>
    Effect.gen(function* () {
      const folder = yield* DataFolder.ensure(path.join(root, "long".repeat(40)))
      yield* DataFolder.lock(folder)
      assert.include((yield* Effect.flip(Effect.scoped(DataFolder.lock(folder)))).message, "is in use")
    })
  )

  Untraced.scopedLive(
    "survives kill -9 again and again without losing or halving a committed transaction, and refuses a second process",
    () =>
      Effect.gen(function* () {
        const program = yield* bundle("test/support/embeddedWriter.ts")
        const folder = dataFolder()
        let acknowledged = 0
        for (const delay of [40, 150, 300, 90, 500]) {
          const writer = yield* run(program, [folder])
          yield* Effect.repeat(Effect.sleep("10 millis"), {
            until: () => /^ready\n[0-9]+\n/.test(writer.output.stdout)
          })
          if (delay === 300) {
            const second = yield* run(program, [folder])
            assert.strictEqual(yield* second.exit, 78)
            assert.include(second.output.stderr, `The data folder ${fs.realpathSync(folder)} is in use`)
          }
          yield* Effect.sleep(delay)
          yield* writer.kill
          assert.strictEqual(writer.output.stderr, "")
          const numbers = writer.output.stdout.split("\n").slice(1, -1).map(Number)
          acknowledged = numbers.at(-1) ?? acknowledged
        }
        const { layer } = yield* open(folder)
        yield* Effect.gen(function* () {
          const sql = yield* SqlClient.SqlClient
          const rows = yield* sql<{ n: number; halves: number }>`
            SELECT n, count(*)::int AS halves FROM pairs GROUP BY n ORDER BY n`
          assert.isAtLeast(acknowledged, 5)
          // One more than acknowledged may have been committed: the kill came before it was said.
          assert.oneOf(rows.length, [acknowledged, acknowledged + 1])
          rows.forEach(({ halves, n }, index) => assert.deepStrictEqual([n, halves], [index + 1, 2]))
        }).pipe(Effect.provide(layer))
      }),
    300_000
  )
})

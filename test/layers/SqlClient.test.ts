import * as PgClient from "@effect/sql-pg/PgClient"
import * as SqlClient from "@effect/sql/SqlClient"
import { assert, layer } from "@effect/vitest"
import * as Chunk from "effect/Chunk"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Stream from "effect/Stream"
import * as Tracer from "effect/Tracer"
import { BigintOutOfRange } from "#layers/PgStatement.ts"
import { isDatabaseUnavailable } from "#src/database/Dependency.ts"
import * as TestDatabase from "#test/support/TestDatabase.ts"

class Undo extends Data.TaggedError("Undo")<{}> {}

const codeOf = (error: { readonly cause?: unknown }) =>
  error.cause instanceof Error && "code" in error.cause ? error.cause.code : undefined

const table = (name: string) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    yield* sql`CREATE TABLE ${sql(name)} (id int PRIMARY KEY, amount int NOT NULL DEFAULT 0)`
    return sql
  })

const ids = (name: string) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    Effect.map(sql<{ id: number }>`SELECT id FROM ${sql(name)} ORDER BY id`, (rows) => rows.map(({ id }) => id))
  )

/** A statement that is traced runs in another way than one that is not (`layers/PgDirect.ts`). */
const suite = (way: typeof TestDatabase.layer, name: string, traced: boolean) =>
  layer(way, { excludeTestServices: true })(name, (it) => {
    it.effect("has a span for each statement where they are traced, and none where they are not", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const native = yield* Effect.tracer
        const spans: Array<string> = []
        const tracer = Tracer.make({
          context: (work, fiber) => native.context(work, fiber),
          span: (name, ...rest) => {
            spans.push(name)
            return native.span(name, ...rest)
          }
        })
        const ask = sql<{ readonly theNumber: number }>`SELECT ${7}::int AS the_number`
        const work = Effect.gen(function* () {
          return [yield* ask, yield* sql.withTransaction(ask), yield* sql`SELECT 7 AS the_number`]
        })
        const answers = yield* Effect.withTracer(work, tracer)
        assert.deepStrictEqual(answers, [[{ theNumber: 7 }], [{ theNumber: 7 }], [{ theNumber: 7 }]])
        assert.deepStrictEqual(spans, traced ? ["sql.execute", "sql.transaction", "sql.execute", "sql.execute"] : [])
      })
    )

    it.effect("is migrated, and names its columns in camelCase but not the members of JSON documents", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const [row] = yield* sql<{ createdAt: Date; document: unknown }>`
        SELECT created_at, '{"a_b": 1}'::jsonb AS document FROM effect_sql_migrations WHERE name = 'identity'`
        assert.instanceOf(row?.createdAt, Date)
        assert.deepStrictEqual(row?.document, { a_b: 1 })
      })
    )

    it.effect("carries bytes, numbers, times, arrays and any text", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const bytes = Buffer.from([0, 1, 92, 39, 255])
        const at = new Date("2026-02-03T04:05:06.789Z")
        const text = `'"\\ ${"🔐"} \u00e9\n`
        const ask = sql`
        SELECT ${bytes}::bytea AS bytes, ${"9007199254740991"}::int8 AS big, 7::int8::int AS small, ${at}::timestamptz AS at,
          ${text}::text AS text, ${["a", "b,c", '"']}::text[] AS list, ${null}::text AS nothing`
        const expected = {
          bytes,
          big: Number.MAX_SAFE_INTEGER,
          small: 7,
          at,
          text,
          list: ["a", "b,c", '"'],
          nothing: null
        }
        // Unnamed, named and cached are three ways over the wire.
        for (let round = 0; round < 4; round++) assert.deepStrictEqual((yield* ask)[0], expected)
      })
    )

    it.effect("gives int8 as a number, counts too, and fails a statement whose int8 a number cannot hold", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const ask = (text: string) => sql<{ big: number }>`SELECT ${text}::int8 AS big`
        for (let round = 0; round < 3; round++) {
          assert.deepStrictEqual(
            yield* sql`SELECT count(*) AS n, max(n) AS most FROM generate_series(1::int8, 7) AS n`,
            [{ n: 7, most: 7 }]
          )
          assert.deepStrictEqual(yield* ask("-9007199254740991"), [{ big: -9_007_199_254_740_991 }])
          for (const beyond of ["9007199254740992", "-9223372036854775808"]) {
            const { cause } = yield* Effect.flip(ask(beyond))
            assert.instanceOf(cause, BigintOutOfRange)
            assert.notInclude(String(cause), beyond)
          }
          assert.deepStrictEqual(yield* ask("12"), [{ big: 12 }])
        }
      })
    )

    it.effect("refuses a parameter that cannot be sent, in each of the ways over the wire, and goes on working", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const circular: Record<string, unknown> = {}
        circular["self"] = circular
        const ways = [
          (parameter: unknown) => sql`SELECT ${parameter}::jsonb AS document`,
          (parameter: unknown) => sql.unsafe("SELECT $1::jsonb AS document", [parameter])
        ]
        for (const ask of ways) {
          for (let round = 0; round < 4; round++) {
            assert.include(String((yield* Effect.flip(ask(circular))).cause), "circular")
            assert.deepStrictEqual(yield* ask({ a: 1 }), [{ document: { a: 1 } }])
          }
        }
      })
    )

    it.effect("gives each execution of a statement its own rows, also when there are none, and when one fails", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const ask = (most: number) =>
          sql`SELECT n, 12 / (n - 9) AS part FROM generate_series(1, ${most}::int) AS n ORDER BY n`
        for (let round = 0; round < 4; round++) {
          assert.deepStrictEqual(yield* ask(1), [{ n: 1, part: -1 }])
          assert.deepStrictEqual(yield* ask(0), [])
          assert.strictEqual((yield* ask(8)).length, 8)
          assert.strictEqual(codeOf(yield* Effect.flip(ask(9))), "22012")
          assert.deepStrictEqual(yield* sql`SELECT pg_notify('nobody', ${"listens"})`, [{ pgNotify: "" }])
          assert.deepStrictEqual(yield* sql`UPDATE effect_sql_migrations SET name = name WHERE name = ${"none"}`, [])
        }
      })
    )

    it.effect("carries values of several megabytes both ways", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const big = Buffer.alloc(5_000_000, 7)
        const [row] = yield* sql<{ bytes: Buffer }>`SELECT ${big}::bytea AS bytes`
        assert.isTrue(big.equals(row?.bytes ?? Buffer.alloc(0)))
      })
    )

    it.effect("tells what a statement broke by its SQLSTATE, and goes on working", () =>
      Effect.gen(function* () {
        const sql = yield* table("codes")
        yield* sql`INSERT INTO codes (id) VALUES (1)`
        const failures = {
          "23505": sql`INSERT INTO codes (id) VALUES (${1})`,
          "23502": sql`INSERT INTO codes (id, amount) VALUES (${2}, ${null})`,
          "42P01": sql`SELECT * FROM no_such_table WHERE id = ${1}`,
          "22012": sql`SELECT 1 / ${0}::int`,
          "42601": sql`SELEC 1`
        }
        for (const [code, statement] of Object.entries(failures)) {
          for (let round = 0; round < 3; round++) {
            const error = yield* Effect.flip(statement)
            assert.strictEqual(codeOf(error), code)
            assert.isFalse(isDatabaseUnavailable(error))
          }
        }
        assert.deepStrictEqual(yield* ids("codes"), [1])
      })
    )

    it.effect("undoes a failed inner transaction alone, and a failed outer one wholly", () =>
      Effect.gen(function* () {
        const sql = yield* table("nested")
        yield* sql.withTransaction(
          Effect.gen(function* () {
            yield* sql`INSERT INTO nested (id) VALUES (1)`
            yield* Effect.ignore(
              sql.withTransaction(Effect.zipRight(sql`INSERT INTO nested (id) VALUES (2)`, new Undo()))
            )
            yield* Effect.ignore(sql.withTransaction(sql`INSERT INTO nested (id) VALUES (1)`))
            yield* sql.withTransaction(sql`INSERT INTO nested (id) VALUES (3)`)
          })
        )
        assert.deepStrictEqual(yield* ids("nested"), [1, 3])
        yield* Effect.ignore(
          sql.withTransaction(
            sql.withTransaction(sql`INSERT INTO nested (id) VALUES (4)`).pipe(Effect.zipRight(new Undo()))
          )
        )
        assert.deepStrictEqual(yield* ids("nested"), [1, 3])
      })
    )

    it.effect("keeps 20 transactions at once apart, with readers among them", () =>
      Effect.gen(function* () {
        const sql = yield* table("crowd")
        yield* sql`INSERT INTO crowd (id) VALUES (0)`
        const bump = (id: number) =>
          sql.withTransaction(
            Effect.gen(function* () {
              const [row] = yield* sql<{ amount: number }>`SELECT amount FROM crowd WHERE id = 0 FOR UPDATE`
              yield* sql`INSERT INTO crowd (id) VALUES (${id})`
              yield* sql`UPDATE crowd SET amount = ${(row?.amount ?? 0) + 1} WHERE id = 0`
              if (id % 5 === 0) return yield* new Undo()
            })
          )
        const read = Effect.asVoid(sql`SELECT sum(amount) FROM crowd`)
        yield* Effect.forEach(
          Array.from({ length: 20 }, (_, index) => index + 1),
          (id) => Effect.zip(Effect.exit(bump(id)), read, { concurrent: true }),
          { concurrency: "unbounded", discard: true }
        )
        const [row] = yield* sql<{ amount: number }>`SELECT amount FROM crowd WHERE id = 0`
        assert.strictEqual(row?.amount, 16)
        assert.strictEqual((yield* ids("crowd")).length, 17)
      })
    )

    it.effect("rolls an interrupted transaction back, and lets the next one in", () =>
      Effect.gen(function* () {
        const sql = yield* table("interrupted")
        const fiber = yield* Effect.fork(
          sql.withTransaction(
            Effect.zipRight(sql`INSERT INTO interrupted (id) VALUES (1)`, sql`SELECT pg_sleep(0.3), ${1}::int`)
          )
        )
        yield* Effect.sleep("100 millis")
        assert.isTrue(Exit.isInterrupted(yield* Fiber.interrupt(fiber)))
        assert.deepStrictEqual(yield* ids("interrupted"), [])
      })
    )

    it.effect("does not let an interrupted statement break somebody else's", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const innocent = (n: number) => sql<{ n: number }>`SELECT ${n}::int AS n, pg_sleep(0.002)`
        const victim = (n: number) =>
          Effect.fork(innocent(n)).pipe(
            Effect.tap(() => Effect.sleep("1 millis")),
            Effect.flatMap(Fiber.interrupt)
          )
        const answers = yield* Effect.forEach(
          Array.from({ length: 100 }, (_, index) => index),
          (n) => Effect.zipRight(victim(n), innocent(n)),
          { concurrency: 20 }
        )
        assert.deepStrictEqual(
          answers.map(([row]) => row?.n),
          Array.from({ length: 100 }, (_, index) => index)
        )
      })
    )

    it.effect("streams a result in pieces", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const rows = yield* Stream.runCollect(
          sql<{ n: number }>`SELECT n FROM generate_series(1, ${1000}::int) AS n`.stream
        )
        assert.strictEqual(Chunk.size(rows), 1000)
        assert.deepStrictEqual(yield* sql`SELECT 1 AS one`, [{ one: 1 }])
      })
    )

    it.effect("writes many rows with one statement, skips taken keys, and hands out locked work once", () =>
      Effect.gen(function* () {
        const sql = yield* table("sets")
        const numbers = [1, 2, 3]
        const insert = sql<{ id: number }>`
        INSERT INTO sets (id) SELECT * FROM unnest(${numbers}::int[]) ON CONFLICT DO NOTHING RETURNING id`
        assert.strictEqual((yield* insert).length, 3)
        assert.strictEqual((yield* insert).length, 0)
        const rows = yield* sql`SELECT id FROM sets WHERE id = any(${[2, 3, 4]}) ORDER BY id FOR UPDATE SKIP LOCKED`
        assert.deepStrictEqual(rows, [{ id: 2 }, { id: 3 }])
      })
    )

    it.effect("never asks the pool to cancel a backend", () =>
      Effect.gen(function* () {
        // Member that sql-pg looks for; with it, an interruption cancels the statement that runs there by then.
        const pg = yield* PgClient.PgClient
        const connection = yield* Effect.scoped(pg.reserve)
        assert.isTrue("pg" in connection)
        const { pg: client } = connection as unknown as { readonly pg: { readonly processID: unknown } }
        assert.isUndefined(client.processID)
      })
    )
  })

suite(TestDatabase.layer, "the database", false)
suite(TestDatabase.traced, "the database, where requests are traced,", true)

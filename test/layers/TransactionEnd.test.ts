import * as SqlClient from "@effect/sql/SqlClient"
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import { TransactionEnded } from "#layers/PgConnection.ts"
import * as Causes from "#src/database/Causes.ts"
import { RequestInfo, type RequestOrigin } from "#src/database/RequestInfo.ts"
import * as Transaction from "#src/database/Transaction.ts"
import * as Statements from "#test/support/Statements.ts"
import * as TestDatabase from "#test/support/TestDatabase.ts"

const table = (name: string) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    yield* sql`CREATE TABLE ${sql(name)} (id int PRIMARY KEY)`
    const ids = Effect.map(sql<{ id: number }>`SELECT id FROM ${sql(name)} ORDER BY id`, (rows) =>
      rows.map(({ id }) => id)
    )
    const insert = (id: number) => sql`INSERT INTO ${sql(name)} (id) VALUES (${id})`
    return { sql, ids, insert }
  })

const failsBy = (exit: Exit.Exit<unknown, unknown>, is: (error: object) => boolean) =>
  assert.isTrue(Exit.isFailure(exit) && Causes.some(exit.cause, is), String(exit))
const failsWith = (exit: Exit.Exit<unknown, unknown>, code: string) =>
  failsBy(exit, (error) => Causes.codeOf(error) === code)

/** One connection at a time: what one transaction leaves behind on it meets the next. */
layer(TestDatabase.layer, { excludeTestServices: true })("a transaction whose last statement is known", (it) => {
  it.effect("commits what its statements wrote, each time", () =>
    Effect.gen(function* () {
      const { ids, insert, sql } = yield* table("ended")
      for (let i = 0; i < 40; i += 2) {
        yield* sql.withTransaction(Effect.zipRight(insert(i), Transaction.last(insert(i + 1))))
        assert.deepStrictEqual(
          yield* ids,
          Array.from({ length: i + 2 }, (_, id) => id)
        )
      }
    })
  )

  it.effect("commits nothing when that statement fails, also at the commit itself", () =>
    Effect.gen(function* () {
      const { ids, insert, sql } = yield* table("refused")
      yield* sql`CREATE TABLE later (id int REFERENCES refused (id) DEFERRABLE INITIALLY DEFERRED)`
      yield* insert(1)
      for (let i = 0; i < 3; i++) {
        const twice = sql.withTransaction(Effect.zipRight(insert(2), Transaction.last(insert(1))))
        failsWith(yield* Effect.exit(twice), "23505")
        const atCommit = sql.withTransaction(
          Effect.zipRight(insert(2), Transaction.last(sql`INSERT INTO later (id) VALUES (${9})`))
        )
        failsWith(yield* Effect.exit(atCommit), "23503")
        assert.deepStrictEqual(yield* ids, [1])
      }
      assert.deepStrictEqual(yield* sql`SELECT id FROM later`, [])
    })
  )

  it.effect("ends no outer one: what fails after a savepoint is undone with it", () =>
    Effect.gen(function* () {
      const { ids, insert, sql } = yield* table("nested")
      const inner = sql.withTransaction(Transaction.last(insert(2)))
      const outer = (end: Effect.Effect<unknown, unknown>) =>
        Effect.exit(sql.withTransaction(Effect.all([insert(1), inner, end])))
      assert.isTrue(Exit.isFailure(yield* outer(Effect.fail("undo"))))
      assert.deepStrictEqual(yield* ids, [])
      assert.isTrue(Exit.isSuccess(yield* outer(insert(3))))
      assert.deepStrictEqual(yield* ids, [1, 2, 3])
    })
  )

  it.effect("whose first statement cannot be parsed, or sent, has others within it all the same", () =>
    Effect.gen(function* () {
      const { ids, insert, sql } = yield* table("first")
      const circle: { self?: unknown } = {}
      circle.self = circle
      for (const bad of [sql`SELECT nothing FROM nowhere WHERE id = ${1}`, sql`SELECT ${circle as never}::jsonb`]) {
        const work = Effect.exit(bad).pipe(
          Effect.zipRight(Effect.exit(insert(1))),
          Effect.zipRight(Effect.fail("undo" as const))
        )
        assert.isTrue(Exit.isFailure(yield* Effect.exit(sql.withTransaction(work))))
        assert.deepStrictEqual(yield* ids, [])
      }
    })
  )

  it.effect("of which nothing is sent ends well", () =>
    Effect.gen(function* () {
      const { ids, insert, sql } = yield* table("empty")
      yield* sql.withTransaction(Effect.void)
      yield* Effect.exit(sql.withTransaction(Effect.fail("undo")))
      yield* insert(1)
      assert.deepStrictEqual(yield* ids, [1])
    })
  )

  it.effect("that is interrupted in it lets the next one in", () =>
    Effect.gen(function* () {
      const { ids, insert, sql } = yield* table("interrupted_at_the_end")
      for (let i = 0; i < 20; i++) {
        const slow = sql`INSERT INTO interrupted_at_the_end (id) SELECT ${100 + i} FROM pg_sleep(0.005)`
        const fiber = yield* Effect.fork(sql.withTransaction(Transaction.last(slow)))
        yield* Effect.sleep(`${i % 5} millis`)
        yield* Fiber.interrupt(fiber)
        yield* sql.withTransaction(Effect.zipRight(insert(i), Transaction.last(sql`SELECT ${i}::int`)))
      }
      const present = yield* ids
      assert.deepStrictEqual(
        present.filter((id) => id < 100),
        Array.from({ length: 20 }, (_, id) => id)
      )
    })
  )
})

layer(TestDatabase.layer, { excludeTestServices: true })("over the wire", (it) => {
  it.effect("takes one message less for its beginning and one for its end, known statements or not", () =>
    Effect.gen(function* () {
      const { insert, sql } = yield* table("messages")
      for (let i = 0; i < 4; i++) {
        const work = sql.withTransaction(Effect.zipRight(insert(2 * i), Transaction.last(insert(2 * i + 1))))
        assert.lengthOf(yield* Statements.during(work), 2)
      }
      assert.lengthOf(yield* Statements.during(sql.withTransaction(Transaction.last(insert(90)))), 1)
      assert.lengthOf(yield* Statements.during(sql.withTransaction(insert(91))), 2)
    })
  )

  it.effect("is never told to be undone, or gone on with, once it is committed", () =>
    Effect.gen(function* () {
      const { ids, insert, sql } = yield* table("too_late")
      const undone = sql.withTransaction(Effect.zipRight(Transaction.last(insert(1)), Effect.fail("undo")))
      const goesOn = sql.withTransaction(Effect.zipRight(Transaction.last(insert(2)), insert(3)))
      for (const late of [undone, goesOn]) {
        failsBy(yield* Effect.exit(late), (error) => error instanceof TransactionEnded)
      }
      assert.deepStrictEqual(yield* ids, [1, 2])
    })
  )

  it.effect("a request knows that something may be committed, unless the server refused it", () =>
    Effect.gen(function* () {
      const { insert, sql } = yield* table("noted")
      const write = (id: number, request: RequestOrigin) =>
        Effect.exit(sql.withTransaction(Transaction.last(insert(id)))).pipe(Effect.provideService(RequestInfo, request))
      const origin: RequestOrigin = { id: "request", ip: "", userAgent: null, via: "rest" }
      const [first, second] = [{ ...origin }, { ...origin }]
      yield* write(1, first)
      assert.isTrue(first.committed)
      yield* write(1, second)
      assert.isNotTrue(second.committed)
    })
  )
})

import * as SqlClient from "@effect/sql/SqlClient"
import { assert, describe, it, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as fs from "node:fs"
import * as Migrations from "#layers/Migrations.ts"
import * as TestDatabase from "#test/support/TestDatabase.ts"

/** Runs the work and takes back what it did to the database. */
const undone = <A, E, R>(work: Effect.Effect<A, E, R>) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    Effect.flip(sql.withTransaction(Effect.zipRight(work, Effect.fail("undone" as const)))).pipe(
      Effect.flatMap((why) => (why === "undone" ? Effect.void : Effect.fail(why)))
    )
  )

const statement = (text: string) => Effect.flatMap(SqlClient.SqlClient, (sql) => sql.unsafe(text))

describe("the registry of migrations", () => {
  it("lists every file of the folder, in order and without gaps", () => {
    const files = fs
      .readdirSync("migrations")
      .map((name) => name.replace(/\.ts$/, ""))
      .sort()
    assert.deepStrictEqual(Object.keys(Migrations.registry), files)
    files.forEach((name, index) => assert.match(name, new RegExp(`^${String(index + 1).padStart(4, "0")}_[a-z_]+$`)))
  })
})

// Each test goes on with the ledger that the one before left.
describe("a migrated database", { shuffle: false }, () => {
  layer(TestDatabase.layer)((it) => {
    const { registry } = Migrations
    const count = Object.keys(registry).length
    const next = (offset: number, name: string) => `${String(count + offset).padStart(4, "0")}_${name}`

    it.effect("is left alone by a second run", () =>
      Effect.gen(function* () {
        assert.deepStrictEqual(yield* Migrations.migrate(), [])
      })
    )

    it.effect("lets a server of before 1.1 start again while an upgrade is under way", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        // The newest migration of the earlier commit in test/upgrade/Earlier.ts, which tries it with that server.
        const earlier = 45
        const behind = yield* sql`
          SELECT name, served_from FROM effect_sql_migrations
          WHERE migration_id > ${earlier} AND coalesce(served_from, migration_id) > ${earlier}`
        assert.deepStrictEqual(behind, [], "each migration of 1.1 has an entry in `servedFrom` of layers/Migrations.ts")
      })
    )

    it.effect("is as it was before when a migration fails, even the ones that went well", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const error = yield* Effect.flip(
          Migrations.migrate({
            ...registry,
            [next(1, "good")]: statement("CREATE TABLE good (id int)"),
            [next(2, "bad")]: statement("CREATE TABLE bad (id no_such_type)")
          })
        )
        assert.strictEqual(error._tag, "StartRefused")
        assert.include(error.message, "bad")
        assert.deepStrictEqual(yield* sql`SELECT to_regclass('good') AS good`, [{ good: null }])
        assert.deepStrictEqual(yield* sql`SELECT count(*)::int AS n FROM effect_sql_migrations`, [{ n: count }])
      })
    )

    it.effect("of a newer program is served by this one when each newer migration says so, and is left as it is", () =>
      Effect.gen(function* () {
        const newer = { ...registry, [next(1, "more")]: statement("CREATE TABLE more (id int)") }
        const newest = { ...newer, [next(2, "most")]: statement("CREATE TABLE most (id int)") }
        const served = new Map([
          [count + 1, count],
          [count + 2, count + 1]
        ])
        yield* undone(
          Effect.gen(function* () {
            yield* Migrations.migrate(newer, served)
            assert.deepStrictEqual(yield* Migrations.migrate(), [])
            yield* Migrations.migrate(newest, served)
            assert.deepStrictEqual(yield* Migrations.migrate(newer), [])
            // Two releases behind: what it still uses may be gone.
            assert.include((yield* Effect.flip(Migrations.migrate())).message, "migrated by a newer Ampoule")
          })
        )
        yield* undone(
          Effect.gen(function* () {
            const contract = new Map([[count + 1, count + 1]])
            yield* Migrations.migrate(newer, contract)
            assert.include((yield* Effect.flip(Migrations.migrate())).message, "migrated by a newer Ampoule")
          })
        )
      })
    )

    it.effect("with the ledger of 1.0 gets what that lacks", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        yield* undone(
          Effect.gen(function* () {
            yield* sql`ALTER TABLE effect_sql_migrations DROP COLUMN served_from`
            assert.deepStrictEqual(yield* Migrations.migrate(), [])
            const newer = { ...registry, [next(1, "more")]: statement("CREATE TABLE more (id int)") }
            yield* Migrations.migrate(newer, new Map([[count + 1, count]]))
            assert.deepStrictEqual(yield* Migrations.migrate(), [])
          })
        )
      })
    )

    it.effect("of a newer program is refused by this one, and one of another program too", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const newer = { ...registry, [next(1, "newer")]: statement("CREATE TABLE newer (id int)") }
        assert.deepStrictEqual(yield* Migrations.migrate(newer), [[count + 1, "newer"]])
        const error = yield* Effect.flip(Migrations.migrate())
        assert.strictEqual(error._tag, "StartRefused")
        assert.include(
          error.message,
          `migrated by a newer Ampoule (migration ${count + 1}, this program knows up to ${count})`
        )
        yield* sql`UPDATE effect_sql_migrations SET name = 'other' WHERE migration_id = 1`
        assert.include(
          (yield* Effect.flip(Migrations.migrate(newer))).message,
          "differs from this program's at number 1"
        )
      })
    )
  })
})

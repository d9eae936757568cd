import * as SqlClient from "@effect/sql/SqlClient"
import { assert, describe, it, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as fs from "node:fs"
import * as Migrations from "#layers/Migrations.ts"
import * as TestDatabase from "#test/support/TestDatabase.ts"

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

layer(TestDatabase.layer)("a migrated database", (it) => {
  const { registry } = Migrations
  const known = Object.keys(registry).length
  const next = (offset: number, name: string) => `${String(known + offset).padStart(4, "0")}_${name}`

  it.effect("is left alone by a second run", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* Migrations.migrate(), [])
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
      assert.deepStrictEqual(yield* sql`SELECT count(*)::int AS n FROM effect_sql_migrations`, [{ n: known }])
    })
  )

  it.effect("of a newer program is refused by this one, and one of another program too", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const newer = { ...registry, [next(1, "newer")]: statement("CREATE TABLE newer (id int)") }
      assert.deepStrictEqual(yield* Migrations.migrate(newer), [[known + 1, "newer"]])
      const error = yield* Effect.flip(Migrations.migrate())
      assert.strictEqual(error._tag, "StartRefused")
      assert.include(
        error.message,
        `migrated by a newer Ampoule (migration ${known + 1}, this program knows up to ${known})`
      )
      yield* sql`UPDATE effect_sql_migrations SET name = 'other' WHERE migration_id = 1`
      assert.include((yield* Effect.flip(Migrations.migrate(newer))).message, "differs from this program's at number 1")
    })
  )
})

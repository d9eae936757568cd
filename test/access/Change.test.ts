/** A change, when another one comes in between. */
import * as SqlClient from "@effect/sql/SqlClient"
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { Audit } from "#src/trail/Audit.ts"
import { change } from "#src/access/Change.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"

/** Children of parent 1, which exists; and a change that adds a child of `parent(run)`, after another row. */
const families = (name: string) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const audit = yield* Audit
    const team = yield* World.team()
    const [parents, children] = [sql(`${name}_parents`), sql(`${name}_children`)]
    yield* sql`CREATE TABLE ${parents} (id int PRIMARY KEY)`
    yield* sql`CREATE TABLE ${children} (run int UNIQUE, parent int NOT NULL REFERENCES ${parents} (id))`
    yield* sql`INSERT INTO ${parents} (id) VALUES (1)`
    let runs = 0
    const event = {
      actor: "system",
      action: "team.update",
      outcome: "allowed",
      teamId: team.id
    } as const
    const adding = (parent: (run: number) => number) =>
      change({ sql, audit }, event, function* () {
        const run = ++runs
        yield* Effect.orDie(sql`INSERT INTO ${children} (run, parent) VALUES (${run}, 1)`)
        yield* Effect.orDie(sql`INSERT INTO ${children} (run, parent) VALUES (${-run}, ${parent(run)})`)
        return run
      })
    const there = Effect.map(sql<{ readonly run: number }>`SELECT run FROM ${children} ORDER BY run`, (rows) =>
      rows.map(({ run }) => run)
    )
    return { adding, there, runs: () => runs }
  })

layer(TestApp.layer, { excludeTestServices: true })("a change", (it) => {
  it.scoped("is made again when what it refers to went in between, as a whole", () =>
    Effect.gen(function* () {
      const { adding, there } = yield* families("again")
      assert.strictEqual(yield* adding((run) => (run === 1 ? 2 : 1)), 2)
      assert.deepStrictEqual(yield* there, [-2, 2])
    })
  )

  it.scoped("is given up when it never fits, and leaves nothing", () =>
    Effect.gen(function* () {
      const { adding, runs, there } = yield* families("never")
      assert.isTrue(Exit.isFailure(yield* Effect.exit(adding(() => 2))))
      assert.strictEqual(runs(), 3)
      assert.deepStrictEqual(yield* there, [])
    })
  )

  it.scoped("is made once when the database refuses it for what it says", () =>
    Effect.gen(function* () {
      const { runs, adding } = yield* families("refused")
      const twice = adding(() => Number.NaN)
      assert.isTrue(Exit.isFailure(yield* Effect.exit(twice)))
      assert.strictEqual(runs(), 1)
    })
  )
})

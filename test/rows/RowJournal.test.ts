import { assert, layer } from "@effect/vitest"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import { randomUUID } from "node:crypto"
import * as RowJournal from "#src/rows/RowJournal.ts"
import { keyOf, type AuthorizationRow, authorizationTables } from "#src/rows/AuthorizationRows.ts"
import * as Rows from "#src/database/Rows.ts"
import * as TestDatabase from "#test/support/TestDatabase.ts"

const member = (): AuthorizationRow<"memberships"> => ({
  ...(Object.fromEntries(
    authorizationTables.memberships.columns.map((column) => [column, "as it was"])
  ) as AuthorizationRow<"memberships">),
  userId: randomUUID()
})

/** Entry of a transaction in which so many tokens end, one member joins and one changes. */
const said = Effect.fnUntraced(function* (ends: number) {
  const sql = yield* SqlClient.SqlClient
  return yield* Rows.transaction(sql, function* () {
    const one = member()
    yield* RowJournal.noteInsert("memberships", member())
    yield* Effect.orDie(
      RowJournal.noteEnds(sql, "api_tokens")`SELECT gen_random_uuid() AS id FROM generate_series(1, ${ends}::int)`
    )
    yield* RowJournal.noteUpdate("memberships", one, { ...one, role: "viewer" })
    const [first, second, ...more] = RowJournal.listsOf([{}, {}], yield* RowJournal.take)
    assert.deepStrictEqual([second, more], [[], []])
    assert.deepStrictEqual(yield* RowJournal.take, [], "taken once")
    return first ?? []
  })
})

const tableOf = (text: string) => RowJournal.parse(text)?.name.split("/")[0]

layer(TestDatabase.layer, { excludeTestServices: true })("the rows that an entry names", (it) => {
  it.effect("are all of them, of a change of any usual size", () =>
    Effect.gen(function* () {
      const rows = yield* said(RowJournal.maxListedEnds)
      assert.strictEqual(rows.length, RowJournal.maxListedEnds + 2)
      assert.strictEqual(rows.filter((text) => tableOf(text) === "memberships").length, 2)
    })
  )

  it.effect("are bounded where any number ends at once: what changed is named, the other ends are counted", () =>
    Effect.gen(function* () {
      const rows = yield* said(RowJournal.maxListedEnds + 70)
      assert.strictEqual(rows.length, RowJournal.maxListedEnds + 3)
      assert.strictEqual(rows.at(-1), "+70")
      assert.isUndefined(RowJournal.parse("+70"))
      assert.strictEqual(rows.filter((text) => tableOf(text) === "memberships").length, 2)
    })
  )

  it.effect("are none of a transaction that was undone, and none that the next one takes", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* Effect.flip(
        Rows.transaction(sql, function* () {
          yield* RowJournal.noteInsert("memberships", member())
          return yield* Effect.fail("refused" as const)
        })
      )
      const after = yield* Rows.transaction(sql, function* () {
        return RowJournal.listsOf([{}], yield* RowJournal.take)
      })
      assert.deepStrictEqual(after, [[]])
    })
  )

  it.effect("are those of a part that ended well too, and none of a part that was undone", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const [kept, undone] = [member(), member()]
      const part = (row: AuthorizationRow<"memberships">, fails: boolean) =>
        Rows.transaction(sql, function* () {
          yield* RowJournal.noteInsert("memberships", row)
          if (fails) yield* Effect.fail("refused" as const)
        })
      const rows = yield* Rows.transaction(sql, function* () {
        yield* Rows.transaction(sql, function* () {
          yield* part(kept, false)
          yield* Effect.flip(part(undone, true))
        })
        return RowJournal.listsOf([{}], yield* RowJournal.take)
      })
      const names = rows[0]?.map((text) => RowJournal.parse(text)?.name)
      assert.deepStrictEqual(names, [RowJournal.nameOf("memberships", keyOf("memberships", kept))])
    })
  )
})

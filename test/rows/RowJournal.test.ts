import { assert, layer } from "@effect/vitest"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { randomUUID } from "node:crypto"
import * as RowJournal from "#src/rows/RowJournal.ts"
import { keyOf, type AuthorizationRow, authorizationTables } from "#src/rows/AuthorizationRows.ts"
import * as Rows from "#src/database/Rows.ts"
import { optional } from "#schema/Strict.ts"
import { Audit } from "#src/trail/Audit.ts"
import { parsed } from "#test/support/Json.ts"
import * as TestApp from "#test/support/TestApp.ts"
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

const readBody = parsed(Schema.Struct({ rows: optional(Schema.Array(Schema.String)) }))

layer(TestApp.layer, { excludeTestServices: true, timeout: "120 seconds" })("the list of changed rows", (it) => {
  it.effect("is in every entry of a journaled action, and in others only with changes", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const audit = yield* Audit
      const targetId = randomUUID()
      const event = (action: "team.update" | "secret.update") => ({
        actor: "system" as const,
        action,
        outcome: "allowed" as const,
        teamId: null,
        target: { type: "test", id: targetId, name: action }
      })
      const append = (changes: Effect.Effect<unknown>, ...actions: ReadonlyArray<Parameters<typeof event>[0]>) =>
        Rows.transaction(sql, function* () {
          yield* changes
          yield* audit.append(...actions.map(event))
        })
      yield* append(Effect.void, "team.update")
      yield* append(Effect.void, "secret.update")
      yield* append(RowJournal.noteInsert("memberships", member()), "secret.update", "secret.update")
      const entries = yield* sql<{ readonly body: string }>`
        SELECT body FROM audit_entries WHERE body LIKE ${`%${targetId}%`} ORDER BY at, seq`
      const rows = entries.map(({ body }) => readBody(body).rows?.length)
      assert.deepStrictEqual(rows, [0, undefined, 1, 0])
    })
  )
})

/** Every table and column of the database against the list that says how it is protected from a writer of the database. */
import { assert, layer } from "@effect/vitest"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Rows from "#src/database/Rows.ts"
import { columnName, isAuthorizationTable, authorizationTables } from "#src/rows/AuthorizationRows.ts"
import { openTables, outsideTheMac } from "#src/rows/TableProtection.ts"
import * as TestDatabase from "#test/support/TestDatabase.ts"

const TableRow = Schema.Struct({ name: Schema.String, columns: Schema.Array(Schema.String) })
type TableRow = typeof TableRow.Type

const catalogue = Effect.flatMap(SqlClient.SqlClient, (sql) =>
  Rows.findAll(
    TableRow,
    sql`
      SELECT table_name::text AS name, array_agg(column_name::text ORDER BY column_name::text) AS columns
      FROM information_schema.columns WHERE table_schema = current_schema() GROUP BY 1 ORDER BY 1`
  )
)

/** Complaints about the tables; none when each table and column is decided once. */
const undecided = (tables: ReadonlyArray<TableRow>): ReadonlyArray<string> => {
  const open = new Map<string, { readonly because: string }>(Object.entries(openTables))
  const names = new Set(tables.map(({ name }) => name))
  const gone = [...Object.keys(authorizationTables), ...open.keys()].filter((name) => !names.has(name))
  return [
    ...gone.map((name) => `${name} is no table`),
    ...tables.flatMap(({ columns, name }) => {
      const reason = open.get(name)
      if (!isAuthorizationTable(name)) {
        if (reason === undefined) return [`${name} is neither sealed nor open`]
        const hasMac = columns.includes("mac") && !name.startsWith("audit_") && name !== "sealed_tables"
        return hasMac ? [`${name} has a MAC and is called open`] : []
      }
      if (reason !== undefined) return [`${name} is sealed and open`]
      const { columns: covered, ended } = authorizationTables[name]
      const places = [...covered.map(columnName), ...ended, "mac", ...Object.keys(outsideTheMac[name])]
      return [
        ...columns.filter((column) => !places.includes(column)).map((column) => `${name}.${column} is not decided`),
        ...places.filter((column) => !columns.includes(column)).map((column) => `${name}.${column} is no column`),
        ...places
          .filter((column, i) => places.indexOf(column) !== i)
          .map((column) => `${name}.${column} is decided twice`)
      ]
    })
  ]
}

layer(TestDatabase.layer)("the database's catalogue", (it) => {
  it.effect("has no table and no column without a decision and its reason", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(undecided(yield* catalogue), [])
      const reasons = [
        ...Object.values(openTables).map(({ because }) => because),
        ...Object.values(outsideTheMac).flatMap((columns) => Object.values(columns))
      ]
      assert.deepStrictEqual(
        reasons.filter((reason) => reason.length < 10),
        []
      )
    })
  )

  it.effect("shows a new table, a new column and a removed one", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const added = Effect.gen(function* () {
        yield* sql`CREATE TABLE approvals_of_tomorrow (id uuid)`
        yield* sql`ALTER TABLE value_requests ADD COLUMN forwarded_to uuid`
        yield* sql`ALTER TABLE webhooks RENAME COLUMN format TO shape`
        const complaints = undecided(yield* catalogue)
        assert.sameMembers(
          [...complaints],
          [
            "approvals_of_tomorrow is neither sealed nor open",
            "value_requests.forwarded_to is not decided",
            "webhooks.shape is not decided",
            "webhooks.format is no column"
          ]
        )
        return yield* Effect.fail("undone" as const)
      })
      assert.strictEqual(yield* Effect.flip(sql.withTransaction(added)), "undone")
    })
  )
})

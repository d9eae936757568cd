/**
 * Attacks of a writer of the database on whole rows, each with a MAC that a server gave it: every table, every column
 * that decides. Constraints of the tables are dropped, as they would keep some of it from being tried.
 */
import { assert, layer } from "@effect/vitest"
import * as SqlClient from "@effect/sql/SqlClient"
import type { SqlError } from "@effect/sql/SqlError"
import * as Effect from "effect/Effect"
import { randomBytes, randomUUID } from "node:crypto"
import { Audit } from "#src/trail/Audit.ts"
import type { AuditEvent } from "#src/trail/Entry.ts"
import * as RowJournal from "#src/rows/RowJournal.ts"
import { RowSeal } from "#src/rows/RowSeal.ts"
import {
  columnName,
  keyOf,
  type AuthorizationRow,
  type AuthorizationTable,
  authorizationTables
} from "#src/rows/AuthorizationRows.ts"
import * as RowVerification from "#src/rows/RowVerification.ts"
import { Problems } from "#src/audit/Problems.ts"
import { Vault } from "#src/crypto/Vault.ts"
import * as Rows from "#src/database/Rows.ts"
import * as TestApp from "#test/support/TestApp.ts"

// Object.keys loses the names that `sealed` has.
const tables = Object.keys(authorizationTables) as ReadonlyArray<AuthorizationTable>
type AnyRow = AuthorizationRow<AuthorizationTable>

const event = (action: AuditEvent["action"]): AuditEvent => ({
  actor: "system",
  action,
  outcome: "allowed",
  teamId: null
})

interface Column {
  readonly table: string
  readonly name: string
  readonly type: string
  readonly needed: boolean
}

/** Another value of the column's type each time. */
const valueOf = ({ type }: Column): unknown => {
  if (type === "jsonb") return { value: randomUUID() }
  switch (type) {
    case "uuid":
      return randomUUID()
    case "bool":
      return Math.random() < 0.5
    case "timestamptz":
      // Far away: what has expired may be purged meanwhile.
      return new Date(4_000_000_000_000 + Math.floor(Math.random() * 1e9))
    case "bytea":
      return randomBytes(16)
    case "int2":
      return Math.floor(Math.random() * 30_000)
    case "int4":
    case "int8":
      return Math.floor(Math.random() * 1e9)
    case "_uuid":
    case "_text":
      return [randomUUID()]
    default:
      return randomUUID()
  }
}

const columnsInDatabase = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<Column>`
    SELECT table_name AS table, column_name AS name, udt_name AS type, is_nullable = 'NO' AND column_default IS NULL AS needed
    FROM information_schema.columns WHERE table_schema = current_schema() AND table_name = ANY(${tables}::text[])`
})

const dropConstraints = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ readonly table: string; readonly name: string }>`
    SELECT conrelid::regclass::text AS table, conname AS name FROM pg_constraint
    WHERE contype IN ('c', 'f', 'u') AND (conrelid::regclass::text = ANY(${tables}::text[])
      OR confrelid::regclass::text = ANY(${tables}::text[]))`
  for (const { name, table } of rows) {
    yield* sql`ALTER TABLE ${sql(table)} DROP CONSTRAINT IF EXISTS ${sql(name)} CASCADE`
  }
  const indexes = yield* sql<{ readonly name: string }>`
    SELECT indexrelid::regclass::text AS name FROM pg_index
    WHERE indisunique AND NOT indisprimary AND indrelid::regclass::text = ANY(${tables}::text[])`
  for (const { name } of indexes) yield* sql`DROP INDEX ${sql(name)}`
})

/** Without the bound of a report. */
class AllProblems extends Problems {
  readonly all: Array<string> = []
  override say(what: string): void {
    this.all.push(what)
  }
}

/** Findings about rows of a verification of the trail. */
const said = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const problems = new AllProblems()
  const changes = new RowVerification.LastChanges(yield* RowVerification.read(yield* Vault, problems))
  const entries = yield* sql<{ readonly action: string; readonly body: string }>`SELECT action, body FROM audit_entries`
  for (const { action, body } of entries) changes.add(action, body)
  changes.report(problems)
  return problems.all
})

const isOld = "was put back as it was before its last change"
const isBack = "was put back after it had ended"
const isForged = "was not written by a server as it is, and grants nothing"

/** Changes of a table's rows by a server, and by a writer of the database without one. */
const hands = Effect.fnUntraced(function* (table: AuthorizationTable, all: ReadonlyArray<Column>) {
  const sql = yield* SqlClient.SqlClient
  const { update, values } = yield* RowSeal
  const own = all.filter((column) => column.table === table)
  const memberOf = new Map<string, string>(
    authorizationTables[table].columns.map((member) => [columnName(member), member])
  )
  const key: ReadonlyArray<string> = authorizationTables[table].key.map(columnName)
  // Requests that were decided give nothing, and are passed over.
  const fresh = (column: Column) => (column.name === "status" ? "pending" : valueOf(column))
  const cell = (row: AnyRow, name: string) =>
    new Map<string, unknown>(Object.entries(row)).get(memberOf.get(name) ?? "")
  const where = (row: AnyRow) =>
    sql.and(
      key.map((name) => {
        const value = cell(row, name)
        return sql`${sql(name)} = ${value instanceof Uint8Array ? value : String(value)}`
      })
    )
  /** A copy of the columns, with others in place of some. */
  const like = (row: AnyRow, instead: Readonly<Record<string, unknown>>) =>
    Effect.map(
      sql<{ readonly json: string }>`
        SELECT (to_jsonb(r) || ${JSON.stringify(instead)}::jsonb)::text AS json FROM ${sql(table)} r WHERE ${where(row)}`,
      ([found]) => {
        if (found === undefined) throw new Error(`no row ${keyOf(table, row)} of ${table}`)
        return sql`
          INSERT INTO ${sql(table)} SELECT * FROM jsonb_populate_record(NULL::${sql(table)}, ${found.json}::jsonb)`
      }
    )
  const drop = (row: AnyRow) => sql`DELETE FROM ${sql(table)} WHERE ${where(row)}`

  return {
    key,
    where,
    drop,
    changeable: own.filter(({ name }) => memberOf.has(name) && !key.includes(name)),
    said: (row: AnyRow, what: string) => `The row ${keyOf(table, row)} of ${table} ${what}.`,
    make: Effect.gen(function* () {
      const decides = own.filter(({ name }) => memberOf.has(name))
      const others = own.filter(({ name, needed }) => needed && !memberOf.has(name))
      // Each column with a value of the type that the database says.
      const row = Object.fromEntries(decides.map((c) => [memberOf.get(c.name), fresh(c)])) as unknown as AnyRow
      const inserted = yield* values(table, row, Object.fromEntries(others.map((c) => [c.name, valueOf(c)])))
      yield* Rows.run(sql`INSERT INTO ${sql(table)} ${inserted}`)
      return row
    }),
    change: (row: AnyRow, column: Column, value: unknown) =>
      Effect.map(
        // A column of this table.
        update(table, where(row), () => ({ [memberOf.get(column.name) ?? ""]: value }) as Partial<AnyRow>),
        (n) => assert.strictEqual(n, 1, `${table}.${column.name}`)
      ),
    another: (row: AnyRow, column: Column) => {
      for (;;) {
        const value = column.name === "status" ? "approved" : valueOf(column)
        if (JSON.stringify(value) !== JSON.stringify(cell(row, column.name))) return value
      }
    },
    was: (row: AnyRow, column: Column) => cell(row, column.name),
    /** Keeps the row as it is, whole; what comes back puts it back. */
    keep: (row: AnyRow) => Effect.map(like(row, {}), (insert) => Effect.zipRight(drop(row), insert)),
    copy: (row: AnyRow) => {
      const keys = Object.fromEntries(key.map((name) => [name, randomUUID()]))
      return Effect.as(Effect.flatten(like(row, keys)), {
        ...row,
        ...Object.fromEntries(
          key.map((name) => [
            memberOf.get(name),
            cell(row, name) instanceof Uint8Array ? Buffer.from(keys[name] ?? "") : keys[name]
          ])
        )
      })
    },
    /** Each gets all that the other has, its MAC too, but for the ids that name it. */
    swap: (one: AnyRow, other: AnyRow) =>
      Effect.gen(function* () {
        const written = (value: unknown) =>
          value instanceof Uint8Array ? `\\x${Buffer.from(value).toString("hex")}` : value
        const keysOf = (row: AnyRow) => Object.fromEntries(key.map((name) => [name, written(cell(row, name))]))
        const inserts = [yield* like(one, keysOf(other)), yield* like(other, keysOf(one))]
        yield* drop(one)
        yield* drop(other)
        for (const insert of inserts) yield* insert
      })
  }
})
type Hands = Effect.Effect.Success<ReturnType<typeof hands>>

/** Rows of one table with a history, and the attacks on them; `expected`: what is said of them afterwards. */
const prepare = Effect.fnUntraced(function* (table: AuthorizationTable, by: Hands) {
  const sql = yield* SqlClient.SqlClient
  const audit = yield* Audit
  const attacks: Array<Effect.Effect<unknown, SqlError>> = []
  const expected: Array<string> = []
  const tried = (row: AnyRow, what: string, attack: Effect.Effect<unknown, SqlError>) => {
    attacks.push(attack)
    expected.push(by.said(row, what))
  }
  const history = yield* Rows.transaction(sql, function* () {
    const turned = by.changeable.map((column) => Effect.map(by.make, (row) => ({ row, column })))
    const rows = yield* Effect.all({
      rolledBack: Effect.all(turned),
      turnedTwice: Effect.all(turned.slice(0, 1)),
      changed: Effect.all(turned.slice(0, 1)),
      removed: by.make,
      ended: Effect.all(authorizationTables[table].ended.length > 0 ? [by.make] : []),
      gone: by.make,
      one: by.make,
      other: by.make,
      copied: by.make
    })
    yield* audit.append(event("team.create"))
    return rows
  })
  for (const { row } of history.rolledBack) tried(row, isOld, yield* by.keep(row))
  for (const row of [history.removed, ...history.ended]) tried(row, isBack, yield* by.keep(row))
  for (const { column, row } of [...history.rolledBack, ...history.changed, ...history.turnedTwice]) {
    yield* Rows.transaction(sql, function* () {
      yield* by.change(row, column, by.another(row, column))
      yield* audit.append(event("team.update"))
    })
  }
  for (const { column, row } of history.turnedTwice) {
    tried(row, isOld, yield* by.keep(row))
    yield* Rows.transaction(sql, function* () {
      yield* by.change(row, column, by.was(row, column))
      yield* audit.append(event("team.update"))
    })
  }
  yield* Rows.transaction(sql, function* () {
    yield* RowJournal.remove(sql, table, by.where(history.removed))
    for (const row of history.ended) {
      yield* RowJournal.end(sql, table, { [authorizationTables[table].ended[0] ?? ""]: new Date() }, by.where(row))
    }
    yield* audit.append(event("token.revoke"), event("token.revoke"))
  })
  attacks.push(by.drop(history.gone))
  if (RowJournal.lastingTables.has(table)) {
    expected.push(`The row ${RowJournal.nameOf(table, keyOf(table, history.gone))} is gone, and no entry says so.`)
  }
  // A row of nothing but its ids has nothing to swap.
  if (by.changeable.length > 0) {
    tried(history.one, isForged, by.swap(history.one, history.other))
    expected.push(by.said(history.other, isForged))
  }
  const copy = Effect.map(by.copy(history.copied), (row) => expected.push(by.said(row, isForged)))
  return { attacks: [...attacks, copy], expected }
})

layer(TestApp.layer, { excludeTestServices: true, timeout: "120 seconds" })("a writer of the database", (it) => {
  it.effect(
    "rolls back, removes, brings back, swaps and copies no row of any table without the verification's word",
    () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        yield* dropConstraints
        const columns = yield* columnsInDatabase
        const all = yield* Effect.forEach(tables, (table) =>
          Effect.flatMap(hands(table, columns), (by) => prepare(table, by))
        )
        const inTransaction = Rows.transaction(sql, function* () {
          return yield* Effect.orDie(said)
        })
        assert.deepStrictEqual(yield* inTransaction, [])
        // Of one transaction, so that nobody's housekeeping looks at rows that make no sense.
        const rows = yield* Rows.transaction(sql, function* () {
          for (const attack of all.flatMap(({ attacks }) => attacks)) yield* Effect.orDie(attack)
          return yield* Effect.orDie(said)
        })
        const expected = all.flatMap((table) => table.expected)
        assert.isAbove(expected.length, 250)
        assert.sameMembers([...rows], expected)
      })
  )
})

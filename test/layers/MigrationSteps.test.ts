/**
 * Each migration is run on tables that the release before filled, and that release's statements still run afterwards: its
 * processes serve while it is replaced.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { createHash } from "node:crypto"
import * as Migrations from "#layers/Migrations.ts"
import * as Archive from "#src/backup/Archive.ts"
import * as TestDatabase from "#test/support/TestDatabase.ts"

interface Column {
  readonly name: string
  readonly type: string
  readonly nullable: boolean
  readonly filled: boolean
}
interface Reference {
  readonly columns: ReadonlyArray<string>
  readonly target: string
  readonly targetColumns: ReadonlyArray<string>
}
interface Shape {
  readonly name: string
  readonly columns: ReadonlyArray<Column>
  readonly references: ReadonlyArray<Reference>
  /** By column: the values that a constraint allows. */
  readonly choices: ReadonlyMap<string, ReadonlyArray<string>>
}

const quoted = (name: string) => `"${name}"`

/** Columns of each table in a release with this schema. */
const shapes = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const tables = yield* Archive.tables
  return yield* Effect.forEach(tables, ({ name }) =>
    Effect.gen(function* () {
      const columns = yield* sql<Column>`
        SELECT a.attname::text AS name, format_type(a.atttypid, a.atttypmod) AS type, NOT a.attnotnull AS nullable,
          a.atthasdef OR a.attidentity <> '' AS filled
        FROM pg_attribute a WHERE a.attrelid = ${name}::regclass AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum`
      const references = yield* sql<Reference>`
        SELECT array(SELECT attname::text FROM pg_attribute WHERE attrelid = k.conrelid AND attnum = ANY(k.conkey)
            ORDER BY array_position(k.conkey, attnum)) AS columns, k.confrelid::regclass::text AS target,
          array(SELECT attname::text FROM pg_attribute WHERE attrelid = k.confrelid AND attnum = ANY(k.confkey)
            ORDER BY array_position(k.confkey, attnum)) AS target_columns
        FROM pg_constraint k WHERE k.contype = 'f' AND k.conrelid = ${name}::regclass`
      const checks = yield* sql<{ readonly text: string }>`
        SELECT pg_get_constraintdef(oid) AS text FROM pg_constraint WHERE contype = 'c' AND conrelid = ${name}::regclass`
      const choices = new Map<string, ReadonlyArray<string>>()
      for (const { text } of checks) {
        const column = /CHECK \(\(+"?(\w+)"?/.exec(text)?.[1] ?? ""
        const allowed = [...text.matchAll(/'([^']+)'::text/g)].map(([, value = ""]) => value)
        // `= 1`, `= ANY (ARRAY[1, 2])`, `>= 1 AND <= 168`: each number stands for itself.
        const numbers = [...text.matchAll(/(?:= |[[ ])(\d+)(?=[\],) ])/g)].map(([, value = ""]) => value)
        if (allowed.length + numbers.length > 0) choices.set(column, allowed.length > 0 ? allowed : numbers)
      }
      return { name, columns, references, choices } satisfies Shape
    })
  )
})

const hex = (seed: string) => createHash("sha256").update(seed).digest("hex")

const valueOf = (type: string, seed: string): string => {
  if (type.endsWith("[]")) return "{}"
  switch (type) {
    case "uuid":
      return hex(seed).replace(/^(.{8})(.{4})(.{4})(.{4})(.{12}).*/, "$1-$2-$3-$4-$5")
    case "bytea":
      return `\\x${hex(seed)}`
    case "boolean":
      return hex(seed) < "8" ? "true" : "false"
    case "smallint":
    case "integer":
    case "bigint":
      return String(Number.parseInt(hex(seed).slice(0, 3), 16) + 1)
    case "timestamp with time zone":
      return new Date(1_700_000_000_000 + Number.parseInt(hex(seed).slice(0, 6), 16) * 1_000).toISOString()
    case "date":
      return new Date(1_700_000_000_000 + Number.parseInt(hex(seed).slice(0, 6), 16) * 1_000).toISOString().slice(0, 10)
    case "json":
    case "jsonb":
      return `{"seed": "${hex(seed).slice(0, 8)}"}`
    default:
      return `${seed} ${hex(seed).slice(0, 16)}`
  }
}

/** A row as that release would write it: all its columns, or only those that must have a value. */
const insert = (shape: Shape, seed: string, whole: boolean) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const values = new Map<string, string>()
    for (const { filled, name, nullable, type } of shape.columns) {
      if (!whole && (nullable || filled)) continue
      const choices = shape.choices.get(name)
      const text = `${seed} ${name}`
      values.set(name, choices?.[Number.parseInt(hex(text).slice(0, 2), 16) % choices.length] ?? valueOf(type, text))
    }
    for (const { columns, target, targetColumns } of shape.references) {
      if (!columns.some((column) => values.has(column))) continue
      const names = targetColumns.map(quoted).join(", ")
      const [row] = yield* sql.unsafe<Readonly<Record<string, unknown>>>(
        `SELECT ${targetColumns.map((name) => `${quoted(name)}::text`).join(", ")}
         FROM ${target} ORDER BY md5($1 || (${names})::text) LIMIT 1`,
        [seed]
      ).withoutTransform
      columns.forEach((column, i) => {
        const value = row?.[targetColumns[i] ?? ""]
        if (typeof value === "string") values.set(column, value)
        else values.delete(column)
      })
    }
    const names = [...values.keys()]
    const typeOf = new Map(shape.columns.map(({ name, type }) => [name, type]))
    const rows = yield* sql.unsafe(
      `INSERT INTO ${shape.name} (${names.map(quoted).join(", ")})
       VALUES (${names.map((name, i) => `$${i + 1}::text::${typeOf.get(name) ?? "text"}`).join(", ")})
       ON CONFLICT DO NOTHING RETURNING 1 AS one`,
      [...values.values()]
    )
    return rows.length
  }).pipe(Effect.mapError((error) => new Error(`${shape.name}: ${String(error.cause)}`)))

/** Every table gets rows, of the release that has these shapes. */
const fill = (known: ReadonlyArray<Shape>, seed: string) =>
  Effect.forEach(known, (shape) =>
    Effect.gen(function* () {
      let written = 0
      for (let n = 0; n < 3; n++) written += yield* insert(shape, `${seed}.${n}`, n < 2)
      return [shape.name, written] as const
    })
  )

/** The rows that a release can see: its columns alone. */
const seen = (known: ReadonlyArray<Shape>) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const rows = new Map<string, ReadonlyArray<string>>()
    for (const { columns, name } of known) {
      const list = columns.map((column) => `${quoted(column.name)}::text`).join(", ")
      const lines = yield* sql.unsafe<{ readonly row: string }>(
        `SELECT (ROW(${list}))::text AS row FROM ${name} ORDER BY 1`
      )
      rows.set(
        name,
        lines.map(({ row }) => row)
      )
    }
    return rows
  })

layer(TestDatabase.layer)("every schema that was ever released", (it) => {
  it.effect(
    "is migrated with its rows, step by step, and serves the release before after each step",
    () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        yield* sql`DROP SCHEMA public CASCADE`
        yield* sql`CREATE SCHEMA public`
        const names = Object.keys(Migrations.registry)
        let before: ReadonlyArray<Shape> = []
        const filled = new Set<string>()
        for (const [i, name] of names.entries()) {
          const rows = yield* seen(before)
          yield* Migrations.migrate(
            Object.fromEntries(names.slice(0, i + 1).map((each) => [each, Migrations.registry[each]]))
          )
          assert.deepStrictEqual(yield* seen(before), rows, `${name} changed rows of the release before`)
          for (const [table, written] of yield* fill(before, `after ${name}`)) if (written > 0) filled.add(table)
          before = yield* shapes
          for (const [table, written] of yield* fill(before, `at ${name}`)) if (written > 0) filled.add(table)
        }
        assert.deepStrictEqual([...filled].sort(), before.map((shape) => shape.name).sort())
      }),
    300_000
  )
})

/**
 * The content of a backup: lines of JSON, compressed, then sealed.
 *
 *   {"backup":{"version":1,"createdAt":…,"release":…,"migrations":[[1,"identity"],…]}}
 *   {"table":"users","columns":["id",…]}        in an order that satisfies foreign keys
 *   ["…",null,…]                                 a row: PostgreSQL's own text of each column
 *   {"end":"users","rows":2,"digest":"…"}
 *   {"done":{"tables":30,"rows":1234}}
 *
 * The text is PostgreSQL's own, so that every type is restored exactly, on either kind of database.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { createHash } from "node:crypto"
import * as Rows from "#src/database/Rows.ts"

export interface Info {
  readonly version: 1
  readonly createdAt: string
  readonly release: string
  readonly migrations: ReadonlyArray<readonly [id: number, name: string]>
}

type Line =
  | { readonly type: "backup"; readonly info: Info }
  | { readonly type: "table"; readonly name: string; readonly columns: ReadonlyArray<string> }
  | { readonly type: "row"; readonly row: ReadonlyArray<string | null>; readonly text: string }
  | { readonly type: "end"; readonly name: string; readonly rows: number; readonly digest: string }
  | { readonly type: "done"; readonly tables: number; readonly rows: number }

const asRecord = (value: unknown): Readonly<Record<string, unknown>> | undefined =>
  // The check makes it a record; its members stay unknown.
  typeof value === "object" && value !== null ? (value as Record<string, unknown>) : undefined

const strings = (value: unknown): ReadonlyArray<string> | undefined =>
  Array.isArray(value) && value.every((one) => typeof one === "string") ? value : undefined

const isRow = (value: unknown): value is ReadonlyArray<string | null> =>
  Array.isArray(value) && value.every((one) => one === null || typeof one === "string")

/** Undefined: this version does not know the line. */
export const parse = (text: string): Line | undefined => {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return undefined
  }
  if (isRow(value)) return { type: "row", row: value, text }
  const line = asRecord(value) ?? {}
  const info = asRecord(line["backup"])
  if (info !== undefined) {
    const { createdAt, migrations, release, version } = info
    if (version !== 1 || typeof createdAt !== "string" || typeof release !== "string" || !Array.isArray(migrations)) {
      return undefined
    }
    const entries = migrations.map((one: unknown): readonly [number, string] =>
      Array.isArray(one) ? [Number(one[0]), String(one[1])] : [0, ""]
    )
    return { type: "backup", info: { version, createdAt, release, migrations: entries } }
  }
  const columns = strings(line["columns"])
  if (typeof line["table"] === "string" && columns !== undefined) return { type: "table", name: line["table"], columns }
  const { digest, rows } = line
  if (typeof line["end"] === "string" && typeof rows === "number" && typeof digest === "string") {
    return { type: "end", name: line["end"], rows, digest }
  }
  const done = asRecord(line["done"])
  return typeof done?.["tables"] === "number" && typeof done["rows"] === "number"
    ? { type: "done", tables: done["tables"], rows: done["rows"] }
    : undefined
}

/** A digest of a table's rows in any order: the sum of their hashes, in four lanes of 64 bits. */
export class Digest {
  rows = 0
  readonly #sum = new BigUint64Array(4)

  add(text: string): void {
    this.rows++
    const hash = createHash("sha256").update(text).digest()
    for (let i = 0; i < 4; i++) this.#sum[i] = (this.#sum[i] ?? 0n) + hash.readBigUInt64BE(i * 8)
  }

  toString(): string {
    return [...this.#sum].map((lane) => lane.toString(16).padStart(16, "0")).join("")
  }
}

// --- the database's side ---

export interface Table {
  readonly name: string
  readonly columns: ReadonlyArray<{ readonly name: string; readonly type: string }>
}

/** The migrator's ledger. Migrations write it; a restore does not. */
export const ledger = "effect_sql_migrations"

const quoteName = (name: string) => `"${name.replaceAll('"', '""')}"`

/** Makes the text independent of settings of the server and the session. Run it first in the transaction. */
export const fixedText = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`SET LOCAL timezone = 'UTC'`
  yield* sql`SET LOCAL datestyle = 'ISO, YMD'`
  yield* sql`SET LOCAL bytea_output = 'hex'`
  yield* sql`SET LOCAL extra_float_digits = 1`
})

const ColumnRow = Schema.Struct({ name: Schema.String, columnName: Schema.String, type: Schema.String })
const ReferenceRow = Schema.Struct({ name: Schema.String, target: Schema.String })

/** Every table, referenced ones first. */
export const tables = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const columns = yield* Rows.decodeAll(
    ColumnRow,
    sql`
    SELECT c.relname::text AS name, a.attname::text AS column_name, format_type(a.atttypid, a.atttypmod) AS type
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
    WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') AND c.relname <> ${ledger}
      AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
    ORDER BY c.relname, a.attnum`
  )
  const references = yield* Rows.decodeAll(
    ReferenceRow,
    sql`
    SELECT DISTINCT c.relname::text AS name, t.relname::text AS target FROM pg_constraint k
    JOIN pg_class c ON c.oid = k.conrelid JOIN pg_class t ON t.oid = k.confrelid
    WHERE k.contype = 'f' AND k.conrelid <> k.confrelid AND c.relnamespace = current_schema()::regnamespace`
  )
  const byName = new Map<string, Array<{ name: string; type: string }>>()
  for (const { columnName, name, type } of columns) {
    const existing = byName.get(name)
    if (existing === undefined) byName.set(name, [{ name: columnName, type }])
    else existing.push({ name: columnName, type })
  }
  const sorted = new Map<string, Table>()
  const visit = (name: string, above: ReadonlySet<string>) => {
    if (sorted.has(name) || above.has(name)) return
    for (const { target } of references.filter((one) => one.name === name)) visit(target, new Set([...above, name]))
    sorted.set(name, { name, columns: byName.get(name) ?? [] })
  }
  for (const name of byName.keys()) visit(name, new Set())
  return [...sorted.values()]
})

/** Characters of text per batch, approximately. */
const batchText = 2_000_000

/** Passes the rows of a table as text, batch by batch. Inside a transaction. */
export const read = Effect.fnUntraced(function* <E, R>(
  table: Table,
  use: (rows: ReadonlyArray<string>) => Effect.Effect<void, E, R>
) {
  const sql = yield* SqlClient.SqlClient
  const texts = sql.literal(table.columns.map(({ name }) => `${quoteName(name)}::text`).join(", "))
  yield* sql`DECLARE archive_walk NO SCROLL CURSOR FOR SELECT json_build_array(${texts})::text AS text FROM ${sql(table.name)}`
  for (let count = 50; ;) {
    const rows = yield* sql<{ readonly text: string }>`FETCH ${sql.literal(String(count))} FROM archive_walk`
    if (rows.length > 0) yield* use(rows.map(({ text }) => text))
    if (rows.length < count) break
    const length = rows.reduce((sum, { text }) => sum + text.length, 0)
    count = Math.min(2_000, Math.max(10, Math.floor((batchText * rows.length) / Math.max(1, length))))
  }
  yield* sql`CLOSE archive_walk`
})

export const insert = Effect.fnUntraced(function* (
  table: Table,
  columns: ReadonlyArray<string>,
  rows: ReadonlyArray<ReadonlyArray<string | null>>
) {
  const sql = yield* SqlClient.SqlClient
  const typeOf = new Map(table.columns.map(({ name, type }) => [name, type]))
  const names = sql.literal(columns.map(quoteName).join(", "))
  const cast = sql.literal(columns.map((name, i) => `c${i}::${typeOf.get(name) ?? "text"}`).join(", "))
  const aliases = sql.literal(columns.map((_, i) => `c${i}`).join(", "))
  const [first, ...more] = columns.map((_, i) => sql`${rows.map((row) => row[i] ?? null)}::text[]`)
  if (first === undefined) return
  const arrays = more.reduce((all, one) => sql`${all}, ${one}`, first)
  yield* sql`INSERT INTO ${sql(table.name)} (${names}) SELECT ${cast} FROM unnest(${arrays}) AS r (${aliases})`
})

export const digest = (table: Table) =>
  Effect.suspend(() => {
    const sum = new Digest()
    return Effect.as(
      read(table, (rows) => Effect.sync(() => rows.forEach((text) => sum.add(text)))),
      sum
    )
  })

const RootKeyRow = Schema.Struct({ rootKeyId: Schema.String })

/** Ids of the root keys that wrap keys of the database. */
export const rootKeyIds = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* Rows.decodeAll(
    RootKeyRow,
    sql`
      SELECT root_key_id FROM data_keys UNION SELECT root_key_id FROM sealing_keys
      UNION SELECT root_key_id FROM service_keys UNION SELECT root_key_id FROM service_key_generations
      UNION SELECT root_key_id FROM webhook_secrets
      UNION SELECT root_key_id FROM vault_canary ORDER BY 1`
  )
  return rows.map(({ rootKeyId }) => rootKeyId)
})

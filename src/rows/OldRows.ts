/**
 * Gives rows of releases without MACs their MAC, once. A writer of the database can make every row look like one of
 * those. So a server does it only if the operator allows it (`AMPOULE_SEAL_ROWS`), or if the tables are empty.
 */
import type * as SqlClient from "@effect/sql/SqlClient"
import type * as Statement from "@effect/sql/Statement"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { type SealRows, StartRefused } from "#src/AppConfig.ts"
import * as Rows from "#src/database/Rows.ts"
import type { RowMac } from "./RowMac.ts"
import {
  columnsOf,
  credentials,
  isAuthorizationTable,
  type AuthorizationRow,
  type AuthorizationTable,
  authorizationTables
} from "./AuthorizationRows.ts"

/** The operator's choice for tables without MACs. */
export class UnsealedRows extends Context.Reference<UnsealedRows>()("rows/UnsealedRows", {
  defaultValue: (): SealRows => "never"
}) {}

interface Needs {
  readonly sql: SqlClient.SqlClient
  readonly macs: RowMac
}

/** Any fixed number: the name of the advisory lock among all users of the database. */
const lock = 97_109_114
const batch = 1_000

const Bytes = Schema.Uint8ArrayFromSelf
const TableRow = Schema.Struct({ name: Schema.String, mac: Bytes })
const HashRow = Schema.Struct({ lookupId: Schema.String, hash: Bytes })
const PasswordRow = Schema.Struct({ id: Schema.String, passwordHash: Schema.String })

const unsealedTables = Effect.fnUntraced(function* ({ macs, sql }: Needs) {
  const rows = yield* Rows.decodeAll(TableRow, sql`SELECT name, mac FROM sealed_tables`)
  const tableMacs = new Map(rows.map(({ mac, name }) => [name, mac]))
  return [...new Set([...Object.keys(credentials), ...Object.keys(authorizationTables)])].filter((name) => {
    const mac = tableMacs.get(name)
    return mac === undefined || !macs.isTableMark(name, mac)
  })
})

/** Goes through the whole table in the order of look-up ids, which do not change. */
const pepper = Effect.fnUntraced(function* ({ macs, sql }: Needs, table: keyof typeof credentials) {
  let after = ""
  for (;;) {
    const rows = yield* Rows.decodeAll(
      HashRow,
      sql`
        SELECT lookup_id, hash FROM ${sql(table)} WHERE lookup_id > ${after} ORDER BY lookup_id LIMIT ${batch}`
    )
    yield* sql`
      UPDATE ${sql(table)} t SET hash = i.hash FROM unnest(
        ${rows.map((row) => row.lookupId)}::text[],
        ${rows.map((row) => macs.pepper(credentials[table], row.hash))}::bytea[]
      ) AS i (lookup_id, hash) WHERE t.lookup_id = i.lookup_id`
    const last = rows.at(-1)
    if (last === undefined) return
    after = last.lookupId
  }
})

/** Seals the hashes of passwords; an account without a password has none. Their rows get their MAC afterwards. */
const sealPasswords = Effect.fnUntraced(function* ({ macs, sql }: Needs) {
  for (;;) {
    const rows = yield* Rows.decodeAll(
      PasswordRow,
      sql`SELECT id, password_hash FROM users WHERE password_hash LIKE '$argon2%' LIMIT ${batch}`
    )
    if (rows.length === 0) return
    yield* sql`
      UPDATE users u SET password_hash = i.hash, mac = NULL FROM unnest(
        ${rows.map((row) => row.id)}::uuid[], ${rows.map((row) => macs.sealPassword(row.passwordHash))}::text[]
      ) AS i (id, hash) WHERE u.id = i.id`
  }
})

type PlacedRow<Table extends AuthorizationTable> = AuthorizationRow<Table> & {
  /** Physical place, valid while the row is locked or unchanged. */
  readonly at: string
  readonly isEnded: boolean
  readonly mac: Uint8Array | null
}

/** `rest`: the condition, the limit and the lock. */
export const placedRows = <Table extends AuthorizationTable>(
  sql: SqlClient.SqlClient,
  table: Table,
  rest: Statement.Fragment
) => {
  const { ended } = authorizationTables[table]
  return sql<PlacedRow<Table>>`
    SELECT ctid::text AS at, mac, ${sql.or([sql`false`, ...ended.map((column) => sql`${sql(column)} IS NOT NULL`)])} AS is_ended,
      ${sql.literal(columnsOf(table))}
    FROM ${sql(table)} ${rest}`
}

/** Gives every row without a MAC its MAC. Exported for tests, which write rows as no server does. */
export const seal = Effect.fnUntraced(function* <Table extends AuthorizationTable>({ macs, sql }: Needs, table: Table) {
  for (;;) {
    const rows = yield* placedRows(sql, table, sql`WHERE mac IS NULL LIMIT ${batch}`)
    if (rows.length === 0) return
    yield* sql`
      UPDATE ${sql(table)} t SET mac = i.mac FROM unnest(
        ${rows.map((row) => row.at)}::tid[],
        ${rows.map((row) => (row.isEnded ? Buffer.alloc(0) : macs.of(table, row)))}::bytea[]
      ) AS i (at, mac) WHERE t.ctid = i.at`
  }
})

const startRefused = new StartRefused({
  message:
    "The database holds members and credentials of an earlier release, without a MAC. Start once with AMPOULE_SEAL_ROWS=once, or with AMPOULE_SEAL_ROWS=later while servers of that release still run. If this release or a later one served this database before, it was altered: do not seal it, find out who altered it."
})

/** Tables whose rows of an earlier release have no MAC yet. */
export const unsealed = (needs: Needs) =>
  unsealedTables(needs).pipe(
    Effect.map((names): ReadonlySet<string> => new Set(names)),
    Effect.catchTag("SqlError", Effect.die)
  )

/** Runs before the first request. `unsealed` is the operator's choice for rows of an earlier release. */
export const sealTables = Effect.fnUntraced(
  function* (needs: Needs, unsealed: UnsealedRows["Type"]) {
    const { macs, sql } = needs
    if ((yield* unsealedTables(needs)).length === 0) return
    yield* Rows.transaction(sql, function* () {
      yield* sql`SELECT pg_advisory_xact_lock(${lock}::bigint)`
      for (const name of yield* unsealedTables(needs)) {
        yield* sql`LOCK TABLE ${sql(name)} IN SHARE ROW EXCLUSIVE MODE`
        const rows = yield* sql`SELECT 1 FROM ${sql(name)} LIMIT 1`
        if (rows.length > 0 && unsealed === "never") return yield* startRefused
        if (isCredential(name)) yield* pepper(needs, name)
        if (name === "users") yield* sealPasswords(needs)
        if (isAuthorizationTable(name)) {
          // MACs of servers that ran beside the earlier release no longer match the rows that it changed.
          yield* sql`UPDATE ${sql(name)} SET mac = NULL WHERE mac IS NOT NULL`
          yield* seal(needs, name)
        }
        yield* sql`
          INSERT INTO sealed_tables (name, mac) VALUES (${name}, ${macs.ofTable(name)})
          ON CONFLICT (name) DO UPDATE SET mac = excluded.mac`
      }
    })
  },
  Effect.catchTag("SqlError", Effect.die)
)

const isCredential = (name: string): name is keyof typeof credentials => name in credentials

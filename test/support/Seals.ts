/** For tests that write rows which decide by SQL, as no server does: the MAC that a server would have given them. */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as OldRows from "#src/rows/OldRows.ts"
import type { RowMac } from "#src/rows/RowMac.ts"
import { RowSeal } from "#src/rows/RowSeal.ts"
import { columnsOf, type AuthorizationRow, type AuthorizationTable } from "#src/rows/AuthorizationRows.ts"

/** Of rows that have none. Where a test has no service that looks at them, they need none. */
export const give = Effect.fnUntraced(function* (...tables: ReadonlyArray<AuthorizationTable>) {
  const sql = yield* SqlClient.SqlClient
  const rowSeal = yield* Effect.serviceOption(RowSeal)
  if (Option.isNone(rowSeal)) return
  const macs = yield* rowSeal.value.ready
  for (const table of tables) yield* OldRows.seal({ sql, macs }, table)
})

/** After `write` changed rows of the table: each is as a server would have written it. Others see no row without its MAC. */
export const after = <A, E, R>(table: AuthorizationTable, write: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const rowSeal = yield* Effect.serviceOption(RowSeal)
    if (Option.isNone(rowSeal)) return yield* write
    const macs = yield* rowSeal.value.ready
    return yield* sql.withTransaction(Effect.zipLeft(write, resealed({ sql, macs }, table)))
  })

const resealed = Effect.fnUntraced(function* (
  { macs, sql }: { readonly sql: SqlClient.SqlClient; readonly macs: RowMac },
  table: AuthorizationTable
) {
  for (;;) {
    const rows = yield* sql<AuthorizationRow<AuthorizationTable> & { readonly at: string; readonly mac: Uint8Array }>`
      SELECT ctid::text AS at, mac, ${sql.literal(columnsOf(table))} FROM ${sql(table)} WHERE mac <> ''`
    const wrong = rows.filter((row) => !macs.of(table, row).equals(row.mac))
    if (wrong.length === 0) return
    // A row that somebody else touches meanwhile has moved: it is looked at again.
    yield* sql`
      UPDATE ${sql(table)} t SET mac = i.mac FROM unnest(
        ${wrong.map((row) => row.at)}::tid[], ${wrong.map((row) => macs.of(table, row))}::bytea[]
      ) AS i (at, mac) WHERE t.ctid = i.at`
  }
})

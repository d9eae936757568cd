/** For tests that write rows which decide by SQL, as no server does: the MAC that a server would have given them. */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as OldRows from "#src/access/OldRows.ts"
import { RowSeal } from "#src/access/RowSeal.ts"
import type { SealedTable } from "#src/access/SealedRows.ts"

/** Of rows that have none. Where a test has no service that looks at them, they need none. */
export const give = Effect.fnUntraced(function* (...tables: ReadonlyArray<SealedTable>) {
  const sql = yield* SqlClient.SqlClient
  const rowSeal = yield* Effect.serviceOption(RowSeal)
  if (Option.isNone(rowSeal)) return
  const macs = yield* rowSeal.value.ready
  for (const table of tables) yield* OldRows.seal({ sql, macs }, table)
})

/** After `write` changed rows of the table: all of them are as a server would have written them. */
export const after = <A, E, R>(table: SealedTable, write: Effect.Effect<A, E, R>) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    Effect.tap(write, () => Effect.zipRight(sql`UPDATE ${sql(table)} SET mac = NULL WHERE mac <> ''`, give(table)))
  )

/**
 * MACs of authorization rows, and the pepper of credentials (docs/security.md, "Authorization rows"). All servers of a
 * database share the keys, which the vault wraps. A writer of the database can change rows, but servers reject the
 * result.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import type * as Statement from "@effect/sql/Statement"
import * as Effect from "effect/Effect"
import * as Runtime from "effect/Runtime"
import { atOnce, following, ServiceKeys } from "#src/crypto/ServiceKeys.ts"
import * as Alarm from "#src/database/Alarm.ts"
import { dieWhenVaultIsDown } from "#src/database/Dependency.ts"
import * as OldRows from "./OldRows.ts"
import * as RowJournal from "./RowJournal.ts"
import * as RowMac from "./RowMac.ts"
import {
  columnName,
  columnsOf,
  type AuthorizationRow,
  type AuthorizationTable,
  authorizationTables
} from "./AuthorizationRows.ts"

const warnNotSealed = Effect.logWarning(
  "Rows are accepted without a valid MAC while servers of an earlier release may run (AMPOULE_SEAL_ROWS=later). When none runs any more, start this one with AMPOULE_SEAL_ROWS=once."
)

/** The column that contains JSON, by table. */
const jsonColumns: ReadonlyMap<AuthorizationTable, string> = new Map([
  ["machine_rules", "claims"],
  ["device_requests", "teams"],
  ["second_person_requests", "payload"],
  ["oauth_grants", "payload"],
  ["oauth_refresh_tokens", "payload"],
  ["oauth_codes", "payload"],
  ["oauth_interactions", "payload"],
  ["value_requests", "askedBy"]
])

/** The row with the database's column names. */
const byColumn = (table: AuthorizationTable, row: object): Record<string, unknown> =>
  Object.fromEntries(
    Object.entries(row).map(([name, value]) => [
      columnName(name),
      jsonColumns.get(table) === name && value !== null ? JSON.stringify(value) : value
    ])
  )

export class RowSeal extends Effect.Service<RowSeal>()("rows/RowSeal", {
  effect: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const keys = yield* ServiceKeys
    const unsealed = yield* OldRows.UnsealedRows
    const runtime = yield* Effect.runtime()
    const alarm = Alarm.make("An authorization row was not written by a server")
    const onForged = (table: string, row: string) => {
      Runtime.runFork(runtime)(alarm.raise(row, table))
    }
    const state = { settled: false }

    const make = Effect.gen(function* () {
      const rows = yield* keys.ring("row-seals")
      const credentials = yield* keys.ring("credential-pepper")
      return RowMac.make({ rows, credentials, passwords: yield* keys.ring("password-hashes") }, onForged)
    })
    /** Loads the keys at the start or, after an outage of the vault, in the first request; again after a rotation. */
    const current = following(keys, make)
    /** While servers of an earlier release may run, each use checks whether another server has sealed the rows. */
    const load = Effect.gen(function* () {
      const macs = yield* current
      if (state.settled) return macs
      if (unsealed === "later") {
        const tables = yield* OldRows.unsealed({ sql, macs })
        if (tables.size > 0) return RowMac.trusting(macs, tables)
      }
      yield* OldRows.sealTables({ sql, macs }, unsealed)
      state.settled = true
      return macs
    })
    const ready = atOnce(current, Effect.orDie(dieWhenVaultIsDown(load)), state)
    /** True while servers of an earlier release may run beside this one: their pages and rows lack later MACs. */
    const trustsEarlierServers = Effect.map(ready, () => unsealed === "later" && !state.settled)
    /**
     * Fails if rows of an earlier release exist and the operator has not allowed sealing them. Does not wait for the
     * vault.
     */
    const prepare = load.pipe(
      Effect.zipRight(Effect.suspend(() => (unsealed === "later" && !state.settled ? warnNotSealed : Effect.void))),
      Effect.catchTag("VaultUnavailable", () => Effect.void)
    )
    yield* Effect.catchTag(prepare, "StartRefused", () => Effect.void)

    /** Values for `INSERT INTO table …`: authorization columns, other columns, and the MAC. */
    const values = <Table extends AuthorizationTable>(
      table: Table,
      row: AuthorizationRow<Table>,
      others: Readonly<Record<string, unknown>> = {}
    ) =>
      Effect.zipWith(ready, RowJournal.noteInsert(table, row), (macs) =>
        sql.insert({ ...byColumn(table, row), ...others, mac: macs.of(table, row) })
      )

    /**
     * Changes authorization columns, and the columns of `others`, of the rows of `where`, in the caller's transaction.
     * Skips forged rows, since a new MAC would make them valid. Returns the number of changed rows.
     */
    const update = <Table extends AuthorizationTable>(
      table: Table,
      where: Statement.Fragment,
      changed: (row: AuthorizationRow<Table>) => Partial<AuthorizationRow<Table>>,
      others: Readonly<Record<string, unknown>> = {}
    ) =>
      Effect.gen(function* () {
        const macs = yield* ready
        const rows = yield* sql<AuthorizationRow<Table> & { readonly mac: Uint8Array | null }>`
          SELECT ${sql.literal(columnsOf(table))}, mac FROM ${sql(table)} WHERE ${where} FOR UPDATE`
        const own = rows.filter((row) => macs.isAuthentic(table, row))
        for (const row of own) {
          const after = changed(row)
          const set = { ...byColumn(table, after), ...others, mac: macs.of(table, { ...row, ...after }) }
          yield* RowJournal.noteUpdate(table, row, { ...row, ...after })
          const key = Object.entries(row).filter(([name]) =>
            authorizationTables[table].key.some((part) => part === name)
          )
          const same = sql.and(key.map(([name, value]) => sql`${sql(columnName(name))} = ${value}`))
          yield* sql`UPDATE ${sql(table)} SET ${sql.update(set)} WHERE ${same}`
        }
        return own.length
      }).pipe(Effect.orDie)

    return { ready, trustsEarlierServers, prepare, values, update } as const
  })
}) {}

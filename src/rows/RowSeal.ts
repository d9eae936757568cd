/**
 * MACs of rows that decide, and the pepper of credentials (docs/security.md, "Rows that decide"). Both keys are 256 random
 * bits that all servers of a database share, wrapped by the vault: a writer of the database can change rows, but none
 * that a server believes.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import type * as Statement from "@effect/sql/Statement"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Runtime from "effect/Runtime"
import { createSecretKey, type KeyObject } from "node:crypto"
import { ServiceKeys } from "#src/crypto/ServiceKeys.ts"
import * as AuditAlarm from "#src/database/Alarm.ts"
import { dieWhenVaultIsDown } from "#src/database/Dependency.ts"
import * as OldRows from "./OldRows.ts"
import * as RowJournal from "./RowJournal.ts"
import * as RowMac from "./RowMac.ts"
import { columnName, columnsOf, jsonColumns, sealed, type SealedRow, type SealedTable } from "./SealedRows.ts"

const keyOf = (bytes: Redacted.Redacted<Uint8Array>): KeyObject => createSecretKey(Redacted.value(bytes))

const notYet = Effect.logWarning(
  "A writer of the database is believed as long as servers of an earlier release may run (AMPOULE_SEAL_ROWS=later). When none does any more, start this one with AMPOULE_SEAL_ROWS=once."
)

/** By the database's names of its columns. */
const named = (row: object): Record<string, unknown> =>
  Object.fromEntries(
    Object.entries(row).map(([name, value]) => [
      columnName(name),
      jsonColumns.has(name) && value !== null ? JSON.stringify(value) : value
    ])
  )

export class RowSeal extends Effect.Service<RowSeal>()("access/RowSeal", {
  effect: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const keys = yield* ServiceKeys
    const unsealed = yield* OldRows.UnsealedRows
    const runtime = yield* Effect.runtime()
    const alarm = AuditAlarm.make("A row that decides who may do what was not written by a server")
    const forged = (table: string, row: string) => {
      Runtime.runFork(runtime)(alarm.raise(row, table))
    }
    let made: RowMac.RowMac | undefined
    let held: RowMac.RowMac | undefined

    const make = Effect.gen(function* () {
      const rows = keyOf(yield* keys.get("row-seals"))
      const credentials = keyOf(yield* keys.get("credential-pepper"))
      made = RowMac.make({ rows, credentials, passwords: keyOf(yield* keys.get("password-hashes")) }, forged)
      return made
    })
    /**
     * Once, at the start or, when the vault is away then, by the first request that finds it back. While servers of the
     * release before may run, before each use: until another server has sealed the rows.
     */
    const load = Effect.gen(function* () {
      if (held !== undefined) return held
      const macs = made ?? (yield* make)
      if (unsealed === "later" && !(yield* OldRows.areSealed({ sql, macs }))) return RowMac.trusting(macs)
      yield* OldRows.settle({ sql, macs }, unsealed)
      held = macs
      return macs
    })
    const ready: Effect.Effect<RowMac.RowMac> = Effect.suspend(() =>
      held === undefined ? Effect.orDie(dieWhenVaultIsDown(load)) : Effect.succeed(held)
    )
    /** Fails when there are rows of a release before that nobody allowed to be sealed. Does not wait for a vault. */
    const prepare = load.pipe(
      Effect.zipRight(Effect.suspend(() => (unsealed === "later" && held === undefined ? notYet : Effect.void))),
      Effect.catchTag("VaultUnavailable", () => Effect.void)
    )
    yield* Effect.catchTag(prepare, "StartRefused", () => Effect.void)

    /** For `INSERT INTO table …`: the columns that decide, others, and the MAC. */
    const values = <Table extends SealedTable>(
      table: Table,
      row: SealedRow<Table>,
      others: Readonly<Record<string, unknown>> = {}
    ) =>
      Effect.zipWith(ready, RowJournal.made(table, row), (macs) =>
        sql.insert({ ...named(row), ...others, mac: macs.of(table, row) })
      )

    /**
     * Changes columns that decide, of the rows that `where` names, in the caller's transaction; `others`: columns that
     * decide nothing. Passes over a row that no server wrote: a MAC of ours would have it believed. Answers how many
     * it changed.
     */
    const update = <Table extends SealedTable>(
      table: Table,
      where: Statement.Fragment,
      changed: (row: SealedRow<Table>) => Partial<SealedRow<Table>>,
      others: Readonly<Record<string, unknown>> = {}
    ) =>
      Effect.gen(function* () {
        const macs = yield* ready
        const rows = yield* sql<SealedRow<Table> & { readonly mac: Uint8Array | null }>`
          SELECT ${sql.literal(columnsOf(table))}, mac FROM ${sql(table)} WHERE ${where} FOR UPDATE`
        const own = rows.filter((row) => macs.holds(table, row))
        for (const row of own) {
          const after = changed(row)
          const set = { ...named(after), ...others, mac: macs.of(table, { ...row, ...after }) }
          yield* RowJournal.changed(table, row, { ...row, ...after })
          const key = Object.entries(row).filter(([name]) => sealed[table].key.some((part) => part === name))
          const same = sql.and(key.map(([name, value]) => sql`${sql(columnName(name))} = ${value}`))
          yield* sql`UPDATE ${sql(table)} SET ${sql.update(set)} WHERE ${same}`
        }
        return own.length
      }).pipe(Effect.orDie)

    return { ready, prepare, values, update } as const
  })
}) {}

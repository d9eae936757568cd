/**
 * Rows of a release that knew no MAC get theirs once. A writer of the database can make every row look like one of those,
 * so a server does it only when its operator says so (`AMPOULE_SEAL_ROWS`), or when there is no such row.
 */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { timingSafeEqual } from "node:crypto"
import { type SealRows, StartRefused } from "#src/AppConfig.ts"
import * as Rows from "#src/database/Rows.ts"
import type { RowMac } from "./RowMac.ts"
import { columnsOf, credentials, isSealed, sealed, type SealedRow, type SealedTable } from "./SealedRows.ts"

/** What a server does with tables that were never sealed. */
export class UnsealedRows extends Context.Reference<UnsealedRows>()("access/UnsealedRows", {
  defaultValue: (): SealRows => "never"
}) {}

interface Needs {
  readonly sql: SqlClient.SqlClient
  readonly macs: RowMac
}

/** Any fixed number: the lock's name among all users of the database. */
const lock = 97_109_114
const batch = 1_000

const unsettled = Effect.fnUntraced(function* ({ macs, sql }: Needs) {
  const rows = yield* sql<{ readonly name: string; readonly mac: Uint8Array }>`SELECT name, mac FROM sealed_tables`
  const settled = new Map(rows.map(({ mac, name }) => [name, mac]))
  return [...new Set([...Object.keys(credentials), ...Object.keys(sealed)])].filter((name) => {
    const mac = settled.get(name)
    const own = macs.ofTable(name)
    return mac === undefined || mac.length !== own.length || !timingSafeEqual(mac, own)
  })
})

/** Whole, in the order of the look-up ids, which stay as they are. */
const pepper = Effect.fnUntraced(function* ({ macs, sql }: Needs, table: keyof typeof credentials) {
  let after = ""
  for (;;) {
    const rows = yield* sql<{ readonly lookupId: string; readonly hash: Uint8Array }>`
      SELECT lookup_id, hash FROM ${sql(table)} WHERE lookup_id > ${after} ORDER BY lookup_id LIMIT ${batch}`
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

/** Hashes of passwords; an account without one has no hash. Their rows get their MAC afterwards. */
const sealPasswords = Effect.fnUntraced(function* ({ macs, sql }: Needs) {
  for (;;) {
    const rows = yield* sql<{ readonly id: string; readonly passwordHash: string }>`
      SELECT id, password_hash FROM users WHERE password_hash LIKE '$argon2%' LIMIT ${batch}`
    if (rows.length === 0) return
    yield* sql`
      UPDATE users u SET password_hash = i.hash, mac = NULL FROM unnest(
        ${rows.map((row) => row.id)}::uuid[], ${rows.map((row) => macs.sealPassword(row.passwordHash))}::text[]
      ) AS i (id, hash) WHERE u.id = i.id`
  }
})

type OldRow<Table extends SealedTable> = SealedRow<Table> & { readonly at: string; readonly isEnded: boolean }

/** Every row of the table without a MAC. For tests, which write rows as no server does. */
export const seal = Effect.fnUntraced(function* <Table extends SealedTable>({ macs, sql }: Needs, table: Table) {
  const { ended } = sealed[table]
  for (;;) {
    const rows = yield* sql<OldRow<Table>>`
      SELECT ctid::text AS at, ${sql.or([sql`false`, ...ended.map((column) => sql`${sql(column)} IS NOT NULL`)])} AS is_ended,
        ${sql.literal(columnsOf(table))}
      FROM ${sql(table)} WHERE mac IS NULL LIMIT ${batch}`
    if (rows.length === 0) return
    yield* sql`
      UPDATE ${sql(table)} t SET mac = i.mac FROM unnest(
        ${rows.map((row) => row.at)}::tid[],
        ${rows.map((row) => (row.isEnded ? Buffer.alloc(0) : macs.of(table, row)))}::bytea[]
      ) AS i (at, mac) WHERE t.ctid = i.at`
  }
})

const refused = new StartRefused({
  message:
    "The database holds members and credentials of an earlier release, without a MAC. Start once with AMPOULE_SEAL_ROWS=once, or with AMPOULE_SEAL_ROWS=later while servers of that release still run. If this release or a later one served this database before, it was altered: do not do that, look for who did."
})

export const areSealed = (needs: Needs) =>
  unsettled(needs).pipe(
    Effect.map((names) => names.length === 0),
    Effect.catchTag("SqlError", Effect.die)
  )

/** Before the first request. `unsealed`: what the operator says about rows of a release before. */
export const settle = Effect.fnUntraced(
  function* (needs: Needs, unsealed: UnsealedRows["Type"]) {
    const { macs, sql } = needs
    if ((yield* unsettled(needs)).length === 0) return
    yield* Rows.transaction(sql, function* () {
      yield* sql`SELECT pg_advisory_xact_lock(${lock}::bigint)`
      for (const name of yield* unsettled(needs)) {
        yield* sql`LOCK TABLE ${sql(name)} IN SHARE ROW EXCLUSIVE MODE`
        const used = yield* sql`SELECT 1 FROM ${sql(name)} LIMIT 1`
        if (used.length > 0 && unsealed === "never") return yield* refused
        if (isCredential(name)) yield* pepper(needs, name)
        if (name === "users") yield* sealPasswords(needs)
        if (isSealed(name)) {
          // Of servers that ran beside those of the release before: what those changed later does not fit.
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

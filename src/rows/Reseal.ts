/**
 * Gives authorization rows of older generations the MAC and box of the newest one, in batches, while servers read and
 * write them. Each batch is one transaction over locked rows. It leaves out rows whose MAC does not match, since a new
 * one would make them valid.
 */
import type * as SqlClient from "@effect/sql/SqlClient"
import type * as Statement from "@effect/sql/Statement"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import type { Crypto } from "#src/crypto/Crypto.ts"
import * as Envelope from "#src/crypto/Envelope.ts"
import type { ServiceKeyName } from "#src/crypto/KeyGenerations.ts"
import type { KeyRing } from "#src/crypto/KeyRing.ts"
import { nothingLeft, type UnopenedRow } from "#src/crypto/RotationTurn.ts"
import * as ServiceBox from "#src/crypto/ServiceBox.ts"
import * as Rows from "#src/database/Rows.ts"
import {
  keyOf,
  authorizationTables,
  type AuthorizationRow,
  type AuthorizationTable,
  isAuthorizationTable
} from "./AuthorizationRows.ts"
import { boxGeneration, digestGeneration, needsOf, passwordGeneration } from "./KeyUses.ts"
import { placedRows } from "./OldRows.ts"
import * as RowMac from "./RowMac.ts"
import { sealedColumns } from "./SealedColumns.ts"

export interface Rings extends RowMac.Keys {
  readonly factors: KeyRing
  readonly issuers: KeyRing
}
interface Needs {
  readonly sql: SqlClient.SqlClient
  readonly crypto: Crypto
  readonly rings: Rings
}

/** Rows per turn, during which other writes to them wait. */
const batchSize = 500

/** The order of rows in their table: by page, then by place in it. */
const isAfter = (a: string, b: string): boolean => {
  const [page = 0, place = 0] = a.slice(1, -1).split(",").map(Number)
  const [otherPage = 0, otherPlace = 0] = b.slice(1, -1).split(",").map(Number)
  return page === otherPage ? place > otherPlace : page > otherPage
}
export const beforeAll = "(0,0)"

const Text = Schema.Struct({ passwordHash: Schema.String })
const Box = Schema.Struct({
  id: Schema.String,
  userId: Schema.optional(Schema.String),
  teamId: Schema.optional(Schema.String),
  sealed: Schema.Uint8ArrayFromSelf
})

/** The column of a table that is sealed under a service key, beside the MAC. */
interface SealedUnder {
  readonly column: "password_hash" | "sealed"
  readonly type: "text" | "bytea"
  readonly isOld: Statement.Fragment
  /** The column's value under the newest key. Left: it does not open. */
  readonly renew: (row: unknown) => Effect.Effect<Either.Either<string | Buffer, unknown>>
}

const password = ({ rings: { passwords }, sql }: Needs): SealedUnder => {
  const macs = RowMac.make({ rows: passwords, credentials: passwords, passwords }, () => {})
  return {
    column: "password_hash",
    type: "text",
    isOld: sql`${passwordGeneration(sql)} < ${passwords.newest.generation}`,
    renew: (row) => {
      const { passwordHash } = Schema.decodeUnknownSync(Text)(row)
      // An account without a password has an empty hash.
      if (passwordHash === "") return Effect.succeed(Either.right(""))
      return Effect.succeed(Either.map(macs.openPassword(passwordHash), macs.sealPassword))
    }
  }
}

const box = (
  { crypto, sql }: Needs,
  ring: KeyRing,
  placeOf: (row: { readonly id: string; readonly userId: string; readonly teamId: string }) => ServiceBox.Place
): SealedUnder => ({
  column: "sealed",
  type: "bytea",
  isOld: sql`${boxGeneration(sql, "sealed")} < ${ring.newest.generation}`,
  renew: (row) =>
    Effect.map(crypto.randomBytes(Envelope.saltLength), (salt) => {
      const { id, sealed, teamId = "", userId = "" } = Schema.decodeUnknownSync(Box)(row)
      const place = placeOf({ id, userId, teamId })
      return Either.map(ServiceBox.open(ring, place, sealed), (bytes) => ServiceBox.seal(ring, place, bytes, salt))
    })
})

const sealedUnder = (needs: Needs, table: AuthorizationTable): SealedUnder | undefined =>
  table === "users"
    ? password(needs)
    : table === "totp_factors"
      ? box(needs, needs.rings.factors, sealedColumns.totp_factors.placeOf)
      : table === "sign_in_issuers"
        ? box(needs, needs.rings.issuers, sealedColumns.sign_in_issuers.placeOf)
        : undefined

interface Renewed {
  readonly at: string
  readonly mac: Buffer
  readonly value: string | Buffer | undefined
}

/** Undefined: the MAC does not match, or the sealed column does not open. */
const renewed = Effect.fnUntraced(function* <Table extends AuthorizationTable>(
  macs: RowMac.RowMac,
  table: Table,
  row: AuthorizationRow<Table> & { readonly at: string; readonly mac: Uint8Array | null },
  sealed: SealedUnder | undefined
) {
  if (!macs.isAuthentic(table, row)) return undefined
  const { at } = row
  if (sealed === undefined) return { at, mac: macs.of(table, row), value: undefined } satisfies Renewed
  const value = yield* sealed.renew(row)
  if (Either.isLeft(value)) return undefined
  const name = sealed.column === "sealed" ? "sealed" : "passwordHash"
  return { at, mac: macs.of(table, { ...row, [name]: value.right }), value: value.right } satisfies Renewed
})

const store = ({ sql }: Needs, table: string, sealed: SealedUnder | undefined, rows: ReadonlyArray<Renewed>) => {
  const places = rows.map(({ at }) => at)
  const macs = rows.map(({ mac }) => mac)
  if (sealed === undefined) {
    return sql`
      UPDATE ${sql(table)} t SET mac = i.mac FROM unnest(${places}::tid[], ${macs}::bytea[]) AS i (at, mac)
      WHERE t.ctid = i.at`
  }
  return sql`
    UPDATE ${sql(table)} t SET mac = i.mac, ${sql(sealed.column)} = i.value FROM unnest(
      ${places}::tid[], ${macs}::bytea[], ${rows.map(({ value }) => value)}::${sql.literal(sealed.type)}[]
    ) AS i (at, mac, value) WHERE t.ctid = i.at`
}

/** One turn over the rows of a table after `after`. */
export const batch = <Table extends AuthorizationTable>(needs: Needs, table: Table, after: string) => {
  const { rings, sql } = needs
  return sql.withTransaction(
    Effect.gen(function* () {
      const sealed = sealedUnder(needs, table)
      const isOldMac = sql`${digestGeneration(sql, "mac")} < ${rings.rows.newest.generation}`
      // Rows that have ended keep their empty MAC.
      const isOld = sealed === undefined ? isOldMac : sql.or([isOldMac, sealed.isOld])
      const rows = yield* placedRows(
        sql,
        table,
        sql`
          WHERE ctid > ${after}::tid AND mac <> '' AND ${isOld} LIMIT ${batchSize} FOR NO KEY UPDATE SKIP LOCKED`
      )
      if (rows.length === 0) return nothingLeft
      const macs = RowMac.make(rings, () => {})
      const done: Array<Renewed> = []
      const refused: Array<UnopenedRow> = []
      for (const row of rows) {
        const result = yield* renewed(macs, table, row, sealed)
        if (result === undefined) refused.push({ table, name: keyOf(table, row) })
        else done.push(result)
      }
      if (done.length > 0) yield* store(needs, table, sealed, done)
      const last = rows.reduce((last, { at }) => (isAfter(at, last) ? at : last), beforeAll)
      return { last, done: done.length, refused }
    })
  )
}

const TableRow = Schema.Struct({ name: Schema.String, mac: Schema.Uint8ArrayFromSelf })

/** Renews the marks of sealed tables. Returns their number, and the marks that no server wrote. */
export const resealMarks = Effect.fnUntraced(function* ({ rings, sql }: Needs) {
  const macs = RowMac.make(rings, () => {})
  const rows = yield* Rows.decodeAll(
    TableRow,
    sql`SELECT name, mac FROM sealed_tables WHERE ${digestGeneration(sql, "mac")} < ${rings.rows.newest.generation}`
  )
  const genuine = rows.filter(({ mac, name }) => macs.isTableMark(name, mac))
  for (const { name } of genuine) yield* sql`UPDATE sealed_tables SET mac = ${macs.ofTable(name)} WHERE name = ${name}`
  const refused = rows
    .filter((row) => !genuine.includes(row))
    .map(({ name }): UnopenedRow => ({ table: "sealed_tables", name }))
  return { done: genuine.length, refused }
})

const MarkRow = Schema.Struct({ name: Schema.String })

/** The rows that need one of these generations of a key, `limit` of each table at most. */
export const rowsThatNeed = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  name: ServiceKeyName,
  { limit, ...of }: { readonly generations: ReadonlyArray<number>; readonly now: Date; readonly limit: number }
) {
  const result: Array<UnopenedRow> = []
  for (const { table, where } of needsOf(sql, name, of)) {
    if (isAuthorizationTable(table)) {
      const rows = yield* placedRows(sql, table, sql`WHERE ${where} LIMIT ${limit}`)
      for (const row of rows) result.push({ table, name: keyOf(table, row) })
    } else {
      const rows = yield* Rows.decodeAll(MarkRow, sql`SELECT name FROM ${sql(table)} WHERE ${where} LIMIT ${limit}`)
      for (const row of rows) result.push({ table, name: row.name })
    }
  }
  return result
})

/** Tables in the order of a pass. Each has its turns, from `beforeAll` until a turn has no `last`. */
export const tables: ReadonlyArray<AuthorizationTable> = Object.keys(authorizationTables).filter(isAuthorizationTable)

/** What a server can say of rows and credentials with the two keys at hand. */
import * as Either from "effect/Either"
import { createHmac, type KeyObject, timingSafeEqual } from "node:crypto"
import type { IntegrityFailure } from "#schema/Errors.ts"
import * as PasswordBox from "./PasswordBox.ts"
import { keyOf, type SealedRow, type SealedTable, textOf } from "./SealedRows.ts"

/** As the column has it, or in hexadecimal, as a row inside of JSON has it. */
export type StoredMac = Uint8Array | string | null

export interface RowMac {
  readonly of: <Table extends SealedTable>(table: Table, row: SealedRow<Table>) => Buffer
  /** Whether a server wrote the row as it is; constant-time. If not, the row is to count for nothing, and is told of. */
  readonly holds: <Table extends SealedTable>(
    table: Table,
    row: SealedRow<Table> & { readonly mac: StoredMac }
  ) => boolean
  /** Of a credential's hash, for the column `hash`. `kind`: of its text. */
  readonly pepper: (kind: string, hash: Uint8Array) => Buffer
  /** A password's hash, for its column. */
  readonly sealPassword: (phc: string) => string
  /** What was sealed, or is of a release before. */
  readonly openPassword: (stored: string) => Either.Either<string, IntegrityFailure>
  /** Says that the rows of a table are held to their MAC. */
  readonly ofTable: (name: string) => Buffer
}

/**
 * Beside servers of a release that knows no MAC and no pepper: what they write is believed, and they understand what is
 * written here.
 */
export const trusting = (macs: RowMac): RowMac => ({
  ...macs,
  holds: () => true,
  pepper: (_kind, hash) => Buffer.from(hash),
  sealPassword: (phc) => phc
})

/** Texts whose MAC is remembered: looking it up costs less than computing it. It cannot be outdated. */
const rememberedAtMost = 4_096

export interface Keys {
  readonly rows: KeyObject
  readonly credentials: KeyObject
  readonly passwords: KeyObject
}

/** `forged`: gets the table and the ids of a row that no server wrote. */
export const make = ({ credentials, passwords, rows }: Keys, forged: (table: string, row: string) => void): RowMac => {
  const remembered = new Map<string, Buffer>()
  const compute = (what: string, text: string) =>
    createHmac("sha256", rows).update(`ampoule ${what} v1\0`).update(text).digest()
  const macOf = (text: string): Buffer => {
    const known = remembered.get(text)
    if (known !== undefined) return known
    const mac = compute("row", text)
    if (remembered.size >= rememberedAtMost) remembered.clear()
    remembered.set(text, mac)
    return mac
  }
  return {
    of: (table, row) => macOf(textOf(table, row)),
    holds: (table, row) => {
      const text = textOf(table, row)
      const mac = macOf(text)
      const stored = typeof row.mac === "string" ? Buffer.from(row.mac, "hex") : row.mac
      if (stored !== null && stored.length === mac.length && timingSafeEqual(stored, mac)) return true
      // Emptied when the row ended, which its reader sees.
      if (stored?.length !== 0) forged(table, keyOf(table, row))
      return false
    },
    pepper: (kind, hash) =>
      createHmac("sha256", credentials).update(`ampoule credential v1 ${kind}\0`).update(hash).digest(),
    sealPassword: (phc) => PasswordBox.seal(passwords, phc),
    openPassword: (stored) =>
      PasswordBox.isSealed(stored) ? PasswordBox.open(passwords, stored) : Either.right(stored),
    ofTable: (name) => compute("table", name)
  }
}

/** The text of a row under its MAC, MACs of rows and peppers of credentials, computed with the service's keys. */
import * as Either from "effect/Either"
import { timingSafeEqual } from "node:crypto"
import type { IntegrityFailure } from "#schema/Errors.ts"
import * as KeyRing from "#src/crypto/KeyRing.ts"
import * as PasswordBox from "./PasswordBox.ts"
import {
  credentials,
  keyOf,
  type AuthorizationRow,
  type AuthorizationTable,
  authorizationTables,
  laterDefaults
} from "./AuthorizationRows.ts"

/** JSON with sorted members, whatever order the database returns. */
const sortMembers = (value: unknown): unknown =>
  typeof value !== "object" || value === null
    ? value
    : Array.isArray(value)
      ? value.map(sortMembers)
      : Object.fromEntries(
          Object.entries(value)
            .filter(([, member]) => member !== undefined)
            .toSorted(([a], [b]) => (a < b ? -1 : 1))
            .map(([name, member]) => [name, sortMembers(member)])
        )

const isText = (one: unknown) => typeof one === "string"

/** One spelling for each value, from a request or from a row. Ids and scopes contain no comma. */
const canonical = (cell: unknown): unknown => {
  if (typeof cell !== "object" || cell === null) return cell
  if (cell instanceof Date) return cell.getTime()
  if (cell instanceof Uint8Array) return Buffer.from(cell.buffer, cell.byteOffset, cell.byteLength).toString("base64")
  if (Array.isArray(cell) && cell.every(isText)) return cell.join(",")
  return JSON.stringify(sortMembers(cell))
}

const noColumns: ReadonlyMap<string, unknown> = new Map()
/** For each table, the later columns and their defaults in older rows. */
const laterColumns: ReadonlyMap<string, ReadonlyMap<string, unknown>> = new Map(
  Array.from(laterDefaults, ([table, cells]) => [table, new Map(Object.entries(cells))])
)

/** The text under the MAC. The table's name comes first, so a MAC is valid in its own table only. */
export const textOf = <Table extends AuthorizationTable>(table: Table, row: AuthorizationRow<Table>): string => {
  const columns: ReadonlyArray<keyof AuthorizationRow<Table>> = authorizationTables[table].columns
  const cells: Array<unknown> = [table]
  const later = laterColumns.get(table) ?? noColumns
  for (const column of columns) {
    const cell = canonical(row[column])
    if (!later.has(column)) cells.push(cell)
    else if (cell !== later.get(column)) cells.push([column, cell])
  }
  return JSON.stringify(cells)
}

/** Bytes from the column, or hexadecimal text from a row inside JSON. */
export type StoredMac = Uint8Array | string | null

export interface RowMac {
  readonly of: <Table extends AuthorizationTable>(table: Table, row: AuthorizationRow<Table>) => Buffer
  /** Whether a server wrote the row as it is, in constant time. A forged row must be ignored, and raises an alarm. */
  readonly isAuthentic: <Table extends AuthorizationTable>(
    table: Table,
    row: AuthorizationRow<Table> & { readonly mac: StoredMac }
  ) => boolean
  /** The column `hash` of a credential. `kind` is the prefix of the credential's text. */
  readonly pepper: (kind: string, hash: Uint8Array) => Buffer
  /** Whether the column `stored` was made from this hash, in constant time. Undefined: there is no column. */
  readonly isPeppered: (kind: string, hash: Uint8Array, stored: Uint8Array | undefined) => boolean
  /** Whether hashes of several generations are accepted. */
  readonly hasOldPeppers: boolean
  /** Whether the pepper of a stored hash has a newer generation. */
  readonly isOldPepper: (stored: Uint8Array) => boolean
  /** The column of a password's hash. */
  readonly sealPassword: (phc: string) => string
  /** Opens a sealed hash, and returns an unsealed one of an earlier release as it is. */
  readonly openPassword: (stored: string) => Either.Either<string, IntegrityFailure>
  /** Marks a table whose rows all have MACs. */
  readonly ofTable: (name: string) => Buffer
  readonly isTableMark: (name: string, stored: Uint8Array) => boolean
  /** Over the text that binds a form of a page to its person and place. */
  readonly ofForm: (text: string) => Buffer
  readonly isOfForm: (text: string, stored: Uint8Array) => boolean
}

/**
 * For use beside servers of a release that writes the `unsealed` tables without MACs and peppers: it accepts their rows
 * there, and they understand its rows.
 */
export const trusting = (macs: RowMac, unsealed: ReadonlySet<string>): RowMac => {
  const plainKinds: ReadonlySet<string> = new Set(
    Object.entries(credentials).flatMap(([table, kind]) => (unsealed.has(table) ? [kind] : []))
  )
  return {
    ...macs,
    isAuthentic: (table, row) => unsealed.has(table) || macs.isAuthentic(table, row),
    pepper: (kind, hash) => (plainKinds.has(kind) ? Buffer.from(hash) : macs.pepper(kind, hash)),
    isPeppered: (kind, hash, stored) =>
      plainKinds.has(kind) ? same(Buffer.from(hash), stored) : macs.isPeppered(kind, hash, stored),
    hasOldPeppers: false,
    isOldPepper: () => false,
    sealPassword: (phc) => (unsealed.has("users") ? phc : macs.sealPassword(phc))
  }
}

/** Constant-time. Without `stored` it takes as long, and is false. */
const same = (expected: Buffer, stored: Uint8Array | undefined): boolean => {
  const isComparable = stored?.length === expected.length
  return timingSafeEqual(expected, isComparable ? stored : expected) && isComparable
}

/** Limit of cached MACs by row text: a look-up costs less than a computation, and an entry never becomes stale. */
const maxCachedMacs = 4_096

export interface Keys {
  readonly rows: KeyRing.KeyRing
  readonly credentials: KeyRing.KeyRing
  readonly passwords: KeyRing.KeyRing
}

/** MACs of rows under one key, by the text of the row. */
const cachedMacs = (key: KeyRing.RingKey) => {
  const cache = new Map<string, Buffer>()
  return (text: string): Buffer => {
    const cached = cache.get(text)
    if (cached !== undefined) return cached
    const mac = KeyRing.tagged(key, KeyRing.hmac(key, "row").update("\0").update(text).digest())
    if (cache.size >= maxCachedMacs) cache.clear()
    cache.set(text, mac)
    return mac
  }
}

const marked = (purpose: "table" | "form", key: KeyRing.RingKey, text: string) =>
  KeyRing.tagged(key, KeyRing.hmac(key, purpose).update("\0").update(text).digest())

const peppered = (key: KeyRing.RingKey, kind: string, hash: Uint8Array) =>
  KeyRing.tagged(key, KeyRing.hmac(key, "credential").update(` ${kind}\0`).update(hash).digest())

/** `onForged` receives the table and the ids of a row whose MAC does not match. */
export const make = (
  { credentials: peppers, passwords, rows }: Keys,
  onForged: (table: string, row: string) => void
): RowMac => {
  const macs = new Map(Array.from(rows.live, ([generation, key]) => [generation, cachedMacs(key)]))
  const isMarked = (purpose: "table" | "form", text: string, stored: Uint8Array) => {
    const key = KeyRing.madeBy(rows, stored)
    return key !== undefined && same(marked(purpose, key, text), stored)
  }
  const newestMac = macs.get(rows.newest.generation) ?? cachedMacs(rows.newest)
  return {
    of: (table, row) => newestMac(textOf(table, row)),
    isAuthentic: (table, row) => {
      const stored = typeof row.mac === "string" ? Buffer.from(row.mac, "hex") : row.mac
      const key = stored === null ? undefined : KeyRing.madeBy(rows, stored)
      const mac = key === undefined ? undefined : macs.get(key.generation)?.(textOf(table, row))
      if (stored !== null && mac !== undefined && timingSafeEqual(stored, mac)) return true
      // An empty MAC marks an ended row, which its reader checks for.
      if (stored?.length !== 0) onForged(table, keyOf(table, row))
      return false
    },
    pepper: (kind, hash) => peppered(peppers.newest, kind, hash),
    isPeppered: (kind, hash, stored) => {
      const key = stored === undefined ? undefined : KeyRing.madeBy(peppers, stored)
      return same(peppered(key ?? peppers.newest, kind, hash), key === undefined ? undefined : stored)
    },
    hasOldPeppers: peppers.live.size > 1,
    isOldPepper: (stored) => !KeyRing.isNewest(peppers, stored),
    sealPassword: (phc) => PasswordBox.seal(passwords, phc),
    openPassword: (stored) =>
      PasswordBox.isSealed(stored) ? PasswordBox.open(passwords, stored) : Either.right(stored),
    ofTable: (name) => marked("table", rows.newest, name),
    isTableMark: (name, stored) => isMarked("table", name, stored),
    ofForm: (text) => marked("form", rows.newest, text),
    isOfForm: (text, stored) => isMarked("form", text, stored)
  }
}

/**
 * Which rows that decide a transaction makes, changes and ends, for the entry that it commits: `ampoule audit verify`
 * tells by it that a row was put back as it was (docs/security.md, "Rows that decide"). No statement of its own.
 */
import type * as SqlClient from "@effect/sql/SqlClient"
import type * as Statement from "@effect/sql/Statement"
import * as Effect from "effect/Effect"
import { createHash } from "node:crypto"
import type { AuditAction } from "#schema/Audit.ts"
import * as TransactionNotes from "#src/database/TransactionNotes.ts"
import { columnsOf, idsOf, keyOf, sealed, type SealedRow, type SealedTable, textOf } from "./SealedRows.ts"

const digest = (what: string, text: string, bytes: number) =>
  createHash("sha256").update(`ampoule ${what} v1\0`).update(text).digest().subarray(0, bytes).toString("base64url")

/** Names a row for ever, and tells nothing to whoever does not know its ids. */
export const nameOf = (table: SealedTable, key: string): string =>
  `${table}/${digest("row name", `${table}\0${key}`, 12)}`

/** All that decides in a row; under no key, so that it is the same after a rotation. */
export const stateOf = <Table extends SealedTable>(table: Table, row: SealedRow<Table>): string =>
  digest("row state", textOf(table, row), 8)

/** Of a row that is not there; as what a row was: whatever it was, and it never comes back. */
export const nothing = ""
export const ended = "*"

export interface RowChange {
  readonly name: string
  readonly before: string
  readonly after: string
}

const print = ({ after, before, name }: RowChange): string => `${name}:${before}:${after}`
export const parse = (text: string): RowChange | undefined => {
  const [name, before, after, ...rest] = text.split(":")
  return after === undefined || rest.length > 0 ? undefined : { name, before, after }
}

/**
 * Entries of these say which rows they changed, also if there are none: without it, a server of a release before wrote
 * them, and what it did to rows is not known.
 */
export const changing: ReadonlySet<string> = new Set<AuditAction>([
  "team.update",
  "team.suspend",
  "team.resume",
  "team.delete",
  "team.leave",
  "member.join",
  "member.update",
  "member.remove",
  "member.end_access",
  "project.update",
  "project.delete",
  "environment.update",
  "environment.delete",
  "environment.restore",
  "access.end",
  "access.approve",
  "access.deny",
  "access.withdraw",
  "token.update",
  "token.make_read_only",
  "token.set_addresses",
  "machine.rule_revoke",
  "machine.rule_delete",
  "sign_in.issuer_update",
  "sign_in.issuer_delete",
  "sign_in.rule_delete",
  "sign_in.require",
  "identity.unlink",
  "factor.add",
  "factor.remove",
  "account.update",
  "email.change",
  "password.change",
  "password.reset"
])

/** Tables whose rows no server deletes without an entry that says so. */
export const lasting: ReadonlySet<string> = new Set<SealedTable>([
  "users",
  "teams",
  "memberships",
  "projects",
  "environments",
  "machine_rules",
  "passkeys",
  "sign_in_issuers",
  "sign_in_rules",
  "sign_in_identities"
])

export const isLasting = (name: string): boolean => lasting.has(name.slice(0, name.indexOf("/")))

/** Of rows that end at once, in tables where they may be any number: so many are named, the others are counted. */
export const namedAtMost = 2_000

/**
 * What an entry says. A row that was changed, and the end of one that should last, is always named: limits bound how many
 * of them there are. `+n`: so many more ended.
 */
const printAll = (changes: ReadonlyArray<RowChange>): ReadonlyArray<string> => {
  const isBounded = ({ after, name }: RowChange) => after !== nothing || isLasting(name)
  const others = changes.filter((one) => !isBounded(one))
  if (others.length <= namedAtMost) return changes.map(print)
  const named = [...changes.filter(isBounded), ...others.slice(0, namedAtMost)]
  return [...named.map(print), `+${others.length - namedAtMost}`]
}

const { note, take } = TransactionNotes.make<RowChange>()

export const made = <Table extends SealedTable>(table: Table, row: SealedRow<Table>) =>
  note([{ name: nameOf(table, keyOf(table, row)), before: nothing, after: stateOf(table, row) }])

export const changed = <Table extends SealedTable>(table: Table, before: SealedRow<Table>, after: SealedRow<Table>) =>
  note([{ name: nameOf(table, keyOf(table, before)), before: stateOf(table, before), after: stateOf(table, after) }])

const isWhole = <Table extends SealedTable>(table: Table, row: object): row is SealedRow<Table> =>
  sealed[table].columns.every((column) => Object.hasOwn(row, column))

/** A row that its statement returned. A key that can come again needs all that decides, to tell one life from the next. */
const endOf = <Table extends SealedTable>(table: Table, row: object): RowChange => {
  const cells = new Map<string, unknown>(Object.entries(row))
  const { key } = sealed[table]
  if (!key.every((part) => cells.has(part))) throw new Error(`a statement on ${table} does not return its key`)
  if (key.length > 1 && !isWhole(table, row))
    throw new Error(`a statement on ${table} does not return all that decides`)
  const name = nameOf(table, idsOf(table, cells))
  return { name, before: key.length > 1 && isWhole(table, row) ? stateOf(table, row) : ended, after: nothing }
}

/** The tag of each statement that deletes rows of the table, or empties their MAC, and returns their keys. */
export const ending =
  (sql: SqlClient.SqlClient, table: SealedTable) =>
  (text: TemplateStringsArray, ...parameters: ReadonlyArray<unknown>) =>
    Effect.tap(sql(text, ...parameters), (rows) => note(rows.map((row) => endOf(table, row))))

/** Deletes the rows that `where` names; the whole of them is read, so that each can be told from a later one of its key. */
export const remove = (sql: SqlClient.SqlClient, table: SealedTable, where: Statement.Fragment) =>
  Effect.asVoid(
    Effect.orDie(
      ending(sql, table)`DELETE FROM ${sql(table)} WHERE ${where} RETURNING ${sql.literal(columnsOf(table))}`
    )
  )

/** Ends the rows that `where` names: `set` says when or how, and their MAC is emptied. */
export const end = (
  sql: SqlClient.SqlClient,
  table: SealedTable,
  set: Readonly<Record<string, Date | string>>,
  where: Statement.Fragment
) =>
  Effect.asVoid(
    Effect.orDie(
      ending(sql, table)`
        UPDATE ${sql(table)} SET ${sql.update({ ...set, mac: Buffer.alloc(0) })} WHERE ${where}
        RETURNING ${sql.literal(columnsOf(table))}`
    )
  )

/** For each of the entries of one statement, what it says of rows: the first names those of all. */
export const takeFor = (events: ReadonlyArray<{ readonly action: AuditAction }>) =>
  Effect.map(take, (noted): ReadonlyArray<ReadonlyArray<string> | undefined> => {
    if (noted.length === 0 && !events.some(({ action }) => changing.has(action))) return []
    return events.map((_, i) => (i === 0 ? printAll(noted) : []))
  })

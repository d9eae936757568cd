/**
 * Notes the authorization rows that a transaction inserts, changes and ends, for its audit entry. `ampoule audit
 * verify` detects by them a row that was put back (docs/security.md, "Authorization rows"). Sends no statement itself.
 */
import type * as SqlClient from "@effect/sql/SqlClient"
import type * as Statement from "@effect/sql/Statement"
import * as Effect from "effect/Effect"
import { createHash } from "node:crypto"
import type { AuditAction } from "#schema/Audit.ts"
import * as Transaction from "#src/database/Transaction.ts"
import {
  columnsOf,
  idsOf,
  keyOf,
  authorizationTables,
  type AuthorizationRow,
  type AuthorizationTable
} from "./AuthorizationRows.ts"
import { textOf } from "./RowMac.ts"

const digest = (label: string, text: string, bytes: number) =>
  createHash("sha256").update(`ampoule ${label} v1\0`).update(text).digest().subarray(0, bytes).toString("base64url")

/** A permanent name of a row, which reveals nothing without the row's ids. */
export const nameOf = (table: AuthorizationTable, key: string): string =>
  `${table}/${digest("row name", `${table}\0${key}`, 12)}`

/** A digest of the row's authorization columns. It uses no key, so a rotation does not change it. */
export const stateOf = <Table extends AuthorizationTable>(table: Table, row: AuthorizationRow<Table>): string =>
  digest("row state", textOf(table, row), 8)

/**
 * The state of a row that does not exist. The state below, as the one before, means any state, and that the row never
 * returns.
 */
export const absent = ""
export const finalEnd = "*"

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
 * Actions whose entries always list the changed rows, even if there are none. An entry without the list came from an
 * earlier release, and its changes are unknown.
 */
export const journaledActions: ReadonlySet<string> = new Set<AuditAction>([
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
  "webhook.update",
  "webhook.delete",
  "factor.add",
  "factor.remove",
  "factor.vouch",
  "account.update",
  "email.change",
  "email.confirm",
  "password.change",
  "password.reset"
])

/** Tables whose rows servers delete only with an entry that lists them. */
export const lastingTables: ReadonlySet<string> = new Set<AuthorizationTable>([
  "users",
  "teams",
  "memberships",
  "projects",
  "environments",
  "machine_rules",
  "passkeys",
  "sign_in_issuers",
  "sign_in_rules",
  "sign_in_identities",
  "webhooks"
])

export const isLasting = (name: string): boolean => lastingTables.has(name.slice(0, name.indexOf("/")))

/** Limit of listed ends in tables where any number of rows may end at once; further ones are counted. */
export const maxListedEnds = 2_000

/**
 * The member `rows` of an entry. It always lists changed rows and ends in lasting tables, which other limits bound.
 * `+n`: n more rows ended.
 */
const printAll = (changes: ReadonlyArray<RowChange>): ReadonlyArray<string> => {
  const isBounded = ({ after, name }: RowChange) => after !== absent || isLasting(name)
  const others = changes.filter((one) => !isBounded(one))
  if (others.length <= maxListedEnds) return changes.map(print)
  const listedChanges = [...changes.filter(isBounded), ...others.slice(0, maxListedEnds)]
  return [...listedChanges.map(print), `+${others.length - maxListedEnds}`]
}

const notes = Transaction.notesOf<RowChange>()
const { note } = notes
/** Changes since the last call. */
export const { take } = notes

export const noteInsert = <Table extends AuthorizationTable>(table: Table, row: AuthorizationRow<Table>) =>
  note([{ name: nameOf(table, keyOf(table, row)), before: absent, after: stateOf(table, row) }])

export const noteUpdate = <Table extends AuthorizationTable>(
  table: Table,
  before: AuthorizationRow<Table>,
  after: AuthorizationRow<Table>
) => note([{ name: nameOf(table, keyOf(table, before)), before: stateOf(table, before), after: stateOf(table, after) }])

const isWhole = <Table extends AuthorizationTable>(table: Table, row: object): row is AuthorizationRow<Table> =>
  authorizationTables[table].columns.every((column) => Object.hasOwn(row, column))

/**
 * The change of a row that its statement returned. A key that can be used again needs all columns, to tell the rows
 * apart.
 */
const endOf = <Table extends AuthorizationTable>(table: Table, row: object): RowChange => {
  const cells = new Map<string, unknown>(Object.entries(row))
  const { key } = authorizationTables[table]
  if (!key.every((part) => cells.has(part))) throw new Error(`a statement on ${table} does not return its key`)
  if (key.length > 1 && !isWhole(table, row))
    throw new Error(`a statement on ${table} does not return all authorization columns`)
  const name = nameOf(table, idsOf(table, cells))
  return { name, before: key.length > 1 && isWhole(table, row) ? stateOf(table, row) : finalEnd, after: absent }
}

/** Tags each statement that deletes rows of the table, or empties their MAC, and that returns their keys. */
export const noteEnds =
  (sql: SqlClient.SqlClient, table: AuthorizationTable) =>
  (text: TemplateStringsArray, ...parameters: ReadonlyArray<unknown>) =>
    Effect.tap(sql(text, ...parameters), (rows) => note(rows.map((row) => endOf(table, row))))

/** Deletes the rows of `where`. It reads all their columns, to tell each from a later row with the same key. */
export const remove = (sql: SqlClient.SqlClient, table: AuthorizationTable, where: Statement.Fragment) =>
  Effect.asVoid(
    Effect.orDie(
      noteEnds(sql, table)`DELETE FROM ${sql(table)} WHERE ${where} RETURNING ${sql.literal(columnsOf(table))}`
    )
  )

/** Ends the rows of `where`: sets the columns in `set`, and empties the MAC. */
export const end = (
  sql: SqlClient.SqlClient,
  table: AuthorizationTable,
  set: Readonly<Record<string, Date | string>>,
  where: Statement.Fragment
) =>
  Effect.asVoid(
    Effect.orDie(
      noteEnds(sql, table)`
        UPDATE ${sql(table)} SET ${sql.update({ ...set, mac: Buffer.alloc(0) })} WHERE ${where}
        RETURNING ${sql.literal(columnsOf(table))}`
    )
  )

/** The changes for each entry of one statement: the first entry lists all of them. */
export const listsOf = (
  events: ReadonlyArray<object>,
  changes: ReadonlyArray<RowChange>
): ReadonlyArray<ReadonlyArray<string>> => events.map((_, i) => (i === 0 ? printAll(changes) : []))

/**
 * Rows that decide, against their MACs and against the trail: a row that no server wrote, and one that was put back
 * after the entry of its end, or as it was before its last change.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { createSecretKey } from "node:crypto"
import type { Problems } from "#src/audit/Problems.ts"
import * as ServiceKeys from "#src/crypto/ServiceKeys.ts"
import type { Vault } from "#src/crypto/Vault.ts"
import * as RowMac from "./RowMac.ts"
import { columnsOf, isSealed, keyOf, sealed, type SealedRow, type SealedTable } from "./SealedRows.ts"

/** After these, what the entry names gives nothing any more. */
const ends: ReadonlySet<string> = new Set([
  "token.revoke",
  "token.rotate",
  "token.delete",
  "grant.revoke",
  "oauth.revoke",
  "access.end",
  "access.deny",
  "access.withdraw",
  "machine.rule_revoke",
  "machine.rule_delete",
  "project.delete",
  "environment.delete"
])
/** Of a request for access: the first of two, which its row names, or the one that made a grant. */
const approval = "access.approve"
const memberChanges: ReadonlySet<string> = new Set(["member.update", "member.remove", "team.leave"])

const Entry = Schema.parseJson(
  Schema.Struct({
    action: Schema.String,
    actor: Schema.Struct({ id: Schema.String, type: Schema.String }),
    at: Schema.String,
    outcome: Schema.String,
    team: Schema.NullOr(Schema.String),
    environmentId: Schema.optional(Schema.String),
    target: Schema.optional(Schema.Struct({ id: Schema.String }))
  })
)
const decode = Schema.decodeUnknownOption(Entry)

/** Longer than a request takes, from the time that it writes into a row to that of its entry. */
const leewayMillis = 60_000
const fetched = 1_000

/** What the trail says of rows; fed with all entries. */
export class LastChanges {
  readonly #ended = new Set<string>()
  readonly #members = new Map<string, number>()
  /** Who approved a request last: a person's id, or only that somebody did. */
  readonly #approved = new Map<string, { readonly at: number; readonly by: string | undefined }>()

  add(action: string | null, body: string): void {
    if (action === null || !(ends.has(action) || memberChanges.has(action) || action === approval)) return
    const entry = Option.getOrUndefined(decode(body))
    if (entry?.outcome !== "allowed") return
    const id = action === "environment.delete" ? entry.environmentId : entry.target?.id
    if (ends.has(action)) {
      if (id !== undefined) this.#ended.add(id)
      return
    }
    const at = Date.parse(entry.at)
    if (action === approval) {
      const by = entry.actor.type === "user" ? entry.actor.id : undefined
      if (id !== undefined && at >= (this.#approved.get(id)?.at ?? 0)) this.#approved.set(id, { at, by })
      return
    }
    const member = `${entry.team ?? ""} ${action === "team.leave" ? entry.actor.id : (id ?? "")}`
    this.#members.set(member, Math.max(at, this.#members.get(member) ?? 0))
  }

  /** What is wrong with a row that a server wrote as it is; undefined: nothing that the trail knows of. */
  problem(table: SealedTable, row: Readonly<Record<string, unknown>>, key: string): string | undefined {
    // Decided by a release before, which had no MAC to empty: it gives nothing.
    if (table === "access_requests" && row["status"] !== "pending") return undefined
    if (this.#ended.has(key)) return "was put back after it had ended"
    const { approvedBy, updatedAt } = row
    const approved = table === "access_requests" ? this.#approved.get(key) : undefined
    if (approved !== undefined) {
      const isAsApproved = approvedBy !== null && approvedBy === (approved.by ?? approvedBy)
      return isAsApproved ? undefined : "was put back as it was before its last change"
    }
    const changed = table === "memberships" ? this.#members.get(key) : undefined
    if (changed === undefined || !(updatedAt instanceof Date)) return undefined
    return updatedAt.getTime() < changed - leewayMillis ? "was put back as it was before its last change" : undefined
  }
}

/** In a transaction of the caller's, which sees one state of the database. */
export const verify = Effect.fnUntraced(function* (vault: Vault["Type"], changes: LastChanges, problems: Problems) {
  const sql = yield* SqlClient.SqlClient
  const key = yield* Effect.catchTag(ServiceKeys.open({ sql, vault }, "row-seals"), "INTEGRITY_FAILURE", () =>
    Effect.succeed(undefined)
  )
  const tables = yield* sql<{ readonly name: string }>`SELECT name FROM sealed_tables ORDER BY name`
  if (key === undefined) {
    if (tables.length > 0) problems.say("The key of the rows that decide does not open: none of them is believed.")
    return
  }
  const secret = createSecretKey(Redacted.value(key))
  const macs = RowMac.make(secret, secret, () => {})
  for (const name of Object.keys(sealed).filter(isSealed)) yield* verifyTable(name, macs, changes, problems)
})

const verifyTable = Effect.fnUntraced(function* <Table extends SealedTable>(
  table: Table,
  macs: RowMac.RowMac,
  changes: LastChanges,
  problems: Problems
) {
  const sql = yield* SqlClient.SqlClient
  // An empty MAC gives nothing, whatever the row says.
  yield* sql`DECLARE row_walk NO SCROLL CURSOR FOR
    SELECT ${sql.literal(columnsOf(table))}, mac FROM ${sql(table)} WHERE mac IS NULL OR mac <> ''`
  for (;;) {
    const rows = yield* sql<SealedRow<Table> & { readonly mac: Uint8Array | null }>`
      FETCH ${sql.literal(String(fetched))} FROM row_walk`
    for (const row of rows) {
      const key = keyOf(table, row)
      const problem = macs.holds(table, row)
        ? changes.problem(table, row, key)
        : "was not written by a server as it is, and gives nothing"
      if (problem !== undefined) problems.say(`The row ${key} of ${table} ${problem}.`)
    }
    if (rows.length < fetched) break
  }
  yield* sql`CLOSE row_walk`
})

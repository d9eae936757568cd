/**
 * Rows that decide, against their MACs and against the trail: a row that no server wrote, one that was put back after
 * the entry of its end, or as it was before its last change, and one that is gone.
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
import * as RowJournal from "./RowJournal.ts"
import * as RowMac from "./RowMac.ts"
import { columnsOf, isSealed, keyOf, sealed, type SealedRow, type SealedTable } from "./SealedRows.ts"

/** Of releases before `rows`: after these, what the entry names gives nothing any more. */
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
    project: Schema.optional(Schema.String),
    environmentId: Schema.optional(Schema.String),
    target: Schema.optional(Schema.Struct({ id: Schema.String })),
    rows: Schema.optional(Schema.Array(Schema.String))
  })
)
const decode = Schema.decodeUnknownOption(Entry)

/** Longer than a request takes, from the time that it writes into a row to that of its entry. */
const leewayMillis = 60_000
const fetched = 1_000

const isBack = "was put back after it had ended"
const isOld = "was put back as it was before its last change"

/** A row that a server wrote as it is, with what entries of releases before are compared with. */
interface LiveRow {
  readonly table: SealedTable
  readonly key: string
  readonly state: string
  readonly status: unknown
  readonly approvedBy: unknown
  readonly updatedAt: unknown
}
/** `forged`: a row of this name is there, but no server wrote it as it is. */
export type LiveRows = ReadonlyMap<string, LiveRow | "forged">

/** What entries say of one thing that a row was. */
interface State {
  /** How often it became so, less how often it became something else. */
  net: number
  left: boolean
  /** When it became so last. */
  at: number
}

/** Path of a row through what it was; entries come in any order. */
class Path {
  readonly #states = new Map<string, State>()
  #hasEnded = false
  last = 0

  #state(name: string): State {
    const known = this.#states.get(name)
    if (known !== undefined) return known
    const made: State = { net: 0, left: false, at: 0 }
    this.#states.set(name, made)
    return made
  }

  add({ after, before }: RowJournal.RowChange, at: number): void {
    this.last = Math.max(this.last, at)
    if (before === after) return
    if (before === RowJournal.ended) {
      this.#hasEnded = true
      return
    }
    if (before !== RowJournal.nothing) {
      const was = this.#state(before)
      was.net--
      was.left = true
    }
    const is = this.#state(after)
    is.net++
    is.at = Math.max(is.at, at)
  }

  get hasEnded(): boolean {
    return this.#hasEnded
  }

  /** Whether the row, which is `now`, became something else since. */
  isOver(now: string): "ended" | "changed" | undefined {
    const state = this.#states.get(now)
    if (state === undefined || !state.left || state.net > 0) return undefined
    const others = [...this.#states].filter(([name]) => name !== now)
    const standing = others.filter(([, { net }]) => net > 0)
    if (standing.length > 0) return standing.every(([name]) => name === RowJournal.nothing) ? "ended" : "changed"
    // It went round, and the entry of its beginning is no more: the latest one tells, where the clocks do.
    const latest = others.toSorted(([, a], [, b]) => b.at - a.at)[0]
    return latest !== undefined && latest[1].at > state.at + leewayMillis ? "changed" : undefined
  }
}

/**
 * What the trail says of rows; fed with all entries. Without rows that could be read it says nothing. `cutBefore`: the
 * latest time that the trail was cut at, in milliseconds. Of what is older some streams have kept entries (those under no
 * seal yet), and what followed them in another stream is gone: they tell what a row was, and not what became of it.
 */
export class LastChanges {
  readonly #live: LiveRows
  readonly #cutBefore: number
  readonly #paths = new Map<string, Path>()
  /** Of rows that are not there: how often they were made, less how often they ended; and when one was made last. */
  readonly #gone = new Map<string, { times: number; at: number }>()
  readonly #ended = new Set<string>()
  readonly #members = new Map<string, number>()
  /** Who approved a request last: a person's id, or only that somebody did. */
  readonly #approved = new Map<string, { readonly at: number; readonly by: string | undefined }>()
  /** When a server of a release before changed something of what has this id. */
  readonly #untold = new Map<string, number>()

  readonly #isRead: boolean

  constructor(live: LiveRows | undefined, cutBefore = 0) {
    this.#isRead = live !== undefined
    this.#cutBefore = cutBefore
    this.#live = live ?? new Map()
  }

  add(action: string | null, body: string): void {
    if (action === null || !(ends.has(action) || RowJournal.changing.has(action) || body.includes('"rows":['))) return
    const entry = Option.getOrUndefined(decode(body))
    if (entry === undefined) return
    const at = Date.parse(entry.at)
    for (const text of entry.rows ?? []) this.#addChange(RowJournal.parse(text), at)
    if (entry.outcome === "allowed") this.#addNamed(action, entry, at)
  }

  #addChange(change: RowJournal.RowChange | undefined, at: number): void {
    // An end is for ever, whatever is gone.
    if (change === undefined || (at < this.#cutBefore && change.before !== RowJournal.ended)) return
    const { name } = change
    if (this.#live.has(name)) {
      const path = this.#paths.get(name) ?? new Path()
      this.#paths.set(name, path)
      path.add(change, at)
    } else if (RowJournal.isLasting(name)) {
      const gone = this.#gone.get(name) ?? { times: 0, at: 0 }
      this.#gone.set(name, gone)
      if (change.after === RowJournal.nothing) gone.times--
      else if (change.before === RowJournal.nothing) {
        gone.times++
        gone.at = Math.max(gone.at, at)
      }
    }
  }

  /** What an entry of any release says by its action and by what it names. */
  #addNamed(action: string, entry: typeof Entry.Type, at: number): void {
    const { actor, environmentId, project, rows, target, team } = entry
    if (rows === undefined && RowJournal.changing.has(action)) {
      for (const id of [target?.id, environmentId, project, team, actor.id]) {
        if (typeof id === "string") this.#untold.set(id, Math.max(at, this.#untold.get(id) ?? 0))
      }
    }
    const id = action === "environment.delete" ? environmentId : target?.id
    if (ends.has(action)) {
      if (id !== undefined) this.#ended.add(id)
    } else if (action === approval) {
      const by = actor.type === "user" ? actor.id : undefined
      if (at < this.#cutBefore) return
      if (id !== undefined && at >= (this.#approved.get(id)?.at ?? 0)) this.#approved.set(id, { at, by })
    } else if (memberChanges.has(action)) {
      const member = `${team ?? ""} ${action === "team.leave" ? actor.id : (id ?? "")}`
      this.#members.set(member, Math.max(at, this.#members.get(member) ?? 0))
    }
  }

  /** What is wrong with the rows that are there, and with those that are not. */
  report(problems: Problems): void {
    if (!this.#isRead) return
    for (const [name, row] of this.#live) {
      if (row === "forged") continue
      const what = this.#problem(name, row)
      if (what !== undefined) problems.say(`The row ${row.key} of ${row.table} ${what}.`)
    }
    // A server of a release before may have removed what was made until then; its entries do not say which.
    const untold = [...this.#untold.values()].reduce((last, at) => Math.max(last, at), 0) + leewayMillis
    for (const [name, { at, times }] of this.#gone) {
      if (times > 0 && at > untold) problems.say(`The row ${name} is gone, and no entry says so.`)
    }
  }

  /** Undefined: nothing that the trail knows of. */
  #problem(name: string, row: LiveRow): string | undefined {
    const { approvedBy, key, state, status, table, updatedAt } = row
    // Decided by a release before, which had no MAC to empty: it gives nothing.
    if (table === "access_requests" && status !== "pending") return undefined
    const path = this.#paths.get(name)
    if (path?.hasEnded === true || this.#ended.has(key)) return isBack
    const over = path === undefined || this.#isUntold(key, path.last) ? undefined : path.isOver(state)
    if (over !== undefined) return over === "ended" ? isBack : isOld
    const approved = table === "access_requests" ? this.#approved.get(key) : undefined
    if (approved !== undefined) {
      return approvedBy !== null && approvedBy === (approved.by ?? approvedBy) ? undefined : isOld
    }
    const changed = table === "memberships" ? this.#members.get(key) : undefined
    if (changed === undefined || !(updatedAt instanceof Date)) return undefined
    return updatedAt.getTime() < changed - leewayMillis ? isOld : undefined
  }

  #isUntold(key: string, last: number): boolean {
    return key.split(" ").some((id) => (this.#untold.get(id) ?? 0) >= last - leewayMillis)
  }
}

/**
 * Rows that a server wrote as they are, by name; those that none wrote are problems. In a transaction of the caller's,
 * which sees one state of the database.
 */
export const read = Effect.fnUntraced(function* (vault: Vault["Type"], problems: Problems) {
  const sql = yield* SqlClient.SqlClient
  const live = new Map<string, LiveRow | "forged">()
  const key = yield* Effect.catchTag(ServiceKeys.open({ sql, vault }, "row-seals"), "INTEGRITY_FAILURE", () =>
    Effect.succeed(undefined)
  )
  const tables = yield* sql<{ readonly name: string }>`SELECT name FROM sealed_tables ORDER BY name`
  if (key === undefined) {
    if (tables.length > 0) problems.say("The key of the rows that decide does not open: none of them is believed.")
    return undefined
  }
  const secret = createSecretKey(Redacted.value(key))
  const macs = RowMac.make({ rows: secret, credentials: secret, passwords: secret }, () => {})
  for (const name of Object.keys(sealed).filter(isSealed)) yield* readTable(name, macs, live, problems)
  return live
})

const readTable = Effect.fnUntraced(function* <Table extends SealedTable>(
  table: Table,
  macs: RowMac.RowMac,
  live: Map<string, LiveRow | "forged">,
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
      const name = RowJournal.nameOf(table, key)
      if (macs.holds(table, row)) {
        const { approvedBy, status, updatedAt }: Readonly<Record<string, unknown>> = row
        const state = RowJournal.stateOf(table, row)
        live.set(name, { table, key, state, status, approvedBy, updatedAt })
      } else {
        live.set(name, "forged")
        problems.say(`The row ${key} of ${table} was not written by a server as it is, and gives nothing.`)
      }
    }
    if (rows.length < fetched) break
  }
  yield* sql`CLOSE row_walk`
})

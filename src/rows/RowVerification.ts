/**
 * Checks authorization rows against their MACs and against the trail. Finds forged rows, rows put back after their end
 * or to an older state, and missing rows.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { Problems } from "#src/audit/Problems.ts"
import * as KeyGenerations from "#src/crypto/KeyGenerations.ts"
import type { Vault } from "#src/crypto/Vault.ts"
import * as RowJournal from "./RowJournal.ts"
import * as RowMac from "./RowMac.ts"
import {
  columnsOf,
  isAuthorizationTable,
  keyOf,
  type AuthorizationRow,
  type AuthorizationTable,
  authorizationTables
} from "./AuthorizationRows.ts"

/** Actions of releases without `rows`, after which the named thing is void. */
const endingActions: ReadonlySet<string> = new Set([
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
/** The action of approving a request for access: the first of two approvals, or the one that creates the grant. */
const approvalAction = "access.approve"
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

/** Longer than the time between a request's write into a row and its entry. */
const leewayMillis = 60_000
const rowsPerFetch = 1_000

const restoredAfterEnd = "was put back after it had ended"
const restoredToOldState = "was put back as it was before its last change"

/** A row with a valid MAC, and the columns to compare with entries of earlier releases. */
interface LiveRow {
  readonly table: AuthorizationTable
  readonly key: string
  readonly state: string
  readonly status: unknown
  readonly approvedBy: unknown
  readonly updatedAt: unknown
}
/** `forged`: a row of this name exists, but its MAC does not match. */
export type LiveRows = ReadonlyMap<string, LiveRow | "forged">

/** The entries about one state of a row. */
interface State {
  /** The number of changes into this state, minus the number of changes out of it. */
  net: number
  hasLeft: boolean
  /** The time of the last change into this state. */
  at: number
}

/** The states of a row, from entries in any order. */
class Path {
  readonly #states = new Map<string, State>()
  #hasEnded = false
  last = 0

  #state(name: string): State {
    const existing = this.#states.get(name)
    if (existing !== undefined) return existing
    const state: State = { net: 0, hasLeft: false, at: 0 }
    this.#states.set(name, state)
    return state
  }

  add({ after, before }: RowJournal.RowChange, at: number): void {
    this.last = Math.max(this.last, at)
    if (before === after) return
    if (before === RowJournal.finalEnd) {
      this.#hasEnded = true
      return
    }
    if (before !== RowJournal.absent) {
      const former = this.#state(before)
      former.net--
      former.hasLeft = true
    }
    const current = this.#state(after)
    current.net++
    current.at = Math.max(current.at, at)
  }

  get hasEnded(): boolean {
    return this.#hasEnded
  }

  /** Whether the row has since left the state `now`. */
  isOver(now: string): "ended" | "changed" | undefined {
    const state = this.#states.get(now)
    if (state === undefined || !state.hasLeft || state.net > 0) return undefined
    const others = [...this.#states].filter(([name]) => name !== now)
    const current = others.filter(([, { net }]) => net > 0)
    if (current.length > 0) return current.every(([name]) => name === RowJournal.absent) ? "ended" : "changed"
    // The states form a cycle, and the entry of its beginning is gone. The latest entry decides, as far as the clocks
    // allow.
    const latest = others.toSorted(([, a], [, b]) => b.at - a.at)[0]
    return latest !== undefined && latest[1].at > state.at + leewayMillis ? "changed" : undefined
  }
}

/**
 * Collects the changes of rows from all entries of the trail. It reports nothing if the rows could not be read.
 * `cutBefore` is the time of the last cut of the trail (ms). Older entries remain in streams without a seal, while
 * their successors in other streams are gone. They show a former state of a row, but not its current one.
 */
export class LastChanges {
  readonly #live: LiveRows
  readonly #cutBefore: number
  readonly #paths = new Map<string, Path>()
  /** Missing rows: the number of insertions minus ends, and the time of the last insertion. */
  readonly #gone = new Map<string, { times: number; at: number }>()
  readonly #ended = new Set<string>()
  readonly #members = new Map<string, number>()
  /** The last approval of each request: the person's id, or undefined for another kind of actor. */
  readonly #approved = new Map<string, { readonly at: number; readonly by: string | undefined }>()
  /** The last change by an earlier release to something with this id. */
  readonly #untold = new Map<string, number>()

  readonly #isRead: boolean

  constructor(live: LiveRows | undefined, cutBefore = 0) {
    this.#isRead = live !== undefined
    this.#cutBefore = cutBefore
    this.#live = live ?? new Map()
  }

  add(action: string | null, body: string): void {
    if (
      action === null ||
      !(endingActions.has(action) || RowJournal.journaledActions.has(action) || body.includes('"rows":['))
    )
      return
    const entry = Option.getOrUndefined(decode(body))
    if (entry === undefined) return
    const at = Date.parse(entry.at)
    for (const text of entry.rows ?? []) this.#addChange(RowJournal.parse(text), at)
    if (entry.outcome === "allowed") this.#addNamed(action, entry, at)
  }

  #addChange(change: RowJournal.RowChange | undefined, at: number): void {
    // An end is final, even in entries older than the cut.
    if (change === undefined || (at < this.#cutBefore && change.before !== RowJournal.finalEnd)) return
    const { name } = change
    if (this.#live.has(name)) {
      const path = this.#paths.get(name) ?? new Path()
      this.#paths.set(name, path)
      path.add(change, at)
    } else if (RowJournal.isLasting(name)) {
      const missing = this.#gone.get(name) ?? { times: 0, at: 0 }
      this.#gone.set(name, missing)
      if (change.after === RowJournal.absent) missing.times--
      else if (change.before === RowJournal.absent) {
        missing.times++
        missing.at = Math.max(missing.at, at)
      }
    }
  }

  /** Handles the action and the named ids, in entries of any release. */
  #addNamed(action: string, entry: typeof Entry.Type, at: number): void {
    const { actor, environmentId, project, rows, target, team } = entry
    if (rows === undefined && RowJournal.journaledActions.has(action)) {
      for (const id of [target?.id, environmentId, project, team, actor.id]) {
        if (typeof id === "string") this.#untold.set(id, Math.max(at, this.#untold.get(id) ?? 0))
      }
    }
    const id = action === "environment.delete" ? environmentId : target?.id
    if (endingActions.has(action)) {
      if (id !== undefined) this.#ended.add(id)
    } else if (action === approvalAction) {
      const by = actor.type === "user" ? actor.id : undefined
      if (at < this.#cutBefore) return
      if (id !== undefined && at >= (this.#approved.get(id)?.at ?? 0)) this.#approved.set(id, { at, by })
    } else if (memberChanges.has(action)) {
      const member = `${team ?? ""} ${action === "team.leave" ? actor.id : (id ?? "")}`
      this.#members.set(member, Math.max(at, this.#members.get(member) ?? 0))
    }
  }

  /** Reports problems of the existing rows, and missing rows. */
  report(problems: Problems): void {
    if (!this.#isRead) return
    for (const [name, row] of this.#live) {
      if (row === "forged") continue
      const problem = this.#problem(name, row)
      if (problem !== undefined) problems.say(`The row ${row.key} of ${row.table} ${problem}.`)
    }
    // An earlier release may have removed rows inserted until then; its entries do not list them.
    const untold = [...this.#untold.values()].reduce((last, at) => Math.max(last, at), 0) + leewayMillis
    for (const [name, { at, times }] of this.#gone) {
      if (times > 0 && at > untold) problems.say(`The row ${name} is gone, and no entry says so.`)
    }
  }

  /** Undefined: the trail shows no problem. */
  #problem(name: string, row: LiveRow): string | undefined {
    const { approvedBy, key, state, status, table, updatedAt } = row
    // An earlier release decided this request, and had no MAC to empty. The row grants nothing.
    if (table === "access_requests" && status !== "pending") return undefined
    const path = this.#paths.get(name)
    if (path?.hasEnded === true || this.#ended.has(key)) return restoredAfterEnd
    const over = path === undefined || this.#isUntold(key, path.last) ? undefined : path.isOver(state)
    if (over !== undefined) return over === "ended" ? restoredAfterEnd : restoredToOldState
    const approval = table === "access_requests" ? this.#approved.get(key) : undefined
    if (approval !== undefined) {
      return approvedBy !== null && approvedBy === (approval.by ?? approvedBy) ? undefined : restoredToOldState
    }
    const changedAt = table === "memberships" ? this.#members.get(key) : undefined
    if (changedAt === undefined || !(updatedAt instanceof Date)) return undefined
    return updatedAt.getTime() < changedAt - leewayMillis ? restoredToOldState : undefined
  }

  #isUntold(key: string, last: number): boolean {
    return key.split(" ").some((id) => (this.#untold.get(id) ?? 0) >= last - leewayMillis)
  }
}

/**
 * The rows with a valid MAC, by name. Reports the others as problems. Runs in the caller's transaction, which reads one
 * snapshot of the database.
 */
export const read = Effect.fnUntraced(function* (vault: Vault["Type"], problems: Problems) {
  const sql = yield* SqlClient.SqlClient
  const live = new Map<string, LiveRow | "forged">()
  const rows = yield* KeyGenerations.open({ sql, vault }, "row-seals")
  const tables = yield* sql`SELECT name FROM sealed_tables`
  if (rows === undefined) {
    if (tables.length > 0) problems.say("The key of the authorization rows does not open: no row is accepted.")
    return undefined
  }
  const macs = RowMac.make({ rows, credentials: rows, passwords: rows }, () => {})
  for (const name of Object.keys(authorizationTables).filter(isAuthorizationTable))
    yield* readTable(name, macs, live, problems)
  return live
})

const readTable = Effect.fnUntraced(function* <Table extends AuthorizationTable>(
  table: Table,
  macs: RowMac.RowMac,
  live: Map<string, LiveRow | "forged">,
  problems: Problems
) {
  const sql = yield* SqlClient.SqlClient
  // A row with an empty MAC grants nothing.
  yield* sql`DECLARE row_walk NO SCROLL CURSOR FOR
    SELECT ${sql.literal(columnsOf(table))}, mac FROM ${sql(table)} WHERE mac IS NULL OR mac <> ''`
  for (;;) {
    const rows = yield* sql<AuthorizationRow<Table> & { readonly mac: Uint8Array | null }>`
      FETCH ${sql.literal(String(rowsPerFetch))} FROM row_walk`
    for (const row of rows) {
      const key = keyOf(table, row)
      const name = RowJournal.nameOf(table, key)
      if (macs.isAuthentic(table, row)) {
        const { approvedBy, status, updatedAt }: Readonly<Record<string, unknown>> = row
        const state = RowJournal.stateOf(table, row)
        live.set(name, { table, key, state, status, approvedBy, updatedAt })
      } else {
        live.set(name, "forged")
        problems.say(`The row ${key} of ${table} was not written by a server as it is, and grants nothing.`)
      }
    }
    if (rows.length < rowsPerFetch) break
  }
  yield* sql`CLOSE row_walk`
})

/**
 * Requests that wait for an approval (docs/contract/access.md), for access or for a change: lists, look-up and
 * withdrawal. The author and those who decide see a request; for others it does not exist.
 */
import type * as SqlClient from "@effect/sql/SqlClient"
import type { SqlError } from "@effect/sql/SqlError"
import type { Fragment } from "@effect/sql/Statement"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import type { AuditAction } from "#schema/Audit.ts"
import { type Caller, CurrentCaller } from "#schema/Caller.ts"
import {
  type EnvironmentNotFound,
  Forbidden,
  GrantAlreadyDecided,
  GrantNotFound,
  PlanLimitReached
} from "#schema/Errors.ts"
import { type EnvironmentId, EnvironmentIdOut, ProjectIdOut, TeamIdOut, UserIdOut } from "#schema/Ids.ts"
import { Visibility } from "#schema/Scopes.ts"
import * as Rows from "#src/database/Rows.ts"
import type { Audit } from "#src/trail/Audit.ts"
import type { AuditEvent } from "#src/trail/Entry.ts"
import type { Access, Intent } from "./Access.ts"
import { change } from "./Change.ts"
import type { EnvironmentPermit } from "./Permit.ts"
import * as Actions from "./Actions.ts"
import * as Policy from "./Policy.ts"

type Table = "access_requests" | "change_requests"

export const Person = Schema.Struct({ id: UserIdOut, email: Schema.String })

/** Columns of both tables. */
export const fields = {
  teamId: TeamIdOut,
  projectId: ProjectIdOut,
  project: Schema.String,
  environmentId: EnvironmentIdOut,
  environment: Schema.String,
  user: Person,
  createdAt: Rows.Iso,
  expiresAt: Rows.Iso,
  status: Schema.Literal("pending", "approved", "denied"),
  approvers: Schema.Array(UserIdOut),
  visibility: Visibility
}
const RequestRow = Schema.Struct(fields)
type RequestRow = typeof RequestRow.Type

/** Columns and tables of requests `r` by active members for live environments; `own` columns and joins are a table's. */
export const columns = (sql: SqlClient.SqlClient, table: Table, own: string, joins = "") =>
  sql.literal(`
    r.id, r.team_id, e.project_id, p.name AS project, r.environment_id, e.slug AS environment,
    json_build_object('id', u.id, 'email', u.email) AS "user", r.created_at, r.expires_at, r.status,
    e.approvers, p.visibility, ${own}
    FROM ${table} r
    JOIN environments e ON e.id = r.environment_id AND e.deleted_at IS NULL
    JOIN projects p ON p.id = e.project_id AND p.deleted_at IS NULL
    JOIN memberships m ON m.team_id = r.team_id AND m.user_id = r.user_id AND m.active
    JOIN users u ON u.id = r.user_id ${joins}`)

/** Limits against abuse, and the limit of a list. */
const listLimit = 500
const requestsPerEnvironment = 100
const PendingRow = Schema.Struct({ ofPerson: Schema.Number, ofEnvironment: Schema.Number })

export const checkLimits = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  table: Table,
  at: { readonly environmentId: EnvironmentId; readonly userId: string; readonly now: Date },
  requestsPerPerson: number
) {
  const { ofEnvironment, ofPerson } = yield* Rows.single(
    PendingRow,
    sql`
      SELECT count(*) FILTER (WHERE user_id = ${at.userId}) AS of_person, count(*) AS of_environment
      FROM ${sql.literal(table)}
      WHERE environment_id = ${at.environmentId} AND status = 'pending' AND expires_at > ${at.now}`
  )
  if (ofPerson >= requestsPerPerson || ofEnvironment >= requestsPerEnvironment) return yield* new PlanLimitReached()
})

interface Needs {
  readonly access: Access
  readonly audit: Audit
  readonly sql: SqlClient.SqlClient
}

/** The differences between the kinds of requests. */
interface Kind<N extends Needs, Row extends RequestRow, I, Item> {
  /** First word of its span names. */
  readonly name: string
  readonly noun: string
  readonly audit: { readonly list: AuditAction; readonly withdraw: AuditAction }
  readonly Row: Schema.Schema<Row, I>
  readonly columns: (sql: SqlClient.SqlClient) => Fragment
  /** False for a forged pending row. */
  readonly isOwn: (needs: N) => Effect.Effect<(row: Row) => boolean>
  readonly recordOf: (caller: Caller, row: Row) => Item
  /** The part of its audit entries that names the request. */
  readonly about: (row: Row) => Pick<AuditEvent, "keys" | "target">
  /** Deletes a pending request and returns its row. */
  readonly remove: (sql: SqlClient.SqlClient, id: string) => Effect.Effect<ReadonlyArray<unknown>, SqlError>
}

const sees = (caller: Caller, row: RequestRow): boolean => {
  const role = Policy.teamOf(caller, row.teamId)?.role ?? null
  const userId = caller.user?.id
  return (
    userId !== undefined &&
    role !== null &&
    Policy.environmentVisible(caller, row) &&
    (userId === row.user.id || Policy.decidesRequests(role, userId, row.approvers))
  )
}

export const make = <N extends Needs, Row extends RequestRow, I, Item>(kind: Kind<N, Row, I, Item>) => {
  /** The same for a request that does not exist and one that the caller does not see. */
  const notFound = () => new GrantNotFound({ message: `No such ${kind.noun}.` })
  const over = () => new GrantAlreadyDecided({ message: `This ${kind.noun} was already decided.` })

  const pending = Effect.fnUntraced(function* (needs: N, caller: Caller, environmentId: EnvironmentId | null) {
    const { sql } = needs
    const isOwn = yield* kind.isOwn(needs)
    const userId = caller.user?.id ?? null
    const all = caller.teams.filter(({ scopes }) => scopes === null || scopes.includes("secrets:read"))
    const managedTeams = all.filter(({ role }) => role !== null && Actions.byRole[role].has("access:manage"))
    const rows = yield* Rows.findAll(
      kind.Row,
      sql`
        SELECT ${kind.columns(sql)}
        WHERE r.team_id = any(${all.map(({ id }) => id)}::uuid[]) AND r.status = 'pending'
          AND (${environmentId}::uuid IS NULL OR r.environment_id = ${environmentId})
          AND r.expires_at > ${new Date(yield* Clock.currentTimeMillis)}
          AND (r.user_id = ${userId} OR r.team_id = any(${managedTeams.map(({ id }) => id)}::uuid[])
            OR ${userId}::uuid = any(e.approvers))
        ORDER BY r.id LIMIT ${listLimit}`
    )
    return { items: rows.filter((row) => isOwn(row) && sees(caller, row)).map((row) => kind.recordOf(caller, row)) }
  })

  const list = Effect.fn(`${kind.name}.list`)(function* (needs: N) {
    const { caller } = yield* needs.access.eachTeam("secrets:read", { audit: kind.audit.list })
    return yield* pending(needs, caller, null)
  })

  const listOfEnvironment = Effect.fn(`${kind.name}.listOfEnvironment`)(function* (needs: N, id: EnvironmentId) {
    const permit = yield* needs.access.environmentWithId("secrets:read", id, { audit: kind.audit.list })
    return yield* pending(needs, permit.caller, id)
  })

  /** A decided request too, by its status alone: its MAC goes with the decision. */
  const find = Effect.fnUntraced(function* (needs: N, id: string) {
    const { sql } = needs
    const isOwn = yield* kind.isOwn(needs)
    const now = new Date(yield* Clock.currentTimeMillis)
    const row = yield* Rows.findOne(
      kind.Row,
      sql`SELECT ${kind.columns(sql)} WHERE r.id = ${id} AND r.expires_at > ${now}`
    )
    return row !== undefined && (row.status !== "pending" || isOwn(row)) ? row : yield* notFound()
  })

  /** The request, with the permit for its environment and the entry about this use. */
  const withPermit = Effect.fnUntraced(function* <P extends EnvironmentPermit<Actions.Action>, E>(
    needs: N,
    id: string,
    audit: AuditAction,
    permitFor: (row: Row, intent: Intent) => Effect.Effect<P, E | EnvironmentNotFound, CurrentCaller>
  ) {
    const row = yield* find(needs, id)
    if (!sees(yield* CurrentCaller, row)) return yield* notFound()
    const about = kind.about(row)
    const permitEffect = permitFor(row, about.keys === undefined ? { audit } : { audit, keys: about.keys })
    const permit = yield* Effect.catchAll(permitEffect, (error) => Effect.fail(isNotFound(error) ? notFound() : error))
    return { row, permit, event: permit.event(about) }
  })

  const withdraw = Effect.fn(`${kind.name}.withdraw`)(function* (needs: N, id: string) {
    const { event, permit, row } = yield* withPermit(needs, id, kind.audit.withdraw, ({ environmentId }, intent) =>
      needs.access.environmentWithId("secrets:read", environmentId, intent)
    )
    yield* change(needs, event, function* () {
      if (row.user.id !== permit.caller.user?.id)
        return yield* new Forbidden({ message: "Its author can withdraw it." })
      if (!(yield* Rows.exists(kind.remove(needs.sql, id)))) return yield* over()
      yield* needs.audit.append(event)
    })
  })

  return { notFound, over, pending, list, listOfEnvironment, find, withPermit, withdraw } as const
}

const isNotFound = <E>(error: E | EnvironmentNotFound): error is EnvironmentNotFound =>
  Predicate.isTagged(error, "ENVIRONMENT_NOT_FOUND")

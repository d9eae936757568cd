/** How a service changes things: one transaction, in which refusals undo everything and the entry comes last. */
import type * as SqlClient from "@effect/sql/SqlClient"
import type { SqlError } from "@effect/sql/SqlError"
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import { isApiError, statusOf } from "#schema/ApiError.ts"
import type { Audit, AuditEvent } from "./Audit.ts"

/**
 * Runs `work` in a transaction; the database's own failures are defects. A 403 that only the work could see, under its
 * locks, is recorded as a denial of `event`, after the transaction: the entry goes through a connection of its own.
 */
export const change = <A, E, R>(
  services: { readonly sql: SqlClient.SqlClient; readonly audit: Audit },
  event: AuditEvent,
  work: Effect.Effect<A, E | SqlError, R>
): Effect.Effect<A, Exclude<E, SqlError>, R> =>
  recordingDenials(services.audit, event, dieOfSql(services.sql.withTransaction(work)))

/** Around the outermost transaction of a change, never inside one. */
export const recordingDenials = <A, E, R>(
  audit: Audit,
  event: AuditEvent,
  work: Effect.Effect<A, E, R>
): Effect.Effect<A, E, R> =>
  Effect.tapError(work, (error) =>
    isApiError(error) && statusOf(error) === 403
      ? audit.record({ ...event, outcome: "denied", reason: error._tag })
      : Effect.void
  )

const dieOfSql = <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, Exclude<E, SqlError>, R> =>
  Effect.catchAll(self, (error) =>
    // The check excludes it; the compiler does not narrow a type parameter.
    Predicate.isTagged(error, "SqlError") ? Effect.die(error) : Effect.fail(error as Exclude<E, SqlError>)
  )

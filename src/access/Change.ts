/** How a service changes things: one transaction, in which refusals undo everything and the entry comes last. */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import { isApiError, statusOf } from "#schema/ApiError.ts"
import * as Rows from "#src/database/Rows.ts"
import type { Audit } from "#src/trail/Audit.ts"
import type { AuditEvent } from "#src/trail/Entry.ts"

/**
 * Runs `work` in a transaction; the database's own failures are defects. A 403 that only the work could see, under its
 * locks, is recorded as a denial of `event`, after the transaction: the entry goes through a connection of its own.
 */
export const change = <Step extends Rows.Step, A>(
  services: { readonly sql: SqlClient.SqlClient; readonly audit: Audit },
  event: AuditEvent,
  work: () => Generator<Step, A, never>
) => recordingDenials(services.audit, event, Rows.transaction(services.sql, work))

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

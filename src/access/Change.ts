/** Changes by services: one transaction, which a refusal rolls back and which ends with the audit entry. */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import { isApiError, statusOf } from "#schema/ApiError.ts"
import * as Rows from "#src/database/Rows.ts"
import type { Audit } from "#src/trail/Audit.ts"
import type { AuditEvent } from "#src/trail/Entry.ts"

/**
 * Runs `work` in a transaction; failures of the database are defects. A 403 of the work itself, decided under its
 * locks, becomes a denial of `event`. That entry follows after the transaction, on another connection.
 */
export const change = <Step extends Rows.Step, A>(
  services: { readonly sql: SqlClient.SqlClient; readonly audit: Audit },
  event: AuditEvent,
  work: () => Generator<Step, A, never>
) => recordDenials(services.audit, event, Rows.transaction(services.sql, work))

/** Goes around the outermost transaction of a change, never inside one. */
export const recordDenials = <A, E, R>(
  audit: Audit,
  event: AuditEvent,
  work: Effect.Effect<A, E, R>
): Effect.Effect<A, E, R> =>
  Effect.tapError(work, (error) =>
    isApiError(error) && statusOf(error) === 403
      ? audit.record({ ...event, outcome: "denied", reason: error._tag })
      : Effect.void
  )

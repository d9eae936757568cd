/** Deletes codes and tokens after their end, requests that nobody finished, and clients that nobody uses. */
import type * as SqlClient from "@effect/sql/SqlClient"
import type * as Statement from "@effect/sql/Statement"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { days } from "#src/Days.ts"

/** Rows that one statement deletes. */
const batch = 1_000

/** Deletes in small statements, so that a purge never holds up requests. */
const deleteDue = (sql: SqlClient.SqlClient, table: string, due: Statement.Fragment) =>
  sql`
    DELETE FROM ${sql(table)} WHERE ctid = any(array(
      SELECT ctid FROM ${sql(table)} WHERE ${due} LIMIT ${batch} FOR UPDATE SKIP LOCKED))
    RETURNING 1`.pipe(Effect.repeat({ while: (rows) => rows.length === batch }))

export const purge = Effect.fnUntraced(function* ({ sql }: { readonly sql: SqlClient.SqlClient }) {
  const now = yield* Clock.currentTimeMillis
  const before = (millis: number) => new Date(now - millis)
  yield* deleteDue(sql, "oauth_interactions", sql`expires_at < ${before(0)}`)
  yield* deleteDue(sql, "oauth_codes", sql`expires_at < ${before(days(1))}`)
  yield* deleteDue(sql, "oauth_access_tokens", sql`expires_at < ${before(days(1))}`)
  yield* deleteDue(sql, "oauth_refresh_tokens", sql`expires_at < ${before(days(1))}`)
  yield* deleteDue(sql, "oauth_grants", sql`expires_at < ${before(days(30))} OR revoked_at < ${before(days(30))}`)
  yield* deleteDue(
    sql,
    "oauth_clients",
    sql`NOT EXISTS (SELECT 1 FROM oauth_grants g WHERE g.client_id = oauth_clients.id AND g.revoked_at IS NULL)
      AND (last_used_at < ${before(days(90))} OR (last_used_at = created_at AND created_at < ${before(days(1))}))`
  )
})

/**
 * Deletes credentials some time after their end, so that the tables do not grow for ever:
 *
 * | rows                           | end, used or not                     | deleted        |
 * |--------------------------------|--------------------------------------|----------------|
 * | sessions                       | 7 days after sign-in                 | 30 days later  |
 * | invitations                    | 7 days after they were made          | 30 days later  |
 * | password reset links           | a day after they were made           | 30 days later  |
 * | CLI grants                     | 180 days after their delivery        | 30 days later  |
 * | known devices                  | 90 days after the last sign-in       | 30 days later  |
 * | challenges of passkeys         | 5 minutes after the request          | at once        |
 * | device requests                | 10 minutes after their start         | a day later    |
 * | requests for access            | 7 days after they were made          | at once        |
 * | OAuth codes and tokens         | as `src/oauth/Configuration.ts` says | a day later    |
 * | OAuth grants                   | 30 days after the consent, or before | 30 days later  |
 * | OAuth requests                 | without a decision in time           | at once        |
 * | OAuth clients                  | without a grant: 90 days after the last use, or a day after registration if never used | at once |
 * | tokens of machines             | as their trust rule says             | a day later    |
 * | assertions of machines         | with the JWT                         | at once        |
 *
 * A credential revoked or used before its end keeps its row until the date above. Until then the refusal names the
 * reason (CREDENTIAL_EXPIRED, CREDENTIAL_REVOKED); afterwards the text is unknown (CREDENTIAL_INVALID). The trail keeps
 * its entries.
 *
 * `src/secrets/Maintenance.ts` deletes idempotency keys after 24 hours and deleted secrets after 30 days. API tokens that
 * a person made stay: `DELETE /me/token` with a revoked one answers 200 however often, and an expired one is its team's
 * to delete.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import type * as Statement from "@effect/sql/Statement"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { days } from "#src/Days.ts"
import * as Housekeeping from "#src/Housekeeping.ts"

/** Rows per statement, so that a purge never blocks requests. */
export const batch = 500

/** Skips locked rows; the next purge deletes them. */
const deleteDue = (sql: SqlClient.SqlClient, table: string, due: Statement.Fragment) =>
  sql`
    DELETE FROM ${sql(table)} WHERE ctid = any(array(
      SELECT ctid FROM ${sql(table)} WHERE ${due} LIMIT ${batch} FOR UPDATE SKIP LOCKED))
    RETURNING 1`.pipe(Effect.repeat({ while: (rows) => rows.length === batch }))

export const purge = Effect.fnUntraced(function* (sql: SqlClient.SqlClient) {
  const now = yield* Clock.currentTimeMillis
  const before = (n: number) => new Date(now - days(n))
  const ended = (n: number) => sql`expires_at < ${before(n)}`
  const due: ReadonlyArray<readonly [table: string, due: Statement.Fragment]> = [
    ["sessions", ended(30)],
    ["invitations", ended(30)],
    ["password_resets", ended(30)],
    ["cli_grants", ended(30)],
    ["known_devices", ended(30)],
    ["sign_in_steps", ended(0)],
    ["passkey_challenges", ended(0)],
    ["device_requests", ended(1)],
    ["access_requests", ended(0)],
    ["second_person_requests", ended(0)],
    ["change_requests", ended(0)],
    ["oauth_interactions", ended(0)],
    ["oauth_codes", ended(1)],
    ["oauth_access_tokens", ended(1)],
    ["oauth_refresh_tokens", ended(1)],
    ["oauth_grants", sql`${ended(30)} OR revoked_at < ${before(30)}`],
    [
      "oauth_clients",
      sql`NOT EXISTS (SELECT 1 FROM oauth_grants g WHERE g.client_id = oauth_clients.id AND g.revoked_at IS NULL)
        AND (last_used_at < ${before(90)} OR (last_used_at = created_at AND created_at < ${before(1)}))`
    ],
    ["machine_assertions", ended(0)],
    ["api_tokens", sql`rule_id IS NOT NULL AND ${ended(1)}`]
  ]
  for (const [table, condition] of due) yield* deleteDue(sql, table, condition)
})

export const layer = Layer.scopedDiscard(
  Effect.flatMap(SqlClient.SqlClient, (sql) => Housekeeping.every("1 hour", purge(sql), "purge of credentials"))
)

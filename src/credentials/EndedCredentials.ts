/**
 * Forgets credentials that ended long ago, so that their tables do not grow for ever:
 *
 * | what                     | ends, used or not                    | forgotten      |
 * |--------------------------|--------------------------------------|----------------|
 * | sessions                 | 7 days after sign-in                 | 30 days later  |
 * | invitations              | 7 days after they were made          | 30 days later  |
 * | password reset links     | a day after they were made           | 30 days later  |
 * | CLI grants               | 180 days after their delivery        | 30 days later  |
 * | known devices            | 90 days after the last sign-in       | 30 days later  |
 *
 * What was revoked or used before its end stays as long as it would have without that: until it is forgotten, the
 * refusal says what became of it (CREDENTIAL_EXPIRED, CREDENTIAL_REVOKED); from then on it is as unknown as any other
 * text (CREDENTIAL_INVALID). The trail keeps its entries.
 *
 * Elsewhere: device requests a day after their end (`DeviceGrants`), OAuth codes and tokens a day, consents 30 days
 * (`src/oauth/Purge.ts`), tokens and assertions of machines (`src/machines/Exchange.ts`), idempotency keys after 24
 * hours and deleted secrets after 30 days (`src/secrets/Maintenance.ts`). API tokens that a person made stay: a revoked
 * one is answered 200 by `DELETE /me/token` however often, and an expired one is its team's to delete.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { days } from "#src/Days.ts"
import * as Housekeeping from "#src/Housekeeping.ts"

const tables = ["sessions", "invitations", "password_resets", "cli_grants", "known_devices"] as const

/** Milliseconds. */
const kept = days(30)
/** Rows of one statement: a purge never holds up the requests. */
export const batch = 500

export class EndedCredentials extends Effect.Service<EndedCredentials>()("credentials/EndedCredentials", {
  scoped: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient

    /** Passes over what someone is changing right now: it is there the next time. */
    const forget = Effect.fnUntraced(function* (table: (typeof tables)[number]) {
      const before = new Date((yield* Clock.currentTimeMillis) - kept)
      const forgotten = yield* sql`
        DELETE FROM ${sql(table)} WHERE id IN (
          SELECT id FROM ${sql(table)} WHERE expires_at < ${before}
          ORDER BY expires_at LIMIT ${batch} FOR UPDATE SKIP LOCKED)
        RETURNING id`
      return forgotten.length
    })

    const purge = Effect.forEach(
      tables,
      (table) => Effect.repeat(forget(table), { while: (forgotten) => forgotten === batch }),
      { discard: true }
    )
    yield* Housekeeping.every("1 hour", purge)

    return { purge: Effect.orDie(purge) } as const
  })
}) {}

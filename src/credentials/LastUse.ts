/** Last use of tokens, grants and sessions, written in the background: never on the request path. */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Housekeeping from "#src/Housekeeping.ts"
import { RequestInfo } from "#src/database/RequestInfo.ts"

interface Use {
  readonly at: number
  readonly ip: string
  readonly userAgent: string | null
}
export type UsedTable = "api_tokens" | "cli_grants" | "oauth_grants" | "sessions"
const tables: ReadonlyArray<UsedTable> = ["api_tokens", "cli_grants", "oauth_grants", "sessions"]

/** Minimum milliseconds between two noted uses of one credential. */
export const noteInterval = 60_000
const maxUserAgent = 256

export class LastUse extends Effect.Service<LastUse>()("credentials/LastUse", {
  scoped: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const pending = new Map<UsedTable, Map<string, Use>>(tables.map((t) => [t, new Map()]))

    /** `at`: milliseconds since 1970. */
    const note = (table: UsedTable, id: string, at: number) =>
      Effect.map(RequestInfo, ({ ip, userAgent }) => {
        pending.get(table)?.set(id, { at, ip, userAgent: userAgent?.slice(0, maxUserAgent) ?? null })
      })

    /**
     * Writes pending uses, one statement per table. Only one flush runs at a time, so its end means that all earlier
     * uses are written. Rows that another transaction has locked are skipped: a flush never waits for a lock.
     */
    const flushing = yield* Effect.makeSemaphore(1)
    const flush = Effect.gen(function* () {
      for (const table of tables) {
        const uses = [...(pending.get(table) ?? [])]
        if (uses.length === 0) continue
        pending.set(table, new Map())
        yield* sql`
          UPDATE ${sql(table)} SET last_used_at = u.at, last_used_ip = u.ip, last_used_user_agent = u.user_agent
          FROM unnest(
            ${uses.map(([id]) => id)}::uuid[],
            ${uses.map(([, use]) => new Date(use.at).toISOString())}::timestamptz[],
            ${uses.map(([, use]) => use.ip)}::text[],
            ${uses.map(([, use]) => use.userAgent)}::text[]
          ) AS u (id, at, ip, user_agent)
          JOIN (
            SELECT id FROM ${sql(table)} WHERE id = any(${uses.map(([id]) => id)}::uuid[]) FOR UPDATE SKIP LOCKED
          ) AS free ON free.id = u.id
          WHERE ${sql(table)}.id = u.id AND (last_used_at IS NULL OR last_used_at < u.at)`
      }
    }).pipe(flushing.withPermits(1))

    // The next use repeats a failed write; a failed write never fails a request.
    yield* Housekeeping.every("2 seconds", flush)
    yield* Effect.addFinalizer(() => Effect.ignore(flush))

    return { note, flush: Effect.orDie(flush) } as const
  })
}) {}

/**
 * Sessions of the protocol revisions that have them, in the database: any process serves any of them. A session is no
 * proof of anything: each request brings its credential, and a session is there for whoever opened it only.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { RateLimited } from "#schema/Errors.ts"
import { base62, Crypto } from "#src/crypto/Crypto.ts"
import { EventBus } from "#src/events/EventBus.ts"
import * as Housekeeping from "#src/Housekeeping.ts"

export const idleMillis = 30 * 60_000
export const perPrincipal = 20
export const inTotal = 2_000
/** Resources that one session listens to. */
export const maxSubscriptions = 50
/** A session in steady use is written at most this often. */
const touchMillis = 60_000

export interface Session {
  readonly id: string
  readonly protocolVersion: string
  readonly clientCapabilities: Readonly<Record<string, unknown>>
  readonly subscriptions: ReadonlyArray<string>
}

/** What a process that serves the session's stream listens to; says nothing of the session. */
export const topic = (id: string) => `mcp:${id.slice(0, 12)}`

export class Sessions extends Effect.Service<Sessions>()("mcp/Sessions", {
  scoped: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const crypto = yield* Crypto
    const bus = yield* EventBus

    const reap = Effect.flatMap(
      Clock.currentTimeMillis,
      (now) => sql`DELETE FROM mcp_sessions WHERE last_seen_at <= ${new Date(now - idleMillis)}`
    )

    /**
     * Opens a session. A principal's least recently used one makes room for its twenty-first, since clients forget to
     * end them; nobody makes room for others.
     */
    const open = Effect.fn("Sessions.open")(
      function* (
        principal: string,
        given: { readonly protocolVersion: string; readonly clientCapabilities: Readonly<Record<string, unknown>> }
      ) {
        const id = yield* crypto.randomText(base62, 32)
        const now = new Date(yield* Clock.currentTimeMillis)
        yield* sql.withTransaction(
          Effect.gen(function* () {
            // Counting and inserting are one step for everybody.
            yield* sql`SELECT pg_advisory_xact_lock(hashtext('mcp_sessions'))`
            yield* reap
            yield* sql`
              DELETE FROM mcp_sessions WHERE id IN
                (SELECT id FROM mcp_sessions WHERE principal = ${principal}
                 ORDER BY last_seen_at DESC, id OFFSET ${perPrincipal - 1})`
            const [{ n }] = yield* sql<{ readonly n: number }>`SELECT count(*)::int AS n FROM mcp_sessions`
            if (n >= inTotal) return yield* new RateLimited({ retryAfterSeconds: 60 })
            yield* sql`INSERT INTO mcp_sessions ${sql.insert({
              id,
              principal,
              protocol_version: given.protocolVersion,
              client_capabilities: JSON.stringify(given.clientCapabilities),
              subscriptions: [],
              created_at: now,
              last_seen_at: now
            })}`
          })
        )
        return id
      },
      Effect.catchTag("SqlError", Effect.die)
    )

    /** The session, if it is the principal's and alive; counts as its use. */
    const find = Effect.fnUntraced(function* (id: string, principal: string) {
      const now = yield* Clock.currentTimeMillis
      const rows = yield* sql<Session & { readonly lastSeenAt: Date }>`
        SELECT id, protocol_version, client_capabilities, subscriptions, last_seen_at FROM mcp_sessions
        WHERE id = ${id} AND principal = ${principal} AND last_seen_at > ${new Date(now - idleMillis)}`
      const session: (Session & { readonly lastSeenAt: Date }) | undefined = rows[0]
      if (session !== undefined && now - session.lastSeenAt.getTime() >= touchMillis) {
        yield* sql`UPDATE mcp_sessions SET last_seen_at = ${new Date(now)} WHERE id = ${id}`
      }
      const found: Session | undefined = session
      return found
    }, Effect.orDie)

    /** From the next request on it is not there, on any process; its stream ends. False: it was not there. */
    const end = Effect.fn("Sessions.end")(function* (id: string, principal: string) {
      const rows = yield* sql`
        DELETE FROM mcp_sessions WHERE id = ${id} AND principal = ${principal} RETURNING id`
      if (rows.length > 0) yield* Effect.catchAllDefect(bus.publish(topic(id)), () => Effect.void)
      return rows.length > 0
    }, Effect.orDie)

    /** Adds or removes a resource that the session's stream tells about. */
    const subscribe = Effect.fn("Sessions.subscribe")(function* (id: string, uri: string, on: boolean) {
      yield* sql`
        UPDATE mcp_sessions SET subscriptions = CASE WHEN ${on}::boolean
          THEN (array_remove(subscriptions, ${uri}::text) || ${uri}::text)[1:${sql.literal(String(maxSubscriptions))}]
          ELSE array_remove(subscriptions, ${uri}::text) END
        WHERE id = ${id}`
      yield* Effect.catchAllDefect(bus.publish(topic(id)), () => Effect.void)
    }, Effect.orDie)

    yield* Housekeeping.every("5 minutes", reap)

    return { open, find, end, subscribe, reap: Effect.orDie(reap) } as const
  })
}) {}

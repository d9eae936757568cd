/**
 * Sessions of the protocol revisions that have them, in the database: any process serves any of them. A session is no
 * proof of anything: each request brings its credential, and a session is there for whoever opened it only.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { TeamId } from "#schema/Ids.ts"
import { base62, Crypto } from "#src/crypto/Crypto.ts"
import { EventBus } from "#src/events/EventBus.ts"
import * as Housekeeping from "#src/Housekeeping.ts"
import { ValueRequests } from "#src/secrets/ValueRequests.ts"

export const idleMillis = 30 * 60_000
export const perPrincipal = 20
export const perTeam = 200
export const inTotal = 2_000
/** Resources that one session listens to. */
export const maxSubscriptions = 50
/** Pages that it waits to hear of. */
export const maxElicitations = 20
/** A session in steady use is written at most this often. */
const touchMillis = 60_000

export interface Session {
  readonly id: string
  readonly protocolVersion: string
  readonly clientCapabilities: Readonly<Record<string, unknown>>
  readonly subscriptions: ReadonlyArray<string>
  /** Value requests whose page this session's client was sent to and has not heard of since. */
  readonly elicitations: ReadonlyArray<string>
}

/** What a process that serves the session's stream listens to; says nothing of the session. */
export const topic = (id: string) => `mcp:${id.slice(0, 12)}`

export class Sessions extends Effect.Service<Sessions>()("mcp/Sessions", {
  scoped: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const crypto = yield* Crypto
    const bus = yield* EventBus
    const requests = yield* ValueRequests

    const reap = Effect.flatMap(
      Clock.currentTimeMillis,
      (now) => sql`DELETE FROM mcp_sessions WHERE last_seen_at <= ${new Date(now - idleMillis)}`
    )

    /** Streams of sessions that were ended stop; each looks for its session again. */
    const tell = (ids: ReadonlyArray<{ readonly id: string }>) =>
      Effect.forEach(ids, ({ id }) => Effect.catchAllDefect(bus.publish(topic(id)), () => Effect.void), {
        discard: true
      })

    /**
     * Opens a session, always: clients forget to end theirs. Where a limit is reached, the least recently used session
     * makes room: of the principal, of the team, or of the team that has the most. So nobody's use costs a team its
     * sessions while it has fewer than others.
     */
    const open = Effect.fn("Sessions.open")(
      function* (
        { principal, teamId }: { readonly principal: string; readonly teamId: TeamId | null },
        given: { readonly protocolVersion: string; readonly clientCapabilities: Readonly<Record<string, unknown>> }
      ) {
        const id = yield* crypto.randomText(base62, 32)
        const now = new Date(yield* Clock.currentTimeMillis)
        const ended = yield* sql.withTransaction(
          Effect.gen(function* () {
            // Counting and inserting are one step for everybody.
            yield* sql`SELECT pg_advisory_xact_lock(hashtext('mcp_sessions'))`
            yield* reap
            const beyondShare = yield* sql<{ readonly id: string }>`
              DELETE FROM mcp_sessions WHERE id IN (
                (SELECT id FROM mcp_sessions WHERE principal = ${principal}
                 ORDER BY last_seen_at DESC, id OFFSET ${perPrincipal - 1})
                UNION ALL
                (SELECT id FROM mcp_sessions WHERE team_id IS NOT DISTINCT FROM ${teamId}::uuid
                 ORDER BY last_seen_at DESC, id OFFSET ${perTeam - 1}))
              RETURNING id`
            const beyondTotal = yield* sql<{ readonly id: string }>`
              DELETE FROM mcp_sessions WHERE id IN (
                SELECT id FROM mcp_sessions
                WHERE team_id IS NOT DISTINCT FROM (
                  SELECT team_id FROM mcp_sessions GROUP BY team_id ORDER BY count(*) DESC, min(last_seen_at) LIMIT 1)
                ORDER BY last_seen_at, id
                LIMIT greatest(0, (SELECT count(*) FROM mcp_sessions) - ${inTotal - 1}::int))
              RETURNING id`
            yield* sql`INSERT INTO mcp_sessions ${sql.insert({
              id,
              principal,
              team_id: teamId,
              protocol_version: given.protocolVersion,
              client_capabilities: JSON.stringify(given.clientCapabilities),
              subscriptions: [],
              created_at: now,
              last_seen_at: now
            })}`
            return [...beyondShare, ...beyondTotal]
          })
        )
        yield* tell(ended)
        return id
      },
      Effect.catchTag("SqlError", Effect.die)
    )

    /** The session, if it is the principal's and alive; counts as its use. */
    const find = Effect.fnUntraced(function* (id: string, principal: string) {
      const now = yield* Clock.currentTimeMillis
      const rows = yield* sql<Session & { readonly lastSeenAt: Date }>`
        SELECT id, protocol_version, client_capabilities, subscriptions, elicitations, last_seen_at FROM mcp_sessions
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
      if (rows.length > 0) yield* tell([{ id }])
      return rows.length > 0
    }, Effect.orDie)

    /** Adds or removes a resource that the session's stream tells about. */
    const subscribe = Effect.fn("Sessions.subscribe")(function* (id: string, uri: string, on: boolean) {
      yield* sql`
        UPDATE mcp_sessions SET subscriptions = CASE WHEN ${on}::boolean
          THEN (array_remove(subscriptions, ${uri}::text) || ${uri}::text)[1:${sql.literal(String(maxSubscriptions))}]
          ELSE array_remove(subscriptions, ${uri}::text) END
        WHERE id = ${id}`
      yield* tell([{ id }])
    }, Effect.orDie)

    /** The session's client was sent to the page of this request. */
    const elicit = Effect.fn("Sessions.elicit")(function* (id: string, requestId: string) {
      yield* sql`
        UPDATE mcp_sessions SET elicitations =
          (${requestId}::uuid || array_remove(elicitations, ${requestId}::uuid))[1:${sql.literal(String(maxElicitations))}]
        WHERE id = ${id}`
    }, Effect.orDie)

    /** Requests of the session that a person answered since; each is told once, whoever asks. */
    const completed = Effect.fn("Sessions.completed")(function* ({ elicitations, id }: Session) {
      if (elicitations.length === 0) return []
      const { waiting } = yield* requests.standings(elicitations)
      if (waiting.length === elicitations.length) return []
      return yield* sql.withTransaction(
        Effect.gen(function* () {
          const rows = yield* sql<Pick<Session, "elicitations">>`
            SELECT elicitations FROM mcp_sessions WHERE id = ${id} FOR UPDATE`
          const { answered, waiting } = yield* requests.standings(rows[0]?.elicitations ?? [])
          yield* sql`UPDATE mcp_sessions SET elicitations = ${waiting}::uuid[] WHERE id = ${id}`
          return answered
        })
      )
    }, Effect.orDie)

    yield* Housekeeping.every("5 minutes", reap)

    return { open, find, end, subscribe, elicit, completed, reap: Effect.orDie(reap) } as const
  })
}) {}

/**
 * Sessions of the older protocol revisions. The database stores them, so any process serves any session. A session is
 * no credential: each request carries its own, and only the principal that opened a session can use it.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { TeamId } from "#schema/Ids.ts"
import { days } from "#src/Days.ts"
import * as GroupCommit from "#src/database/GroupCommit.ts"
import { base62, Crypto } from "#src/crypto/Crypto.ts"
import { EventBus } from "#src/events/EventBus.ts"
import * as Housekeeping from "#src/Housekeeping.ts"
import { methods } from "#src/Methods.ts"
import * as Rows from "#src/database/Rows.ts"
import { ValueRequests } from "#src/secrets/ValueRequests.ts"

/** A laptop that slept for a night goes on: clients of these revisions do not initialize again by themselves. */
const idleMillis = days(1)
export const perPrincipal = 100
export const perTeam = 1_000
export const inTotal = 10_000
/** Resources that one session may follow. */
const maxSubscriptions = 50
/** Open pages that one session may wait for. */
const maxElicitations = 20
/** Milliseconds between two writes of a session's last use. */
const touchMillis = 60_000

const sessionFields = {
  id: Schema.String,
  protocolVersion: Schema.String,
  clientCapabilities: Schema.Record({ key: Schema.String, value: Schema.Unknown }),
  subscriptions: Schema.Array(Schema.String),
  /** Value requests whose page this session's client opened, and whose result it has not received yet. */
  elicitations: Schema.Array(Schema.String)
}
const SessionRow = Schema.Struct({ ...sessionFields, place: Schema.Number, lastSeenAt: Schema.DateFromSelf })
export type Session = Omit<typeof SessionRow.Type, "place" | "lastSeenAt">
const IdRow = Schema.Struct({ id: Schema.String })
const ElicitationsRow = Schema.Struct({ elicitations: sessionFields.elicitations })

/** Topic of the process that serves the session's stream. The prefix of the id gives no access to the session. */
export const topic = (id: string) => `mcp:${id.slice(0, 12)}`

const services = Effect.all({ sql: SqlClient.SqlClient, crypto: Crypto, bus: EventBus, requests: ValueRequests })
type Services = Effect.Effect.Success<typeof services>

/** Deletes idle sessions. */
const reap = ({ sql }: Pick<Services, "sql">) =>
  Effect.flatMap(Clock.currentTimeMillis, (now) =>
    Rows.run(sql`DELETE FROM mcp_sessions WHERE last_seen_at <= ${new Date(now - idleMillis)}`)
  )

/** Makes the streams of these sessions read their session again; streams of ended sessions stop. */
const notifyStreams = ({ bus }: Services, ids: ReadonlyArray<{ readonly id: string }>) =>
  Effect.forEach(ids, ({ id }) => Effect.catchAllDefect(bus.publish(topic(id)), () => Effect.void), { discard: true })

interface Opening extends Pick<Session, "id" | "protocolVersion" | "clientCapabilities"> {
  readonly principal: string
  readonly teamId: TeamId | null
}

const countBy = <Key>(openings: ReadonlyArray<Opening>, of: (opening: Opening) => Key): ReadonlyMap<Key, number> => {
  const counts = new Map<Key, number>()
  for (const opening of openings) counts.set(of(opening), (counts.get(of(opening)) ?? 0) + 1)
  return counts
}

/** Deletes the least recently used sessions beyond the shares of each principal, of each team, and of all. */
const makeRoom = Effect.fnUntraced(function* ({ sql }: Services, openings: ReadonlyArray<Opening>) {
  const principals = countBy(openings, ({ principal }) => principal)
  const teams = countBy(openings, ({ teamId }) => teamId)
  const beyondShare = yield* Rows.findAll(
    IdRow,
    sql`
      DELETE FROM mcp_sessions WHERE id IN (
        (SELECT o.id FROM unnest(${[...principals.keys()]}::text[], ${[...principals.values()]}::int[]) AS n (principal, opens),
           LATERAL (SELECT s.id FROM mcp_sessions s WHERE s.principal = n.principal
             ORDER BY s.last_seen_at DESC, s.id OFFSET greatest(0, ${perPrincipal}::int - n.opens)) o)
        UNION ALL
        (SELECT o.id FROM unnest(${[...teams.keys()]}::uuid[], ${[...teams.values()]}::int[]) AS n (team_id, opens),
           LATERAL (SELECT s.id FROM mcp_sessions s WHERE s.team_id IS NOT DISTINCT FROM n.team_id
             ORDER BY s.last_seen_at DESC, s.id OFFSET greatest(0, ${perTeam}::int - n.opens)) o))
      RETURNING id`
  )
  const beyondTotal = yield* Rows.findAll(
    IdRow,
    sql`
      DELETE FROM mcp_sessions WHERE id IN (
        SELECT id FROM mcp_sessions
        WHERE team_id IS NOT DISTINCT FROM (
          SELECT team_id FROM mcp_sessions GROUP BY team_id ORDER BY count(*) DESC, min(last_seen_at) LIMIT 1)
        ORDER BY last_seen_at, id
        LIMIT greatest(0, (SELECT count(*) FROM mcp_sessions) - ${inTotal - openings.length}::int))
      RETURNING id`
  )
  return [...beyondShare, ...beyondTotal]
})

/** Batches openings: sessions that open at the same time wait for the same lock, so they share one transaction. */
const openings = (needs: Services) =>
  GroupCommit.make({
    // At most a principal's limit, so that no session of a batch evicts another one.
    maxBatch: perPrincipal,
    maxInFlight: 1,
    run: Effect.fnUntraced(function* (batch: ReadonlyArray<Opening>) {
      const { sql } = needs
      const now = new Date(yield* Clock.currentTimeMillis)
      const evicted = yield* Rows.transaction(sql, function* () {
        // No other process counts or inserts between this count and this insert.
        yield* sql`SELECT pg_advisory_xact_lock(hashtext('mcp_sessions'))`
        yield* reap(needs)
        const deleted = yield* makeRoom(needs, batch)
        yield* sql`
          INSERT INTO mcp_sessions (id, principal, team_id, protocol_version, client_capabilities, subscriptions,
            created_at, last_seen_at)
          SELECT o.id, o.principal, o.team_id, o.protocol_version, o.client_capabilities::jsonb, '{}', ${now}, ${now}
          FROM unnest(${batch.map(({ id }) => id)}::text[], ${batch.map(({ principal }) => principal)}::text[],
            ${batch.map(({ teamId }) => teamId)}::uuid[], ${batch.map((one) => one.protocolVersion)}::text[],
            ${batch.map((one) => JSON.stringify(one.clientCapabilities))}::text[])
            AS o (id, principal, team_id, protocol_version, client_capabilities)`
        return deleted
      })
      yield* notifyStreams(needs, evicted)
      return batch.map(() => undefined)
    })
  })

interface Sought {
  readonly id: string
  readonly principal: string
}

/** Batches look-ups: those that arrive during a statement share the next one. */
const lookUps = ({ sql }: Services) =>
  GroupCommit.make({
    maxBatch: 128,
    maxInFlight: 1,
    run: Effect.fnUntraced(function* (batch: ReadonlyArray<Sought>) {
      const now = yield* Clock.currentTimeMillis
      const rows = yield* Rows.findAll(
        SessionRow,
        sql`
          SELECT q.place::int AS place, s.id, s.protocol_version, s.client_capabilities, s.subscriptions, s.elicitations,
            s.last_seen_at
          FROM unnest(${batch.map(({ id }) => id)}::text[], ${batch.map(({ principal }) => principal)}::text[])
            WITH ORDINALITY AS q (id, principal, place)
          JOIN mcp_sessions s ON s.id = q.id AND s.principal = q.principal AND s.last_seen_at > ${new Date(now - idleMillis)}`
      )
      const unseen = rows.filter(({ lastSeenAt }) => now - lastSeenAt.getTime() >= touchMillis)
      if (unseen.length > 0) {
        yield* sql`
          UPDATE mcp_sessions SET last_seen_at = ${new Date(now)} WHERE id = any(${unseen.map(({ id }) => id)}::text[])`
      }
      const byPlace = new Map(rows.map(({ place, ...session }) => [place, session]))
      return batch.map((_, i): Session | undefined => byPlace.get(i + 1))
    }, Effect.orDie)
  })

type Needs = Services & {
  readonly insert: Effect.Effect.Success<ReturnType<typeof openings>>
  readonly lookUp: Effect.Effect.Success<ReturnType<typeof lookUps>>
}

/**
 * Always opens a session, because clients forget to end theirs. At a limit, the least recently used session ends: of
 * the principal, of the team, or of the team with the most sessions. A team with fewer sessions than others keeps its
 * own.
 */
const open = Effect.fn("Sessions.open")(function* (
  { crypto, insert }: Needs,
  owner: Pick<Opening, "principal" | "teamId">,
  client: Pick<Session, "protocolVersion" | "clientCapabilities">
) {
  const id = yield* crypto.randomText(base62, 32)
  yield* insert({ id, ...owner, ...client })
  return id
})

/** The principal's live session; counts as a use. */
const find = ({ lookUp }: Needs, id: string, principal: string) => lookUp({ id, principal })

/** Ends the session on all processes from the next request on, and ends its stream. */
const end = Effect.fn("Sessions.end")(function* (needs: Needs, id: string, principal: string) {
  const existed = yield* Rows.exists(needs.sql`
    DELETE FROM mcp_sessions WHERE id = ${id} AND principal = ${principal} RETURNING id`)
  if (existed) yield* notifyStreams(needs, [{ id }])
})

/** Adds or removes a resource that the session's stream follows. */
const subscribe = Effect.fn("Sessions.subscribe")(function* (needs: Needs, id: string, uri: string, on: boolean) {
  const { sql } = needs
  yield* Rows.run(sql`
    UPDATE mcp_sessions SET subscriptions = CASE WHEN ${on}::boolean
      THEN (array_remove(subscriptions, ${uri}::text) || ${uri}::text)[1:${sql.literal(String(maxSubscriptions))}]
      ELSE array_remove(subscriptions, ${uri}::text) END
    WHERE id = ${id}`)
  yield* notifyStreams(needs, [{ id }])
})

/** Records that the session's client opened the page of this request. */
const elicit = Effect.fn("Sessions.elicit")(function* ({ sql }: Needs, id: string, requestId: string) {
  yield* Rows.run(sql`
    UPDATE mcp_sessions SET elicitations =
      (${requestId}::uuid || array_remove(elicitations, ${requestId}::uuid))[1:${sql.literal(String(maxElicitations))}]
    WHERE id = ${id}`)
})

/** Requests of the session that a person has answered since the last call. */
const completed = Effect.fn("Sessions.completed")(function* ({ requests, sql }: Needs, { elicitations, id }: Session) {
  if (elicitations.length === 0) return []
  const { waiting } = yield* requests.states(elicitations)
  if (waiting.length === elicitations.length) return []
  return yield* Rows.transaction(sql, function* () {
    const row = yield* Rows.findOne(
      ElicitationsRow,
      sql`SELECT elicitations FROM mcp_sessions WHERE id = ${id} FOR UPDATE`
    )
    const { answered, waiting } = yield* requests.states(row?.elicitations ?? [])
    yield* sql`UPDATE mcp_sessions SET elicitations = ${waiting}::uuid[] WHERE id = ${id}`
    return answered
  })
})

export class Sessions extends Effect.Service<Sessions>()("mcp/Sessions", {
  scoped: Effect.gen(function* () {
    const base = yield* services
    const needs: Needs = { ...base, insert: yield* openings(base), lookUp: yield* lookUps(base) }
    yield* Housekeeping.every("5 minutes", reap(needs))
    return methods(needs, { open, find, end, subscribe, elicit, completed, reap })
  })
}) {}

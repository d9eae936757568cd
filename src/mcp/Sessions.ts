/**
 * Sessions of the protocol revisions that have them. They are in the database, so any process serves any of them. A
 * session proves nothing: each request brings its credential, and only the principal that opened a session can use it.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { TeamId } from "#schema/Ids.ts"
import * as GroupCommit from "#src/database/GroupCommit.ts"
import { base62, Crypto } from "#src/crypto/Crypto.ts"
import { EventBus } from "#src/events/EventBus.ts"
import * as Housekeeping from "#src/Housekeeping.ts"
import { methods } from "#src/Methods.ts"
import * as Rows from "#src/database/Rows.ts"
import { ValueRequests } from "#src/secrets/ValueRequests.ts"

const idleMillis = 30 * 60_000
export const perPrincipal = 20
export const perTeam = 200
export const inTotal = 2_000
/** Resources that one session listens to. */
const maxSubscriptions = 50
/** Pages that it waits to hear of. */
const maxElicitations = 20
/** A session in steady use is written at most this often. */
const touchMillis = 60_000

const sessionFields = {
  id: Schema.String,
  protocolVersion: Schema.String,
  clientCapabilities: Schema.Record({ key: Schema.String, value: Schema.Unknown }),
  subscriptions: Schema.Array(Schema.String),
  /** Value requests whose page this session's client was sent to, and which it has not heard of since. */
  elicitations: Schema.Array(Schema.String)
}
const SessionRow = Schema.Struct({ ...sessionFields, place: Schema.Number, lastSeenAt: Schema.DateFromSelf })
export type Session = Omit<typeof SessionRow.Type, "place" | "lastSeenAt">
const IdRow = Schema.Struct({ id: Schema.String })
const ElicitationsRow = Schema.Struct({ elicitations: sessionFields.elicitations })

/** The topic that a process listens to while it serves the session's stream; it reveals nothing of the session. */
export const topic = (id: string) => `mcp:${id.slice(0, 12)}`

const services = Effect.all({ sql: SqlClient.SqlClient, crypto: Crypto, bus: EventBus, requests: ValueRequests })
type Services = Effect.Effect.Success<typeof services>

/** Deletes sessions that were idle for too long. */
const reap = ({ sql }: Pick<Services, "sql">) =>
  Effect.flatMap(Clock.currentTimeMillis, (now) =>
    Rows.run(sql`DELETE FROM mcp_sessions WHERE last_seen_at <= ${new Date(now - idleMillis)}`)
  )

/** Makes streams of these sessions look for their session again; those of ended sessions stop. */
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

/** Those that clients open at the same time share one transaction: all of them wait for the same lock. */
const openings = (needs: Services) =>
  GroupCommit.make({
    // No more than a principal may have: each that is opened is there.
    maxBatch: perPrincipal,
    maxInFlight: 1,
    run: Effect.fnUntraced(function* (batch: ReadonlyArray<Opening>) {
      const { sql } = needs
      const now = new Date(yield* Clock.currentTimeMillis)
      const ended = yield* Rows.transaction(sql, function* () {
        // No other process counts or inserts between this count and this insert.
        yield* sql`SELECT pg_advisory_xact_lock(hashtext('mcp_sessions'))`
        yield* reap(needs)
        const removed = yield* makeRoom(needs, batch)
        yield* sql`
          INSERT INTO mcp_sessions (id, principal, team_id, protocol_version, client_capabilities, subscriptions,
            created_at, last_seen_at)
          SELECT o.id, o.principal, o.team_id, o.protocol_version, o.client_capabilities::jsonb, '{}', ${now}, ${now}
          FROM unnest(${batch.map(({ id }) => id)}::text[], ${batch.map(({ principal }) => principal)}::text[],
            ${batch.map(({ teamId }) => teamId)}::uuid[], ${batch.map((one) => one.protocolVersion)}::text[],
            ${batch.map((one) => JSON.stringify(one.clientCapabilities))}::text[])
            AS o (id, principal, team_id, protocol_version, client_capabilities)`
        return removed
      })
      yield* notifyStreams(needs, ended)
      return batch.map(() => undefined)
    })
  })

interface Sought {
  readonly id: string
  readonly principal: string
}

/** Look-ups that come while a statement is under way share the next one. */
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
      const found = new Map(rows.map(({ place, ...session }) => [place, session]))
      return batch.map((_, i): Session | undefined => found.get(i + 1))
    }, Effect.orDie)
  })

type Needs = Services & {
  readonly opened: Effect.Effect.Success<ReturnType<typeof openings>>
  readonly lookUp: Effect.Effect.Success<ReturnType<typeof lookUps>>
}

/**
 * Always opens a session, because clients forget to end theirs. Where a limit is reached, the least recently used
 * session makes room: of the principal, of the team, or of the team that has the most. So a team keeps its sessions,
 * however many others are opened, while it has fewer than others.
 */
const open = Effect.fn("Sessions.open")(function* (
  { crypto, opened }: Needs,
  owner: Pick<Opening, "principal" | "teamId">,
  agreed: Pick<Session, "protocolVersion" | "clientCapabilities">
) {
  const id = yield* crypto.randomText(base62, 32)
  yield* opened({ id, ...owner, ...agreed })
  return id
})

/** The session, if it is the principal's and alive; counts as its use. */
const find = ({ lookUp }: Needs, id: string, principal: string) => lookUp({ id, principal })

/** From the next request on the session does not exist, on any process, and its stream ends. */
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

/** Remembers that the session's client was sent to the page of this request. */
const elicit = Effect.fn("Sessions.elicit")(function* ({ sql }: Needs, id: string, requestId: string) {
  yield* Rows.run(sql`
    UPDATE mcp_sessions SET elicitations =
      (${requestId}::uuid || array_remove(elicitations, ${requestId}::uuid))[1:${sql.literal(String(maxElicitations))}]
    WHERE id = ${id}`)
})

/** Requests of the session that a person answered since; each is returned once. */
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
    const used = yield* services
    const needs: Needs = { ...used, opened: yield* openings(used), lookUp: yield* lookUps(used) }
    yield* Housekeeping.every("5 minutes", reap(needs))
    return methods(needs, { open, find, end, subscribe, elicit, completed, reap })
  })
}) {}

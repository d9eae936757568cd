/**
 * Sends the deliveries of the outbox (src/trail/Outbox.ts), at least once and in no order. A delivery is leased before
 * it is sent, and its result is stored afterwards. When a process dies in between, the lease ends and another process
 * sends it again. A process that stops waits briefly for responses, and releases its other leases at once.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import type * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Queue from "effect/Queue"
import * as Schema from "effect/Schema"
import { TeamIdOut, type TeamId, type WebhookId, WebhookIdOut } from "#schema/Ids.ts"
import { type WebhookDelivery, WebhookFormat } from "#schema/WebhooksApi.ts"
import { days } from "#src/Days.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import * as Housekeeping from "#src/Housekeeping.ts"
import { Outbound } from "#src/outbound/Outbound.ts"
import { RowSeal } from "#src/rows/RowSeal.ts"
import * as Rows from "#src/database/Rows.ts"
import { slackBody } from "./SlackText.ts"
import { AttemptLog } from "./Webhooks.ts"
import { sign, WebhookSecrets } from "./WebhookSecrets.ts"

/** Milliseconds until a receiver must respond. */
const responseMillis = 10_000
/** Milliseconds; longer than a delivery can take. */
export const lease = 60_000
export const retryPeriod = days(1)
const retention = days(7)
const firstPause = 5_000
const maxPause = 3_600_000
/** Parallel deliveries of one process, for one team, and to one webhook. Slow receivers leave room for others. */
const maxParallel = 32
const maxParallelTeam = 16
const maxParallelWebhook = 4
const maxLoggedAttempts = 10
/** Milliseconds that a stopping process waits for receivers. */
const stopMillis = 3_000
/** Milliseconds between polls of the outbox while receivers are slow. */
const pollMillis = 1_000
const wallClock = Clock.make()

/**
 * Milliseconds before the next attempt; doubles with every attempt. `random` (0 to 1) spreads receivers that failed
 * together.
 */
export const pauseAfter = (attempts: number, random: number): number =>
  Math.min(maxPause, firstPause * 2 ** Math.min(attempts - 1, 20)) * (0.5 + random)

const services = Effect.all({
  sql: SqlClient.SqlClient,
  crypto: Crypto,
  rowSeal: RowSeal,
  secrets: WebhookSecrets,
  outbound: Outbound
})
type Needs = Effect.Effect.Success<typeof services>

const LeaseRow = Schema.Struct({
  webhookId: WebhookIdOut,
  teamId: TeamIdOut,
  eventId: Schema.String,
  event: Schema.String,
  body: Schema.String,
  attempts: Schema.Number,
  log: AttemptLog,
  createdAt: Schema.DateFromSelf,
  url: Schema.String,
  events: Schema.NullOr(Schema.Array(Schema.String)),
  format: WebhookFormat,
  enabled: Schema.Boolean,
  mac: Schema.NullOr(Schema.Uint8ArrayFromSelf),
  /** Slug of the event's project; null for other formats and for events without a project that still exists. */
  project: Schema.NullOr(Schema.String)
})
type LeaseRow = typeof LeaseRow.Type

const SecretRow = Schema.Struct({
  id: Schema.String,
  webhookId: WebhookIdOut,
  bound: Schema.Boolean,
  rootKeyId: Schema.String,
  wrapped: Schema.Uint8ArrayFromSelf,
  endsAt: Schema.NullOr(Schema.DateFromSelf)
})
type SecretRow = typeof SecretRow.Type

/** Deliveries that this process is sending to one webhook. */
interface Sending {
  readonly teamId: TeamId
  readonly n: number
}

type Attempt = Omit<WebhookDelivery["log"][number], "at">

/**
 * Leases due deliveries that no other process has. Teams take turns, so that one backlog does not delay the others;
 * each team's oldest come first. EXISTS makes the usual case cheap, when nothing is due. `sending`: webhooks that this
 * process is sending to, which get no more.
 */
const take = Effect.fnUntraced(function* ({ sql }: Needs, atMost: number, sending: ReadonlyMap<WebhookId, Sending>) {
  const now = yield* Clock.currentTimeMillis
  const busy = [...sending.values()]
  return yield* Rows.findAll(
    LeaseRow,
    sql`
      WITH due AS (
        SELECT r.webhook_id, r.event_id FROM (
          SELECT q.webhook_id, q.event_id, q.next_at,
            row_number() OVER (PARTITION BY w.team_id ORDER BY q.next_at)
              + coalesce((SELECT sum(b.n) FROM unnest(
                  ${busy.map(({ teamId }) => teamId)}::uuid[], ${busy.map(({ n }) => n)}::int[]
                ) AS b (team_id, n) WHERE b.team_id = w.team_id), 0) AS place
          FROM webhooks w CROSS JOIN LATERAL (
            SELECT d.webhook_id, d.event_id, d.next_at FROM webhook_deliveries d
            WHERE d.webhook_id = w.id AND d.state = 'pending' AND d.next_at <= ${new Date(now)}
            ORDER BY d.next_at LIMIT ${maxParallelWebhook}
          ) q
          WHERE w.enabled AND w.id <> ALL(${[...sending.keys()]}::uuid[])
            AND EXISTS (SELECT 1 FROM webhook_deliveries WHERE state = 'pending' AND next_at <= ${new Date(now)})
        ) r
        WHERE r.place <= ${maxParallelTeam} ORDER BY r.place, r.next_at LIMIT ${atMost}
      ), taken AS (
        SELECT d.webhook_id, d.event_id FROM webhook_deliveries d JOIN due USING (webhook_id, event_id)
        WHERE d.state = 'pending' AND d.next_at <= ${new Date(now)}
        FOR UPDATE OF d SKIP LOCKED
      )
      UPDATE webhook_deliveries d SET attempts = d.attempts + 1, next_at = ${new Date(now + lease)}
      FROM taken t JOIN webhooks w ON w.id = t.webhook_id
      WHERE d.webhook_id = t.webhook_id AND d.event_id = t.event_id
      RETURNING d.webhook_id, w.team_id, d.event_id, d.event, d.body, d.attempts, d.log, d.created_at, w.url,
        w.events, w.format, w.enabled, w.mac,
        (SELECT p.slug FROM projects p WHERE w.format = 'slack' AND p.team_id = w.team_id
          AND p.id = (d.body::jsonb ->> 'project')::uuid) AS project`
  )
})

/** Newest first: a receiver should have that secret already. */
const secretsOf = ({ sql }: Needs, rows: ReadonlyArray<LeaseRow>) =>
  Rows.findAll(
    SecretRow,
    sql`
      SELECT id, webhook_id, bound, root_key_id, wrapped, ends_at FROM webhook_secrets
      WHERE webhook_id = any(${[...new Set(rows.map((row) => row.webhookId))]}::uuid[]) ORDER BY id DESC`
  )

const keysOf = ({ secrets }: Needs, row: LeaseRow, sealed: ReadonlyArray<SecretRow>, now: number) =>
  Effect.forEach(
    sealed.filter(
      ({ endsAt, webhookId }) => webhookId === row.webhookId && (endsAt === null || endsAt.getTime() > now)
    ),
    (secret) => secrets.open(row.teamId, secret)
  )

/** An address that no server wrote gets no event. */
const checkWebhook = ({ rowSeal }: Needs, { webhookId: id, ...row }: LeaseRow) =>
  Effect.flatMap(rowSeal.ready, (macs) =>
    macs.isAuthentic("webhooks", { id, ...row }) ? Effect.void : Effect.fail("altered")
  )

/** One attempt; a failure is a result too. */
const attempt = (needs: Needs, row: LeaseRow, sealed: ReadonlyArray<SecretRow>): Effect.Effect<Attempt> =>
  Effect.gen(function* () {
    const now = yield* Clock.currentTimeMillis
    const { event, eventId, format, url, webhookId } = row
    yield* checkWebhook(needs, row)
    const body = format === "slack" ? slackBody(row.body, row.project) : row.body
    const keys = yield* Effect.mapError(keysOf(needs, row, sealed, now), () => "secret")
    const { status } = yield* Effect.mapError(
      needs.outbound.send({
        method: "POST",
        url,
        headers: {
          "content-type": "application/json",
          "ampoule-webhook-id": webhookId,
          "ampoule-event-id": eventId,
          "ampoule-event": event,
          "ampoule-signature": sign(keys, Math.floor(now / 1_000), body)
        },
        body,
        millis: responseMillis,
        maxBytes: 0,
        statusOnly: true
      }),
      ({ reason }) => reason
    )
    return { status, problem: null }
  }).pipe(Effect.catchAll((problem) => Effect.succeed({ status: null, problem })))

/** Stores the result, if this process still has the lease: `attempts` identifies it. */
const storeResult = Effect.fnUntraced(function* ({ crypto, sql }: Needs, row: LeaseRow, { problem, status }: Attempt) {
  const now = yield* Clock.currentTimeMillis
  const log = [...row.log, { at: new Date(now).toISOString(), status, problem }].slice(-maxLoggedAttempts)
  const isDelivered = status !== null && status >= 200 && status < 300
  const random = (yield* crypto.randomBytes(4)).readUInt32BE() / 2 ** 32
  const next = now + pauseAfter(row.attempts, random)
  const state = isDelivered ? "delivered" : next > row.createdAt.getTime() + retryPeriod ? "failed" : "pending"
  yield* Rows.run(sql`
    UPDATE webhook_deliveries
    SET state = ${state}, log = ${JSON.stringify(log)}::jsonb, next_at = ${new Date(next)},
      finished_at = ${state === "pending" ? null : new Date(now)}::timestamptz
    WHERE webhook_id = ${row.webhookId} AND event_id = ${row.eventId} AND attempts = ${row.attempts}
      AND state = 'pending'`)
})

/** Ends an unused lease, so that another process sends the delivery now. */
const release = Effect.fnUntraced(function* ({ sql }: Needs, row: LeaseRow) {
  const now = yield* Clock.currentTimeMillis
  yield* sql`
    UPDATE webhook_deliveries SET next_at = ${new Date(now)}
    WHERE webhook_id = ${row.webhookId} AND event_id = ${row.eventId} AND attempts = ${row.attempts}
      AND state = 'pending'`
}, Effect.ignore)

/** Sends, and stores the result, even if the process stops meanwhile and the receiver responds soon. */
const deliver = (needs: Needs, row: LeaseRow, sealed: ReadonlyArray<SecretRow>) =>
  Effect.uninterruptibleMask((restore) =>
    Effect.gen(function* () {
      const sending = yield* Effect.forkDaemon(
        Effect.interruptible(Effect.flatMap(attempt(needs, row, sealed), (result) => storeResult(needs, row, result)))
      )
      return yield* Effect.onInterrupt(restore(Fiber.join(sending)), () =>
        Effect.interruptible(Fiber.await(sending)).pipe(
          Effect.timeoutOption(stopMillis),
          Effect.withClock(wallClock),
          Effect.zipRight(Fiber.interrupt(sending)),
          Effect.zipRight(release(needs, row))
        )
      )
    })
  )

/** Deliveries that `drain` is sending. */
interface Round {
  readonly ended: Queue.Queue<void>
  readonly sending: Map<WebhookId, Sending>
  free: number
  failure: Cause.Cause<never> | undefined
}

/** Sends all leased deliveries of one webhook in the background of `drain`, and frees their places at the end. */
const send = (
  needs: Needs,
  round: Round,
  rows: readonly [LeaseRow, ...Array<LeaseRow>],
  sealed: ReadonlyArray<SecretRow>
) => {
  const [{ teamId, webhookId }] = rows
  round.free -= rows.length
  round.sending.set(webhookId, { teamId, n: rows.length })
  const end = Effect.suspend(() => {
    round.free += rows.length
    round.sending.delete(webhookId)
    return Queue.offer(round.ended, undefined)
  })
  return Effect.forEach(
    rows,
    (row) => Effect.catchAllCause(deliver(needs, row, sealed), (cause) => Effect.sync(() => (round.failure = cause))),
    { concurrency: "unbounded", discard: true }
  ).pipe(Effect.ensuring(end), Effect.forkScoped)
}

/**
 * Leases and sends until nothing is due and all results are stored. Returns the number sent. A slow receiver blocks
 * only its own places.
 */
const drain = Effect.fnUntraced(function* (needs: Needs) {
  const round: Round = {
    ended: yield* Queue.unbounded<void>(),
    sending: new Map(),
    free: maxParallel,
    failure: undefined
  }
  let sent = 0
  while (true) {
    const { failure, free, sending } = round
    const rows = free > 0 && failure === undefined ? yield* take(needs, free, sending) : []
    if (rows.length === 0) {
      if (sending.size === 0) return failure === undefined ? sent : yield* Effect.failCause(failure)
      yield* Queue.take(round.ended).pipe(Effect.timeoutOption(pollMillis), Effect.withClock(wallClock))
      continue
    }
    const sealed = yield* secretsOf(needs, rows)
    for (const webhookId of new Set(rows.map((row) => row.webhookId))) {
      const [first, ...others] = rows.filter((row) => row.webhookId === webhookId)
      yield* send(needs, round, [first, ...others], sealed)
    }
    sent += rows.length
  }
}, Effect.scoped)

/** Ends the deliveries of disabled webhooks, and deletes old ones. */
const purge = Effect.fnUntraced(function* ({ sql }: Needs) {
  const now = yield* Clock.currentTimeMillis
  yield* Rows.run(sql`
    UPDATE webhook_deliveries SET state = 'failed', finished_at = ${new Date(now)}
    WHERE state = 'pending' AND created_at < ${new Date(now - retryPeriod - maxPause * 2)}`)
  yield* Rows.run(sql`DELETE FROM webhook_secrets WHERE ends_at < ${new Date(now)}`)
  yield* Rows.run(sql`DELETE FROM webhook_deliveries WHERE finished_at < ${new Date(now - retention)}`)
})

export class Dispatcher extends Effect.Service<Dispatcher>()("webhooks/Dispatcher", {
  scoped: Effect.gen(function* () {
    const needs = yield* services
    yield* Housekeeping.every("1 second", drain(needs), "webhooks")
    yield* Housekeeping.every("10 minutes", purge(needs), "purge of webhooks")
    return { drain: drain(needs), purge: purge(needs) }
  })
}) {}

/**
 * Sends what the outbox holds (src/access/Outbox.ts): at least once, in no order. A delivery is leased before it is sent
 * and settled afterwards; a process that dies in between lets go of it when the lease ends, and another one sends it again.
 * One that ends in order waits a moment for what it sent, and lets go of the rest at once.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import type { SqlError } from "@effect/sql/SqlError"
import type * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Queue from "effect/Queue"
import type { TeamId, WebhookId } from "#schema/Ids.ts"
import type { WebhookDelivery } from "#schema/WebhooksApi.ts"
import { days } from "#src/Days.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import * as Housekeeping from "#src/Housekeeping.ts"
import { Outbound } from "#src/outbound/Outbound.ts"
import { sign } from "./Signature.ts"
import { type SealedSecret, WebhookSecrets } from "./WebhookSecrets.ts"

/** Milliseconds. */
const answerWithin = 10_000
/** Longer than a delivery can take. */
export const lease = 60_000
export const givenUpAfter = days(1)
const keptFor = days(7)
const firstPause = 5_000
const longestPause = 3_600_000
/** At once in one process; of them for one team, and to one webhook: slow receivers leave room for others. */
const atOnce = 32
const atOnceTeam = 16
const atOnceEach = 4
const shownAttempts = 10
/** How long the end of a process waits for receivers that were sent to. */
const partingMillis = 3_000
/** While some are slow to answer, others are looked for this often. */
const lookMillis = 1_000
const wallClock = Clock.make()

/** Doubles with every attempt; `random` (0 to 1) spreads receivers that failed together. Milliseconds. */
export const pauseAfter = (attempts: number, random: number): number =>
  Math.min(longestPause, firstPause * 2 ** Math.min(attempts - 1, 20)) * (0.5 + random)

interface Leased {
  readonly webhookId: WebhookId
  readonly teamId: TeamId
  readonly eventId: string
  readonly event: string
  readonly body: string
  readonly attempts: number
  readonly log: WebhookDelivery["log"]
  readonly createdAt: Date
  readonly url: string
}
interface SecretRow extends SealedSecret {
  readonly webhookId: WebhookId
  readonly endsAt: Date | null
}

interface UnderWay {
  readonly teamId: TeamId
  readonly n: number
}

type Attempt = Omit<WebhookDelivery["log"][number], "at">

export class Dispatcher extends Effect.Service<Dispatcher>()("webhooks/Dispatcher", {
  scoped: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const crypto = yield* Crypto
    const secrets = yield* WebhookSecrets
    const outbound = yield* Outbound

    /**
     * Due ones that nobody else is taking: the teams in turn, so that the backlog of one does not hold up the others, and
     * of each the oldest first. Most of the time nothing is due for anybody, which EXISTS finds out at once. `underWay`: to which webhooks this process is sending already; they get no more.
     */
    const take = Effect.fnUntraced(function* (atMost: number, underWay: ReadonlyMap<WebhookId, UnderWay>) {
      const now = yield* Clock.currentTimeMillis
      const busy = [...underWay.values()]
      return yield* sql<Leased>`
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
              ORDER BY d.next_at LIMIT ${atOnceEach}
            ) q
            WHERE w.enabled AND w.id <> ALL(${[...underWay.keys()]}::uuid[])
              AND EXISTS (SELECT 1 FROM webhook_deliveries WHERE state = 'pending' AND next_at <= ${new Date(now)})
          ) r
          WHERE r.place <= ${atOnceTeam} ORDER BY r.place, r.next_at LIMIT ${atMost}
        ), taken AS (
          SELECT d.webhook_id, d.event_id FROM webhook_deliveries d JOIN due USING (webhook_id, event_id)
          WHERE d.state = 'pending' AND d.next_at <= ${new Date(now)}
          FOR UPDATE OF d SKIP LOCKED
        )
        UPDATE webhook_deliveries d SET attempts = d.attempts + 1, next_at = ${new Date(now + lease)}
        FROM taken t JOIN webhooks w ON w.id = t.webhook_id
        WHERE d.webhook_id = t.webhook_id AND d.event_id = t.event_id
        RETURNING d.webhook_id, w.team_id, d.event_id, d.event, d.body, d.attempts, d.log, d.created_at, w.url`
    })

    /** Newest first: the one that a receiver should have by now. */
    const secretsOf = (rows: ReadonlyArray<Leased>) => sql<SecretRow>`
      SELECT id, webhook_id, root_key_id, wrapped, ends_at FROM webhook_secrets
      WHERE webhook_id = any(${[...new Set(rows.map((row) => row.webhookId))]}::uuid[]) ORDER BY id DESC`

    const keysOf = (row: Leased, sealed: ReadonlyArray<SecretRow>, now: number) =>
      Effect.forEach(
        sealed.filter(
          ({ endsAt, webhookId }) => webhookId === row.webhookId && (endsAt === null || endsAt.getTime() > now)
        ),
        (secret) => secrets.open(row.teamId, secret)
      )

    /** One attempt; whatever goes wrong is an outcome. */
    const attempt = (row: Leased, sealed: ReadonlyArray<SecretRow>): Effect.Effect<Attempt> =>
      Effect.gen(function* () {
        const now = yield* Clock.currentTimeMillis
        const { body, event, eventId, url, webhookId } = row
        const keys = yield* Effect.mapError(keysOf(row, sealed, now), () => "secret")
        const { status } = yield* Effect.mapError(
          outbound.send({
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
            millis: answerWithin,
            maxBytes: 0,
            statusOnly: true
          }),
          ({ reason }) => reason
        )
        return { status, problem: null }
      }).pipe(Effect.catchAll((problem) => Effect.succeed({ status: null, problem })))

    /** Only the holder of the lease settles: `attempts` says who that is. */
    const settle = Effect.fnUntraced(function* (row: Leased, { problem, status }: Attempt) {
      const now = yield* Clock.currentTimeMillis
      const log = [...row.log, { at: new Date(now).toISOString(), status, problem }].slice(-shownAttempts)
      const delivered = status !== null && status >= 200 && status < 300
      const random = (yield* crypto.randomBytes(4)).readUInt32BE() / 2 ** 32
      const next = now + pauseAfter(row.attempts, random)
      const state = delivered ? "delivered" : next > row.createdAt.getTime() + givenUpAfter ? "failed" : "pending"
      yield* sql`
        UPDATE webhook_deliveries
        SET state = ${state}, log = ${JSON.stringify(log)}::jsonb, next_at = ${new Date(next)},
          finished_at = ${state === "pending" ? null : new Date(now)}::timestamptz
        WHERE webhook_id = ${row.webhookId} AND event_id = ${row.eventId} AND attempts = ${row.attempts}
          AND state = 'pending'`
    })

    /** Of a lease that this process will not use: another one sends it now, not when the lease ends. */
    const letGo = Effect.fnUntraced(function* (row: Leased) {
      const now = yield* Clock.currentTimeMillis
      yield* sql`
        UPDATE webhook_deliveries SET next_at = ${new Date(now)}
        WHERE webhook_id = ${row.webhookId} AND event_id = ${row.eventId} AND attempts = ${row.attempts}
          AND state = 'pending'`
    }, Effect.ignore)

    /** Sent and settled, also when the process is to end meanwhile and the receiver answers soon. */
    const deliver = (row: Leased, sealed: ReadonlyArray<SecretRow>) =>
      Effect.uninterruptibleMask((restore) =>
        Effect.gen(function* () {
          const sending = yield* Effect.forkDaemon(
            Effect.interruptible(Effect.flatMap(attempt(row, sealed), (outcome) => settle(row, outcome)))
          )
          return yield* Effect.onInterrupt(restore(Fiber.join(sending)), () =>
            Effect.interruptible(Fiber.await(sending)).pipe(
              Effect.timeoutOption(partingMillis),
              Effect.withClock(wallClock),
              Effect.zipRight(Fiber.interrupt(sending)),
              Effect.zipRight(letGo(row))
            )
          )
        })
      )

    /**
     * Takes and sends until nothing is due and all is settled. Answers how many it sent. A receiver that is slow to answer
     * keeps its own places and no others.
     */
    const drain = Effect.scoped(
      Effect.gen(function* () {
        const ended = yield* Queue.unbounded<void>()
        const underWay = new Map<WebhookId, UnderWay>()
        let free = atOnce
        let sent = 0
        let failure: Cause.Cause<SqlError> | undefined
        while (true) {
          const rows = free > 0 && failure === undefined ? yield* take(free, underWay) : []
          if (rows.length === 0) {
            if (underWay.size === 0) return failure === undefined ? sent : yield* Effect.failCause(failure)
            yield* Queue.take(ended).pipe(Effect.timeoutOption(lookMillis), Effect.withClock(wallClock))
            continue
          }
          const sealed = yield* secretsOf(rows)
          for (const webhookId of new Set(rows.map((row) => row.webhookId))) {
            const own = rows.filter((row) => row.webhookId === webhookId)
            free -= own.length
            underWay.set(webhookId, { teamId: own[0].teamId, n: own.length })
            yield* Effect.forEach(
              own,
              (row) => Effect.catchAllCause(deliver(row, sealed), (cause) => Effect.sync(() => (failure = cause))),
              { concurrency: "unbounded", discard: true }
            ).pipe(
              Effect.ensuring(
                Effect.suspend(() => {
                  free += own.length
                  underWay.delete(webhookId)
                  return Queue.offer(ended, undefined)
                })
              ),
              Effect.forkScoped
            )
          }
          sent += rows.length
        }
      })
    )

    /** Those of a webhook that stayed switched off, and what was shown long enough. */
    const purge = Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      yield* sql`
        UPDATE webhook_deliveries SET state = 'failed', finished_at = ${new Date(now)}
        WHERE state = 'pending' AND created_at < ${new Date(now - givenUpAfter - longestPause * 2)}`
      yield* sql`DELETE FROM webhook_secrets WHERE ends_at < ${new Date(now)}`
      yield* sql`DELETE FROM webhook_deliveries WHERE finished_at < ${new Date(now - keptFor)}`
    })

    yield* Housekeeping.every("1 second", drain, "webhooks")
    yield* Housekeeping.every("10 minutes", purge, "purge of webhooks")

    return { drain: Effect.orDie(drain), purge: Effect.orDie(purge) } as const
  })
}) {}

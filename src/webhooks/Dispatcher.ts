/**
 * Sends what the outbox holds (src/access/Outbox.ts): at least once, in no order. A delivery is leased before it is sent
 * and settled afterwards; a process that dies in between lets go of it when the lease ends, and another one sends it again.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { TeamId, WebhookId } from "#schema/Ids.ts"
import type { WebhookDelivery } from "#schema/WebhooksApi.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import * as Housekeeping from "#src/Housekeeping.ts"
import { Outbound } from "#src/outbound/Outbound.ts"
import { sign } from "./Signature.ts"
import { type SealedSecret, WebhookSecrets } from "./WebhookSecrets.ts"

/** Milliseconds. */
const answerWithin = 10_000
/** Longer than a delivery can take. */
export const lease = 60_000
export const givenUpAfter = 86_400_000
const keptFor = 7 * 86_400_000
const firstPause = 5_000
const longestPause = 3_600_000
/** At once in one process; and of them to one webhook, so that a slow receiver leaves room for others. */
const atOnce = 16
const atOnceEach = 4
const shownAttempts = 10

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

type Attempt = Omit<WebhookDelivery["log"][number], "at">

export class Dispatcher extends Effect.Service<Dispatcher>()("webhooks/Dispatcher", {
  scoped: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const crypto = yield* Crypto
    const secrets = yield* WebhookSecrets
    const outbound = yield* Outbound

    /** Due ones that nobody else is taking, oldest first. */
    const take = Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      return yield* sql<Leased>`
        WITH due AS (
          SELECT q.webhook_id, q.event_id
          FROM webhooks w CROSS JOIN LATERAL (
            SELECT d.webhook_id, d.event_id, d.next_at FROM webhook_deliveries d
            WHERE d.webhook_id = w.id AND d.state = 'pending' AND d.next_at <= ${new Date(now)}
            ORDER BY d.next_at LIMIT ${atOnceEach}
          ) q
          WHERE w.enabled
          ORDER BY q.next_at LIMIT ${atOnce}
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

    /** Takes and sends until nothing is due. Answers how many it sent. */
    const drain = Effect.gen(function* () {
      let sent = 0
      while (true) {
        const rows = yield* take
        if (rows.length === 0) return sent
        const sealed = yield* secretsOf(rows)
        yield* Effect.forEach(rows, (row) => Effect.flatMap(attempt(row, sealed), (outcome) => settle(row, outcome)), {
          concurrency: "unbounded",
          discard: true
        })
        sent += rows.length
      }
    })

    /** Those of a webhook that stayed switched off, and what was shown long enough. */
    const purge = Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      yield* sql`
        UPDATE webhook_deliveries SET state = 'failed', finished_at = ${new Date(now)}
        WHERE state = 'pending' AND created_at < ${new Date(now - givenUpAfter - longestPause * 2)}`
      yield* sql`DELETE FROM webhook_secrets WHERE ends_at < ${new Date(now)}`
      yield* sql`DELETE FROM webhook_deliveries WHERE finished_at < ${new Date(now - keptFor)}`
    })

    yield* Housekeeping.every("1 second", drain)
    yield* Housekeeping.every("10 minutes", purge)

    return { drain: Effect.orDie(drain), purge: Effect.orDie(purge) } as const
  })
}) {}

/** Webhooks of a team (schema/WebhooksApi.ts): owners and admins say who is told of changes. */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import { PlanLimitReached, RouteNotFound, ValidationFailed } from "#schema/Errors.ts"
import { type TeamId, type WebhookId, WebhookIdOut } from "#schema/Ids.ts"
import type {
  CreateWebhook,
  UpdateWebhook,
  Webhook,
  WebhookDelivery,
  WebhookEvent,
  WebhookWithSecret
} from "#schema/WebhooksApi.ts"
import { days } from "#src/Days.ts"
import { actorOf, Audit } from "#src/access/Audit.ts"
import { change } from "#src/access/Change.ts"
import { dieWhenVaultIsDown } from "#src/access/Dependency.ts"
import * as Outbox from "#src/access/Outbox.ts"
import type { TeamPermit } from "#src/access/Permit.ts"
import { Tokens } from "#src/credentials/Tokens.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { Outbound } from "#src/outbound/Outbound.ts"
import { type SealedSecret, WebhookSecrets } from "./WebhookSecrets.ts"

type Manage = TeamPermit<"tokens:manage">

/** An abuse limit; a list shows all. */
export const webhooksPerTeam = 20
const shownDeliveries = 100
/** For so long after a rotation the old secret signs as well. */
export const rotationOverlap = days(1)
const testEvent = "webhook.test"

interface WebhookRow {
  readonly id: WebhookId
  readonly teamId: TeamId
  readonly name: string
  readonly url: string
  readonly events: ReadonlyArray<WebhookEvent> | null
  readonly enabled: boolean
  readonly createdAt: Date
  readonly updatedAt: Date
}

interface DeliveryRow {
  readonly eventId: string
  readonly event: string
  readonly state: "pending" | "delivered" | "failed"
  readonly attempts: number
  readonly log: WebhookDelivery["log"]
  readonly createdAt: Date
  readonly nextAt: Date
  readonly finishedAt: Date | null
}

const recordOf = (row: WebhookRow): Webhook => ({
  id: row.id,
  teamId: row.teamId,
  name: row.name,
  url: row.url,
  events: row.events,
  enabled: row.enabled,
  createdAt: row.createdAt.toISOString(),
  updatedAt: row.updatedAt.toISOString()
})

const deliveryOf = (row: DeliveryRow): WebhookDelivery => ({
  eventId: row.eventId,
  event: row.event,
  state: row.state,
  attempts: row.attempts,
  log: row.log,
  createdAt: row.createdAt.toISOString(),
  nextAttemptAt: row.state === "pending" ? row.nextAt.toISOString() : null,
  finishedAt: row.finishedAt?.toISOString() ?? null
})

const notThere = () => new RouteNotFound({ message: "No such webhook." })

export class Webhooks extends Effect.Service<Webhooks>()("webhooks/Webhooks", {
  effect: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const crypto = yield* Crypto
    const audit = yield* Audit
    const tokens = yield* Tokens
    const secrets = yield* WebhookSecrets
    const outbound = yield* Outbound
    const services = { sql, audit }

    const columns = sql.literal("id, team_id, name, url, events, enabled, created_at, updated_at")
    const deliveryColumns = sql.literal("event_id, event, state, attempts, log, created_at, next_at, finished_at")

    const checkUrl = (url: string | undefined) =>
      url === undefined || outbound.allows(url)
        ? Effect.void
        : new ValidationFailed({
            field: "url",
            message: "The address must be a public https address, without fragment or credentials."
          })

    const event = (permit: Manage, { id, name }: { readonly id: WebhookId; readonly name: string }) =>
      permit.event({ target: { type: "webhook", id, name } })

    /** Locked, and of the permit's team. */
    const own = Effect.fnUntraced(function* (permit: Manage, id: WebhookId) {
      const [row] = yield* sql<WebhookRow>`
        SELECT ${columns} FROM webhooks WHERE id = ${id} AND team_id = ${permit.target.teamId} FOR NO KEY UPDATE`
      return row ?? (yield* notThere())
    })

    const keep = (id: WebhookId, sealed: SealedSecret) => sql`
      INSERT INTO webhook_secrets (id, webhook_id, root_key_id, wrapped)
      VALUES (${sealed.id}, ${id}, ${sealed.rootKeyId}, ${sealed.wrapped})`

    const create = Effect.fn("Webhooks.create")(function* (permit: Manage, input: CreateWebhook) {
      const { teamId } = permit.target
      yield* checkUrl(input.url)
      const id = WebhookIdOut.make(yield* crypto.uuid)
      const { sealed, text } = yield* dieWhenVaultIsDown(secrets.make(teamId))
      return yield* change(
        services,
        permit.event(),
        Effect.gen(function* () {
          const user = yield* tokens.stillManages(permit)
          const [{ n }] = yield* sql<{ readonly n: number }>`
            SELECT count(*)::int AS n FROM webhooks WHERE team_id = ${teamId}`
          if (n >= webhooksPerTeam) return yield* new PlanLimitReached()
          const now = yield* DateTime.nowAsDate
          const [row] = yield* sql<WebhookRow>`
            INSERT INTO webhooks (id, team_id, name, url, events, enabled, created_by, created_at, updated_at)
            VALUES (${id}, ${teamId}, ${input.name}, ${input.url}, ${input.events ?? null}::text[], true, ${user.id},
              ${now}, ${now})
            RETURNING ${columns}`
          yield* keep(id, sealed)
          yield* audit.append(event(permit, row))
          const shown: WebhookWithSecret = { ...recordOf(row), secret: text }
          return shown
        })
      )
    })

    const list = Effect.fn("Webhooks.list")(function* (permit: Manage) {
      const rows = yield* sql<WebhookRow>`
        SELECT ${columns} FROM webhooks WHERE team_id = ${permit.target.teamId}
        ORDER BY id DESC LIMIT ${webhooksPerTeam}`
      return rows.map(recordOf)
    }, Effect.orDie)

    const update = Effect.fn("Webhooks.update")(function* (permit: Manage, id: WebhookId, input: UpdateWebhook) {
      yield* checkUrl(input.url)
      return yield* change(
        services,
        permit.event(),
        Effect.gen(function* () {
          yield* tokens.stillManages(permit)
          const found = yield* own(permit, id)
          const events = input.events ?? found.events
          const [row] = yield* sql<WebhookRow>`
            UPDATE webhooks SET name = ${input.name ?? found.name}, url = ${input.url ?? found.url},
              events = ${events}::text[], enabled = ${input.enabled ?? found.enabled},
              updated_at = ${yield* DateTime.nowAsDate}
            WHERE id = ${id} RETURNING ${columns}`
          yield* audit.append(event(permit, row))
          return recordOf(row)
        })
      )
    })

    const rotate = Effect.fn("Webhooks.rotate")(function* (permit: Manage, id: WebhookId) {
      const { sealed, text } = yield* dieWhenVaultIsDown(secrets.make(permit.target.teamId))
      return yield* change(
        services,
        permit.event(),
        Effect.gen(function* () {
          yield* tokens.stillManages(permit)
          yield* own(permit, id)
          const now = yield* Clock.currentTimeMillis
          // Of several rotations in a day, the last secret alone is the one before.
          yield* sql`DELETE FROM webhook_secrets WHERE webhook_id = ${id} AND ends_at IS NOT NULL`
          yield* sql`
            UPDATE webhook_secrets SET ends_at = ${new Date(now + rotationOverlap)} WHERE webhook_id = ${id}`
          yield* keep(id, sealed)
          const [row] = yield* sql<WebhookRow>`
            UPDATE webhooks SET updated_at = ${new Date(now)} WHERE id = ${id} RETURNING ${columns}`
          yield* audit.append(event(permit, row))
          const shown: WebhookWithSecret = { ...recordOf(row), secret: text }
          return shown
        })
      )
    })

    const remove = Effect.fn("Webhooks.remove")(function* (permit: Manage, id: WebhookId) {
      yield* change(
        services,
        permit.event(),
        Effect.gen(function* () {
          yield* tokens.stillManages(permit)
          const row = yield* own(permit, id)
          yield* sql`DELETE FROM webhooks WHERE id = ${id}`
          yield* audit.append(event(permit, row))
        })
      )
    })

    /** An event that is nobody's change, on the way of all others. */
    const test = Effect.fn("Webhooks.test")(function* (permit: Manage, id: WebhookId) {
      return yield* change(
        services,
        permit.event(),
        Effect.gen(function* () {
          const webhook = yield* own(permit, id)
          const at = yield* Clock.currentTimeMillis
          const eventId = yield* crypto.uuid
          const { target } = event(permit, webhook)
          const body = Outbox.bodyOf(
            {
              id: eventId,
              at,
              team: webhook.teamId,
              event: target === undefined ? {} : { target },
              actor: actorOf(permit.caller)
            },
            testEvent
          )
          const [row] = yield* sql<DeliveryRow>`
            INSERT INTO webhook_deliveries (webhook_id, event_id, event, body, state, created_at, next_at)
            VALUES (${id}, ${eventId}, ${testEvent}, ${body}, 'pending', ${new Date(at)}, ${new Date(at)})
            RETURNING ${deliveryColumns}`
          yield* audit.append(event(permit, webhook))
          return deliveryOf(row)
        })
      )
    })

    const deliveries = Effect.fn("Webhooks.deliveries")(
      function* (permit: Manage, id: WebhookId) {
        const found = yield* sql`SELECT 1 AS one FROM webhooks WHERE id = ${id} AND team_id = ${permit.target.teamId}`
        if (found.length === 0) return yield* notThere()
        const rows = yield* sql<DeliveryRow>`
          SELECT ${deliveryColumns} FROM webhook_deliveries WHERE webhook_id = ${id}
          ORDER BY event_id DESC LIMIT ${shownDeliveries}`
        return rows.map(deliveryOf)
      },
      Effect.catchTag("SqlError", Effect.die)
    )

    return { create, list, update, rotate, remove, test, deliveries } as const
  })
}) {}

/** Webhooks of a team (schema/WebhooksApi.ts): owners and admins choose the addresses that receive its events. */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Struct from "effect/Struct"
import { PlanLimitReached, RouteNotFound, ValidationFailed } from "#schema/Errors.ts"
import { type TeamId, TeamIdOut, type WebhookId, WebhookIdOut } from "#schema/Ids.ts"
import {
  type CreateWebhook,
  type UpdateWebhook,
  type Webhook,
  type WebhookDelivery,
  WebhookEvent,
  WebhookFormat,
  type WebhookWithSecret
} from "#schema/WebhooksApi.ts"
import { days } from "#src/Days.ts"
import { Access } from "#src/access/Access.ts"
import { Audit } from "#src/trail/Audit.ts"
import { actorOf } from "#src/trail/Entry.ts"
import { change } from "#src/access/Change.ts"
import { dieWhenVaultIsDown } from "#src/database/Dependency.ts"
import * as Outbox from "#src/trail/Outbox.ts"
import type { TeamPermit } from "#src/access/Permit.ts"
import { Tokens } from "#src/credentials/Tokens.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { methods } from "#src/Methods.ts"
import { Outbound } from "#src/outbound/Outbound.ts"
import * as RowJournal from "#src/rows/RowJournal.ts"
import { RowSeal } from "#src/rows/RowSeal.ts"
import * as Rows from "#src/database/Rows.ts"
import { type SealedSecret, WebhookSecrets } from "./WebhookSecrets.ts"

type Manage = TeamPermit<"tokens:manage" | "webhooks:direct">

const services = Effect.all({
  access: Access,
  sql: SqlClient.SqlClient,
  crypto: Crypto,
  audit: Audit,
  rowSeal: RowSeal,
  tokens: Tokens,
  secrets: WebhookSecrets,
  outbound: Outbound
})
type Needs = Effect.Effect.Success<typeof services>

/** An abuse limit; a list shows all. */
const webhooksPerTeam = 20
const maxListedDeliveries = 100
/** Time that the old secret signs too after a rotation. */
const rotationOverlap = days(1)
const testEvent = "webhook.test"

const WebhookRow = Schema.Struct({
  id: WebhookIdOut,
  teamId: TeamIdOut,
  name: Schema.String,
  url: Schema.String,
  events: Schema.NullOr(Schema.Array(WebhookEvent)),
  format: WebhookFormat,
  enabled: Schema.Boolean,
  createdAt: Rows.Iso,
  updatedAt: Rows.Iso,
  mac: Schema.NullOr(Schema.Uint8ArrayFromSelf)
})

/** The webhook as responses show it. */
const webhookOf = (row: typeof WebhookRow.Type) => Struct.omit(row, "mac")

const FailingRow = Schema.Struct({ id: WebhookIdOut })

/** The attempts of a delivery, oldest first: a column of JSON. */
export const AttemptLog = Schema.Array(
  Schema.Struct({
    at: Schema.String,
    status: Schema.NullOr(Schema.Number),
    problem: Schema.NullOr(Schema.String)
  })
)

const DeliveryRow = Schema.Struct({
  eventId: Schema.String,
  event: Schema.String,
  state: Schema.Literal("pending", "delivered", "failed"),
  attempts: Schema.Number,
  log: AttemptLog,
  createdAt: Rows.Iso,
  nextAt: Rows.Iso,
  finishedAt: Schema.NullOr(Rows.Iso)
})

const deliveryOf = ({ nextAt, ...row }: typeof DeliveryRow.Type): WebhookDelivery => ({
  ...row,
  nextAttemptAt: row.state === "pending" ? nextAt : null
})

const columns = (sql: SqlClient.SqlClient) =>
  sql.literal("id, team_id, name, url, events, format, enabled, created_at, updated_at, mac")
const deliveryColumns = (sql: SqlClient.SqlClient) =>
  sql.literal("event_id, event, state, attempts, log, created_at, next_at, finished_at")

const notFound = () => new RouteNotFound({ message: "No such webhook." })

const checkUrl = ({ outbound }: Needs, url: string | undefined) =>
  url === undefined || outbound.allows(url)
    ? Effect.void
    : new ValidationFailed({
        field: "url",
        message: "The address must be a public https address, without fragment or credentials."
      })

const eventAbout = (permit: Manage, { id, name }: Pick<Webhook, "id" | "name">) =>
  permit.event({ target: { type: "webhook", id, name } })

/** The team's webhook, locked. */
const lockedWebhook = Effect.fnUntraced(function* ({ rowSeal, sql }: Needs, teamId: TeamId, id: WebhookId) {
  const row = yield* Rows.findOne(
    WebhookRow,
    sql`SELECT ${columns(sql)} FROM webhooks WHERE id = ${id} AND team_id = ${teamId} FOR NO KEY UPDATE`
  )
  if (row === undefined || !(yield* rowSeal.ready).isAuthentic("webhooks", row)) return yield* notFound()
  return webhookOf(row)
})

const storeSecret = ({ sql }: Needs, id: WebhookId, sealed: SealedSecret) =>
  Rows.run(sql`
    INSERT INTO webhook_secrets (id, webhook_id, bound, root_key_id, wrapped)
    VALUES (${sealed.id}, ${id}, ${sealed.bound}, ${sealed.rootKeyId}, ${sealed.wrapped})`)

/** Fails unless the caller may create webhooks in the team; for the page of the form. */
const mayCreate = Effect.fn("Webhooks.mayCreate")(function* ({ access }: Needs, teamId: TeamId) {
  yield* access.team("webhooks:direct", teamId, { audit: "webhook.create" })
})

const create = Effect.fn("Webhooks.create")(function* (needs: Needs, teamId: TeamId, input: CreateWebhook) {
  const { access, audit, crypto, rowSeal, secrets, sql, tokens } = needs
  const permit = yield* access.team("webhooks:direct", teamId, { audit: "webhook.create" })
  yield* checkUrl(needs, input.url)
  const id = WebhookIdOut.make(yield* crypto.uuid)
  const { sealed, text } = yield* dieWhenVaultIsDown(secrets.make(teamId))
  return yield* change(needs, permit.event(), function* () {
    const user = yield* tokens.stillManages(permit)
    const n = yield* Rows.count(sql`SELECT count(*) AS n FROM webhooks WHERE team_id = ${teamId}`)
    if (n >= webhooksPerTeam) return yield* new PlanLimitReached()
    const now = yield* DateTime.nowAsDate
    const { events = null, format = "json", name, url } = input
    const values = yield* rowSeal.values(
      "webhooks",
      { id, teamId, url, events, format, enabled: true },
      { name, created_by: user.id, created_at: now, updated_at: now }
    )
    const row = yield* Rows.single(WebhookRow, sql`INSERT INTO webhooks ${values} RETURNING ${columns(sql)}`)
    yield* storeSecret(needs, id, sealed)
    yield* audit.append(eventAbout(permit, row))
    const response: WebhookWithSecret = { ...webhookOf(row), secret: text }
    return response
  })
})

const list = Effect.fn("Webhooks.list")(function* ({ access, rowSeal, sql }: Needs, teamId: TeamId) {
  yield* access.team("tokens:manage", teamId, { audit: "webhook.list" })
  const rows = yield* Rows.findAll(
    WebhookRow,
    sql`SELECT ${columns(sql)} FROM webhooks WHERE team_id = ${teamId} ORDER BY id DESC LIMIT ${webhooksPerTeam}`
  )
  const macs = yield* rowSeal.ready
  const webhooks: ReadonlyArray<Webhook> = rows.filter((row) => macs.isAuthentic("webhooks", row)).map(webhookOf)
  return webhooks
})

/** Ids of webhooks whose last attempted event was refused or unanswered. */
const failing = Effect.fn("Webhooks.failing")(function* ({ access, sql }: Needs, teamId: TeamId) {
  yield* access.team("tokens:manage", teamId, { audit: "webhook.list" })
  const rows = yield* Rows.findAll(
    FailingRow,
    sql`
      SELECT w.id FROM webhooks w, LATERAL (
        SELECT d.state FROM webhook_deliveries d WHERE d.webhook_id = w.id AND d.attempts > 0
        ORDER BY d.event_id DESC LIMIT 1) last
      WHERE w.team_id = ${teamId} AND last.state <> 'delivered'`
  )
  return new Set<string>(rows.map(({ id }) => id))
})

const update = Effect.fn("Webhooks.update")(function* (
  needs: Needs,
  teamId: TeamId,
  id: WebhookId,
  input: UpdateWebhook
) {
  const { access, audit, rowSeal, sql, tokens } = needs
  const permit = yield* access.team("webhooks:direct", teamId, { audit: "webhook.update" })
  yield* checkUrl(needs, input.url)
  return yield* change(needs, permit.event(), function* () {
    yield* tokens.stillManages(permit)
    const before = yield* lockedWebhook(needs, teamId, id)
    const { enabled, events, format, name, url } = { ...before, ...input }
    const others = { name, updated_at: yield* DateTime.nowAsDate }
    yield* rowSeal.update("webhooks", sql`id = ${id}`, () => ({ url, events, format, enabled }), others)
    const row = yield* lockedWebhook(needs, teamId, id)
    yield* audit.append(eventAbout(permit, row))
    return row
  })
})

const rotate = Effect.fn("Webhooks.rotate")(function* (needs: Needs, teamId: TeamId, id: WebhookId) {
  const { access, audit, secrets, sql, tokens } = needs
  const permit = yield* access.team("webhooks:direct", teamId, { audit: "webhook.rotate" })
  const { sealed, text } = yield* dieWhenVaultIsDown(secrets.make(teamId))
  return yield* change(needs, permit.event(), function* () {
    yield* tokens.stillManages(permit)
    yield* lockedWebhook(needs, teamId, id)
    const now = yield* Clock.currentTimeMillis
    // After several rotations in a day, only the last secret before this one still signs.
    yield* Rows.run(sql`DELETE FROM webhook_secrets WHERE webhook_id = ${id} AND ends_at IS NOT NULL`)
    yield* Rows.run(sql`
        UPDATE webhook_secrets SET ends_at = ${new Date(now + rotationOverlap)} WHERE webhook_id = ${id}`)
    yield* storeSecret(needs, id, sealed)
    const row = yield* Rows.single(
      WebhookRow,
      sql`UPDATE webhooks SET updated_at = ${new Date(now)} WHERE id = ${id} RETURNING ${columns(sql)}`
    )
    yield* audit.append(eventAbout(permit, row))
    const response: WebhookWithSecret = { ...webhookOf(row), secret: text }
    return response
  })
})

const remove = Effect.fn("Webhooks.remove")(function* (needs: Needs, teamId: TeamId, id: WebhookId) {
  const { access, audit, sql, tokens } = needs
  const permit = yield* access.team("tokens:manage", teamId, { audit: "webhook.delete" })
  yield* change(needs, permit.event(), function* () {
    yield* tokens.stillManages(permit)
    const row = yield* lockedWebhook(needs, teamId, id)
    yield* RowJournal.remove(sql, "webhooks", sql`id = ${id}`)
    yield* audit.append(eventAbout(permit, row))
  })
})

/** Queues a test event, delivered like all others. */
const test = Effect.fn("Webhooks.test")(function* (needs: Needs, teamId: TeamId, id: WebhookId) {
  const { access, audit, crypto, sql } = needs
  const permit = yield* access.team("tokens:manage", teamId, { audit: "webhook.test" })
  return yield* change(needs, permit.event(), function* () {
    const webhook = yield* lockedWebhook(needs, teamId, id)
    const at = yield* Clock.currentTimeMillis
    const eventId = yield* crypto.uuid
    const target = { type: "webhook", id, name: webhook.name }
    const body = Outbox.bodyOf(
      { id: eventId, at, team: teamId, event: { target }, actor: actorOf(permit.caller) },
      testEvent
    )
    const row = yield* Rows.single(
      DeliveryRow,
      sql`
          INSERT INTO webhook_deliveries (webhook_id, event_id, event, body, state, created_at, next_at)
          VALUES (${id}, ${eventId}, ${testEvent}, ${body}, 'pending', ${new Date(at)}, ${new Date(at)})
          RETURNING ${deliveryColumns(sql)}`
    )
    yield* audit.append(eventAbout(permit, webhook))
    return deliveryOf(row)
  })
})

/** Newest first. */
const deliveries = Effect.fn("Webhooks.deliveries")(function* ({ access, sql }: Needs, teamId: TeamId, id: WebhookId) {
  yield* access.team("tokens:manage", teamId, { audit: "webhook.list" })
  if (!(yield* Rows.exists(sql`SELECT 1 AS one FROM webhooks WHERE id = ${id} AND team_id = ${teamId}`))) {
    return yield* notFound()
  }
  const rows = yield* Rows.findAll(
    DeliveryRow,
    sql`
      SELECT ${deliveryColumns(sql)} FROM webhook_deliveries WHERE webhook_id = ${id}
      ORDER BY event_id DESC LIMIT ${maxListedDeliveries}`
  )
  return rows.map(deliveryOf)
})

export class Webhooks extends Effect.Service<Webhooks>()("webhooks/Webhooks", {
  effect: Effect.map(services, (needs) =>
    methods(needs, { mayCreate, create, list, failing, update, rotate, remove, test, deliveries })
  )
}) {}

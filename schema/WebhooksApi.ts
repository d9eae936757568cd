/** Webhooks: a team's own addresses, notified of changes to its secrets and tokens. Names and ids, never values. */
import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as OpenApi from "@effect/platform/OpenApi"
import * as Schema from "effect/Schema"
import type { AuditAction } from "./Audit.ts"
import { SessionCredential } from "./Authentication.ts"
import * as Errors from "./Errors.ts"
import { TeamId, TeamIdOut, WebhookId, WebhookIdOut } from "./Ids.ts"
import { operation } from "./Operation.ts"
import { BadBody, MayNotManageTeam } from "./RouteErrors.ts"
import { atLeastOne, optional, strict } from "./Strict.ts"
import { boundedList, Name, Timestamp } from "./Values.ts"
import { answers, DeletedAck, Integer, openEnum, Uuid } from "./Wire.ts"

export const WebhookEvent = Schema.Literal(
  "secret.created",
  "secret.updated",
  "secret.deleted",
  "secret.rolled_back",
  "secret.restored",
  "secret.renamed",
  "secret.rotation_due",
  "token.created",
  "token.updated",
  "token.rotated",
  "token.revoked",
  "token.deleted",
  "credential.leaked",
  "access.requested",
  "access.withdrawn",
  "access.denied",
  "access.granted",
  "change.requested",
  "change.withdrawn",
  "change.denied",
  "change.approved",
  "access.break_glass",
  "session.break_glass",
  "session.new_device",
  "password.reset",
  "factor.removed",
  "email.changed"
).annotations({ message: () => "must be an event of webhooks", identifier: "WebhookEvent" })
export type WebhookEvent = typeof WebhookEvent.Type

/** Event of each audit action; actions without one send no webhook. */
export const eventOfAction: { readonly [A in AuditAction]?: WebhookEvent } = {
  "secret.create": "secret.created",
  "secret.update": "secret.updated",
  "secret.delete": "secret.deleted",
  "secret.rollback": "secret.rolled_back",
  "secret.restore": "secret.restored",
  "secret.rename": "secret.renamed",
  "secret.rotation_due": "secret.rotation_due",
  "token.create": "token.created",
  "token.update": "token.updated",
  "token.make_read_only": "token.updated",
  "token.set_addresses": "token.updated",
  "token.rotate": "token.rotated",
  "token.revoke": "token.revoked",
  "token.delete": "token.deleted",
  "credential.leaked": "credential.leaked",
  "access.request": "access.requested",
  "access.withdraw": "access.withdrawn",
  "access.deny": "access.denied",
  "access.grant": "access.granted",
  "change.request": "change.requested",
  "change.withdraw": "change.withdrawn",
  "change.deny": "change.denied",
  "change.approve": "change.approved",
  "access.break_glass": "access.break_glass",
  "session.break_glass": "session.break_glass",
  "session.new_device": "session.new_device",
  "password.reset": "password.reset",
  "factor.remove": "factor.removed",
  "email.change": "email.changed"
}

const WebhookUrl = Schema.String.pipe(
  Schema.filter((s) => (s.length <= 1_000 && /^[\x21-\x7e]+$/.test(s)) || "must be an address of 1 to 1000 characters")
).annotations({
  jsonSchema: { type: "string", format: "uri", maxLength: 1_000, pattern: "^[!-~]+$" },
  description: "Public https address."
})

const Events = boundedList(WebhookEvent, 1, WebhookEvent.literals.length)

export const WebhookFormat = Schema.Literal("json", "slack").annotations({
  identifier: "WebhookFormat",
  message: () => "must be json or slack",
  description: "json: the event, signed. slack: a message that Slack's incoming webhooks accept; signed too."
})
export type WebhookFormat = typeof WebhookFormat.Type

export const CreateWebhook = strict(
  Schema.Struct({ name: Name, url: WebhookUrl, events: optional(Events), format: optional(WebhookFormat) })
).annotations({
  identifier: "CreateWebhook",
  description: "All events when events is absent, also those of later releases."
})
export type CreateWebhook = typeof CreateWebhook.Type

export const UpdateWebhook = strict(
  atLeastOne(
    Schema.Struct({
      name: optional(Name),
      url: optional(WebhookUrl),
      events: optional(Events),
      format: optional(WebhookFormat),
      enabled: optional(Schema.Boolean)
    }),
    "name",
    "url",
    "events",
    "format",
    "enabled"
  )
).annotations({ identifier: "UpdateWebhook", description: "A disabled webhook receives no events." })
export type UpdateWebhook = typeof UpdateWebhook.Type

const webhookFields = {
  id: WebhookIdOut,
  teamId: TeamIdOut,
  name: Schema.String,
  url: Schema.String,
  events: Schema.NullOr(Schema.Array(openEnum(...WebhookEvent.literals))),
  /** Optional, because an earlier release does not send it; this one always does. */
  format: optional(openEnum("json", "slack")),
  enabled: Schema.Boolean,
  createdAt: Timestamp,
  updatedAt: Timestamp
} as const

export const Webhook = Schema.Struct(webhookFields).annotations({
  identifier: "Webhook",
  description: "events: null = all."
})
export type Webhook = typeof Webhook.Type

export const WebhookWithSecret = Schema.Struct({
  ...webhookFields,
  secret: Schema.String.annotations({ description: "Key of the signatures. Shown once." })
}).annotations({ identifier: "WebhookWithSecret" })
export type WebhookWithSecret = typeof WebhookWithSecret.Type

const WebhookList = Schema.Struct({ items: Schema.Array(Webhook) }).annotations({ identifier: "WebhookList" })

export const WebhookDelivery = Schema.Struct({
  eventId: Uuid.annotations({ description: "The same in every attempt, and in the header Ampoule-Event-Id." }),
  event: Schema.String,
  state: openEnum("pending", "delivered", "failed").annotations({
    description: "failed: given up, 24 hours after the change."
  }),
  attempts: Integer,
  log: Schema.Array(
    Schema.Struct({
      at: Timestamp,
      status: Schema.NullOr(Integer).annotations({
        description: "Status of the receiver's response; null: no response."
      }),
      problem: Schema.NullOr(openEnum("address", "connection", "timeout", "secret", "altered"))
    }).annotations({ identifier: "WebhookAttempt" })
  ).annotations({ description: "The last 10 attempts." }),
  createdAt: Timestamp,
  nextAttemptAt: Schema.NullOr(Timestamp),
  finishedAt: Schema.NullOr(Timestamp)
}).annotations({
  identifier: "WebhookDelivery",
  description: "Of the receiver's response only the status is stored."
})
export type WebhookDelivery = typeof WebhookDelivery.Type

const WebhookDeliveryList = Schema.Struct({ items: Schema.Array(WebhookDelivery) }).annotations({
  identifier: "WebhookDeliveryList"
})

const TeamPath = Schema.Struct({ teamId: TeamId })
const WebhookPath = Schema.Struct({ teamId: TeamId, webhookId: WebhookId })

const webhook = {
  id: "01980a65-9fa1-7293-b4c5-e6f708192a3b",
  teamId: "01980a5d-0f3a-7c10-8e2b-9a7c6d5e4f30",
  name: "restart the shop",
  url: "https://hooks.example.com/ampoule",
  events: ["secret.created", "secret.updated", "secret.deleted"],
  format: "json",
  enabled: true,
  createdAt: "2026-11-21T08:00:00.000Z",
  updatedAt: "2026-11-21T08:00:00.000Z"
}
const webhookWithSecret = { ...webhook, secret: "whsec_<43 characters>" }
const delivery = {
  eventId: "01980a66-a0b1-7394-85d6-f708192a3b4c",
  event: "secret.updated",
  state: "delivered",
  attempts: 1,
  log: [{ at: "2026-11-21T08:00:01.000Z", status: 204, problem: null }],
  createdAt: "2026-11-21T08:00:00.000Z",
  nextAttemptAt: null,
  finishedAt: "2026-11-21T08:00:01.000Z"
}

/** Webhooks of a team, for owners and admins in a session. */
export class WebhooksApi extends HttpApiGroup.make("webhooks")
  .add(
    HttpApiEndpoint.post("create", "/teams/:teamId/webhooks")
      .setPath(TeamPath)
      .setPayload(CreateWebhook)
      .addSuccess(answers(201, WebhookWithSecret))
      .addError(Schema.Union(MayNotManageTeam, Errors.PlanLimitReached, BadBody))
      .middleware(SessionCredential)
      .annotateContext(
        operation({
          summary: "Create a webhook",
          description:
            "Every delivery is a POST of JSON, signed: Ampoule-Signature is t=<unix seconds>,v1=<hex HMAC-SHA256 of t, a dot and the body>. The secret is shown once, in this response.",
          request: { name: webhook.name, url: webhook.url, events: webhook.events },
          response: webhookWithSecret
        })
      )
  )
  .add(
    HttpApiEndpoint.get("list", "/teams/:teamId/webhooks")
      .setPath(TeamPath)
      .addSuccess(answers(200, WebhookList))
      .addError(MayNotManageTeam)
      .middleware(SessionCredential)
      .annotateContext(
        operation({ summary: "List webhooks", description: "Without secrets.", response: { items: [webhook] } })
      )
  )
  .add(
    HttpApiEndpoint.patch("update", "/teams/:teamId/webhooks/:webhookId")
      .setPath(WebhookPath)
      .setPayload(UpdateWebhook)
      .addSuccess(answers(200, Webhook))
      .addError(Schema.Union(MayNotManageTeam, BadBody))
      .middleware(SessionCredential)
      .annotateContext(
        operation({
          summary: "Change a webhook",
          description: "Pending deliveries go to the new address.",
          request: { enabled: false },
          response: { ...webhook, enabled: false }
        })
      )
  )
  .add(
    HttpApiEndpoint.post("rotate", "/teams/:teamId/webhooks/:webhookId/rotate")
      .setPath(WebhookPath)
      .addSuccess(answers(200, WebhookWithSecret))
      .addError(MayNotManageTeam)
      .middleware(SessionCredential)
      .annotateContext(
        operation({
          summary: "Rotate the secret of a webhook",
          description: "For 24 hours deliveries carry two v1 signatures, of the new and the old secret.",
          response: webhookWithSecret
        })
      )
  )
  .add(
    HttpApiEndpoint.post("test", "/teams/:teamId/webhooks/:webhookId/test")
      .setPath(WebhookPath)
      .addSuccess(answers(201, WebhookDelivery))
      .addError(MayNotManageTeam)
      .middleware(SessionCredential)
      .annotateContext(
        operation({
          summary: "Send a test event",
          description: "Queues an event of type webhook.test; its delivery shows the result.",
          response: {
            ...delivery,
            event: "webhook.test",
            state: "pending",
            attempts: 0,
            log: [],
            nextAttemptAt: "2026-11-21T08:00:00.000Z",
            finishedAt: null
          }
        })
      )
  )
  .add(
    HttpApiEndpoint.get("deliveries", "/teams/:teamId/webhooks/:webhookId/deliveries")
      .setPath(WebhookPath)
      .addSuccess(answers(200, WebhookDeliveryList))
      .addError(MayNotManageTeam)
      .middleware(SessionCredential)
      .annotateContext(
        operation({
          summary: "List deliveries of a webhook",
          description: "The last 100, newest first. Finished ones are kept for 7 days.",
          response: { items: [delivery] }
        })
      )
  )
  .add(
    HttpApiEndpoint.del("remove", "/teams/:teamId/webhooks/:webhookId")
      .setPath(WebhookPath)
      .addSuccess(answers(200, DeletedAck))
      .addError(MayNotManageTeam)
      .middleware(SessionCredential)
      .annotateContext(
        operation({
          summary: "Delete a webhook",
          description: "Deletes pending deliveries too.",
          response: { deleted: true }
        })
      )
  )
  .annotateContext(OpenApi.annotations({ description: "Webhooks of a team." })) {}

/** Webhooks of a team: pages and forms. */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { AuditAction } from "#schema/Audit.ts"
import { RouteNotFound } from "#schema/Errors.ts"
import { type TeamId, WebhookId } from "#schema/Ids.ts"
import { CreateWebhook, UpdateWebhook } from "#schema/WebhooksApi.ts"
import { Access } from "#src/access/Access.ts"
import { Webhooks } from "#src/webhooks/Webhooks.ts"
import * as Form from "./Form.ts"
import * as Html from "./Html.ts"
import * as Paths from "./Paths.ts"
import { action, type AtTeam, button, page, screen, team, to, withIds } from "./Routes.ts"
import { chosen } from "./Reach.tsx"
import { NewWebhookPage, SecretOnce, WebhookPage, WebhooksPage } from "./WebhookViews.tsx"

interface AtWebhook extends AtTeam {
  readonly webhookId: WebhookId
}
const webhook = withIds(team, Schema.Struct({ webhookId: WebhookId }))

const manage = (teamId: TeamId, audit: AuditAction) =>
  Effect.flatMap(Access, (access) => access.team("tokens:manage", teamId, { audit }))

const all = Effect.fnUntraced(function* ({ teamId }: AtTeam) {
  const webhooks = yield* Webhooks
  return { items: yield* webhooks.list(yield* manage(teamId, "webhook.list")) }
})

const one = Effect.fnUntraced(function* ({ teamId, webhookId }: AtWebhook) {
  const webhooks = yield* Webhooks
  const permit = yield* manage(teamId, "webhook.list")
  const found = (yield* webhooks.list(permit)).find(({ id }) => id === webhookId)
  if (found === undefined) return yield* new RouteNotFound({ message: "No such webhook." })
  return { webhook: found, deliveries: yield* webhooks.deliveries(permit, webhookId) }
})

const newWebhook = screen((at: AtTeam) => Effect.as(manage(at.teamId, "webhook.list"), {}), NewWebhookPage)

const create = action(team, {
  decode: (form) =>
    Form.decode(CreateWebhook)({
      name: form.text("name"),
      url: form.text("url").trim(),
      ...chosen(form, "events")
    }),
  run: (input, { teamId }) =>
    Effect.gen(function* () {
      return yield* (yield* Webhooks).create(yield* manage(teamId, "webhook.create"), input)
    }),
  done: (created, { visit }) => Html.page(<SecretOnce visit={visit} webhook={created} replaced={false} />),
  again: newWebhook
})

const details = screen(one, WebhookPage)

const update = action(webhook, {
  decode: (form, at) =>
    Effect.flatMap(one(at), ({ webhook: { events } }) =>
      Form.decode(UpdateWebhook)({
        name: form.text("name"),
        url: form.text("url").trim(),
        // All events stay all events until the person picks some.
        ...(events === null ? chosen(form, "events") : { events: form.all("events") })
      })
    ),
  run: (input, { teamId, webhookId }) =>
    Effect.gen(function* () {
      yield* (yield* Webhooks).update(yield* manage(teamId, "webhook.update"), webhookId, input)
    }),
  done: (_, { teamId, webhookId }) => to(Paths.webhook(teamId, webhookId), "webhook-changed"),
  again: details
})

const enable = (enabled: boolean) =>
  button(webhook, {
    run: ({ teamId, webhookId }) =>
      Effect.gen(function* () {
        yield* (yield* Webhooks).update(yield* manage(teamId, "webhook.update"), webhookId, { enabled })
      }),
    done: (_, { teamId, webhookId }) =>
      to(Paths.webhook(teamId, webhookId), enabled ? "webhook-enabled" : "webhook-disabled")
  })

const rotate = button(webhook, {
  run: ({ teamId, webhookId }) =>
    Effect.gen(function* () {
      return yield* (yield* Webhooks).rotate(yield* manage(teamId, "webhook.rotate"), webhookId)
    }),
  done: (rotated, { visit }) => Html.page(<SecretOnce visit={visit} webhook={rotated} replaced />)
})

const test = button(webhook, {
  run: ({ teamId, webhookId }) =>
    Effect.gen(function* () {
      yield* (yield* Webhooks).test(yield* manage(teamId, "webhook.test"), webhookId)
    }),
  done: (_, { teamId, webhookId }) => to(Paths.webhook(teamId, webhookId), "webhook-tested")
})

const remove = button(webhook, {
  run: ({ teamId, webhookId }) =>
    Effect.gen(function* () {
      yield* (yield* Webhooks).remove(yield* manage(teamId, "webhook.delete"), webhookId)
    }),
  done: (_, { teamId }) => to(Paths.webhooks(teamId), "webhook-deleted")
})

export const routes = HttpRouter.empty.pipe(
  HttpRouter.get("/app/teams/:teamId/webhooks", page(team, screen(all, WebhooksPage))),
  HttpRouter.get("/app/teams/:teamId/webhooks/new", page(team, newWebhook)),
  HttpRouter.post("/app/teams/:teamId/webhooks/new", create),
  HttpRouter.get("/app/teams/:teamId/webhooks/:webhookId", page(webhook, details)),
  HttpRouter.post("/app/teams/:teamId/webhooks/:webhookId", update),
  HttpRouter.post("/app/teams/:teamId/webhooks/:webhookId/enable", enable(true)),
  HttpRouter.post("/app/teams/:teamId/webhooks/:webhookId/disable", enable(false)),
  HttpRouter.post("/app/teams/:teamId/webhooks/:webhookId/rotate", rotate),
  HttpRouter.post("/app/teams/:teamId/webhooks/:webhookId/test", test),
  HttpRouter.post("/app/teams/:teamId/webhooks/:webhookId/delete", remove)
)

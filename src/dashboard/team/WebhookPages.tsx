/** Pages and forms of a team's webhooks. */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { RouteNotFound, ValidationFailed } from "#schema/Errors.ts"
import { WebhookId } from "#schema/Ids.ts"
import { CreateWebhook, UpdateWebhook } from "#schema/WebhooksApi.ts"
import * as Form from "#src/dashboard/frame/Form.ts"
import * as Html from "#src/dashboard/frame/Html.ts"
import * as Paths from "#src/dashboard/frame/Paths.ts"
import { action, type AtTeam, button, page, screen, team, to, withIds } from "#src/dashboard/frame/Routes.ts"
import { ticksOf } from "#src/dashboard/credentials/TokenAccess.tsx"
import { NewWebhookPage, SecretOnce, WebhookPage, WebhooksPage } from "./WebhookViews.tsx"
import * as UseCases from "#src/dashboard/frame/UseCases.ts"

interface AtWebhook extends AtTeam {
  readonly webhookId: WebhookId
}
const webhook = withIds(team, Schema.Struct({ webhookId: WebhookId }))

const all = screen(
  ({ teamId }: AtTeam) =>
    Effect.all({ items: UseCases.webhooks.list(teamId), failing: UseCases.webhooks.failing(teamId) }),
  WebhooksPage
)

const load = Effect.fnUntraced(function* ({ teamId, webhookId }: AtWebhook) {
  const webhook = (yield* UseCases.webhooks.list(teamId)).find(({ id }) => id === webhookId)
  if (webhook === undefined) return yield* new RouteNotFound({ message: "No such webhook." })
  return {
    webhook,
    deliveries: yield* UseCases.webhooks.deliveries(teamId, webhookId),
    failing: yield* UseCases.webhooks.failing(teamId)
  }
})

const newWebhook = screen(({ teamId }: AtTeam) => Effect.as(UseCases.webhooks.mayCreate(teamId), {}), NewWebhookPage)

/** All events are an explicit choice; a form without any choice is refused. */
const chosenEvents = (form: Form.Form) =>
  form.has("events") || form.has("allEvents")
    ? Effect.succeed(ticksOf(form, "events"))
    : Effect.fail(new ValidationFailed({ field: "events", message: "Choose events, or choose all events." }))

const decodeNew = Effect.fnUntraced(function* (form: Form.Form) {
  const events = yield* chosenEvents(form)
  return yield* Form.decode(CreateWebhook)({
    name: form.text("name"),
    url: form.text("url").trim(),
    format: form.filled("format") ?? "json",
    ...events
  })
})

const create = action(team, {
  decode: decodeNew,
  run: (input, { teamId }) => UseCases.webhooks.create(teamId, input),
  done: (created, { visit }) => Html.page(<SecretOnce visit={visit} webhook={created} replaced={false} />),
  again: newWebhook
})

const details = screen(load, WebhookPage)

const update = action(webhook, {
  decode: (form, at) =>
    Effect.gen(function* () {
      const { events } = (yield* load(at)).webhook
      return yield* Form.decode(UpdateWebhook)({
        name: form.text("name"),
        url: form.text("url").trim(),
        ...(form.filled("format") === undefined ? {} : { format: form.text("format") }),
        // A webhook for all events stays so until the person chooses some.
        ...(events === null ? yield* chosenEvents(form) : { events: form.all("events") })
      })
    }),
  run: (input, { teamId, webhookId }) => UseCases.webhooks.update(teamId, webhookId, input),
  done: (_, { teamId, webhookId }) => to(Paths.webhook(teamId, webhookId), "webhook-changed"),
  again: details
})

const enable = (enabled: boolean) =>
  button(webhook, {
    run: ({ teamId, webhookId }) => UseCases.webhooks.update(teamId, webhookId, { enabled }),
    done: (_, { teamId, webhookId }) =>
      to(Paths.webhook(teamId, webhookId), enabled ? "webhook-enabled" : "webhook-disabled")
  })

const rotate = button(webhook, {
  run: ({ teamId, webhookId }) => UseCases.webhooks.rotate(teamId, webhookId),
  done: (rotated, { visit }) => Html.page(<SecretOnce visit={visit} webhook={rotated} replaced />)
})

const test = button(webhook, {
  run: ({ teamId, webhookId }) => UseCases.webhooks.test(teamId, webhookId),
  done: (_, { teamId, webhookId }) => to(Paths.webhook(teamId, webhookId), "webhook-tested")
})

const remove = button(webhook, {
  run: ({ teamId, webhookId }) => UseCases.webhooks.remove(teamId, webhookId),
  done: (_, { teamId }) => to(Paths.webhooks(teamId), "webhook-deleted")
})

export const routes = HttpRouter.empty.pipe(
  HttpRouter.get("/app/teams/:teamId/webhooks", page(team, all)),
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

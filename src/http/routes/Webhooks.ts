import * as Effect from "effect/Effect"
import { ServerApi } from "#schema/ServerApi.ts"
import { Webhooks } from "#src/webhooks/Webhooks.ts"
import * as Endpoints from "#src/http/engine/Endpoints.ts"

export const layer = Endpoints.group(ServerApi, "webhooks", (handlers) =>
  Effect.map(Webhooks, (webhooks) =>
    handlers
      .handle("create", ({ path, payload }) => webhooks.create(path.teamId, payload))
      .handle("list", ({ path }) => Effect.map(webhooks.list(path.teamId), (items) => ({ items })))
      .handle("update", ({ path, payload }) => webhooks.update(path.teamId, path.webhookId, payload))
      .handle("rotate", ({ path }) => webhooks.rotate(path.teamId, path.webhookId))
      .handle("test", ({ path }) => webhooks.test(path.teamId, path.webhookId))
      .handle("deliveries", ({ path }) =>
        Effect.map(webhooks.deliveries(path.teamId, path.webhookId), (items) => ({ items }))
      )
      .handle("remove", ({ path }) => Effect.as(webhooks.remove(path.teamId, path.webhookId), { deleted: true }))
  )
)

import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as Effect from "effect/Effect"
import { ServerApi } from "#schema/Api.ts"
import type { AuditAction } from "#schema/Audit.ts"
import type { TeamId } from "#schema/Ids.ts"
import { Access } from "#src/access/Access.ts"
import { Webhooks } from "#src/webhooks/Webhooks.ts"

export const layer = HttpApiBuilder.group(ServerApi, "webhooks", (handlers) =>
  Effect.gen(function* () {
    const access = yield* Access
    const webhooks = yield* Webhooks
    const manage = (teamId: TeamId, audit: AuditAction) => access.team("tokens:manage", teamId, { audit })

    return handlers
      .handle("create", ({ path, payload }) =>
        Effect.flatMap(manage(path.teamId, "webhook.create"), (permit) => webhooks.create(permit, payload))
      )
      .handle("list", ({ path }) =>
        Effect.map(Effect.flatMap(manage(path.teamId, "webhook.list"), webhooks.list), (items) => ({ items }))
      )
      .handle("update", ({ path, payload }) =>
        Effect.flatMap(manage(path.teamId, "webhook.update"), (permit) =>
          webhooks.update(permit, path.webhookId, payload)
        )
      )
      .handle("rotate", ({ path }) =>
        Effect.flatMap(manage(path.teamId, "webhook.rotate"), (permit) => webhooks.rotate(permit, path.webhookId))
      )
      .handle("test", ({ path }) =>
        Effect.flatMap(manage(path.teamId, "webhook.test"), (permit) => webhooks.test(permit, path.webhookId))
      )
      .handle("deliveries", ({ path }) =>
        manage(path.teamId, "webhook.list").pipe(
          Effect.flatMap((permit) => webhooks.deliveries(permit, path.webhookId)),
          Effect.map((items) => ({ items }))
        )
      )
      .handle("remove", ({ path }) =>
        manage(path.teamId, "webhook.delete").pipe(
          Effect.flatMap((permit) => webhooks.remove(permit, path.webhookId)),
          Effect.as({ deleted: true })
        )
      )
  })
)

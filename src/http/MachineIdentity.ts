import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as Effect from "effect/Effect"
import { ServerApi } from "#schema/Api.ts"
import { Access } from "#src/access/Access.ts"
import { Rules } from "#src/machines/Rules.ts"

export const layer = HttpApiBuilder.group(ServerApi, "machineRules", (handlers) =>
  Effect.gen(function* () {
    const access = yield* Access
    const rules = yield* Rules

    return handlers
      .handle("create", ({ path, payload }) =>
        Effect.flatMap(access.team("tokens:manage", path.teamId, { audit: "machine.rule_create" }), (permit) =>
          rules.create(permit, payload)
        )
      )
      .handle("list", ({ path }) =>
        access.team("tokens:manage", path.teamId, { audit: "machine.rule_list" }).pipe(
          Effect.flatMap(rules.list),
          Effect.map((items) => ({ items }))
        )
      )
      .handle("remove", ({ path }) =>
        access.team("tokens:manage", path.teamId, { audit: "machine.rule_delete" }).pipe(
          Effect.flatMap((permit) => rules.remove(permit, path.ruleId)),
          Effect.as({ deleted: true })
        )
      )
  })
)

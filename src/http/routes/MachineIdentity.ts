import * as Effect from "effect/Effect"
import { ServerApi } from "#schema/ServerApi.ts"
import { Rules } from "#src/machines/Rules.ts"
import * as Endpoints from "#src/http/engine/Endpoints.ts"

export const layer = Endpoints.group(ServerApi, "machineRules", (handlers) =>
  Effect.map(Rules, (rules) =>
    handlers
      .handle("create", ({ path, payload }) => rules.create(path.teamId, payload))
      .handle("list", ({ path }) => Effect.map(rules.list(path.teamId), (items) => ({ items })))
      .handle("remove", ({ path }) => Effect.as(rules.remove(path.teamId, path.ruleId), { deleted: true }))
  )
)

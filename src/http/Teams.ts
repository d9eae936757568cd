import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as Effect from "effect/Effect"
import { ServerApi } from "#schema/Api.ts"
import { CurrentCaller } from "#schema/Caller.ts"
import { Access } from "#src/access/Access.ts"
import { Members } from "#src/projects/Members.ts"
import { Teams } from "#src/projects/Teams.ts"

export const layer = HttpApiBuilder.group(ServerApi, "teams", (handlers) =>
  Effect.gen(function* () {
    const access = yield* Access
    const teams = yield* Teams
    const members = yield* Members

    return handlers
      .handle("create", ({ payload }) => Effect.flatMap(CurrentCaller, (caller) => teams.create(caller, payload.name)))
      .handle("update", ({ path, payload: { name, plan } }) =>
        Effect.gen(function* () {
          const intent = { audit: "team.update" } as const
          const permit = yield* access.team("team:manage", path.teamId, intent)
          const toPlan =
            plan === undefined
              ? {}
              : { plan: { permit: yield* access.team("plan:manage", path.teamId, intent), to: plan } }
          return yield* teams.update(permit, { ...(name === undefined ? {} : { name }), ...toPlan })
        })
      )
      .handle("leave", ({ path }) =>
        Effect.gen(function* () {
          yield* members.leave(yield* access.team("members:read", path.teamId, { audit: "team.leave" }))
          return { deleted: true }
        })
      )
  })
)

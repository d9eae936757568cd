import * as Effect from "effect/Effect"
import { ServerApi } from "#schema/ServerApi.ts"
import { Members } from "#src/projects/Members.ts"
import { Teams } from "#src/projects/Teams.ts"
import * as Endpoints from "#src/http/engine/Endpoints.ts"
import { acceptWaiting } from "./SecondPerson.ts"

export const layer = Endpoints.group(ServerApi, "teams", (handlers) =>
  Effect.gen(function* () {
    const teams = yield* Teams
    const members = yield* Members

    return handlers
      .handle("create", ({ payload }) => teams.create(payload.name))
      .handle("update", ({ path, payload }) => acceptWaiting(teams.update(path.teamId, payload)))
      .handle("leave", ({ path }) => Effect.map(members.leave(path.teamId), (waysIn) => ({ deleted: true, waysIn })))
  })
)

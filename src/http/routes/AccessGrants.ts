import * as Effect from "effect/Effect"
import { ServerApi } from "#schema/ServerApi.ts"
import { AccessGrants } from "#src/projects/AccessGrants.ts"
import * as Endpoints from "#src/http/engine/Endpoints.ts"
import { acceptWaiting } from "./SecondPerson.ts"

export const layer = Endpoints.group(ServerApi, "access", (handlers) =>
  Effect.gen(function* () {
    const grants = yield* AccessGrants

    return handlers
      .handle("listOfProject", ({ path }) => grants.listOfProject(path.projectId))
      .handle("grantProject", ({ path, payload }) => acceptWaiting(grants.grantProject(path.projectId, payload)))
      .handle("listOfEnvironment", ({ path }) => grants.listOfEnvironment(path.envId))
      .handle("grantEnvironment", ({ path, payload }) => acceptWaiting(grants.grantEnvironment(path.envId, payload)))
      .handle("end", ({ path }) => Effect.as(grants.end(path.grantId), { deleted: true }))
  })
)

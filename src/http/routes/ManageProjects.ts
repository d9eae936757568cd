import * as Effect from "effect/Effect"
import { ServerApi } from "#schema/ServerApi.ts"
import { Environments } from "#src/projects/Environments.ts"
import { Projects } from "#src/projects/Projects.ts"
import * as Endpoints from "#src/http/engine/Endpoints.ts"
import { acceptWaiting } from "./SecondPerson.ts"

export const layer = Endpoints.group(ServerApi, "manageProjects", (handlers) =>
  Effect.gen(function* () {
    const projects = yield* Projects
    const environments = yield* Environments
    const deleted = Effect.as({ deleted: true })

    return handlers
      .handle("create", ({ path, payload }) => projects.create(path.teamId, payload))
      .handle("update", ({ path, payload }) => acceptWaiting(projects.update(path.projectId, payload)))
      .handle("remove", ({ path }) => deleted(projects.remove(path.projectId)))
      .handle("createEnvironment", ({ path, payload }) => environments.create(path.projectId, payload))
      .handle("updateEnvironment", ({ path, payload }) => acceptWaiting(environments.update(path.envId, payload)))
      .handle("removeEnvironment", ({ path }) => deleted(environments.remove(path.envId)))
  })
)

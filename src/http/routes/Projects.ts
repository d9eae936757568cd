import * as Effect from "effect/Effect"
import { ServerApi } from "#schema/ServerApi.ts"
import { Environments } from "#src/projects/Environments.ts"
import { Projects } from "#src/projects/Projects.ts"
import * as Endpoints from "#src/http/engine/Endpoints.ts"

export const layer = Endpoints.group(ServerApi, "projects", (handlers) =>
  Effect.gen(function* () {
    const projects = yield* Projects
    const environments = yield* Environments

    return handlers
      .handle("list", () => Effect.map(projects.list(), (items) => ({ items })))
      .handle("listEnvironments", ({ path }) => environments.list(path.projectId))
  })
)

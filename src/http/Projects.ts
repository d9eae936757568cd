import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as Effect from "effect/Effect"
import { ServerApi } from "#schema/Api.ts"
import { Environments } from "#src/projects/Environments.ts"
import { Projects } from "#src/projects/Projects.ts"

export const layer = HttpApiBuilder.group(ServerApi, "projects", (handlers) =>
  Effect.gen(function* () {
    const projects = yield* Projects
    const environments = yield* Environments

    return handlers
      .handle("list", () => Effect.map(projects.list(), (items) => ({ items })))
      .handle("listEnvironments", ({ path }) => environments.list(path.projectId))
  })
)

import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as Effect from "effect/Effect"
import { ServerApi } from "#schema/Api.ts"
import { Access } from "#src/access/Access.ts"
import { Environments } from "#src/projects/Environments.ts"
import { Projects } from "#src/projects/Projects.ts"

export const layer = HttpApiBuilder.group(ServerApi, "projects", (handlers) =>
  Effect.gen(function* () {
    const access = yield* Access
    const projects = yield* Projects
    const environments = yield* Environments

    return handlers
      .handle("list", () =>
        Effect.gen(function* () {
          const reach = yield* access.eachTeam("projects:read", { audit: "project.list" })
          return { items: yield* projects.list(reach) }
        })
      )
      .handle("listEnvironments", ({ path }) =>
        Effect.gen(function* () {
          const permit = yield* access.project("projects:read", path.projectId, { audit: "environment.list" })
          return yield* environments.list(permit)
        })
      )
  })
)

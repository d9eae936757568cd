import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as Effect from "effect/Effect"
import { ServerApi } from "#schema/Api.ts"
import { Access } from "#src/access/Access.ts"
import { Environments } from "#src/projects/Environments.ts"
import { Projects } from "#src/projects/Projects.ts"

export const layer = HttpApiBuilder.group(ServerApi, "manageProjects", (handlers) =>
  Effect.gen(function* () {
    const access = yield* Access
    const projects = yield* Projects
    const environments = yield* Environments

    return handlers
      .handle("create", ({ path, payload }) =>
        Effect.gen(function* () {
          const permit = yield* access.team("projects:manage", path.teamId, { audit: "project.create" })
          return yield* projects.create(permit, payload)
        })
      )
      .handle("update", ({ path, payload }) =>
        Effect.gen(function* () {
          const permit = yield* access.project("projects:manage", path.projectId, { audit: "project.update" })
          return yield* projects.update(permit, payload)
        })
      )
      .handle("remove", ({ path }) =>
        Effect.gen(function* () {
          yield* projects.remove(yield* access.project("projects:manage", path.projectId, { audit: "project.delete" }))
          return { deleted: true }
        })
      )
      .handle("createEnvironment", ({ path, payload }) =>
        Effect.gen(function* () {
          const permit = yield* access.project("environments:manage", path.projectId, { audit: "environment.create" })
          return yield* environments.create(permit, payload)
        })
      )
      .handle("updateEnvironment", ({ path, payload }) =>
        Effect.gen(function* () {
          const intent = { audit: "environment.update" } as const
          const permit = yield* access.environmentWithId("environments:manage", path.envId, intent)
          return yield* environments.update(permit, payload)
        })
      )
      .handle("removeEnvironment", ({ path }) =>
        Effect.gen(function* () {
          const intent = { audit: "environment.delete" } as const
          yield* environments.remove(yield* access.environmentWithId("environments:manage", path.envId, intent))
          return { deleted: true }
        })
      )
  })
)

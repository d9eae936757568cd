/** Joins each definition of `schema/McpTools.ts` to its handler, over the same use cases as REST. */
import * as Effect from "effect/Effect"
import { CurrentCaller } from "#schema/Caller.ts"
import { toolNames } from "#schema/McpTools.ts"
import { ProjectIdOut } from "#schema/Ids.ts"
import { Environments } from "#src/projects/Environments.ts"
import { Projects } from "#src/projects/Projects.ts"
import { missingScopes } from "./Credentials.ts"
import * as ReadTools from "./ReadTools.ts"
import { type Handlers, make as tool, type Names, type Tool } from "./Tool.ts"
import * as WriteTools from "./WriteTools.ts"

const names = Effect.gen(function* () {
  const projects = yield* Projects
  const environments = yield* Environments
  return {
    project: (slug) => projects.idOfSlug(slug),
    environments: (projectId) =>
      Effect.gen(function* () {
        if (missingScopes(yield* CurrentCaller, ["projects:read"]).length > 0) return []
        const { items } = yield* environments.list(ProjectIdOut.make(projectId))
        return items.map(({ slug }) => slug)
      }).pipe(Effect.orElseSucceed(() => []))
  } satisfies Names
})

export const make = Effect.gen(function* () {
  const handlers: Handlers = { ...(yield* ReadTools.handlers), ...(yield* WriteTools.handlers) }
  const lookUps = yield* names
  return new Map<string, Tool>(toolNames.map((name) => [name, tool(name, handlers[name], lookUps)]))
})

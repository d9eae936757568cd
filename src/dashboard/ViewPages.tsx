/** An environment as a whole: which secrets use which, and how it differs from another environment. */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { ProjectId } from "#schema/Ids.ts"
import { DiffQuery } from "#schema/SecretRequests.ts"
import { EnvironmentSlug } from "#schema/Values.ts"
import { ComparePage } from "./CompareViews.tsx"
import { type AtEnvironment, environment } from "./EnvironmentFrame.tsx"
import * as Form from "./Form.ts"
import { GraphPage } from "./GraphViews.tsx"
import { inTeam, query } from "./Pages.ts"
import { type AtPerson, page, person, screen, withIds } from "./Routes.ts"
import * as UseCases from "./UseCases.ts"

const references = screen(
  ({ location }: AtEnvironment) => Effect.map(UseCases.secretReads.composition(location.query), (graph) => ({ graph })),
  GraphPage
)

interface AtProject extends AtPerson {
  readonly projectId: ProjectId
}
const project = withIds(person, Schema.Struct({ projectId: ProjectId }))

const comparison = Effect.fnUntraced(function* ({ projectId, visit }: AtProject) {
  const project = yield* UseCases.projects.get(projectId)
  const { items } = yield* UseCases.environments.list(projectId)
  const params = yield* query
  const from = params.text("from") || (items[0]?.slug ?? "")
  const to = params.text("to")
  const both = to !== "" && from !== to
  const diff = both
    ? yield* UseCases.secretReads.diff(yield* Form.decode(DiffQuery)({ projectId, sourceEnv: from, targetEnv: to }))
    : null
  return {
    visit: inTeam(visit, project.teamId),
    project,
    environments: items,
    from: yield* Form.decode(EnvironmentSlug)(from === "" ? "development" : from),
    to: both ? to : (items.find((one) => one.slug !== from)?.slug ?? ""),
    diff
  }
})

export const routes = HttpRouter.empty.pipe(
  HttpRouter.get("/app/projects/:projectId/env/:slug/graph", page(environment, references)),
  HttpRouter.get("/app/projects/:projectId/compare", page(project, screen(comparison, ComparePage)))
)

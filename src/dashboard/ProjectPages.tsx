/** Projects of the team and their settings: pages and forms. The list is the first page after signing in. */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { EnvironmentId, ProjectId } from "#schema/Ids.ts"
import { CreateEnvironment, CreateProject, UpdateEnvironment, UpdateProject } from "#schema/ManageProjectsApi.ts"
import type { ProjectEnvironment } from "#schema/ProjectsApi.ts"
import * as Form from "./Form.ts"
import * as Html from "./Html.ts"
import { inTeam, pageNumber, query } from "./Pages.ts"
import * as Paths from "./Paths.ts"
import { type Editing, ProjectSettingsPage } from "./ProjectSettings.tsx"
import { ProjectsPage } from "./ProjectViews.tsx"
import { action, type AtPerson, button, page, person, screen, show, team, to, withIds } from "./Routes.ts"
import * as UseCases from "./UseCases.ts"

const overview = Effect.fnUntraced(function* ({ visit }: AtPerson) {
  const params = yield* query
  const id = visit.team?.id
  const projects = (yield* UseCases.projects.list()).filter(({ teamId }) => teamId === id)
  const environments: ReadonlyMap<ProjectId, ReadonlyArray<ProjectEnvironment>> = id === undefined
    ? new Map()
    : yield* UseCases.environments.byProject(id)
  return {
    projects,
    environments,
    page: pageNumber(params),
    words: params.text("q").trim(),
    panel: params.text("panel")
  }
})

const list = screen(overview, (shown) => <ProjectsPage {...shown} creating={shown.panel === "new"} />)
const home = person((at) => (at.visit.team === null ? Effect.succeed(Html.seeOther(Paths.newTeam)) : show(list)(at)))

const create = action(team, {
  decode: (form) => {
    const slug = form.filled("slug")
    return Form.decode(CreateProject)({ name: form.text("name"), ...(slug === undefined ? {} : { slug }) })
  },
  run: (input, { teamId }) => UseCases.projects.create(teamId, input),
  done: ({ id }) => to(Paths.environment({ projectId: id, slug: "development" }), "project-created"),
  again: screen(overview, (shown) => <ProjectsPage {...shown} creating />)
})

const choose = button(team, {
  run: ({ teamId, visit }) => UseCases.sessions.chooseTeam(visit.caller, teamId),
  done: () => Html.seeOther(Paths.home)
})

interface AtProject extends AtPerson {
  readonly projectId: ProjectId
}
const project = withIds(person, Schema.Struct({ projectId: ProjectId }))
const environment = withIds(project, Schema.Struct({ environmentId: EnvironmentId }))

/** A project and its environments, as far as the person sees them. */
const load = ({ projectId, visit }: AtProject) =>
  Effect.gen(function* () {
    const project = yield* UseCases.projects.get(projectId)
    const { items } = yield* UseCases.environments.list(projectId)
    return { project, environments: items, visit: inTeam(visit, project.teamId) }
  })
const settings = (editing?: Editing) => screen(load, (shown) => <ProjectSettingsPage {...shown} editing={editing} />)

const enter = project((at) =>
  Effect.map(load(at), ({ environments: [first], project: { id: projectId } }) =>
    Html.seeOther(
      first === undefined ? Paths.projectSettings(projectId) : Paths.environment({ projectId, slug: first.slug })
    )
  )
)

const update = action(project, {
  decode: (form) => Form.decode(UpdateProject)({ name: form.text("name"), slug: form.text("slug") }),
  run: (input, { projectId }) => UseCases.projects.update(projectId, input),
  done: (_, { projectId }) => to(Paths.projectSettings(projectId), "project-changed"),
  again: settings("project")
})

const remove = button(project, {
  run: ({ projectId }) => UseCases.projects.remove(projectId),
  done: () => to(Paths.home, "project-deleted")
})

const addEnvironment = action(project, {
  decode: (form) => {
    const name = form.filled("name")
    return Form.decode(CreateEnvironment)({
      slug: form.text("slug"),
      ...(name === undefined ? {} : { name }),
      protected: form.has("protected")
    })
  },
  run: (input, { projectId }) => UseCases.environments.create(projectId, input),
  done: (_, { projectId }) => to(Paths.projectSettings(projectId), "environment-created"),
  again: settings("environment")
})

const updateEnvironment = action(environment, {
  decode: (form) => Form.decode(UpdateEnvironment)({ name: form.text("name"), protected: form.has("protected") }),
  run: (input, { environmentId }) => UseCases.environments.update(environmentId, input),
  done: (_, { projectId }) => to(Paths.projectSettings(projectId), "environment-changed")
})

const removeEnvironment = button(environment, {
  run: ({ environmentId }) => UseCases.environments.remove(environmentId),
  done: (_, { projectId }) => to(Paths.projectSettings(projectId), "environment-deleted")
})

export const routes = HttpRouter.empty.pipe(
  HttpRouter.get(Paths.home, home),
  HttpRouter.post("/app/teams/:teamId/choose", choose),
  HttpRouter.post("/app/teams/:teamId/projects", create),
  HttpRouter.get("/app/projects/:projectId", enter),
  HttpRouter.get("/app/projects/:projectId/settings", page(project, settings())),
  HttpRouter.post("/app/projects/:projectId/settings", update),
  HttpRouter.post("/app/projects/:projectId/settings/delete", remove),
  HttpRouter.post("/app/projects/:projectId/settings/environments", addEnvironment),
  HttpRouter.post("/app/projects/:projectId/settings/environments/:environmentId", updateEnvironment),
  HttpRouter.post("/app/projects/:projectId/settings/environments/:environmentId/delete", removeEnvironment)
)

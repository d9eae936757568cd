/** The environment that a path names, and the frame of its pages: links to its siblings and its views. */
import * as Effect from "effect/Effect"
import type { ComponentChildren } from "preact"
import { EnvironmentNotFound } from "#schema/Errors.ts"
import { ProjectId } from "#schema/Ids.ts"
import type { GrantLevel } from "#schema/Scopes.ts"
import type { Project, ProjectEnvironment } from "#schema/ProjectsApi.ts"
import { EnvironmentSlug } from "#schema/Values.ts"
import * as Policy from "#src/access/Policy.ts"
import * as Ui from "./Components.tsx"
import { Layout, Tabs } from "./Layout.tsx"
import { bindForms, inTeam, param } from "./Pages.ts"
import * as Paths from "./Paths.ts"
import * as Icons from "./Icons.tsx"
import { type Guard, person, within } from "./Routes.ts"
import { may, type Visit } from "./Visit.ts"
import * as UseCases from "./UseCases.ts"

export interface Location {
  readonly visit: Visit
  readonly project: Project
  readonly environment: ProjectEnvironment
  readonly environments: ReadonlyArray<ProjectEnvironment>
  readonly path: Paths.EnvironmentPath
  /** The environment as use cases take it. */
  readonly query: { readonly projectId: ProjectId; readonly environment: EnvironmentSlug }
  /** True if the person may change secrets here. Pages show buttons by it; the use cases decide. */
  readonly writes: boolean
  readonly readsValues: boolean
  /** True if the role suffices but a grant is missing. */
  readonly lacksValues: boolean
}
export interface AtEnvironment {
  readonly location: Location
}

/** Rights of the person in an environment of the page's team. */
export const rightsAt = (visit: Visit, project: Project, environment: ProjectEnvironment) => {
  const { caller, team } = visit
  const at = {
    projectId: project.id,
    environmentId: environment.id,
    readers: environment.readers === "granted" ? "granted" : "team",
    visibility: project.visibility === "granted" ? "granted" : "team"
  } as const
  const lacks = (level: GrantLevel) => team !== null && Policy.lacksGrant(caller, team, at, level)
  const lacksValues = may(visit, "secrets:read_values") && lacks("values")
  const manages = team?.role === "owner" || team?.role === "admin"
  return {
    writes:
      may(visit, "secrets:write") &&
      (!environment.protected || environment.changes === "proposed" || manages) &&
      !lacks("write"),
    readsValues: may(visit, "secrets:read_values") && !lacksValues,
    lacksValues
  }
}

const locate = Effect.fnUntraced(function* (visit: Visit) {
  const projectId = yield* param("projectId", ProjectId)
  const slug = yield* param("slug", EnvironmentSlug)
  const project = yield* UseCases.projects.get(projectId)
  const { items } = yield* UseCases.environments.list(projectId)
  const environment = items.find((one) => one.slug === slug)
  if (environment === undefined) return yield* new EnvironmentNotFound()
  const here = inTeam(visit, project.teamId)
  const location: Location = {
    visit: here,
    project,
    environment,
    environments: items,
    path: { projectId, slug },
    query: { projectId, environment: slug },
    ...rightsAt(here, project, environment)
  }
  return location
})

/** Guard for pages of one environment. An invisible environment does not exist. */
export const environment: Guard<AtEnvironment> = within(person, ({ visit }) =>
  Effect.tap(
    Effect.map(locate(visit), (location) => ({ location })),
    ({ location: { environment, path } }) => bindForms({ path: Paths.environment(path), id: environment.id })
  )
)

export const EnvironmentPill = ({
  current = false,
  environment,
  projectId
}: {
  readonly environment: ProjectEnvironment
  readonly projectId: ProjectId
  readonly current?: boolean
}) => (
  <a
    class="pill"
    href={Paths.environment({ projectId, slug: environment.slug })}
    aria-current={current ? "page" : undefined}
  >
    {environment.protected ? <Icons.Lock /> : null}
    <bdi>{environment.name}</bdi>
    {environment.protected ? <span class="hidden">(protected)</span> : null}
  </a>
)

/**
 * Links to the environments of a project. `current` is the slug of the page's environment; without it, "All" is
 * current.
 */
export const EnvironmentPills = ({
  current,
  environments,
  project
}: {
  readonly environments: ReadonlyArray<ProjectEnvironment>
  readonly project: Project
  readonly current?: string
}) => (
  <nav class="pills" aria-label="Environments">
    <a class="pill" href={Paths.project(project.id)} aria-current={current === undefined ? "page" : undefined}>
      All
    </a>
    {environments.map((one) => (
      <EnvironmentPill environment={one} projectId={project.id} current={one.slug === current} />
    ))}
  </nav>
)

type View = "secrets" | "access" | "graph" | "deleted" | "sealing"

const EnvironmentTabs = ({ path, view }: { readonly path: Paths.EnvironmentPath; readonly view: View }) => {
  const here = Paths.environment(path)
  return (
    <Tabs
      label="Views of the environment"
      current={view}
      of={[
        ["secrets", here, "Secrets"],
        ["graph", `${here}/graph`, "References"],
        ["deleted", `${here}/deleted`, "Deleted"],
        ["sealing", `${here}/sealing`, "Sealed files"],
        ["access", `${here}/access`, "Access"]
      ]}
    />
  )
}

export const EnvironmentFrame = ({
  actions,
  children,
  location,
  notice,
  title,
  view
}: {
  readonly location: Location
  readonly view: View
  readonly title: string
  /** As in `Layout`. */
  readonly notice?: ComponentChildren
  readonly actions?: ComponentChildren
  readonly children: ComponentChildren
}) => {
  const { environment, environments, path, project, visit } = location
  return (
    <Layout
      visit={visit}
      section="projects"
      title={`${title}, ${project.name} ${environment.name}`}
      inProject={{ id: project.id, name: project.name, view: "secrets", slug: environment.slug }}
      heading={
        <>
          <bdi>{project.name}</bdi> <span class="hint">/</span> <bdi>{environment.name}</bdi>{" "}
          {environment.protected ? <Ui.Protected /> : null}
        </>
      }
      crumbs={[{ href: Paths.home, label: "Projects" }]}
      actions={actions}
      notice={notice}
    >
      <EnvironmentPills environments={environments} project={project} current={environment.slug} />
      <EnvironmentTabs path={path} view={view} />
      {children}
    </Layout>
  )
}

/** The frame of pages about one environment: where it is, its siblings, its views. */
import * as Effect from "effect/Effect"
import type { ComponentChildren } from "preact"
import { EnvironmentNotFound } from "#schema/Errors.ts"
import { ProjectId } from "#schema/Ids.ts"
import type { Project, ProjectEnvironment } from "#schema/ProjectsApi.ts"
import { EnvironmentSlug } from "#schema/Values.ts"
import { Environments } from "#src/projects/Environments.ts"
import { Projects } from "#src/projects/Projects.ts"
import { Protected } from "./Components.tsx"
import { Layout } from "./Layout.tsx"
import { type Pages, param } from "./Pages.ts"
import * as Paths from "./Paths.ts"
import { EnvironmentPill } from "./ProjectPages.tsx"
import { may, type Visit } from "./Visit.ts"

export interface Place {
  readonly visit: Visit
  readonly project: Project
  readonly environment: ProjectEnvironment
  readonly environments: ReadonlyArray<ProjectEnvironment>
  readonly at: { readonly projectId: ProjectId; readonly slug: string }
  /** What the services ask for. */
  readonly query: { readonly projectId: ProjectId; readonly environment: EnvironmentSlug }
  /** Whether the person may change secrets here: what buttons follow; the services decide. */
  readonly writes: boolean
  readonly readsValues: boolean
}

/** The place that the path names; not visible is not there. */
export const make = (pages: Pages["Type"]) =>
  Effect.gen(function* () {
    const projects = yield* Projects
    const environments = yield* Environments
    return Effect.fnUntraced(function* (visit: Visit) {
      const projectId = yield* param("projectId", ProjectId)
      const slug = yield* param("slug", EnvironmentSlug)
      const project = yield* projects.get(projectId)
      const { items } = yield* environments.list(projectId)
      const environment = items.find((one) => one.slug === slug)
      if (environment === undefined) return yield* new EnvironmentNotFound()
      const here = pages.inTeam(visit, project.teamId)
      const role = here.team?.role
      const place: Place = {
        visit: here,
        project,
        environment,
        environments: items,
        at: { projectId, slug },
        query: { projectId, environment: slug },
        writes: may(here, "secrets:write") && (!environment.protected || role === "owner" || role === "admin"),
        readsValues: may(here, "secrets:read_values")
      }
      return place
    })
  })

export type View = "secrets" | "graph" | "deleted" | "compare" | "sealing"

export const PlaceTabs = ({ at, view }: { readonly at: Place["at"]; readonly view: View }) => {
  const here = Paths.environment(at)
  const tab = (name: View, href: string, label: string) => (
    <a href={href} aria-current={view === name ? "page" : undefined}>
      {label}
    </a>
  )
  return (
    <nav class="tabs" aria-label="Views of the environment">
      {tab("secrets", here, "Secrets")}
      {tab("compare", `${Paths.compare(at.projectId)}?from=${at.slug}`, "Compare")}
      {tab("graph", `${here}/graph`, "References")}
      {tab("deleted", `${here}/deleted`, "Deleted")}
      {tab("sealing", `${here}/sealing`, "Sealed files")}
      <a href={Paths.projectSettings(at.projectId)}>Project settings</a>
    </nav>
  )
}

export const PlacePage = ({
  actions,
  children,
  place,
  title,
  view
}: {
  readonly place: Place
  readonly view: View
  readonly title: string
  readonly actions?: ComponentChildren
  readonly children: ComponentChildren
}) => {
  const { at, environment, environments, project, visit } = place
  return (
    <Layout
      visit={visit}
      section="projects"
      title={`${title}, ${project.name} ${environment.name}`}
      heading={
        <>
          {project.name} <span class="hint">/</span> {environment.name} {environment.protected ? <Protected /> : null}
        </>
      }
      crumbs={[{ href: Paths.home, label: "Projects" }]}
      actions={actions}
    >
      <nav class="pills" aria-label="Environments">
        {environments.map((one) => (
          <EnvironmentPill environment={one} projectId={project.id} current={one.id === environment.id} />
        ))}
      </nav>
      <PlaceTabs at={at} view={view} />
      {children}
    </Layout>
  )
}

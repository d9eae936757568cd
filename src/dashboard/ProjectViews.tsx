/** The list of projects, one click away from any environment. */
import type { ProjectId } from "#schema/Ids.ts"
import type { Project, ProjectEnvironment } from "#schema/ProjectsApi.ts"
import { AddButton, Empty, LinkButton, Pager, ProblemNote, Submit, TextField } from "./Components.tsx"
import * as Icons from "./Icons.tsx"
import { Layout } from "./Layout.tsx"
import * as Paths from "./Paths.ts"
import type { Attempt } from "./Routes.ts"
import { may, type Visit } from "./Visit.ts"

/** Projects on one page. */
const pageSize = 60

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
    {environment.name}
    {environment.protected ? <span class="hidden">(protected)</span> : null}
  </a>
)

const ProjectCard = ({
  environments,
  project
}: {
  readonly project: Project
  readonly environments: ReadonlyArray<ProjectEnvironment>
}) => (
  <li class="project" data-filter-row={`${project.name} ${project.slug}`}>
    <div class="project-title">
      <div>
        <h2>
          <a href={Paths.project(project.id)}>{project.name}</a>
        </h2>
        <code class="hint">{project.slug}</code>
      </div>
      <a class="hint" href={Paths.projectSettings(project.id)}>
        Settings<span class="hidden"> of {project.name}</span>
      </a>
    </div>
    {environments.length === 0 ? (
      <p class="hint">No environments.</p>
    ) : (
      <div class="pills">
        {environments.map((environment) => (
          <EnvironmentPill environment={environment} projectId={project.id} />
        ))}
      </div>
    )}
  </li>
)

const NewProject = ({ form, problem, visit }: Attempt & { readonly visit: Visit }) =>
  visit.team === null ? null : (
    <form method="post" action={`${Paths.team(visit.team.id)}/projects`} class="panel narrow">
      <h2>New project</h2>
      {problem?.field === "name" || problem?.field === "slug" ? null : <ProblemNote problem={problem} />}
      <div class="fields">
        <TextField name="name" label="Name" value={form.text("name")} focus problem={problem} />
        <TextField
          name="slug"
          label="Slug"
          value={form.text("slug")}
          mono
          optional
          hint="Names the project on the command line. If empty, it is made from the name."
          problem={problem}
        />
      </div>
      <p class="hint">
        The project starts with the environments development, staging and production; production is protected. You can
        change them later.
      </p>
      <Submit cancel={Paths.home}>Create the project</Submit>
    </form>
  )

const NoProjects = ({ manages }: { readonly manages: boolean }) => (
  <Empty title="No projects yet">
    <p>A project holds environments, and each environment holds secrets.</p>
    {manages ? (
      <div class="buttons">
        <LinkButton href={`${Paths.home}?panel=new`} primary>
          Create the first project
        </LinkButton>
        <LinkButton href={Paths.start}>Getting started</LinkButton>
      </div>
    ) : (
      <p>An owner or admin of the team can create one.</p>
    )}
  </Empty>
)

interface Overview {
  readonly projects: ReadonlyArray<Project>
  readonly environments: ReadonlyMap<ProjectId, ReadonlyArray<ProjectEnvironment>>
  readonly page: number
  /** What the list is filtered by. */
  readonly words: string
}

const ProjectList = ({ environments, page, projects, words }: Overview) => {
  const matching = projects.filter((project) =>
    `${project.name} ${project.slug}`.toLowerCase().includes(words.toLowerCase())
  )
  const onPage = matching.slice((page - 1) * pageSize, page * pageSize)
  return (
    <>
      {projects.length > 6 ? (
        <form class="toolbar" method="get" action={Paths.home}>
          <div class="search">
            <Icons.Search />
            <input
              type="search"
              name="q"
              value={words}
              aria-label="Filter projects"
              placeholder="Filter"
              data-filter
              data-filter-partial={projects.length > onPage.length ? "" : undefined}
            />
          </div>
        </form>
      ) : null}
      <ul class="cards">
        {onPage.map((project) => (
          <ProjectCard project={project} environments={environments.get(project.id) ?? []} />
        ))}
      </ul>
      <Pager
        page={page}
        size={pageSize}
        total={matching.length}
        link={(n) => `${Paths.home}?page=${n}&q=${encodeURIComponent(words)}`}
      />
    </>
  )
}

export const ProjectsPage = ({
  creating,
  form,
  problem,
  visit,
  ...overview
}: Attempt & Overview & { readonly visit: Visit; readonly creating: boolean }) => {
  const manages = may(visit, "projects:manage")
  return (
    <Layout
      visit={visit}
      section="projects"
      title="Projects"
      actions={manages && !creating ? <AddButton href={`${Paths.home}?panel=new`}>New project</AddButton> : undefined}
    >
      {creating ? (
        <div class="stack">
          <NewProject visit={visit} form={form} problem={problem} />
        </div>
      ) : null}
      {overview.projects.length > 0 ? (
        <section class={creating ? "section" : ""} aria-label="All projects">
          <ProjectList {...overview} />
        </section>
      ) : creating ? null : (
        <NoProjects manages={manages} />
      )}
    </Layout>
  )
}

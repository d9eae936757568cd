/** Projects of the team: the first page after signing in, one click away from any environment. */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import type { ComponentChildren } from "preact"
import type { AnyApiError } from "#schema/ApiError.ts"
import { EnvironmentId, ProjectId, TeamId } from "#schema/Ids.ts"
import { CreateEnvironment, CreateProject, UpdateEnvironment, UpdateProject } from "#schema/ManageProjectsApi.ts"
import type { Project, ProjectEnvironment } from "#schema/ProjectsApi.ts"
import { Sessions } from "#src/credentials/Sessions.ts"
import { Environments } from "#src/projects/Environments.ts"
import { Projects } from "#src/projects/Projects.ts"
import { CheckBox, Confirm, Empty, Pager, ProblemNote, Protected, Table, TextField } from "./Components.tsx"
import * as Form from "./Form.ts"
import * as Html from "./Html.ts"
import * as Icons from "./Icons.tsx"
import { Layout } from "./Layout.tsx"
import { withNotice } from "./Notices.ts"
import { attempt, type Pages, param, query, shown } from "./Pages.ts"
import * as Paths from "./Paths.ts"
import { may, type Visit } from "./Visit.ts"

/** Projects on one page; environments are read for these alone. */
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

const NewProject = ({
  name = "",
  problem,
  slug = "",
  visit
}: {
  readonly visit: Visit
  readonly name?: string
  readonly slug?: string
  readonly problem?: AnyApiError | undefined
}) =>
  visit.team === null ? null : (
    <form method="post" action={`${Paths.team(visit.team.id)}/projects`} class="panel narrow">
      <h2>New project</h2>
      {problem?.field === "name" || problem?.field === "slug" ? null : <ProblemNote problem={problem} />}
      <div class="fields">
        <TextField name="name" label="Name" value={name} focus problem={problem} />
        <TextField
          name="slug"
          label="Slug"
          value={slug}
          mono
          optional
          hint="For the command line. Follows from the name when empty."
          problem={problem}
        />
      </div>
      <p class="hint">
        It starts with the environments development, staging and production; production is protected. You can change
        them later.
      </p>
      <div class="buttons">
        <button class="button button-primary">Create the project</button>
        <a class="button button-plain" href={Paths.home}>
          Cancel
        </a>
      </div>
    </form>
  )

const ProjectsPage = ({
  children,
  environments,
  page,
  projects,
  visit,
  words
}: {
  readonly visit: Visit
  readonly projects: ReadonlyArray<Project>
  readonly environments: ReadonlyMap<ProjectId, ReadonlyArray<ProjectEnvironment>>
  readonly page: number
  readonly words: string
  readonly children?: ComponentChildren
}) => {
  const matching = projects.filter((project) =>
    `${project.name} ${project.slug}`.toLowerCase().includes(words.toLowerCase())
  )
  const onPage = matching.slice((page - 1) * pageSize, page * pageSize)
  const manages = may(visit, "projects:manage")
  return (
    <Layout
      visit={visit}
      section="projects"
      title="Projects"
      actions={
        manages && children === undefined ? (
          <a class="button button-primary" href={`${Paths.home}?panel=new`}>
            <Icons.Plus /> New project
          </a>
        ) : undefined
      }
    >
      {children === undefined ? null : <div class="stack">{children}</div>}
      {projects.length === 0 ? (
        children === undefined ? (
          <Empty title="No projects yet">
            <p>A project holds environments, and each environment holds secrets.</p>
            {manages ? (
              <div class="buttons">
                <a class="button button-primary" href={`${Paths.home}?panel=new`}>
                  Create the first project
                </a>
                <a class="button button-plain" href={Paths.start}>
                  Getting started
                </a>
              </div>
            ) : (
              <p>An owner or admin of the team can create one.</p>
            )}
          </Empty>
        ) : null
      ) : (
        <section class={children === undefined ? "" : "section"} aria-label="All projects">
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
        </section>
      )}
    </Layout>
  )
}

const WhoMayChange = ({ environment }: { readonly environment: ProjectEnvironment }) =>
  environment.protected ? <>owners and admins; tokens that name it</> : <>owners, admins and members; write tokens</>

interface Typed {
  readonly slug?: string
  readonly name?: string
}

const SettingsPage = ({
  environments,
  naming,
  problem,
  project,
  typed = {},
  visit
}: {
  readonly visit: Visit
  readonly project: Project
  readonly environments: ReadonlyArray<ProjectEnvironment>
  /** Which form the problem belongs to. */
  readonly naming?: "project" | "environment" | undefined
  readonly problem?: AnyApiError | undefined
  readonly typed?: Typed
}) => {
  const manages = may(visit, "projects:manage")
  const at = Paths.projectSettings(project.id)
  const ofProject = naming === "project" ? problem : undefined
  const ofEnvironment = naming === "environment" ? problem : undefined
  return (
    <Layout
      visit={visit}
      section="projects"
      title={`Settings of ${project.name}`}
      crumbs={[{ href: Paths.home, label: "Projects" }]}
    >
      <section>
        <Table label="Environments" head={["Environment", "Who may change secrets", ""]}>
          {environments.map((environment) => (
            <tr>
              <th scope="row">
                <a href={Paths.environment({ projectId: project.id, slug: environment.slug })}>{environment.name}</a>{" "}
                {environment.slug === environment.name ? null : <code class="hint">{environment.slug}</code>}{" "}
                {environment.protected ? <Protected /> : null}
              </th>
              <td data-label="May change secrets">
                <WhoMayChange environment={environment} />
              </td>
              <td class="end">
                {manages ? (
                  <details>
                    <summary class="button button-quiet">
                      Change<span class="hidden"> {environment.name}</span>
                    </summary>
                    <div class="stack panel row-panel">
                      <form method="post" action={`${at}/environments/${environment.id}`} class="stack">
                        <TextField id={`name-${environment.id}`} name="name" label="Name" value={environment.name} />
                        <CheckBox
                          name="protected"
                          checked={environment.protected}
                          hint="Only owners and admins change its secrets, and tokens that were created naming it."
                        >
                          Protected
                        </CheckBox>
                        <div class="buttons">
                          <button class="button button-primary">Save</button>
                        </div>
                      </form>
                      <Confirm
                        action={`${at}/environments/${environment.id}/delete`}
                        label="Delete the environment"
                        verb={`Delete ${environment.slug}`}
                      >
                        <p>
                          Its secrets become unreachable at once, for people, tokens and running deployments. This
                          cannot be undone here.
                        </p>
                      </Confirm>
                    </div>
                  </details>
                ) : null}
              </td>
            </tr>
          ))}
        </Table>
      </section>
      {manages ? (
        <>
          <section class="section columns">
            <form method="post" action={`${at}/environments`} class="panel">
              <h2>New environment</h2>
              {ofEnvironment?.field === "slug" || ofEnvironment?.field === "name" ? null : (
                <ProblemNote problem={ofEnvironment} />
              )}
              <div class="fields">
                <TextField
                  name="slug"
                  label="Slug"
                  mono
                  value={naming === "environment" ? typed.slug : undefined}
                  hint="a–z, 0–9 and -, for example preview"
                  problem={ofEnvironment}
                />
                <TextField
                  id="environment-name"
                  name="name"
                  label="Name"
                  optional
                  value={naming === "environment" ? typed.name : undefined}
                  hint="The slug when empty"
                  problem={ofEnvironment}
                />
              </div>
              <CheckBox name="protected">Protected</CheckBox>
              <div class="buttons">
                <button class="button button-primary">Add the environment</button>
              </div>
            </form>
            <form method="post" action={at} class="panel">
              <h2>The project</h2>
              {ofProject?.field === "slug" || ofProject?.field === "name" ? null : <ProblemNote problem={ofProject} />}
              <TextField
                id="project-name"
                name="name"
                label="Name"
                value={naming === "project" ? typed.name : project.name}
                problem={ofProject}
              />
              <TextField
                id="project-slug"
                name="slug"
                label="Slug"
                mono
                value={naming === "project" ? typed.slug : project.slug}
                problem={ofProject}
              />
              <div class="buttons">
                <button class="button button-primary">Save</button>
              </div>
            </form>
          </section>
          <section class="section panel panel-danger">
            <h2>Delete</h2>
            <Confirm
              action={`${at}/delete`}
              label="Delete the project"
              verb={`Delete ${project.slug} and everything in it`}
            >
              <p>
                All environments and secrets of <strong>{project.name}</strong> become unreachable at once. This cannot
                be undone here.
              </p>
            </Confirm>
          </section>
        </>
      ) : null}
    </Layout>
  )
}

export const routes = (pages: Pages["Type"]) =>
  Effect.gen(function* () {
    const projects = yield* Projects
    const environments = yield* Environments
    const sessions = yield* Sessions

    const overview = Effect.fnUntraced(function* (visit: Visit) {
      const items = (yield* projects.list()).filter((project) => project.teamId === visit.team?.id)
      const asked = yield* query
      const page = Math.min(Math.max(1, Number.parseInt(asked.text("page"), 10) || 1), 1_000)
      const words = asked.text("q").trim()
      const all = visit.team === null ? new Map() : yield* environments.byProject(visit.team.id)
      return { projects: items, environments: all, page, words }
    })

    const home = pages.person((visit) =>
      Effect.gen(function* () {
        if (visit.team === null) return Html.seeOther(Paths.newTeam)
        const asked = yield* query
        const shows = yield* overview(visit)
        return Html.page(
          <ProjectsPage visit={visit} {...shows}>
            {asked.text("panel") === "new" ? <NewProject visit={visit} /> : undefined}
          </ProjectsPage>
        )
      })
    )

    const create = pages.person((visit) =>
      Effect.gen(function* () {
        const teamId = yield* param("teamId", TeamId)
        const form = yield* Form.read
        const slug = form.filled("slug")
        const made = yield* attempt(
          Effect.gen(function* () {
            const input = yield* Form.decode(CreateProject)({
              name: form.text("name"),
              ...(slug === undefined ? {} : { slug })
            })
            return yield* projects.create(teamId, input)
          })
        )
        if (Either.isRight(made)) {
          const first = Paths.environment({ projectId: made.right.id, slug: "development" })
          return Html.seeOther(withNotice(first, "project-created"))
        }
        const at = pages.inTeam(visit, teamId)
        return shown(
          <ProjectsPage visit={at} {...yield* overview(at)}>
            <NewProject visit={at} name={form.text("name")} slug={form.text("slug")} problem={made.left} />
          </ProjectsPage>,
          made.left
        )
      })
    )

    /** A project and its environments, as far as the person sees them. */
    const opened = Effect.fnUntraced(function* (visit: Visit) {
      const projectId = yield* param("projectId", ProjectId)
      const project = yield* projects.get(projectId)
      const { items } = yield* environments.list(projectId)
      return { project, environments: items, visit: pages.inTeam(visit, project.teamId) }
    })

    const enter = pages.person((visit) =>
      Effect.map(opened(visit), ({ environments: [first], project }) =>
        Html.seeOther(
          first === undefined
            ? Paths.projectSettings(project.id)
            : Paths.environment({ projectId: project.id, slug: first.slug })
        )
      )
    )

    const settings = pages.person((visit) =>
      Effect.map(opened(visit), (shows) => Html.page(<SettingsPage {...shows} />))
    )

    const update = pages.person((visit) =>
      Effect.gen(function* () {
        const projectId = yield* param("projectId", ProjectId)
        const form = yield* Form.read
        const typed = { name: form.text("name"), slug: form.text("slug") }
        const done = yield* attempt(
          Effect.gen(function* () {
            const input = yield* Form.decode(UpdateProject)(typed)
            return yield* projects.update(projectId, input)
          })
        )
        return Either.isRight(done)
          ? Html.seeOther(withNotice(Paths.projectSettings(projectId), "project-changed"))
          : shown(
              <SettingsPage {...yield* opened(visit)} naming="project" problem={done.left} typed={typed} />,
              done.left
            )
      })
    )

    const remove = pages.person(() =>
      Effect.gen(function* () {
        const projectId = yield* param("projectId", ProjectId)
        yield* projects.remove(projectId)
        return Html.seeOther(withNotice(Paths.home, "project-deleted"))
      })
    )

    const addEnvironment = pages.person((visit) =>
      Effect.gen(function* () {
        const projectId = yield* param("projectId", ProjectId)
        const form = yield* Form.read
        const name = form.filled("name")
        const done = yield* attempt(
          Effect.gen(function* () {
            const input = yield* Form.decode(CreateEnvironment)({
              slug: form.text("slug"),
              ...(name === undefined ? {} : { name }),
              protected: form.has("protected")
            })
            return yield* environments.create(projectId, input)
          })
        )
        return Either.isRight(done)
          ? Html.seeOther(withNotice(Paths.projectSettings(projectId), "environment-created"))
          : shown(
              <SettingsPage
                {...yield* opened(visit)}
                naming="environment"
                problem={done.left}
                typed={{ slug: form.text("slug"), name: form.text("name") }}
              />,
              done.left
            )
      })
    )

    const updateEnvironment = pages.person(() =>
      Effect.gen(function* () {
        const projectId = yield* param("projectId", ProjectId)
        const environmentId = yield* param("environmentId", EnvironmentId)
        const form = yield* Form.read
        const input = yield* Form.decode(UpdateEnvironment)({
          name: form.text("name"),
          protected: form.has("protected")
        })
        yield* environments.update(environmentId, input)
        return Html.seeOther(withNotice(Paths.projectSettings(projectId), "environment-changed"))
      })
    )

    const removeEnvironment = pages.person(() =>
      Effect.gen(function* () {
        const projectId = yield* param("projectId", ProjectId)
        const environmentId = yield* param("environmentId", EnvironmentId)
        yield* environments.remove(environmentId)
        return Html.seeOther(withNotice(Paths.projectSettings(projectId), "environment-deleted"))
      })
    )

    const choose = pages.person((visit) =>
      Effect.gen(function* () {
        yield* sessions.chooseTeam(visit.caller, yield* param("teamId", TeamId))
        return Html.seeOther(Paths.home)
      })
    )

    return HttpRouter.empty.pipe(
      HttpRouter.get(Paths.home, home),
      HttpRouter.post("/app/teams/:teamId/choose", choose),
      HttpRouter.post("/app/teams/:teamId/projects", create),
      HttpRouter.get("/app/projects/:projectId", enter),
      HttpRouter.get("/app/projects/:projectId/settings", settings),
      HttpRouter.post("/app/projects/:projectId/settings", update),
      HttpRouter.post("/app/projects/:projectId/settings/delete", remove),
      HttpRouter.post("/app/projects/:projectId/settings/environments", addEnvironment),
      HttpRouter.post("/app/projects/:projectId/settings/environments/:environmentId", updateEnvironment),
      HttpRouter.post("/app/projects/:projectId/settings/environments/:environmentId/delete", removeEnvironment)
    )
  })

/** Projects of the team and their settings: pages and forms. The list is the first page after the sign-in. */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { EnvironmentId, ProjectId } from "#schema/Ids.ts"
import type { AccessRequest } from "#schema/AccessRequestsApi.ts"
import { EnvironmentNotFound, ValidationFailed } from "#schema/Errors.ts"
import { CreateEnvironment, CreateProject, UpdateEnvironment, UpdateProject } from "#schema/ManageProjectsApi.ts"
import type { Project, ProjectEnvironment } from "#schema/ProjectsApi.ts"
import type { Notice } from "#src/credentials/AccountNotices.ts"
import type { ClosedTeam } from "#src/openid/ClosedTeams.ts"
import { AccountNotices } from "#src/dashboard/account/NoticeViews.tsx"
import { ClosedTeams } from "#src/dashboard/account/ClosedTeamViews.tsx"
import { type AttentionItem, attentionFor } from "./Attention.ts"
import * as Ui from "#src/dashboard/frame/Components.tsx"
import * as Form from "#src/dashboard/frame/Form.ts"
import { Activity, Attention, type Day, daysSince } from "./Views.tsx"
import * as Html from "#src/dashboard/frame/Html.ts"
import { Layout } from "#src/dashboard/frame/Layout.tsx"
import { inTeam, pageNumber, query } from "#src/dashboard/frame/Pages.ts"
import { Pager } from "#src/dashboard/frame/Pager.tsx"
import { Proposal } from "#src/dashboard/account/PasskeyViews.tsx"
import * as Paths from "#src/dashboard/frame/Paths.ts"
import { NewProject, NoProjects, ProjectCard } from "./ProjectCards.tsx"
import { type Editing, ProjectSettingsPage } from "./ProjectSettings.tsx"
import {
  action,
  type AtPerson,
  type Attempt,
  button,
  page,
  person,
  screen,
  show,
  team,
  to,
  withIds
} from "#src/dashboard/frame/Routes.ts"
import { SearchField } from "#src/dashboard/frame/SearchField.tsx"
import * as UseCases from "#src/dashboard/frame/UseCases.ts"
import { may, type Visit } from "#src/dashboard/frame/Visit.ts"

/** Projects on one page. */
const pageSize = 60

/** Environments with pending requests that the person can decide. */
const ToDecide = ({ requests }: { readonly requests: ReadonlyArray<AccessRequest> }) => {
  const mine = requests.filter(({ mayDecide }) => mayDecide)
  const places = new Map(
    mine.map((one) => [
      one.environmentId,
      { ...one, count: mine.filter((r) => r.environmentId === one.environmentId).length }
    ])
  )
  return mine.length === 0 ? null : (
    <Ui.Callout
      title={
        mine.length === 1 ? "A request for access waits for you" : `${mine.length} requests for access wait for you`
      }
    >
      <ul class="pills">
        {[...places.values()].map(({ count, environment, project, projectId }) => (
          <li>
            <a class="pill" href={`${Paths.environment({ projectId, slug: environment })}/access`}>
              <bdi>{project}</bdi> / <bdi>{environment}</bdi> <Ui.Badge tone="accent">{count}</Ui.Badge>
            </a>
          </li>
        ))}
      </ul>
    </Ui.Callout>
  )
}

interface Overview {
  readonly projects: ReadonlyArray<Project>
  /** Projects of this page of the list. */
  readonly onPage: ReadonlyArray<Project>
  /** Number of projects that match the filter. */
  readonly total: number
  readonly environments: ReadonlyMap<ProjectId, ReadonlyArray<ProjectEnvironment>>
  readonly requests: ReadonlyArray<AccessRequest>
  /** True if the page proposes a passkey, for people without a second factor. */
  readonly proposes: boolean
  readonly attention: ReadonlyArray<AttentionItem>
  /** Undefined if the person may not see it. */
  readonly activity: ReadonlyArray<Day> | undefined
  readonly notices: ReadonlyArray<Notice>
  readonly closed: ReadonlyArray<ClosedTeam>
  readonly page: number
  /** True for the unfiltered first page, which also shows items that need attention. */
  readonly isFirst: boolean
  /** Words of the filter. */
  readonly words: string
}

/** The page of the projects that match the words. */
const pageOf = (projects: ReadonlyArray<Project>, words: string, page: number) => {
  const matching = projects.filter((project) =>
    `${project.name} ${project.slug}`.toLowerCase().includes(words.toLowerCase())
  )
  return { onPage: matching.slice((page - 1) * pageSize, page * pageSize), total: matching.length }
}

const ProjectList = ({
  environments,
  onPage,
  page,
  projects,
  total,
  words
}: Pick<Overview, "environments" | "onPage" | "page" | "projects" | "total" | "words">) => {
  return (
    <>
      {projects.length > 6 ? (
        <form class="toolbar" method="get" action={Paths.home}>
          <SearchField
            label="Filter projects"
            placeholder="Filter"
            value={words}
            filter={projects.length > onPage.length ? "partial" : "whole"}
          />
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
        total={total}
        link={(n) => `${Paths.home}?page=${n}&q=${encodeURIComponent(words)}`}
      />
    </>
  )
}

const ProjectsPage = ({
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
      actions={
        manages && !creating ? <Ui.AddButton href={`${Paths.home}?panel=new`}>New project</Ui.AddButton> : undefined
      }
    >
      <AccountNotices notices={overview.notices} now={visit.now} />
      <ClosedTeams teams={overview.closed} visit={visit} />
      <ToDecide requests={overview.requests} />
      {overview.proposes ? <Proposal /> : null}
      {creating || !overview.isFirst ? null : (
        <div class="home">
          <Attention items={overview.attention} />
          <Activity days={overview.activity} visit={visit} />
        </div>
      )}
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

const overview = Effect.fnUntraced(function* ({ visit }: AtPerson) {
  const params = yield* query
  const id = visit.team?.id
  const page = pageNumber(params)
  const words = params.text("q").trim()
  const isFirst = page === 1 && words === ""
  const projects = (yield* UseCases.projects.list()).filter(({ teamId }) => teamId === id)
  const { onPage, total } = pageOf(projects, words, page)
  const environments: ReadonlyMap<ProjectId, ReadonlyArray<ProjectEnvironment>> = id === undefined
    ? new Map()
    : yield* UseCases.environments.byProject(
        id,
        onPage.map((project) => project.id)
      )
  return {
    projects,
    onPage,
    total,
    environments,
    requests: (yield* UseCases.accessRequests.list()).items,
    notices: yield* UseCases.accountNotices.list(visit.caller),
    closed: yield* UseCases.closedTeams.list(),
    proposes: yield* UseCases.passkeys.proposal(visit.caller),
    isFirst,
    attention: isFirst ? yield* attentionFor(visit, onPage) : [],
    activity:
      isFirst && id !== undefined && may(visit, "audit-trail:read")
        ? yield* UseCases.auditTrail.days(id, daysSince(visit.now))
        : undefined,
    page,
    words,
    panel: params.text("panel")
  }
})

const list = screen(overview, (props) => <ProjectsPage {...props} creating={props.panel === "new"} />)
const home = person((at) => (at.visit.team === null ? Effect.succeed(Html.seeOther(Paths.newTeam)) : show(list)(at)))

const create = action(team, {
  decode: (form) => {
    const slug = form.filled("slug")
    return Form.decode(CreateProject)({ name: form.text("name"), ...(slug === undefined ? {} : { slug }) })
  },
  run: (input, { teamId }) => UseCases.projects.create(teamId, input),
  done: ({ id }) => to(Paths.project(id), "project-created"),
  again: screen(overview, (props) => <ProjectsPage {...props} creating />)
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

/** A project and its environments, limited to what the person can see. */
const load = ({ projectId, visit }: AtProject) =>
  Effect.gen(function* () {
    const project = yield* UseCases.projects.get(projectId)
    const { items } = yield* UseCases.environments.list(projectId)
    const here = inTeam(visit, project.teamId)
    const manages = may(here, "projects:manage")
    const members = manages ? yield* UseCases.members.list(project.teamId) : []
    const contents = manages ? yield* UseCases.projects.contents(projectId) : []
    return { project, environments: items, members, contents, visit: here }
  })
const settings = (editing?: Editing) => screen(load, (props) => <ProjectSettingsPage {...props} editing={editing} />)

const update = action(project, {
  decode: (form) =>
    Form.decode(UpdateProject)({
      name: form.text("name"),
      slug: form.text("slug"),
      visibility: form.text("visibility")
    }),
  run: (input, { projectId }) => UseCases.projects.update(projectId, input),
  done: (_, { projectId }) => to(Paths.projectSettings(projectId), "project-changed"),
  again: settings("project")
})

const remove = action(project, {
  decode: (form, { projectId }) =>
    Effect.gen(function* () {
      yield* UseCases.projects.contents(projectId)
      yield* Form.repeats(form, (yield* UseCases.projects.get(projectId)).slug)
    }),
  run: (_, { projectId }) => UseCases.projects.remove(projectId),
  done: () => to(Paths.home, "project-deleted"),
  again: settings("delete")
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

/** Ids of the members whose addresses the form lists. */
const approversOf = Effect.fnUntraced(function* (text: string, projectId: ProjectId) {
  const emails = text.split(/\s+/).filter((one) => one !== "")
  if (emails.length === 0) return []
  const members = yield* UseCases.members.list((yield* UseCases.projects.get(projectId)).teamId)
  const ids = new Map<string, string>(members.map(({ email, userId }) => [email, userId]))
  const unknown = emails.some((email) => !ids.has(email.toLowerCase()))
  if (unknown)
    return yield* new ValidationFailed({ field: "approvers", message: "Approvers must be members of the team." })
  return emails.map((email) => ids.get(email.toLowerCase()))
})

/** The settings, with the refused form of this environment. */
const environmentSettings = (at: AtProject & { readonly environmentId: EnvironmentId }, attempt: Attempt) =>
  settings(at.environmentId)(at, attempt)

const decodeEnvironment = Effect.fnUntraced(function* (form: Form.Form, { projectId }: AtProject) {
  return yield* Form.decode(UpdateEnvironment)({
    name: form.text("name"),
    protected: form.has("protected"),
    readers: form.text("readers"),
    changes: form.text("changes"),
    approvals: Number(form.text("approvals")),
    approvers: yield* approversOf(form.text("approvers"), projectId)
  })
})

const updateEnvironment = action(environment, {
  decode: decodeEnvironment,
  run: (input, { environmentId }) => UseCases.environments.update(environmentId, input),
  done: (_, { projectId }) => to(Paths.projectSettings(projectId), "environment-changed"),
  again: environmentSettings
})

const moveEnvironment = action(environment, {
  decode: (form) => Form.decode(UpdateEnvironment)({ position: Number(form.text("position")) }),
  run: (input, { environmentId }) => UseCases.environments.update(environmentId, input),
  done: (_, { projectId }) => to(Paths.projectSettings(projectId), "environment-moved"),
  again: environmentSettings
})

const removeEnvironment = action(environment, {
  decode: (form, { environmentId, projectId }) =>
    Effect.gen(function* () {
      const contents = (yield* UseCases.projects.contents(projectId)).find(({ id }) => id === environmentId)
      if (contents === undefined) return yield* new EnvironmentNotFound()
      return yield* Form.repeats(form, contents.slug)
    }),
  run: (_, { environmentId }) => UseCases.environments.remove(environmentId),
  done: (_, { projectId }) => to(Paths.projectSettings(projectId), "environment-deleted"),
  again: environmentSettings
})

export const routes = HttpRouter.empty.pipe(
  HttpRouter.get(Paths.home, home),
  HttpRouter.post("/app/teams/:teamId/choose", choose),
  HttpRouter.post("/app/teams/:teamId/projects", create),
  HttpRouter.get("/app/projects/:projectId/settings", page(project, settings())),
  HttpRouter.post("/app/projects/:projectId/settings", update),
  HttpRouter.post("/app/projects/:projectId/settings/delete", remove),
  HttpRouter.post("/app/projects/:projectId/settings/environments", addEnvironment),
  HttpRouter.post("/app/projects/:projectId/settings/environments/:environmentId", updateEnvironment),
  HttpRouter.post("/app/projects/:projectId/settings/environments/:environmentId/move", moveEnvironment),
  HttpRouter.post("/app/projects/:projectId/settings/environments/:environmentId/delete", removeEnvironment)
)

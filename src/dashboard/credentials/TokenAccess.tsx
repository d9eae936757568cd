/** Access of API tokens and trust rules: its summary, and the fields that choose it. */
import * as Effect from "effect/Effect"
import type { ApiToken } from "#schema/ApiTokensApi.ts"
import type { AnyApiError } from "#schema/ApiError.ts"
import { ValidationFailed } from "#schema/Errors.ts"
import type { TeamId } from "#schema/Ids.ts"
import type { Project } from "#schema/ProjectsApi.ts"
import * as Ui from "#src/dashboard/frame/Components.tsx"
import type * as Form from "#src/dashboard/frame/Form.ts"
import * as Problem from "#src/dashboard/frame/Problem.ts"
import * as UseCases from "#src/dashboard/frame/UseCases.ts"

/** Names of the boxes for everything. */
const everything = { projects: "allProjects", environments: "allEnvironments" } as const

type Restrictions = Pick<ApiToken, "projects" | "environments">

export const AccessLevelBadge = ({ level }: { readonly level: ApiToken["accessLevel"] }) =>
  level === "write" ? <Ui.Badge tone="amber">read and write</Ui.Badge> : <Ui.Badge tone="ok">read only</Ui.Badge>

const namesOf = ({ environments, projects }: Restrictions) => ({
  projects:
    projects === null
      ? "all projects"
      : projects.length === 0
        ? "none: its projects were deleted"
        : projects.map((project) => project.name).join(", "),
  environments:
    environments === null
      ? undefined
      : environments.length === 0
        ? "none: its environments were deleted"
        : [...new Set(environments.map((environment) => environment.slug))].join(", ")
})

export const AccessSummary = ({ of }: { readonly of: Restrictions }) => {
  const { environments, projects } = namesOf(of)
  return (
    <>
      {projects}
      {environments === undefined ? null : <span class="refs hint">{environments}</span>}
    </>
  )
}

export interface Restrictable {
  readonly projects: ReadonlyArray<Project>
  /** Slugs of environments; `projects` names the projects that have one with this slug. */
  readonly slugs: ReadonlyArray<{
    readonly slug: string
    readonly protected: boolean
    readonly projects: ReadonlyArray<string>
  }>
}

/** Projects and environments to which a token of the team can be restricted. */
export const restrictable = Effect.fnUntraced(function* (teamId: TeamId) {
  const projects = yield* UseCases.projects.list()
  const environments = yield* UseCases.environments.byProject(teamId)
  const own = projects.filter((project) => project.teamId === teamId)
  const slugs = new Map<string, { isProtected: boolean; readonly projects: Array<string> }>()
  for (const project of own) {
    for (const one of environments.get(project.id) ?? []) {
      const entry = slugs.get(one.slug)
      if (entry === undefined) slugs.set(one.slug, { isProtected: one.protected, projects: [project.name] })
      else {
        entry.isProtected ||= one.protected
        entry.projects.push(project.name)
      }
    }
  }
  const result: Restrictable = {
    projects: own,
    slugs: [...slugs]
      .map(([slug, { isProtected, projects }]) => ({ slug, protected: isProtected, projects }))
      .slice(0, 100)
  }
  return result
})

/**
 * Access of a token, as members of a request body. Everything is an explicit choice. A form without any choice is
 * refused, so that the least effort does not create the widest token.
 */
export const accessOf = Effect.fnUntraced(function* (form: Form.Form) {
  for (const field of ["projects", "environments"] as const) {
    if (!form.has(field) && !form.has(everything[field])) {
      return yield* new ValidationFailed({ field, message: `Choose ${field}, or choose all ${field}.` })
    }
  }
  return { accessLevel: form.text("accessLevel"), ...ticksOf(form, "projects", "environments") }
})

/** Projects that have an environment with the slug of a box; undefined if all have one. */
const whereOf = (projects: ReadonlyArray<string>, all: number): string | undefined =>
  projects.length === all
    ? undefined
    : projects.length > 3
      ? `in ${projects.length} projects`
      : `in ${projects.join(", ")}`

/** Members of a request body for the fields below, without empty lists. */
export const ticksOf = (form: Form.Form, ...names: ReadonlyArray<string>) =>
  Object.fromEntries(names.filter((name) => form.has(name)).map((name) => [name, form.all(name)]))

export const isTicked = (form: Form.Form, name: string, value: string) => form.all(name).includes(value)

const ProjectChecks = ({
  form,
  name,
  projects
}: {
  readonly name: string
  readonly projects: ReadonlyArray<Project>
  readonly form: Form.Form | undefined
}) => (
  <div class="checks">
    {projects.map((project) => (
      <Ui.CheckBox name={name} value={project.id} checked={form !== undefined && isTicked(form, name, project.id)}>
        {project.name} <code class="hint">{project.slug}</code>
      </Ui.CheckBox>
    ))}
  </div>
)

const AllBox = ({
  children,
  form,
  hint,
  name
}: {
  readonly form: Form.Form
  readonly name: string
  readonly hint: string
  readonly children: string
}) => (
  <Ui.CheckBox name={name} checked={form.has(name)} hint={hint}>
    {children}
  </Ui.CheckBox>
)

export const AccessFields = ({
  form,
  restrictable,
  problem
}: {
  readonly form: Form.Form
  readonly restrictable: Restrictable
  readonly problem: AnyApiError | undefined
}) => {
  const projectsError = Problem.about(problem, "projects")
  const error = Problem.about(problem, "environments")
  const level = form.filled("accessLevel") ?? "read"
  return (
    <>
      <fieldset class="part">
        <legend>What it may do</legend>
        <Ui.CheckBox type="radio" name="accessLevel" value="read" checked={level === "read"}>
          Read
        </Ui.CheckBox>
        <Ui.CheckBox
          type="radio"
          name="accessLevel"
          value="write"
          checked={level === "write"}
          hint="Also creates, changes and deletes secrets. Protected environments only if you choose them below."
        >
          Read and write
        </Ui.CheckBox>
      </fieldset>
      <fieldset class="part">
        <legend>Projects</legend>
        <AllBox form={form} name={everything.projects} hint="Includes projects that are added later.">
          All projects of the team
        </AllBox>
        <ProjectChecks name="projects" projects={restrictable.projects} form={form} />
        {projectsError === undefined ? null : <p class="error">{projectsError}</p>}
      </fieldset>
      <fieldset class="part">
        <legend>Environments</legend>
        <AllBox
          form={form}
          name={everything.environments}
          hint="Includes environments that are added later, and protected ones, which it can only read. The boxes below limit the token to existing environments with these names."
        >
          All environments of these projects
        </AllBox>
        <div class="checks">
          {restrictable.slugs.map((environment) => (
            <Ui.CheckBox
              name="environments"
              value={environment.slug}
              checked={isTicked(form, "environments", environment.slug)}
              hint={whereOf(environment.projects, restrictable.projects.length)}
            >
              <code>{environment.slug}</code>{" "}
              {environment.protected ? <Ui.Badge tone="amber">protected</Ui.Badge> : null}
            </Ui.CheckBox>
          ))}
        </div>
        {error === undefined ? null : <p class="error">{error}</p>}
      </fieldset>
    </>
  )
}

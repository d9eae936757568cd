/** How far a token reaches, as it is chosen and as it is told: of API tokens and of what trust rules hand out. */
import * as Effect from "effect/Effect"
import type { ApiToken } from "#schema/ApiTokensApi.ts"
import type { AnyApiError } from "#schema/ApiError.ts"
import type { TeamId } from "#schema/Ids.ts"
import type { Project } from "#schema/ProjectsApi.ts"
import { Environments } from "#src/projects/Environments.ts"
import { Projects } from "#src/projects/Projects.ts"
import { Badge, CheckBox } from "./Components.tsx"
import type * as Form from "./Form.ts"
import * as Problem from "./Problem.ts"

type Reaching = Pick<ApiToken, "projects" | "environments">

export const Level = ({ level }: { readonly level: ApiToken["accessLevel"] }) =>
  level === "write" ? <Badge tone="amber">read and write</Badge> : <Badge tone="ok">read only</Badge>

const namesOf = ({ environments, projects }: Reaching) => ({
  projects:
    projects === null
      ? "all projects"
      : projects.length === 0
        ? "no project any more"
        : projects.map((project) => project.name).join(", "),
  environments:
    environments === null
      ? undefined
      : environments.length === 0
        ? "no environment any more"
        : [...new Set(environments.map((environment) => environment.slug))].join(", ")
})

export const Reach = ({ of }: { readonly of: Reaching }) => {
  const { environments, projects } = namesOf(of)
  return (
    <>
      {projects}
      {environments === undefined ? null : <span class="refs hint">{environments}</span>}
    </>
  )
}

export interface Offered {
  readonly projects: ReadonlyArray<Project>
  readonly slugs: ReadonlyArray<{ readonly slug: string; readonly protected: boolean }>
}

/** What of a team can be chosen. */
export const offers = Effect.gen(function* () {
  const projects = yield* Projects
  const environments = yield* Environments
  return Effect.fnUntraced(function* (teamId: TeamId) {
    const slugs = new Map<string, boolean>()
    for (const found of (yield* environments.byProject(teamId)).values()) {
      for (const one of found) slugs.set(one.slug, one.protected || slugs.get(one.slug) === true)
    }
    const found: Offered = {
      projects: (yield* projects.list()).filter((project) => project.teamId === teamId),
      slugs: [...slugs].map(([slug, isProtected]) => ({ slug, protected: isProtected })).slice(0, 100)
    }
    return found
  })
})

/** Members of a body that the fields below fill: an empty choice is one that is not made. */
export const chosen = (form: Form.Form, ...names: ReadonlyArray<string>) =>
  Object.fromEntries(names.filter((name) => form.has(name)).map((name) => [name, form.all(name)]))

export const picked = (form: Form.Form, name: string, value: string) => form.all(name).includes(value)

export const ProjectChecks = ({
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
      <CheckBox name={name} value={project.id} checked={form !== undefined && picked(form, name, project.id)}>
        {project.name} <code class="hint">{project.slug}</code>
      </CheckBox>
    ))}
  </div>
)

export const ReachFields = ({
  form,
  offered,
  problem
}: {
  readonly form: Form.Form
  readonly offered: Offered
  readonly problem: AnyApiError | undefined
}) => {
  const error = Problem.about(problem, "environments")
  const level = form.filled("accessLevel") ?? "read"
  return (
    <>
      <fieldset class="part">
        <legend>What it may do</legend>
        <CheckBox type="radio" name="accessLevel" value="read" checked={level === "read"}>
          Read
        </CheckBox>
        <CheckBox
          type="radio"
          name="accessLevel"
          value="write"
          checked={level === "write"}
          hint="Creates, changes and deletes secrets too. Protected environments only when they are named below."
        >
          Read and write
        </CheckBox>
      </fieldset>
      <fieldset class="part">
        <legend>Projects</legend>
        <p class="hint">None chosen: all projects of the team, also later ones.</p>
        <ProjectChecks name="projects" projects={offered.projects} form={form} />
      </fieldset>
      <fieldset class="part">
        <legend>Environments</legend>
        <p class="hint">
          None chosen: all environments of these projects. Chosen ones are looked up now; later ones of the same name
          are not reached.
        </p>
        <div class="checks">
          {offered.slugs.map((environment) => (
            <CheckBox
              name="environments"
              value={environment.slug}
              checked={picked(form, "environments", environment.slug)}
            >
              <code>{environment.slug}</code> {environment.protected ? <Badge tone="amber">protected</Badge> : null}
            </CheckBox>
          ))}
        </div>
        {error === undefined ? null : <p class="error">{error}</p>}
      </fieldset>
    </>
  )
}

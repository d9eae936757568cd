/** Parts of the list of projects: a project's card, the form for a new one, and the note of an empty list. */
import type { Project, ProjectEnvironment } from "#schema/ProjectsApi.ts"
import { Beside } from "#src/dashboard/frame/Beside.tsx"
import * as Ui from "#src/dashboard/frame/Components.tsx"
import { EnvironmentPill } from "#src/dashboard/frame/EnvironmentFrame.tsx"
import * as Paths from "#src/dashboard/frame/Paths.ts"
import type { Attempt } from "#src/dashboard/frame/Routes.ts"
import type { Visit } from "#src/dashboard/frame/Visit.ts"

export const ProjectCard = ({
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
          <a href={Paths.project(project.id)}>
            <bdi>{project.name}</bdi>
          </a>
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

export const NewProject = ({ form, problem, visit }: Attempt & { readonly visit: Visit }) =>
  visit.team === null ? null : (
    <Beside
      words={[
        [
          "What it starts with",
          "The environments development, staging and production, of which production is protected. You can rename, reorder and add environments later."
        ],
        ["Your .env file", "On the next page, import your file or add secrets one by one."]
      ]}
    >
      <form method="post" action={`${Paths.team(visit.team.id)}/projects`} class="panel">
        <h2>New project</h2>
        {problem?.field === "name" || problem?.field === "slug" ? null : <Ui.ProblemNote problem={problem} />}
        <div class="fields">
          <Ui.TextField name="name" label="Name" value={form.text("name")} focus problem={problem} />
          <Ui.TextField
            name="slug"
            label="Slug"
            value={form.text("slug")}
            mono
            optional
            hint="Names the project on the command line. If empty, it is derived from the name."
            problem={problem}
          />
        </div>
        <Ui.Submit cancel={Paths.home}>Create the project</Ui.Submit>
      </form>
    </Beside>
  )

export const NoProjects = ({ manages }: { readonly manages: boolean }) => (
  <Ui.Empty title="No projects yet">
    <p>A project holds environments, and each environment holds secrets.</p>
    {manages ? (
      <div class="buttons">
        <Ui.LinkButton href={`${Paths.home}?panel=new`} primary>
          Create the first project
        </Ui.LinkButton>
        <Ui.LinkButton href={Paths.start}>Getting started</Ui.LinkButton>
      </div>
    ) : (
      <p>An owner or admin of the team can create one.</p>
    )}
  </Ui.Empty>
)

/** The settings of one project and of its environments. */
import type { Project, ProjectEnvironment } from "#schema/ProjectsApi.ts"
import type { Member } from "#schema/TeamsApi.ts"
import * as Ui from "./Components.tsx"
import { Layout } from "./Layout.tsx"
import * as Paths from "./Paths.ts"
import type { Attempt } from "./Routes.ts"
import { may, type Visit } from "./Visit.ts"

/** Which form of the page was refused. */
export type Editing = "project" | "environment"

interface Settings {
  readonly project: Project
  /** Those who can be named as approvers; none for who does not manage the project. */
  readonly members: ReadonlyArray<Member>
  readonly environments: ReadonlyArray<ProjectEnvironment>
}

const WhoMayChange = ({ environment }: { readonly environment: ProjectEnvironment }) =>
  environment.protected ? (
    <>owners and admins; tokens that name this environment</>
  ) : (
    <>owners, admins and members; write tokens</>
  )

const readersWords = [
  { value: "team", label: "the team, as the roles allow" },
  { value: "granted", label: "those who were granted it" }
]
const visibilityWords = [
  { value: "team", label: "the team" },
  { value: "granted", label: "those who were granted something in it" }
]

/** Who reads, and who decides about requests for it. */
const AccessFields = ({
  environment: { approvals, approvers = [], id, readers },
  members
}: {
  readonly environment: ProjectEnvironment
  readonly members: ReadonlyArray<Member>
}) => (
  <>
    <Ui.Select id={`readers-${id}`} name="readers" label="Who reads values" choices={readersWords} value={readers} />
    <Ui.Select
      id={`approvals-${id}`}
      name="approvals"
      label="A request for access needs"
      hint="Two count while the environment is protected."
      choices={[
        { value: "1", label: "one approval" },
        { value: "2", label: "approvals of two people" }
      ]}
      value={String(approvals ?? 1)}
    />
    <Ui.TextArea
      id={`approvers-${id}`}
      name="approvers"
      label="Approvers, beside owners and admins"
      hint="One e-mail address per line. An approver gives nobody more than they have here themselves."
      rows={2}
      optional
      value={members.flatMap(({ email, userId }) => (approvers.includes(userId) ? [email] : [])).join("\n")}
    />
  </>
)

const EnvironmentPanel = ({
  environment,
  members,
  settings
}: {
  readonly environment: ProjectEnvironment
  readonly members: ReadonlyArray<Member>
  readonly settings: string
}) => (
  <details>
    <summary class="button button-quiet">
      Edit<span class="hidden"> {environment.name}</span>
    </summary>
    <div class="stack panel row-panel">
      <form method="post" action={`${settings}/environments/${environment.id}`} class="stack">
        <Ui.TextField id={`name-${environment.id}`} name="name" label="Name" value={environment.name} />
        <Ui.CheckBox
          name="protected"
          checked={environment.protected}
          hint="Only owners, admins and tokens that were created for this environment by name can change its secrets."
        >
          Protected
        </Ui.CheckBox>
        <AccessFields environment={environment} members={members} />
        <Ui.Submit>Save</Ui.Submit>
      </form>
      <Ui.Confirm
        action={`${settings}/environments/${environment.id}/delete`}
        label="Delete the environment"
        verb={`Delete ${environment.slug}`}
      >
        <p>People, tokens and running deployments lose access to its secrets at once. You cannot undo this here.</p>
      </Ui.Confirm>
    </div>
  </details>
)

const EnvironmentTable = ({ environments, members, project, visit }: Settings & { readonly visit: Visit }) => (
  <section>
    <Ui.Table label="Environments" head={["Environment", "Who reads values", "Who may change secrets", ""]}>
      {environments.map((environment) => (
        <tr>
          <th scope="row">
            <a href={Paths.environment({ projectId: project.id, slug: environment.slug })}>{environment.name}</a>{" "}
            {environment.slug === environment.name ? null : <code class="hint">{environment.slug}</code>}{" "}
            {environment.protected ? <Ui.Protected /> : null}
          </th>
          <td data-label="Read values">
            {environment.readers === "granted" ? "those who were granted it" : "the team"}
          </td>
          <td data-label="May change secrets">
            <WhoMayChange environment={environment} />
          </td>
          <td class="end">
            {may(visit, "projects:manage") ? (
              <EnvironmentPanel
                environment={environment}
                members={members}
                settings={Paths.projectSettings(project.id)}
              />
            ) : null}
          </td>
        </tr>
      ))}
    </Ui.Table>
    <p class="hint section-small">
      A new protected environment is read by those who were granted it. Environments from before this setting existed
      stay open to the team until you change them.
    </p>
  </section>
)

const NewEnvironment = ({ form, problem, settings }: Partial<Attempt> & { readonly settings: string }) => (
  <form method="post" action={`${settings}/environments`} class="panel">
    <h2>New environment</h2>
    {problem?.field === "slug" || problem?.field === "name" ? null : <Ui.ProblemNote problem={problem} />}
    <div class="fields">
      <Ui.TextField
        name="slug"
        label="Slug"
        mono
        value={form?.text("slug")}
        hint="a–z, 0–9 and -, for example preview"
        problem={problem}
      />
      <Ui.TextField
        id="environment-name"
        name="name"
        label="Name"
        optional
        value={form?.text("name")}
        hint="If empty, the slug is used."
        problem={problem}
      />
    </div>
    <Ui.CheckBox name="protected" checked={form?.has("protected") === true}>
      Protected
    </Ui.CheckBox>
    <Ui.Submit>Add the environment</Ui.Submit>
  </form>
)

const ProjectForm = ({
  form,
  problem,
  project,
  settings
}: Partial<Attempt> & { readonly project: Project; readonly settings: string }) => (
  <form method="post" action={settings} class="panel">
    <h2>Project</h2>
    {problem?.field === "slug" || problem?.field === "name" ? null : <Ui.ProblemNote problem={problem} />}
    <Ui.TextField
      id="project-name"
      name="name"
      label="Name"
      value={form === undefined ? project.name : form.text("name")}
      problem={problem}
    />
    <Ui.TextField
      id="project-slug"
      name="slug"
      label="Slug"
      mono
      value={form === undefined ? project.slug : form.text("slug")}
      problem={problem}
    />
    <Ui.Select
      name="visibility"
      label="Who sees the project"
      hint="With grants, all of its environments need them too."
      choices={visibilityWords}
      value={form?.filled("visibility") ?? project.visibility}
      problem={problem}
    />
    <Ui.Submit>Save</Ui.Submit>
  </form>
)

export const ProjectSettingsPage = ({
  editing,
  environments,
  form,
  members,
  problem,
  project,
  visit
}: Attempt & Settings & { readonly visit: Visit; readonly editing: Editing | undefined }) => {
  const settings = Paths.projectSettings(project.id)
  const attempt = { form, problem }
  return (
    <Layout
      visit={visit}
      section="projects"
      title={`Settings of ${project.name}`}
      crumbs={[{ href: Paths.home, label: "Projects" }]}
    >
      <EnvironmentTable visit={visit} project={project} environments={environments} members={members} />
      {may(visit, "projects:manage") ? (
        <>
          <section class="section columns">
            <NewEnvironment settings={settings} {...(editing === "environment" ? attempt : {})} />
            <ProjectForm settings={settings} project={project} {...(editing === "project" ? attempt : {})} />
          </section>
          <section class="section panel panel-danger">
            <h2>Delete</h2>
            <Ui.Confirm
              action={`${settings}/delete`}
              label="Delete the project"
              verb={`Delete ${project.slug} and everything in it`}
            >
              <p>
                People, tokens and running deployments lose access to all environments and secrets of{" "}
                <strong>{project.name}</strong> at once. You cannot undo this here.
              </p>
            </Ui.Confirm>
          </section>
        </>
      ) : null}
    </Layout>
  )
}

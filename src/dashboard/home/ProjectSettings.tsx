/** Settings of one project and its environments. */
import type { EnvironmentId } from "#schema/Ids.ts"
import type { Project, ProjectEnvironment } from "#schema/ProjectsApi.ts"
import type { AnyApiError } from "#schema/ApiError.ts"
import type { Member } from "#schema/TeamsApi.ts"
import * as Ui from "#src/dashboard/frame/Components.tsx"
import { EnvironmentPills } from "#src/dashboard/frame/EnvironmentFrame.tsx"
import { confirm } from "#src/dashboard/frame/Form.ts"
import * as Icons from "#src/dashboard/frame/Icons.tsx"
import { Layout } from "#src/dashboard/frame/Layout.tsx"
import * as Paths from "#src/dashboard/frame/Paths.ts"
import type { Attempt } from "#src/dashboard/frame/Routes.ts"
import { may, type Visit } from "#src/dashboard/frame/Visit.ts"

/** Name of the refused form. */
export type Editing = "project" | "environment" | "delete" | EnvironmentId

/** Objects that are deleted with an environment. */
interface Contents {
  readonly id: EnvironmentId
  readonly secrets: number
  readonly tokens: number
}

interface Settings {
  readonly project: Project
  /** One per environment; empty for people who do not manage the project. */
  readonly contents: ReadonlyArray<Contents>
  /** Possible approvers; empty for people who do not manage the project. */
  readonly members: ReadonlyArray<Member>
  readonly environments: ReadonlyArray<ProjectEnvironment>
}

/** True if the problem concerns the confirmation of a deletion. */
const deletes = (problem: AnyApiError | undefined) => problem?.field === confirm

const WhoMayChange = ({ environment }: { readonly environment: ProjectEnvironment }) =>
  environment.changes === "proposed" ? (
    <>
      owners and admins; members, with approval;{" "}
      {environment.protected ? "tokens for this environment" : "write tokens"}
    </>
  ) : environment.protected ? (
    <>owners and admins; tokens for this environment</>
  ) : (
    <>owners, admins and members; write tokens</>
  )

const readersWords = [
  { value: "team", label: "the team, by role" },
  { value: "granted", label: "only people with a grant" }
]
const changesWords = [
  { value: "direct", label: "are saved at once, if their role allows it" },
  { value: "proposed", label: "wait until another person approves them" }
]
const visibilityWords = [
  { value: "team", label: "the team" },
  { value: "granted", label: "only people with a grant in it" }
]

/** Fields for the readers of values and the approvers of requests. */
const AccessFields = ({
  environment: { approvals, approvers = [], changes = "direct", id, readers },
  members
}: {
  readonly environment: ProjectEnvironment
  readonly members: ReadonlyArray<Member>
}) => (
  <>
    <Ui.Select id={`readers-${id}`} name="readers" label="Who can read values" choices={readersWords} value={readers} />
    <Ui.Select id={`changes-${id}`} name="changes" label="Changes by members" choices={changesWords} value={changes} />
    <Ui.Select
      id={`approvals-${id}`}
      name="approvals"
      label="Approvals that a request for access needs"
      hint="Two apply only while the environment is protected."
      choices={[
        { value: "1", label: "one" },
        { value: "2", label: "two, by different people" }
      ]}
      value={String(approvals ?? 1)}
    />
    <Ui.TextArea
      id={`approvers-${id}`}
      name="approvers"
      label="Approvers besides owners and admins"
      hint="One e-mail address per line. Approvers cannot grant more access than they have here."
      rows={2}
      optional
      value={members.flatMap(({ email, userId }) => (approvers.includes(userId) ? [email] : [])).join("\n")}
    />
  </>
)

const plural = (n: number, one: string) => `${n.toLocaleString("en")} ${one}${n === 1 ? "" : "s"}`
const sum = (numbers: ReadonlyArray<number>) => numbers.reduce((total, n) => total + n, 0)

/** Warning before a deletion. */
const Ends = ({ contents }: { readonly contents: ReadonlyArray<Contents> }) => {
  const secrets = sum(contents.map((one) => one.secrets))
  const tokens = sum(contents.map((one) => one.tokens))
  return (
    <p>
      This deletes <strong>{plural(secrets, "secret")}</strong>
      {tokens === 0 ? null : (
        <>
          {" "}
          and ends the access of <strong>{plural(tokens, "API token")}</strong>
        </>
      )}
      . People, tokens and running deployments lose access at once. You cannot undo it here.
    </p>
  )
}

const EnvironmentPanel = ({
  contents,
  environment,
  form,
  members,
  problem,
  settings
}: Partial<Attempt> & {
  readonly contents: ReadonlyArray<Contents>
  readonly environment: ProjectEnvironment
  readonly members: ReadonlyArray<Member>
  readonly settings: string
}) => (
  <details open={problem !== undefined}>
    <summary class="button button-quiet">
      Edit<span class="hidden"> {environment.name}</span>
    </summary>
    <div class="stack panel row-panel">
      <form method="post" action={`${settings}/environments/${environment.id}`} class="stack">
        {problem === undefined || deletes(problem) ? null : <Ui.ProblemNote problem={problem} />}
        <Ui.TextField
          id={`name-${environment.id}`}
          name="name"
          label="Name"
          value={form?.has("name") === true ? form.text("name") : environment.name}
        />
        <Ui.CheckBox
          name="protected"
          checked={form?.has("name") === true ? form.has("protected") : environment.protected}
          hint="Only owners, admins and tokens that were created for this environment can change its secrets."
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
        repeat={environment.slug}
        problem={deletes(problem) ? problem : undefined}
      >
        <Ends contents={contents} />
      </Ui.Confirm>
    </div>
  </details>
)

/** Buttons that move an environment in the order of columns, lists and menus. */
const Moves = ({
  at,
  environment: { id, name },
  of,
  settings
}: {
  readonly environment: ProjectEnvironment
  readonly settings: string
  /** Current position, from 1, and number of environments. */
  readonly at: number
  readonly of: number
}) => (
  <form method="post" action={`${settings}/environments/${id}/move`} class="act moves">
    <button class="tool" name="position" value={at - 1} disabled={at === 1}>
      <Icons.Up />
      <span class="hidden">{`Move ${name} up`}</span>
    </button>
    <button class="tool" name="position" value={at + 1} disabled={at === of}>
      <Icons.Down />
      <span class="hidden">{`Move ${name} down`}</span>
    </button>
  </form>
)

const EnvironmentTable = ({
  attemptOf,
  contents,
  environments,
  members,
  project,
  visit
}: Settings & { readonly visit: Visit; readonly attemptOf: (part: Editing) => Partial<Attempt> }) => {
  const orders = may(visit, "projects:manage") && environments.length > 1
  return (
    <section>
      <Ui.Table
        label="Environments"
        head={["Environment", "Who can read values", "Who can change secrets", ...(orders ? ["Order"] : []), ""]}
      >
        {environments.map((environment, i) => (
          <tr>
            <th scope="row">
              <a href={Paths.environment({ projectId: project.id, slug: environment.slug })}>{environment.name}</a>{" "}
              {environment.slug === environment.name ? null : <code class="hint">{environment.slug}</code>}{" "}
              {environment.protected ? <Ui.Protected /> : null}
            </th>
            <td data-label="Read values">
              {environment.readers === "granted" ? "only people with a grant" : "the team"}
            </td>
            <td data-label="Change secrets">
              <WhoMayChange environment={environment} />
            </td>
            {orders ? (
              <td data-label="Order">
                <Moves
                  at={i + 1}
                  environment={environment}
                  of={environments.length}
                  settings={Paths.projectSettings(project.id)}
                />
              </td>
            ) : null}
            <td class="end">
              {may(visit, "projects:manage") ? (
                <EnvironmentPanel
                  {...attemptOf(environment.id)}
                  contents={contents.filter(({ id }) => id === environment.id)}
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
        In a new protected environment, only people with a grant can read values. Environments that are older than this
        setting stay open to the team until you change them. Columns and all lists use this order.
      </p>
    </section>
  )
}

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
      label="Who can see the project"
      hint="If people need a grant, they need one for each of its environments, too."
      choices={visibilityWords}
      value={form?.filled("visibility") ?? project.visibility}
      problem={problem}
    />
    <Ui.Submit>Save</Ui.Submit>
  </form>
)

export const ProjectSettingsPage = ({
  contents,
  editing,
  environments,
  form,
  members,
  problem,
  project,
  visit
}: Attempt & Settings & { readonly visit: Visit; readonly editing: Editing | undefined }) => {
  const settings = Paths.projectSettings(project.id)
  const attemptOf = (part: Editing): Partial<Attempt> => (editing === part ? { form, problem } : {})
  const ends = attemptOf("delete").problem
  return (
    <Layout
      visit={visit}
      section="projects"
      title={`Settings of ${project.name}`}
      inProject={{ id: project.id, name: project.name, view: "settings" }}
      crumbs={[{ href: Paths.home, label: "Projects" }]}
    >
      <EnvironmentPills environments={environments} project={project} current="" />
      <EnvironmentTable
        attemptOf={attemptOf}
        contents={contents}
        visit={visit}
        project={project}
        environments={environments}
        members={members}
      />
      {may(visit, "projects:manage") ? (
        <>
          <section class="section columns">
            <NewEnvironment settings={settings} {...attemptOf("environment")} />
            <ProjectForm settings={settings} project={project} {...attemptOf("project")} />
          </section>
          <section class="section panel panel-danger">
            <h2>Delete</h2>
            {deletes(ends) ? null : <Ui.ProblemNote problem={ends} />}
            <Ui.Confirm
              action={`${settings}/delete`}
              label="Delete the project"
              verb={`Delete ${project.slug} and everything in it`}
              repeat={project.slug}
              problem={deletes(ends) ? ends : undefined}
            >
              <Ends contents={contents} />
            </Ui.Confirm>
          </section>
        </>
      ) : null}
    </Layout>
  )
}

/** Form for a new API token. */
import { Lifetime } from "#schema/ApiTokensApi.ts"
import { allScopes, type Scope } from "#schema/Scopes.ts"
import * as Plans from "#src/limits/Plans.ts"
import { Beside } from "#src/dashboard/frame/Beside.tsx"
import { crumbsOf } from "#src/dashboard/frame/AccessFrame.tsx"
import * as Ui from "#src/dashboard/frame/Components.tsx"
import * as Form from "#src/dashboard/frame/Form.ts"
import { Layout } from "#src/dashboard/frame/Layout.tsx"
import * as Paths from "#src/dashboard/frame/Paths.ts"
import * as Problem from "#src/dashboard/frame/Problem.ts"
import type { Attempt, TeamVisit } from "#src/dashboard/frame/Routes.ts"
import { AccessFields, isTicked, type Restrictable } from "./TokenAccess.tsx"

const lifetimes: Readonly<Record<Lifetime, string>> = {
  "1d": "1 day",
  "7d": "7 days",
  "30d": "30 days",
  "90d": "90 days",
  "1y": "1 year"
}

export const scopeWords: Readonly<Record<Scope, string>> = {
  "identity:read": "read your name and teams",
  "projects:read": "list projects and environments",
  "secrets:read": "list secrets and metadata, no values",
  "secrets:read_values": "read values",
  "secrets:write": "create, change and delete secrets",
  "secrets:run": "get all values of an environment, to run programs with them",
  "audit:read": "read the audit trail"
}

export const ScopeChecks = ({
  checked,
  name,
  scopes
}: {
  readonly name: string
  readonly scopes: ReadonlyArray<Scope>
  readonly checked: (scope: Scope) => boolean
}) => (
  <div class="checks">
    {scopes.map((scope) => (
      <Ui.CheckBox name={name} value={scope} checked={checked(scope)} hint={scopeWords[scope]}>
        <code>{scope}</code>
      </Ui.CheckBox>
    ))}
  </div>
)

/** Field for the reach of a token with MCP scopes. Preselects `/mcp` alone; has no effect without a scope. */
const mcpUse = "mcpUse"
export const mcpOnlyIn = (form: Form.Form): boolean => form.has("mcpScopes") && form.filled(mcpUse) !== "everywhere"

const McpFields = ({ form, problem }: { readonly form: Form.Form; readonly problem: string | undefined }) => {
  const everywhere = form.filled(mcpUse) === "everywhere"
  return (
    <details class="disclosure part mcp-fields" open={form.has("mcpScopes") || problem !== undefined}>
      <summary>For AI agents (MCP)</summary>
      <p class="hint">If you choose none, the token does not work at /mcp.</p>
      <ScopeChecks name="mcpScopes" scopes={allScopes} checked={(scope) => isTicked(form, "mcpScopes", scope)} />
      {problem === undefined ? null : <p class="error">{problem}</p>}
      <fieldset class="part mcp-use">
        <legend>Where a token with MCP scopes works</legend>
        <Ui.CheckBox
          type="radio"
          name={mcpUse}
          value="mcp"
          checked={!everywhere}
          hint="An agent with the token can do only what the scopes above allow."
        >
          At /mcp only
        </Ui.CheckBox>
        <Ui.CheckBox
          type="radio"
          name={mcpUse}
          value="everywhere"
          checked={everywhere}
          hint="The scopes above limit the token at /mcp only. Over the REST API it can read every value of its projects and environments."
        >
          At /mcp and over the REST API
        </Ui.CheckBox>
      </fieldset>
    </details>
  )
}

/** Presets of the form by purpose. The person still chooses projects and environments. */
const presets: ReadonlyMap<string, { readonly title: string; readonly entries: Form.Form["entries"] }> = new Map([
  [
    "deploy",
    {
      title: "Deploy one environment",
      entries: [
        ["name", "deploy"],
        ["accessLevel", "read"],
        ["lifetime", "90d"]
      ]
    }
  ],
  [
    "ci",
    {
      title: "CI",
      entries: [
        ["name", "ci"],
        ["accessLevel", "read"],
        ["lifetime", "7d"]
      ]
    }
  ],
  [
    "agent",
    {
      title: "Agent",
      entries: [
        ["name", "agent"],
        ["accessLevel", "read"],
        ["lifetime", "7d"],
        ["mcpScopes", "projects:read"],
        ["mcpScopes", "secrets:read"],
        ["mcpScopes", "secrets:run"]
      ]
    }
  ]
])

/** The form as its address presets it: a purpose, projects and environments. */
const presetOf = (parameters: Form.Form): Form.Form => {
  const reach = parameters.entries.filter(([name]) => name === "projects" || name === "environments")
  return new Form.Form([...(presets.get(parameters.text("preset"))?.entries ?? []), ...reach])
}

const Presets = ({ current, here }: { readonly here: string; readonly current: string }) => (
  <nav class="pills" aria-label="Purpose of the token">
    {[...presets].map(([name, { title }]) => (
      <a class="pill" href={`${here}?preset=${name}`} aria-current={current === name ? "page" : undefined}>
        {title}
      </a>
    ))}
  </nav>
)

const words = [
  ["Shown once", "The next page shows the token, with the command that uses it. The server keeps only a hash of it."],
  ["As little as it needs", "A token for everything also reaches later projects. Choose its environments instead."],
  [
    "When it ends",
    "On its date, or earlier if someone revokes it, its creator leaves the team, or the creator's role or password changes."
  ]
] as const

export const NewTokenPage = ({
  form: typed,
  preset,
  problem,
  restrictable,
  visit
}: Attempt & {
  readonly visit: TeamVisit
  readonly restrictable: Restrictable
  /** Parameters of the page's address. */
  readonly preset: Form.Form
}) => {
  const form = problem === undefined ? presetOf(preset) : typed
  const { id, plan } = visit.team
  const allowed = Lifetime.literals.filter((lifetime) => Plans.lifetimeAllowed(plan, lifetime))
  const scopesProblem = Problem.about(problem, "mcpScopes")
  const atField =
    ["name", "lifetime"].includes(problem?.field ?? "") ||
    scopesProblem !== undefined ||
    ["projects", "environments"].some((field) => Problem.about(problem, field) !== undefined)
  return (
    <Layout visit={visit} section="access" title="New API token" crumbs={crumbsOf(id, "api_token")}>
      <Presets here={`${Paths.tokens(id)}/new`} current={preset.text("preset")} />
      {preset.text("preset") === "ci" ? (
        <Ui.Callout>
          Jobs of GitHub Actions and GitLab need no token at all: <a href={Paths.rules(id)}>CI identities</a>.
        </Ui.Callout>
      ) : null}
      <Beside words={words}>
        <form method="post" action={`${Paths.tokens(id)}/new`} class="panel">
          {atField ? null : <Ui.ProblemNote problem={problem} />}
          <Ui.TextField
            name="name"
            label="Name"
            value={form.text("name")}
            focus
            hint="Where you use it: ci, staging server, …"
            problem={problem}
          />
          <AccessFields form={form} restrictable={restrictable} problem={problem} />
          <Ui.Select
            name="lifetime"
            label="Expires after"
            choices={allowed.map((value) => ({ value, label: lifetimes[value] }))}
            value={form.filled("lifetime") ?? (allowed.includes("90d") ? "90d" : allowed.at(-1))}
            problem={problem}
          />
          <McpFields form={form} problem={scopesProblem} />
          <Ui.TextField
            name="addresses"
            label="Allowed IP addresses"
            value={form.text("addresses")}
            optional
            mono
            hint="Addresses or blocks such as 192.0.2.0/24, separated by commas. Leave empty to allow any."
            problem={problem}
          />
          <Ui.Submit cancel={Paths.tokens(id)}>Create the token</Ui.Submit>
        </form>
      </Beside>
    </Layout>
  )
}

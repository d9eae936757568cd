/** Form for a new trust rule, with a preview of the rule in words. */
import type { ComponentChildren } from "preact"
import type { AnyApiError } from "#schema/ApiError.ts"
import { Beside } from "#src/dashboard/frame/Beside.tsx"
import { crumbsOf } from "#src/dashboard/frame/AccessFrame.tsx"
import * as Ui from "#src/dashboard/frame/Components.tsx"
import * as Paths from "#src/dashboard/frame/Paths.ts"
import * as Problem from "#src/dashboard/frame/Problem.ts"
import type { Attempt, TeamVisit } from "#src/dashboard/frame/Routes.ts"
import { minutes, type RuleTerms, TrustedJobs } from "./RuleViews.tsx"
import * as Words from "./RuleWords.ts"
import { SettingsFrame } from "#src/dashboard/frame/Layout.tsx"
import { AccessFields, type Restrictable } from "./TokenAccess.tsx"

const lifetimes = [300, 900, 1800, 3600]

const repositoryHint = (
  <>
    For example <code>acme/shop</code>, or <code>acme/*</code> for all repositories of an owner.
  </>
)
const refHint = (
  <>
    For example <code>refs/heads/main</code> or <code>refs/tags/*</code>. Leave empty to allow every branch and tag.
  </>
)

const Claim = ({
  focus = false,
  form,
  hint,
  label,
  name,
  member = `claims.${name}`,
  optional = true,
  problem
}: Attempt & {
  readonly name: string
  readonly member?: string
  readonly label: string
  readonly hint: ComponentChildren
  readonly optional?: boolean
  readonly focus?: boolean
}) => (
  <Ui.TextField
    name={name}
    label={label}
    value={form.text(name)}
    mono
    optional={optional}
    focus={focus}
    hint={hint}
    problem={problem}
    member={member}
  />
)

const Claims = ({
  form,
  label,
  optional = false,
  problem
}: Attempt & { readonly label: string; readonly optional?: boolean }) => (
  <Ui.TextArea
    name="claims"
    label={label}
    rows={3}
    optional={optional}
    value={form.text("claims")}
    placeholder="sub = deploy@example"
    hint={
      <>
        One per line, as <code>name = value</code>. Each must match exactly, or up to an asterisk at its end.
      </>
    }
    problem={problem}
  />
)

const Issuer = ({ form, kind, problem }: Attempt & { readonly kind: Words.Kind }) => (
  <Ui.TextField
    name="issuer"
    label="Issuer"
    mono
    value={form.has("issuer") ? form.text("issuer") : kind === "gitlab" ? Words.gitlabIssuer : ""}
    hint={kind === "gitlab" ? "The address of your GitLab." : "Exactly the iss of its JWTs, an https address."}
    problem={problem}
  />
)

const EnvironmentClaim = (attempt: Attempt) => (
  <Claim
    {...attempt}
    name="environment"
    label="Environment of the job (optional)"
    hint="The name in the job. The CI decides which branches may use it. Leave empty to allow any environment, or none."
  />
)

/** `repository` is the member that a problem with the first claim names. */
const GitHubClaims = ({ repository, ...attempt }: Attempt & { readonly repository: string }) => (
  <>
    <Claim
      {...attempt}
      name="repository"
      member={repository}
      label="Repository"
      optional={false}
      hint={repositoryHint}
    />
    <EnvironmentClaim {...attempt} />
    <Claim {...attempt} name="ref" label="Branch or tag (optional)" hint={refHint} />
  </>
)

const GitLabClaims = ({ project, ...attempt }: Attempt & { readonly project: string }) => (
  <>
    <Issuer {...attempt} kind="gitlab" />
    <Claim {...attempt} name="project_path" member={project} label="Project" optional={false} hint={repositoryHint} />
    <EnvironmentClaim {...attempt} />
    <Claim
      {...attempt}
      name="ref"
      label="Branch or tag (optional)"
      hint={
        <>
          For example <code>main</code>. Leave empty to allow every branch and tag.
        </>
      }
    />
    <Ui.CheckBox name="ref_protected" checked={attempt.form.has("ref_protected") || !attempt.form.has("step")}>
      Only protected branches and tags
    </Ui.CheckBox>
  </>
)

const TrustedJobFields = ({ form, kind, problem }: Attempt & { readonly kind: Words.Kind }) => {
  const attempt = { form, problem }
  // A claim with its own field shows its problem there.
  const [first] = Words.claimFields[kind]
  const ofFirst = first !== undefined && problem?.field === "claims" && form.filled("claims") === undefined
  const atField = ofFirst || Words.claimFields[kind].some((name) => problem?.field === `claims.${name}`)
  const further = { form, problem: atField ? undefined : problem }
  const memberOfFirst = ofFirst ? "claims" : `claims.${first}`
  return (
    <section class="group">
      <h2>Trusted jobs</h2>
      {kind === "github" ? (
        <GitHubClaims {...attempt} repository={memberOfFirst} />
      ) : kind === "gitlab" ? (
        <GitLabClaims {...attempt} project={memberOfFirst} />
      ) : (
        <Issuer {...attempt} kind={kind} />
      )}
      {kind === "other" ? (
        <Claims {...further} label="Claims" />
      ) : (
        <details
          class="disclosure"
          open={form.filled("claims") !== undefined || Problem.about(further.problem, "claims") !== undefined}
        >
          <summary>More claims</summary>
          <Claims {...further} label="Claims" optional />
        </details>
      )}
    </section>
  )
}

const TokenFields = ({
  form,
  kind,
  problem,
  restrictable,
  visit
}: Attempt & { readonly visit: TeamVisit; readonly kind: Words.Kind; readonly restrictable: Restrictable }) => (
  <section class="group">
    <h2>Their tokens</h2>
    <AccessFields form={form} restrictable={restrictable} problem={problem} />
    <Ui.Select
      name="lifetimeSeconds"
      label="Each token expires after"
      choices={lifetimes.map((seconds) => ({ value: String(seconds), label: minutes(seconds) }))}
      value={form.filled("lifetimeSeconds") ?? "900"}
      hint={kind === "gitlab" ? "A job gets one token, so choose a time in which the whole job ends." : undefined}
      problem={problem}
    />
    <details class="disclosure part" open={form.filled("audience") !== undefined}>
      <summary>Another audience</summary>
      <Ui.TextField
        name="audience"
        label="Audience"
        mono
        optional
        value={form.text("audience")}
        hint={
          <>
            The <code>aud</code> that the job requests from its CI. Leave empty for <code>{visit.ui.baseUrl}</code>.
          </>
        }
        problem={problem}
      />
    </details>
  </section>
)

const Preview = ({
  preview,
  problem
}: {
  readonly preview: RuleTerms | undefined
  readonly problem: AnyApiError | undefined
}) => (
  <div id="preview" aria-live="polite">
    {preview !== undefined ? (
      <section class="part sunken stack" aria-label="Preview of the rule">
        <TrustedJobs rule={preview} />
      </section>
    ) : problem === undefined ? null : (
      <div class="part">
        <Ui.Callout tone="danger" title={Problem.explain(problem).title} role="alert">
          {problem.field === undefined ? null : (
            <p>
              Check the field <code>{problem.field.replace(/^claims\./, "")}</code>.
            </p>
          )}
        </Ui.Callout>
      </div>
    )}
  </div>
)

const fields = ["name", "issuer", "audience", "claims", "projects", "environments"]

export const NewRulePage = ({
  form,
  kind,
  preview,
  problem,
  restrictable,
  visit
}: Attempt & {
  readonly visit: TeamVisit
  readonly kind: Words.Kind
  readonly restrictable: Restrictable
  readonly preview: RuleTerms | undefined
}) => {
  const at = Paths.rules(visit.team.id)
  const attempt = { form, problem }
  const previewing = form.text("step") === "preview"
  const atField = fields.some((field) => Problem.about(problem, field) !== undefined)
  return (
    <SettingsFrame visit={visit} view="access" title="New trust rule" crumbs={crumbsOf(visit.team.id, "machine_rule")}>
      <nav class="pills" aria-label="Kind of CI">
        {Words.kinds.map((one) => (
          <a class="pill" href={`${at}/new?kind=${one}`} aria-current={one === kind ? "page" : undefined}>
            {Words.kindNames[one]}
          </a>
        ))}
      </nav>
      <div class="section-small">
        <Beside
          words={[
            ["No stored secret", "A job of your CI proves its identity and gets a short-lived token."],
            ["Try it first", "Before you create the rule, the preview shows which jobs it trusts."],
            ["As narrow as the job", "Name a branch and an environment to keep all other jobs out."]
          ]}
        >
          <form method="post" action={`${at}/new`} class="panel">
            <input type="hidden" name="kind" value={kind} />
            {atField || previewing ? null : <Ui.ProblemNote problem={problem} />}
            <Ui.TextField
              name="name"
              label="Name"
              value={form.text("name")}
              focus
              hint="The purpose of the rule, for example shop deploys"
              problem={problem}
            />
            <TrustedJobFields {...attempt} kind={kind} />
            <TokenFields {...attempt} visit={visit} kind={kind} restrictable={restrictable} />
            <Preview preview={preview} problem={previewing ? problem : undefined} />
            <div class="buttons">
              <button class="button button-primary" name="step" value="create">
                Create the rule
              </button>
              <button class="button button-plain" name="step" value="preview">
                Preview the rule
              </button>
              <Ui.LinkButton href={at}>Cancel</Ui.LinkButton>
            </div>
          </form>
        </Beside>
      </div>
    </SettingsFrame>
  )
}

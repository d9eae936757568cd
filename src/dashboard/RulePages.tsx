/** Trust rules: which jobs of a CI get a short-lived token without a stored secret, in words before they are in force. */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import type { ComponentChildren } from "preact"
import type { AnyApiError } from "#schema/ApiError.ts"
import { GrantNotFound, ValidationFailed } from "#schema/Errors.ts"
import { RuleId } from "#schema/Ids.ts"
import { CreateMachineRule, type MachineRule } from "#schema/MachineIdentityApi.ts"
import { Rules } from "#src/machines/Rules.ts"
import {
  Ago,
  Badge,
  Callout,
  CheckBox,
  Command,
  Confirm,
  Empty,
  ProblemNote,
  Select,
  Table,
  TextArea,
  TextField
} from "./Components.tsx"
import * as Form from "./Form.ts"
import * as Html from "./Html.ts"
import * as Icons from "./Icons.tsx"
import { withNotice } from "./Notices.ts"
import { attempt, type Pages, param, query, shown } from "./Pages.ts"
import * as Paths from "./Paths.ts"
import * as Problem from "./Problem.ts"
import { chosen, Level, type Offered, offers, Reach, ReachFields } from "./Reach.tsx"
import * as Words from "./RuleWords.ts"
import { SettingsFrame } from "./SettingsFrame.tsx"
import type { Visit } from "./Visit.ts"

const lifetimes = [300, 900, 1800, 3600]
const minutes = (seconds: number) => `${Math.round(seconds / 60)} minutes`

const Conditions = ({ claims }: Pick<MachineRule, "claims">) => (
  <ul class="conditions">
    {Words.conditions(claims).map(({ claim, value, verb }) => (
      <li>
        <code>{claim}</code> <span class="hint">{verb}</span> <code>{value}</code>
      </li>
    ))}
  </ul>
)

type Told = Pick<MachineRule, "issuer" | "audience" | "claims" | "accessLevel" | "lifetimeSeconds">

/** The rule as a sentence; cautions say what stands between its lines. */
const LetsIn = ({ rule }: { readonly rule: Told }) => {
  const cautions = Words.cautions(rule)
  return (
    <>
      <p>
        <strong>{Words.whoComes(rule)}</strong> get in when all of this holds:
      </p>
      <Conditions claims={rule.claims} />
      <p class="hint">
        They ask for the audience <code>{rule.audience}</code>, and get a token that{" "}
        {rule.accessLevel === "write" ? "reads and writes" : "only reads"} and ends after{" "}
        {minutes(rule.lifetimeSeconds)}.
      </p>
      {cautions.length === 0 ? null : (
        <Callout tone="warning" title="Mind">
          <ul>
            {cautions.map((caution) => (
              <li>{caution}</li>
            ))}
          </ul>
        </Callout>
      )}
    </>
  )
}

const State = ({ rule }: { readonly rule: MachineRule }) =>
  rule.state === "active" ? <Badge tone="ok">active</Badge> : <Badge tone="danger">stopped</Badge>

const RulesPage = ({ items, visit }: { readonly visit: Visit; readonly items: ReadonlyArray<MachineRule> }) => {
  if (visit.team === null) return null
  const at = Paths.rules(visit.team.id)
  const add = (
    <a class="button button-primary" href={`${at}/new`}>
      <Icons.Plus /> New trust rule
    </a>
  )
  return (
    <SettingsFrame
      visit={visit}
      view="ci"
      title="CI identities"
      lead="A job proves who it is with what its CI signs for it, and gets a token for some minutes. No secret is stored in CI."
      actions={items.length === 0 ? undefined : add}
    >
      {items.length === 0 ? (
        <Empty title="No trust rules">
          <p>Let deployments in by where they come from: a repository, a branch, an environment.</p>
          <div class="buttons">{add}</div>
        </Empty>
      ) : (
        <Table label="Trust rules" head={["Rule", "Lets in", "Reaches", "Last use"]}>
          {items.map((rule) => (
            <tr>
              <th scope="row">
                <a href={Paths.rule(rule.teamId, rule.id)}>{rule.name}</a>
                <span class="badges refs">
                  <Level level={rule.accessLevel} />
                  {rule.state === "active" ? null : <State rule={rule} />}
                </span>
              </th>
              <td data-label="Lets in">
                {Words.kindNames[Words.kindOf(rule)]}
                <Conditions claims={rule.claims} />
              </td>
              <td data-label="Reaches">
                <Reach of={rule} />
              </td>
              <td data-label="Last use" class="hint">
                {rule.lastUsedAt === null ? "never" : <Ago at={rule.lastUsedAt} now={visit.now} />}
              </td>
            </tr>
          ))}
        </Table>
      )}
    </SettingsFrame>
  )
}

const repositoryHint = (owner: string) => (
  <>
    <code>{owner}</code>. With <code>/*</code> at its end it is every one below that owner.
  </>
)
const refHint = (
  <>
    For example <code>refs/heads/main</code> or <code>refs/tags/*</code>. Empty: every branch and tag.
  </>
)

interface FormShown {
  readonly form: Form.Form
  readonly problem: AnyApiError | undefined
}

const Claim = ({
  focus = false,
  form,
  hint,
  label,
  name,
  member = `claims.${name}`,
  optional = true,
  problem
}: FormShown & {
  readonly name: string
  readonly member?: string
  readonly label: string
  readonly hint: ComponentChildren
  readonly optional?: boolean
  readonly focus?: boolean
}) => (
  <TextField
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

const WhoGetsIn = ({ form, kind, problem }: FormShown & { readonly kind: Words.Kind }) => {
  const common = { form, problem }
  // A claim with a field of its own has its problem there.
  const [first] = Words.claimFields[kind]
  const ofFirst = first !== undefined && problem?.field === "claims" && form.filled("claims") === undefined
  const atField = ofFirst || Words.claimFields[kind].some((name) => problem?.field === `claims.${name}`)
  const further = { form, problem: atField ? undefined : problem }
  const issuer = (
    <TextField
      name="issuer"
      label="Issuer"
      mono
      value={form.has("issuer") ? form.text("issuer") : kind === "gitlab" ? Words.gitlabIssuer : ""}
      hint={kind === "gitlab" ? "The address of your GitLab." : "The iss of its JWTs, an https address, to the letter."}
      problem={problem}
    />
  )
  const environment = (
    <Claim
      {...common}
      name="environment"
      label="Environment of the job (optional)"
      hint="As the job names it. The CI decides which branches may use it. Empty: any, and none."
    />
  )
  return (
    <section class="group">
      <h2>Who gets in</h2>
      {kind === "github" ? (
        <>
          <Claim
            {...common}
            name="repository"
            member={ofFirst ? "claims" : "claims.repository"}
            label="Repository"
            optional={false}
            hint={repositoryHint("acme/shop")}
          />
          {environment}
          <Claim {...common} name="ref" label="Branch or tag (optional)" hint={refHint} />
        </>
      ) : kind === "gitlab" ? (
        <>
          {issuer}
          <Claim
            {...common}
            name="project_path"
            member={ofFirst ? "claims" : "claims.project_path"}
            label="Project"
            optional={false}
            hint={repositoryHint("acme/shop")}
          />
          {environment}
          <Claim
            {...common}
            name="ref"
            label="Branch or tag (optional)"
            hint={
              <>
                For example <code>main</code>. Empty: every one.
              </>
            }
          />
          <CheckBox name="ref_protected" checked={form.has("ref_protected") || !form.has("step")}>
            Only protected branches and tags
          </CheckBox>
        </>
      ) : (
        issuer
      )}
      {kind === "other" ? (
        <Claims {...further} label="Claims" />
      ) : (
        <details
          class="disclosure"
          open={form.filled("claims") !== undefined || Problem.about(further.problem, "claims") !== undefined}
        >
          <summary>Further claims</summary>
          <Claims {...further} label="Claims" optional />
        </details>
      )}
    </section>
  )
}

const Claims = ({
  form,
  label,
  optional = false,
  problem
}: FormShown & { readonly label: string; readonly optional?: boolean }) => (
  <TextArea
    name="claims"
    label={label}
    rows={3}
    optional={optional}
    value={form.text("claims")}
    placeholder="sub = deploy@example"
    hint={
      <>
        One a line, as <code>name = value</code>. All must match to the letter, or up to an asterisk at the end.
      </>
    }
    problem={problem}
  />
)

const NewRulePage = ({
  form,
  kind,
  letsIn,
  offered,
  problem,
  visit
}: FormShown & {
  readonly visit: Visit
  readonly kind: Words.Kind
  readonly offered: Offered
  /** The rule as it would be, once the form makes one. */
  readonly letsIn?: Told | undefined
}) => {
  if (visit.team === null) return null
  const at = Paths.rules(visit.team.id)
  const fields = ["name", "issuer", "audience", "claims", "environments"]
  const previewing = form.text("step") === "preview"
  const shownAtField = fields.some((field) => Problem.about(problem, field) !== undefined)
  return (
    <SettingsFrame
      visit={visit}
      view="ci"
      title="New trust rule"
      crumbs={[
        { href: Paths.settings(visit.team.id), label: "Settings" },
        { href: at, label: "CI identities" }
      ]}
    >
      <nav class="pills" aria-label="Kind of CI">
        {Words.kinds.map((one) => (
          <a class="pill" href={`${at}/new?kind=${one}`} aria-current={one === kind ? "page" : undefined}>
            {Words.kindNames[one]}
          </a>
        ))}
      </nav>
      <form method="post" action={`${at}/new`} class="panel narrow section-small" data-swap="lets-in">
        <input type="hidden" name="kind" value={kind} />
        {shownAtField || previewing ? null : <ProblemNote problem={problem} />}
        <TextField
          name="name"
          label="Name"
          value={form.text("name")}
          focus
          hint="What it is for: shop deploys"
          problem={problem}
        />
        <WhoGetsIn form={form} kind={kind} problem={problem} />
        <section class="group">
          <h2>What they get</h2>
          <ReachFields form={form} offered={offered} problem={problem} />
          <Select
            name="lifetimeSeconds"
            label="Each token works for"
            choices={lifetimes.map((seconds) => ({ value: String(seconds), label: minutes(seconds) }))}
            value={form.filled("lifetimeSeconds") ?? "900"}
            hint={kind === "gitlab" ? "A job gets one token: as long as the job takes." : undefined}
            problem={problem}
          />
          <details class="disclosure part" open={form.filled("audience") !== undefined}>
            <summary>Another audience</summary>
            <TextField
              name="audience"
              label="Audience"
              mono
              optional
              value={form.text("audience")}
              hint={
                <>
                  What the job asks its CI to write into <code>aud</code>. Empty: <code>{visit.ui.baseUrl}</code>.
                </>
              }
              problem={problem}
            />
          </details>
        </section>
        <div id="lets-in" aria-live="polite">
          {letsIn === undefined ? (
            problem !== undefined && previewing ? (
              <div class="part">
                <Callout tone="danger" title={Problem.tell(problem).title} role="alert">
                  {problem.field === undefined ? null : (
                    <p>
                      It is about <code>{problem.field.replace(/^claims\./, "")}</code>.
                    </p>
                  )}
                </Callout>
              </div>
            ) : null
          ) : (
            <section class="part sunken stack" aria-label="What the rule lets in">
              <LetsIn rule={letsIn} />
            </section>
          )}
        </div>
        <div class="buttons">
          <button class="button button-primary" name="step" value="create">
            Create the rule
          </button>
          <button class="button button-plain" name="step" value="preview">
            Show whom it lets in
          </button>
          <a class="button button-plain" href={at}>
            Cancel
          </a>
        </div>
      </form>
    </SettingsFrame>
  )
}

const RulePage = ({
  project,
  rule,
  visit
}: {
  readonly visit: Visit
  readonly rule: MachineRule
  /** Slug of a project that the rule reaches. */
  readonly project: string | undefined
}) => {
  const at = Paths.rules(rule.teamId)
  const kind = Words.kindOf(rule)
  const { baseUrl } = visit.ui
  const environment = rule.environments?.at(0)?.slug ?? "production"
  return (
    <SettingsFrame
      visit={visit}
      view="ci"
      title={rule.name}
      lead={
        <span class="badges">
          <State rule={rule} /> <Level level={rule.accessLevel} />
        </span>
      }
      crumbs={[
        { href: Paths.settings(rule.teamId), label: "Settings" },
        { href: at, label: "CI identities" }
      ]}
    >
      {rule.state === "active" ? null : (
        <Callout tone="warning" title="This rule lets nobody in any more">
          <p>
            {rule.createdBy.email}, who made it, left the team, changed roles or was deactivated. Make it anew, then
            delete this one.
          </p>
        </Callout>
      )}
      <div class="columns">
        <div>
          <section class="panel stack">
            <h2>What it lets in</h2>
            <LetsIn rule={rule} />
          </section>
        </div>
        <div>
          <section class="panel" aria-label="Facts">
            <dl class="facts">
              <dt>Reaches</dt>
              <dd>
                <Reach of={rule} />
              </dd>
              <dt>Tokens live</dt>
              <dd>{minutes(rule.lifetimeSeconds)}</dd>
              <dt>Last use</dt>
              <dd>{rule.lastUsedAt === null ? "never" : <Ago at={rule.lastUsedAt} now={visit.now} />}</dd>
              <dt>Made</dt>
              <dd>
                <Ago at={rule.createdAt} now={visit.now} /> by {rule.createdBy.email}
              </dd>
              <dt>Issuer</dt>
              <dd>
                <code>{rule.issuer}</code>
              </dd>
              <dt>Id</dt>
              <dd>
                <code>{rule.id}</code>
              </dd>
            </dl>
          </section>
          <section class="panel panel-danger">
            <h2>Delete</h2>
            <p class="hint section-small">A rule never changes: to change it, make another one and delete this one.</p>
            <div class="buttons">
              <Confirm action={`${Paths.rule(rule.teamId, rule.id)}/delete`} label="Delete" verb="Delete the rule">
                <p>Nobody gets in by it any more, and the tokens that jobs got by it are revoked at once.</p>
              </Confirm>
            </div>
          </section>
        </div>
      </div>
      <section class="panel section">
        <h2>In the job</h2>
        <Command block>{Words.example(rule, { baseUrl, environment, project: project ?? "my-project" })}</Command>
        <p class="hint section-small">
          {kind === "gitlab"
            ? "A JWT is taken once: one exchange per job."
            : "A JWT is taken once: ask for another one when the token has ended."}{" "}
          The rule's id is no secret. Why an exchange was refused stands in the audit trail.
        </p>
      </section>
    </SettingsFrame>
  )
}

export const routes = (pages: Pages["Type"]) =>
  Effect.gen(function* () {
    const rules = yield* Rules
    const offered = yield* offers

    const list = pages.team((teamId, visit) =>
      Effect.gen(function* () {
        const items = yield* rules.list(teamId)
        return Html.page(<RulesPage visit={visit} items={items} />)
      })
    )

    const fresh = pages.team((teamId, visit) =>
      Effect.gen(function* () {
        yield* rules.mayCreate(teamId)
        const asked = (yield* query).text("kind")
        return Html.page(
          <NewRulePage
            visit={visit}
            kind={Words.isKind(asked) ? asked : "github"}
            offered={yield* offered(teamId)}
            form={new Form.Form([])}
            problem={undefined}
          />
        )
      })
    )

    const inputOf = Effect.fnUntraced(function* (form: Form.Form, kind: Words.Kind) {
      const claims = Words.claimsOf(form, kind)
      if (claims === undefined) {
        return yield* new ValidationFailed({
          field: "claims",
          message: "Write one claim a line, as name = value, and each name once."
        })
      }
      const audience = form.filled("audience")?.trim()
      return yield* Form.decode(CreateMachineRule)({
        name: form.text("name"),
        issuer: kind === "github" ? Words.githubIssuer : form.text("issuer").trim(),
        ...(audience === undefined ? {} : { audience }),
        claims,
        accessLevel: form.text("accessLevel"),
        lifetimeSeconds: Number(form.text("lifetimeSeconds")),
        ...chosen(form, "projects", "environments")
      })
    })

    const create = pages.team((teamId, visit) =>
      Effect.gen(function* () {
        const form = yield* Form.read
        const asked = form.text("kind")
        const kind = Words.isKind(asked) ? asked : "other"
        const page = { visit, kind, form }
        const done = yield* attempt(
          Effect.gen(function* () {
            const input = yield* inputOf(form, kind)
            if (form.text("step") !== "preview") return { made: yield* rules.create(teamId, input) }
            yield* rules.check(teamId, input)
            const { accessLevel = "read", audience = visit.ui.baseUrl, claims, issuer, lifetimeSeconds = 900 } = input
            return { letsIn: { issuer, audience, claims, accessLevel, lifetimeSeconds } }
          })
        )
        if (Either.isLeft(done)) {
          return shown(<NewRulePage {...page} offered={yield* offered(teamId)} problem={done.left} />, done.left)
        }
        const { letsIn, made } = done.right
        return made === undefined
          ? Html.page(<NewRulePage {...page} offered={yield* offered(teamId)} letsIn={letsIn} problem={undefined} />)
          : Html.seeOther(withNotice(Paths.rule(teamId, made.id), "rule-created"))
      })
    )

    const view = pages.team((teamId, visit) =>
      Effect.gen(function* () {
        const id = yield* param("ruleId", RuleId)
        const items = yield* rules.list(teamId)
        const rule = items.find((one) => one.id === id)
        if (rule === undefined) return yield* new GrantNotFound({ message: "No such trust rule." })
        const { projects } = yield* offered(teamId)
        const reached = rule.projects?.at(0)?.id
        const project = projects.find((one) => reached === undefined || one.id === reached)?.slug
        return Html.page(<RulePage visit={visit} rule={rule} project={project} />)
      })
    )

    const remove = pages.team((teamId) =>
      Effect.gen(function* () {
        yield* rules.remove(teamId, yield* param("ruleId", RuleId))
        return Html.seeOther(withNotice(Paths.rules(teamId), "rule-deleted"))
      })
    )

    return HttpRouter.empty.pipe(
      HttpRouter.get("/app/teams/:teamId/ci", list),
      HttpRouter.get("/app/teams/:teamId/ci/new", fresh),
      HttpRouter.post("/app/teams/:teamId/ci/new", create),
      HttpRouter.get("/app/teams/:teamId/ci/:ruleId", view),
      HttpRouter.post("/app/teams/:teamId/ci/:ruleId/delete", remove)
    )
  })

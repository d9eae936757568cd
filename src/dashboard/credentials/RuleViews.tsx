/** Trust rules in words: the trusted jobs of a CI, and their access. */
import type { MachineRule } from "#schema/MachineIdentityApi.ts"
import { AccessFrame, crumbsOf, fits } from "#src/dashboard/frame/AccessFrame.tsx"
import * as Ui from "#src/dashboard/frame/Components.tsx"
import * as CopyText from "#src/dashboard/frame/CopyText.tsx"
import * as Paths from "#src/dashboard/frame/Paths.ts"
import type { TeamVisit } from "#src/dashboard/frame/Routes.ts"
import * as Words from "./RuleWords.ts"
import { SettingsFrame } from "#src/dashboard/frame/Layout.tsx"
import { AccessLevelBadge, AccessSummary } from "./TokenAccess.tsx"

export const minutes = (seconds: number) => `${Math.round(seconds / 60)} minutes`

const Conditions = ({ claims }: Pick<MachineRule, "claims">) => (
  <ul class="conditions">
    {Words.conditions(claims).map(({ claim, value, verb }) => (
      <li>
        <code>{claim}</code> <span class="hint">{verb}</span> <code>{value}</code>
      </li>
    ))}
  </ul>
)

export type RuleTerms = Pick<MachineRule, "issuer" | "audience" | "claims" | "accessLevel" | "lifetimeSeconds">

/** The rule as a sentence, with warnings about wide access. */
export const TrustedJobs = ({ rule }: { readonly rule: RuleTerms }) => {
  const cautions = Words.cautions(rule)
  return (
    <>
      <p>
        <strong>{Words.trustedBearers(rule)}</strong> can get a token if all of these are true:
      </p>
      <Conditions claims={rule.claims} />
      <p class="hint">
        They request the audience <code>{rule.audience}</code>. The token{" "}
        {rule.accessLevel === "write" ? "reads and writes" : "only reads"} and expires after{" "}
        {minutes(rule.lifetimeSeconds)}.
      </p>
      {cautions.length === 0 ? null : (
        <Ui.Callout tone="warning" title="Check what this rule allows">
          <ul>
            {cautions.map((caution) => (
              <li>{caution}</li>
            ))}
          </ul>
        </Ui.Callout>
      )}
    </>
  )
}

const State = ({ rule }: { readonly rule: MachineRule }) =>
  rule.state === "active" ? <Ui.Badge tone="ok">active</Ui.Badge> : <Ui.Badge tone="danger">stopped</Ui.Badge>

export const RulesPage = ({
  items,
  visit,
  words
}: {
  readonly visit: TeamVisit
  readonly items: ReadonlyArray<MachineRule>
  readonly words: string
}) => {
  const matches = items.filter(({ createdBy, name }) => fits(words, name, createdBy.email))
  return (
    <AccessFrame
      visit={visit}
      kind="machine_rule"
      words={words}
      lead="A job presents a token that its CI signed, and gets an Ampoule token for a few minutes. You store no secret in the CI."
    >
      {items.length === 0 ? (
        <Ui.Empty title="No CI identities">
          <p>A trust rule gives access to jobs of a repository, a branch or an environment.</p>
        </Ui.Empty>
      ) : matches.length === 0 ? (
        <Ui.Empty title="No matches" />
      ) : (
        <Ui.Table label="Trust rules" head={["Rule", "Trusts", "Access to", "Last use"]}>
          {matches.map((rule) => (
            <tr>
              <th scope="row">
                <a href={Paths.rule(rule.teamId, rule.id)}>{rule.name}</a>
                <span class="badges refs">
                  <AccessLevelBadge level={rule.accessLevel} />
                  {rule.state === "active" ? null : <State rule={rule} />}
                </span>
              </th>
              <td data-label="Trusts">
                {Words.kindNames[Words.kindOf(rule)]}
                <Conditions claims={rule.claims} />
              </td>
              <td data-label="Access to">
                <AccessSummary of={rule} />
              </td>
              <td data-label="Last use" class="hint">
                {rule.lastUsedAt === null ? "never" : <Ui.Ago at={rule.lastUsedAt} now={visit.now} />}
              </td>
            </tr>
          ))}
        </Ui.Table>
      )}
    </AccessFrame>
  )
}

const Facts = ({ now, rule }: { readonly rule: MachineRule; readonly now: number }) => (
  <section class="panel" aria-label="Facts">
    <dl class="facts">
      <Ui.Fact name="Access to" is={<AccessSummary of={rule} />} />
      <Ui.Fact name="Tokens last" is={minutes(rule.lifetimeSeconds)} />
      <Ui.Fact name="Last use" is={rule.lastUsedAt === null ? "never" : <Ui.Ago at={rule.lastUsedAt} now={now} />} />
      <Ui.Fact name="Created">
        <Ui.Ago at={rule.createdAt} now={now} /> by {rule.createdBy.email}
      </Ui.Fact>
      <Ui.Fact name="Issuer" is={<code>{rule.issuer}</code>} />
      <Ui.Fact name="Id" is={<code>{rule.id}</code>} />
    </dl>
  </section>
)

const Delete = ({ rule }: { readonly rule: MachineRule }) => (
  <section class="panel panel-danger">
    <h2>Delete</h2>
    <p class="hint section-small">You cannot edit a rule. To change it, create a new rule and delete this one.</p>
    <div class="buttons">
      <Ui.Confirm action={`${Paths.rule(rule.teamId, rule.id)}/delete`} label="Delete" verb="Delete the rule">
        <p>Jobs get no more tokens from this rule, and the tokens that it issued are revoked at once.</p>
      </Ui.Confirm>
    </div>
  </section>
)

const Usage = ({
  project,
  rule,
  visit
}: {
  readonly visit: TeamVisit
  readonly rule: MachineRule
  readonly project: string
}) => {
  const environment = rule.environments?.at(0)?.slug ?? "production"
  return (
    <section class="panel section">
      <h2>In the job</h2>
      <CopyText.Command block>
        {Words.example(rule, { baseUrl: visit.ui.baseUrl, environment, project })}
      </CopyText.Command>
      <p class="hint section-small">
        {Words.kindOf(rule) === "gitlab"
          ? "Each JWT works once, so a job can get one token."
          : "Each JWT works once. When the token has expired, request another JWT."}{" "}
        The id of the rule is not a secret. If an exchange is refused, the audit trail shows why.
      </p>
    </section>
  )
}

export const RulePage = ({
  project,
  rule,
  visit
}: {
  readonly visit: TeamVisit
  readonly rule: MachineRule
  /** Slug of a project that the rule gives access to. */
  readonly project: string | undefined
}) => (
  <SettingsFrame
    visit={visit}
    view="access"
    title={rule.name}
    lead={
      <span class="badges">
        <State rule={rule} /> <AccessLevelBadge level={rule.accessLevel} />
      </span>
    }
    crumbs={crumbsOf(rule.teamId, "machine_rule")}
  >
    {rule.state === "active" ? null : (
      <Ui.Callout tone="warning" title="This rule no longer works">
        <p>
          Its creator, {rule.createdBy.email}, left the team, got another role or was deactivated. Create the rule
          again, then delete this one.
        </p>
      </Ui.Callout>
    )}
    <div class="columns">
      <div>
        <section class="panel stack">
          <h2>Trusted jobs</h2>
          <TrustedJobs rule={rule} />
        </section>
      </div>
      <div>
        <Facts rule={rule} now={visit.now} />
        <Delete rule={rule} />
      </div>
    </div>
    <Usage visit={visit} rule={rule} project={project ?? "my-project"} />
  </SettingsFrame>
)

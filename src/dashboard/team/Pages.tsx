/** Pages of a team's settings and plan, of a new team, and of the first steps. */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { AnyApiError } from "#schema/ApiError.ts"
import { Plan } from "#schema/Scopes.ts"
import { CreateTeam, type TeamRecord, UpdateTeam } from "#schema/TeamsApi.ts"
import * as Plans from "#src/limits/Plans.ts"
import type { Notice } from "#src/credentials/AccountNotices.ts"
import type { ClosedTeam } from "#src/openid/ClosedTeams.ts"
import { AccountNotices } from "#src/dashboard/account/NoticeViews.tsx"
import { ClosedTeams } from "#src/dashboard/account/ClosedTeamViews.tsx"
import { Beside } from "#src/dashboard/frame/Beside.tsx"
import * as Ui from "#src/dashboard/frame/Components.tsx"
import * as Form from "#src/dashboard/frame/Form.ts"
import { Layout, SettingsFrame } from "#src/dashboard/frame/Layout.tsx"
import * as Paths from "#src/dashboard/frame/Paths.ts"
import {
  action,
  type AtPerson,
  type AtTeam,
  type Attempt,
  page,
  person,
  screen,
  team,
  type TeamVisit,
  to
} from "#src/dashboard/frame/Routes.ts"
import { StartPage } from "./StartView.tsx"
import * as UseCases from "#src/dashboard/frame/UseCases.ts"
import { may, mayCreateTeam, type Visit } from "#src/dashboard/frame/Visit.ts"

const planNames: Readonly<Record<Plan, string>> = { developer: "Developer", team: "Team" }
const planWords = (plan: Plan) => {
  const { activeTokens, longestLifetime, versions } = Plans.plans[plan]
  const retention = versions ? "Keeps all versions of each secret" : "Keeps only the current version of each secret"
  return `${retention}. Tokens last up to ${
    longestLifetime === "1y" ? "a year" : `${Number.parseInt(longestLifetime, 10)} days`
  }. ${activeTokens.toLocaleString("en")} active tokens.`
}

/** A settings page; `editing` names its refused form. */
type SettingsProps = Attempt & {
  readonly visit: TeamVisit
  readonly record: TeamRecord
  /** Versions that a change to a plan without them would delete. Only for people who may change the plan. */
  readonly earlier: { readonly versions: number; readonly secrets: number } | undefined
  readonly editing?: "plan" | undefined
}

const plural = (n: number, one: string) => `${n.toLocaleString("en")} ${one}${n === 1 ? "" : "s"}`

/** A separate form for the plan, because a change can delete all earlier versions and then requires the team's name. */
const PlanPanel = ({ earlier, editing, problem, visit }: SettingsProps) => {
  const { id, name, plan } = visit.team
  const other = plan === "team" ? "developer" : "team"
  const ownProblem = editing === "plan" ? problem : undefined
  const ends = Plans.plans[plan].versions && !Plans.plans[other].versions
  return (
    <section class="panel">
      <h2>Plan: {planNames[plan]}</h2>
      <p class="hint">{planWords(plan)}</p>
      {earlier === undefined ? (
        <p class="hint">Only an owner can change the plan.</p>
      ) : (
        <div class="section-small">
          {ownProblem?.field === Form.confirm ? null : <Ui.ProblemNote problem={ownProblem} />}
          <Ui.Confirm
            action={`${Paths.settings(id)}/plan`}
            label={`Change to the ${planNames[other]} plan`}
            tone={ends ? "danger" : "plain"}
            verb={
              ends && earlier.versions > 0
                ? `Delete ${plural(earlier.versions, "version")} and change the plan`
                : "Change the plan"
            }
            {...(ends ? { repeat: name } : {})}
            problem={ownProblem}
          >
            <p>{planWords(other)}</p>
            {ends ? (
              <p>
                <strong>
                  {plural(earlier.versions, "earlier version")} of {plural(earlier.secrets, "secret")}
                </strong>{" "}
                {earlier.versions === 1 ? "is" : "are"} deleted at once. You cannot undo this: changing back does not
                restore them.
              </p>
            ) : null}
            <input type="hidden" name="plan" value={other} />
          </Ui.Confirm>
        </div>
      )}
    </section>
  )
}

/** Rules that are lists, as text with commas. */
const listRules = [
  {
    name: "sessionAddresses",
    label: "Allowed IP addresses of people",
    hint: "Addresses or blocks such as 192.0.2.0/24, separated by commas, including yours. Leave empty to allow any. Applies to the dashboard and CLI logins."
  },
  {
    name: "allowedKeys",
    label: "Allowed keys",
    hint: "Keys such as DATABASE_URL or prefixes such as STRIPE_*, separated by commas; * allows every name that is not known to run code. No secret gets another key. Leave empty to allow any."
  }
] as const satisfies ReadonlyArray<{ readonly name: keyof TeamRecord; readonly label: string; readonly hint: string }>

const RuleFields = ({
  problem,
  record
}: {
  readonly record: TeamRecord
  readonly problem: AnyApiError | undefined
}) => (
  <fieldset class="part">
    <legend>Rules</legend>
    <Ui.CheckBox
      name="adminsNeedGrants"
      checked={record.adminsNeedGrants}
      hint="Applies where only people with a grant can read values. They can still grant themselves access, unless a second person decides; the audit trail shows it."
    >
      Owners and admins need grants too
    </Ui.CheckBox>
    <Ui.CheckBox
      name="tokensFollowCreators"
      checked={record.tokensFollowCreators}
      hint="A token can do no more than its creator can do now, and stops when its creator is deactivated."
    >
      API tokens follow their creators
    </Ui.CheckBox>
    <Ui.CheckBox
      name="secondFactorRequired"
      checked={record.secondFactorRequired}
      hint="People without one must add one first. CLI logins and agents that were approved without one stop."
    >
      A second factor is required
    </Ui.CheckBox>
    <Ui.CheckBox
      name="secondPerson"
      checked={record.secondPerson}
      hint="A grant to oneself, a lower protection, a new owner or admin and a reset link for one wait for another owner or admin. So does switching this off."
    >
      A second person decides about what owners and admins could give themselves
    </Ui.CheckBox>
    <Ui.TextField
      name="stepUpMinutes"
      label="Minutes until the second factor is required again"
      value={String(record.stepUpMinutes)}
      hint="For values of a protected environment, new tokens, approvals and these rules. 1 to 1440."
      problem={problem}
    />
    <Ui.Select
      name="leakedCredentials"
      label="When a scanner reports a leaked credential"
      choices={[
        { value: "revoke", label: "revoke it and notify the team" },
        { value: "notify", label: "only notify the team" }
      ]}
      value={record.leakedCredentials}
      problem={problem}
    />
    {listRules.map(({ hint, label, name }) => (
      <Ui.TextField
        name={name}
        label={label}
        value={(record[name] ?? []).join(", ")}
        optional
        mono
        hint={hint}
        problem={problem}
      />
    ))}
  </fieldset>
)

const TeamForm = ({ editing, form, problem, record, visit }: SettingsProps) => {
  const ownProblem = editing === undefined ? problem : undefined
  return (
    <form method="post" action={Paths.settings(visit.team.id)} class="panel">
      {["name", "stepUpMinutes", ...listRules.map(({ name }) => name)].includes(ownProblem?.field ?? "") ? null : (
        <Ui.ProblemNote problem={ownProblem} />
      )}
      <Ui.TextField
        name="name"
        label="Name"
        value={ownProblem === undefined ? visit.team.name : form.text("name")}
        problem={ownProblem}
      />
      {may(visit, "team-rules:manage") ? <RuleFields record={record} problem={ownProblem} /> : null}
      <Ui.Submit>Save</Ui.Submit>
    </form>
  )
}

const TeamSettingsPage = (props: SettingsProps) => {
  const { visit } = props
  const { team } = visit
  return (
    <SettingsFrame visit={visit} view="team" title="Team settings">
      <div class="columns">
        {may(visit, "team:manage") ? (
          <TeamForm {...props} />
        ) : (
          <dl class="facts panel">
            <Ui.Fact name="Name" is={team.name} />
            <Ui.Fact name="Your role" is={team.role} />
          </dl>
        )}
        <div>
          <PlanPanel {...props} />
          <section class="panel">
            <h2>Team id</h2>
            <p>
              <code>{team.id}</code>
            </p>
          </section>
        </div>
      </div>
    </SettingsFrame>
  )
}

interface WithoutTeam extends Attempt {
  readonly visit: Visit
  readonly closed: ReadonlyArray<ClosedTeam>
  readonly notices: ReadonlyArray<Notice>
}

/** Note for people without a team. It does not name teams that refuse this address, as if the person were no member. */
const NoTeamHere = ({ closed, notices, visit }: WithoutTeam) => (
  <>
    {visit.team === null ? <AccountNotices notices={notices} now={visit.now} /> : null}
    <ClosedTeams teams={closed} visit={visit} />
    {visit.team === null && closed.length === 0 ? (
      <Ui.Callout title="You have no team here">
        Ask an owner of a team for an invitation. If you belong to a team, it may accept only certain IP addresses. Then
        come back from one of those.
      </Ui.Callout>
    ) : null}
  </>
)

const NoNewTeam = ({ visit, ...props }: WithoutTeam) => (
  <Layout visit={visit} section="none" title={visit.team === null ? "No team" : "New team"}>
    <NoTeamHere visit={visit} {...props} />
    <Ui.Callout>
      {visit.ui.teamCreation === "operators"
        ? "On this server, only its operator can create teams."
        : "On this server, only owners of a team can create another one."}
    </Ui.Callout>
  </Layout>
)

const startsOn = "You become the owner of the team. It starts on the Developer plan."

/** Form for a new team. Without a team, the page first explains why. */
const NewTeamForm = ({ form, problem, visit, ...props }: WithoutTeam) => (
  <Layout
    visit={visit}
    section="none"
    title={visit.team === null ? "No team" : "New team"}
    lead={visit.team === null ? undefined : startsOn}
  >
    <NoTeamHere visit={visit} form={form} problem={problem} {...props} />
    {visit.team === null ? (
      <section class="section">
        <h2>New team</h2>
        <p class="lead">{startsOn}</p>
      </section>
    ) : null}
    <Beside
      words={[
        [
          "What a team is",
          "Projects, people, tokens and the audit trail belong to one team. Other teams cannot see them."
        ],
        ["Its members", "You are the first. Invite others, each with a role."]
      ]}
    >
      <form method="post" action={Paths.newTeam} class="panel">
        {problem?.field === "name" ? null : <Ui.ProblemNote problem={problem} />}
        <Ui.TextField
          name="name"
          label="Name"
          value={form.text("name")}
          focus={props.closed.length === 0}
          problem={problem}
        />
        <Ui.Submit {...(visit.team === null ? {} : { cancel: Paths.home })}>Create the team</Ui.Submit>
      </form>
    </Beside>
  </Layout>
)

const NewTeamPage = (props: WithoutTeam) =>
  mayCreateTeam(props.visit) ? <NewTeamForm {...props} /> : <NoNewTeam {...props} />

const settings = (editing?: "plan") =>
  screen(
    ({ teamId, visit }: AtTeam) =>
      Effect.gen(function* () {
        const record = yield* UseCases.teams.get(teamId)
        const earlier = may(visit, "plan:manage") ? yield* UseCases.teams.earlierVersions(teamId) : undefined
        return { record, earlier }
      }),
    (props) => <TeamSettingsPage {...props} editing={editing} />
  )

/** The list of the form, null when it is empty; the stored one if both are equal. */
const listIn = (form: Form.Form, name: string, stored: ReadonlyArray<string> | null) => {
  if (!form.has(name)) return stored
  const typed = Form.listItems(form.text(name))
  return typed.join() === (stored ?? []).join() ? stored : typed.length === 0 ? null : typed
}

/** Changed rules only, because changing a rule can need more rights than changing the name. */
const changedRules = (form: Form.Form, record: TeamRecord): Record<string, unknown> => {
  const rules = {
    adminsNeedGrants: form.has("adminsNeedGrants"),
    tokensFollowCreators: form.has("tokensFollowCreators"),
    secondFactorRequired: form.has("secondFactorRequired"),
    secondPerson: form.has("secondPerson"),
    stepUpMinutes: form.has("stepUpMinutes") ? Number(form.text("stepUpMinutes")) : record.stepUpMinutes,
    leakedCredentials: form.filled("leakedCredentials") ?? record.leakedCredentials,
    ...Object.fromEntries(listRules.map(({ name }) => [name, listIn(form, name, record[name])]))
  }
  const before = new Map<string, unknown>(Object.entries(record))
  return Object.fromEntries(Object.entries(rules).filter(([name, rule]) => before.get(name) !== rule))
}

const update = action(team, {
  decode: (form, { teamId, visit }) =>
    Effect.gen(function* () {
      const rules = may(visit, "team-rules:manage") ? changedRules(form, yield* UseCases.teams.get(teamId)) : {}
      return yield* Form.decode(UpdateTeam)({ name: form.text("name"), ...rules })
    }),
  run: (input, { teamId }) => UseCases.teams.update(teamId, input),
  done: (_, { teamId }) => to(Paths.settings(teamId), "team-changed"),
  again: settings()
})

const changePlan = action(team, {
  decode: (form, { teamId, visit: { team } }) =>
    Effect.gen(function* () {
      yield* UseCases.teams.earlierVersions(teamId)
      const { plan } = yield* Form.decode(Schema.Struct({ plan: Plan }))({ plan: form.text("plan") })
      const ends = Plans.plans[team.plan].versions && !Plans.plans[plan].versions
      if (ends) yield* Form.repeats(form, team.name)
      return { plan }
    }),
  run: (input, { teamId }) => UseCases.teams.update(teamId, input),
  done: (_, { teamId }) => to(Paths.settings(teamId), "plan-changed"),
  again: settings("plan")
})

const newTeam = screen(
  ({ visit }: AtPerson) =>
    Effect.zipWith(UseCases.closedTeams.list(), UseCases.accountNotices.list(visit.caller), (closed, notices) => ({
      closed,
      notices
    })),
  NewTeamPage
)

const create = action(person, {
  decode: (form) => Form.decode(CreateTeam)({ name: form.text("name") }),
  run: ({ name }, { visit: { caller } }) =>
    Effect.gen(function* () {
      const { id } = yield* UseCases.teams.create(name)
      // The caller of this request does not include the new team yet.
      const rules = { adminsNeedGrants: false, factorIsOld: false, allowedKeys: null }
      const created = { id, name, role: "owner", plan: "developer", scopes: null, ...rules } as const
      const owner = { ...caller, teams: [...caller.teams, created] }
      yield* UseCases.sessions.chooseTeam(owner, id)
    }),
  done: () => to(Paths.home, "team-created"),
  again: newTeam
})

const start = screen(
  ({ visit }: AtPerson) =>
    Effect.zipWith(UseCases.projects.list(), UseCases.passkeys.proposal(visit.caller), (all, proposes) => ({
      slug: all.find((project) => project.teamId === visit.team?.id)?.slug,
      proposes
    })),
  StartPage
)

export const routes = HttpRouter.empty.pipe(
  HttpRouter.get(Paths.newTeam, page(person, newTeam)),
  HttpRouter.post(Paths.newTeam, create),
  HttpRouter.get("/app/teams/:teamId/settings", page(team, settings())),
  HttpRouter.post("/app/teams/:teamId/settings", update),
  HttpRouter.post("/app/teams/:teamId/settings/plan", changePlan),
  HttpRouter.get(Paths.start, page(person, start))
)

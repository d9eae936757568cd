/** The team itself: its name, its plan, another one; and how to begin. */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import type { AnyApiError } from "#schema/ApiError.ts"
import type { Plan } from "#schema/Scopes.ts"
import { CreateTeam, UpdateTeam } from "#schema/TeamsApi.ts"
import { Sessions } from "#src/credentials/Sessions.ts"
import * as Plans from "#src/limits/Plans.ts"
import { Projects } from "#src/projects/Projects.ts"
import { Teams } from "#src/projects/Teams.ts"
import { Badge, CheckBox, Command, ProblemNote, TextField } from "./Components.tsx"
import * as Form from "./Form.ts"
import * as Html from "./Html.ts"
import { Layout } from "./Layout.tsx"
import { withNotice } from "./Notices.ts"
import { attempt, type Pages, shown } from "./Pages.ts"
import * as Paths from "./Paths.ts"
import { SettingsFrame } from "./SettingsFrame.tsx"
import { may, type Visit } from "./Visit.ts"

const planNames: Readonly<Record<Plan, string>> = { developer: "Developer", team: "Team" }
const planWords = (plan: Plan, current: Plan) => {
  const { activeTokens, longestLifetime, versions } = Plans.plans[plan]
  const kept = versions
    ? "All versions are kept"
    : `Only the current version is kept${plan === current ? "" : ", earlier ones are deleted at once"}`
  return `${kept}; tokens live up to ${
    longestLifetime === "1y" ? "a year" : `${Number.parseInt(longestLifetime, 10)} days`
  }; ${activeTokens.toLocaleString("en")} active tokens.`
}

const SettingsPage = ({
  name,
  problem,
  visit
}: {
  readonly visit: Visit
  readonly name?: string
  readonly problem?: AnyApiError | undefined
}) => {
  const team = visit.team
  if (team === null) return null
  const manages = may(visit, "team:manage")
  const plans = may(visit, "plan:manage")
  return (
    <SettingsFrame visit={visit} view="team" title="Team settings">
      {manages ? (
        <form method="post" action={Paths.settings(team.id)} class="panel narrow">
          {problem?.field === "name" ? null : <ProblemNote problem={problem} />}
          <TextField name="name" label="Name" value={name ?? team.name} problem={problem} />
          <fieldset class="part">
            <legend>Plan</legend>
            {plans ? (
              (["developer", "team"] as const).map((plan) => (
                <CheckBox
                  type="radio"
                  name="plan"
                  value={plan}
                  checked={team.plan === plan}
                  hint={planWords(plan, team.plan)}
                >
                  {planNames[plan]}
                </CheckBox>
              ))
            ) : (
              <p>
                {planNames[team.plan]} <span class="hint">Only owners change the plan.</span>
              </p>
            )}
          </fieldset>
          <div class="buttons">
            <button class="button button-primary">Save</button>
          </div>
        </form>
      ) : (
        <dl class="facts panel narrow">
          <dt>Name</dt>
          <dd>{team.name}</dd>
          <dt>Plan</dt>
          <dd>{planNames[team.plan]}</dd>
          <dt>Your role</dt>
          <dd>{team.role}</dd>
        </dl>
      )}
      <section class="section">
        <h2>Id of the team</h2>
        <p>
          <code>{team.id}</code>
        </p>
      </section>
    </SettingsFrame>
  )
}

const NewTeamPage = ({
  name = "",
  problem,
  visit
}: {
  readonly visit: Visit
  readonly name?: string
  readonly problem?: AnyApiError | undefined
}) => (
  <Layout visit={visit} section="none" title="New team" lead="You become its owner. It starts on the Developer plan.">
    <form method="post" action={Paths.newTeam} class="panel narrow">
      {problem?.field === "name" ? null : <ProblemNote problem={problem} />}
      <TextField name="name" label="Name" value={name} focus problem={problem} />
      <div class="buttons">
        <button class="button button-primary">Create the team</button>
        <a class="button button-plain" href={Paths.home}>
          Cancel
        </a>
      </div>
    </form>
  </Layout>
)

const StartPage = ({ slug, visit }: { readonly visit: Visit; readonly slug: string | undefined }) => {
  const project = slug ?? "my-project"
  return (
    <Layout
      visit={visit}
      section="start"
      title="Getting started"
      lead="From nothing to a program that runs with its secrets."
    >
      <ol class="steps narrow panel">
        <li>
          <div>
            <h2>Put secrets into a project</h2>
            <p>
              {slug === undefined ? (
                <>
                  <a href={`${Paths.home}?panel=new`}>Create a project</a>, then add secrets to its development
                  environment, or paste the .env file that you have.
                </>
              ) : (
                <>
                  Your project <strong>{slug}</strong> is there. <a href={Paths.home}>Open it</a> and add secrets, or
                  paste the .env file that you have.
                </>
              )}
            </p>
          </div>
        </li>
        <li>
          <div>
            <h2>Log in from your terminal</h2>
            <p>It shows a code, and you approve it here.</p>
            <Command>{`ampoule login --url ${visit.ui.baseUrl}`}</Command>
          </div>
        </li>
        <li>
          <div>
            <h2>Run your program</h2>
            <p>The secrets exist in the environment of that process, and nowhere on disk.</p>
            <Command>{`ampoule run --project ${project} --env development -- npm start`}</Command>
          </div>
        </li>
        <li>
          <div>
            <h2>Import what you have</h2>
            <Command>{`ampoule secrets import .env --project ${project} --env development`}</Command>
          </div>
        </li>
        <li>
          <div>
            <h2>Deploy</h2>
            <p>
              {visit.team !== null && may(visit, "tokens:manage") ? (
                <>
                  <a href={`${Paths.tokens(visit.team.id)}/new`}>Create an API token</a> for your deployment
                </>
              ) : (
                <>An owner or admin creates an API token for your deployment</>
              )}
              , give it as <code>AMPOULE_API_TOKEN</code>, and run the same command.
            </p>
            <Command>{`AMPOULE_URL=${visit.ui.baseUrl} ampoule run --project ${project} --env production -- node server.js`}</Command>
          </div>
        </li>
        <li>
          <div>
            <h2>
              Let an AI agent in, if you like <Badge>MCP</Badge>
            </h2>
            <p>Agents connect to this address; you choose what they may do.</p>
            <Command>{`${visit.ui.baseUrl}/mcp`}</Command>
          </div>
        </li>
      </ol>
    </Layout>
  )
}

export const routes = (pages: Pages["Type"]) =>
  Effect.gen(function* () {
    const teams = yield* Teams
    const sessions = yield* Sessions
    const projects = yield* Projects

    const settings = pages.team((teamId, visit) =>
      Effect.gen(function* () {
        yield* teams.get(teamId)
        return Html.page(<SettingsPage visit={visit} />)
      })
    )
    const update = pages.team((teamId, visit) =>
      Effect.gen(function* () {
        const form = yield* Form.read
        const plan = form.filled("plan")
        const done = yield* attempt(
          Effect.gen(function* () {
            const input = yield* Form.decode(UpdateTeam)({
              name: form.text("name"),
              ...(plan === undefined || plan === visit.team?.plan ? {} : { plan })
            })
            return yield* teams.update(teamId, input)
          })
        )
        return Either.isRight(done)
          ? Html.seeOther(withNotice(Paths.settings(teamId), "team-changed"))
          : shown(<SettingsPage visit={visit} name={form.text("name")} problem={done.left} />, done.left)
      })
    )
    const newTeam = pages.person((visit) => Effect.succeed(Html.page(<NewTeamPage visit={visit} />)))
    const create = pages.person((visit) =>
      Effect.gen(function* () {
        const form = yield* Form.read
        const name = form.text("name")
        const made = yield* attempt(
          Effect.flatMap(Form.decode(CreateTeam)({ name }), (input) => teams.create(input.name))
        )
        if (Either.isLeft(made)) return shown(<NewTeamPage visit={visit} name={name} problem={made.left} />, made.left)
        const team = { ...made.right, role: "owner", scopes: null } as const
        yield* sessions.chooseTeam(
          { ...visit.caller, teams: [...visit.caller.teams, { ...team, plan: "developer" }] },
          team.id
        )
        return Html.seeOther(withNotice(Paths.home, "team-created"))
      })
    )
    const start = pages.person((visit) =>
      Effect.gen(function* () {
        const slug = (yield* projects.list()).find((project) => project.teamId === visit.team?.id)?.slug
        return Html.page(<StartPage visit={visit} slug={slug} />)
      })
    )

    return HttpRouter.empty.pipe(
      HttpRouter.get(Paths.newTeam, newTeam),
      HttpRouter.post(Paths.newTeam, create),
      HttpRouter.get("/app/teams/:teamId/settings", settings),
      HttpRouter.post("/app/teams/:teamId/settings", update),
      HttpRouter.get(Paths.start, start)
    )
  })

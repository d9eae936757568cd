/** Deciding about the login of a command line, and the logins that came of it (decisions 6). Looking never approves. */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import type { AnyApiError } from "#schema/ApiError.ts"
import { ApproveDevice, type CliGrant, type DeviceRequest } from "#schema/DeviceApi.ts"
import { GrantId, type ProjectId } from "#schema/Ids.ts"
import type { Project, ProjectEnvironment } from "#schema/ProjectsApi.ts"
import { cliScopes, preselectedScopes } from "#schema/Scopes.ts"
import { UserCode } from "#schema/Values.ts"
import * as Policy from "#src/access/Policy.ts"
import { CliGrants } from "#src/credentials/CliGrants.ts"
import { DeviceGrants } from "#src/credentials/DeviceGrants.ts"
import type { State } from "#src/credentials/DeviceRequests.ts"
import { Environments } from "#src/projects/Environments.ts"
import { Projects } from "#src/projects/Projects.ts"
import { Ago, Badge, CheckBox, Command, Confirm, Empty, ProblemNote, TextField, Until } from "./Components.tsx"
import * as Form from "./Form.ts"
import * as Html from "./Html.ts"
import { Card, Layout } from "./Layout.tsx"
import { withNotice } from "./Notices.ts"
import { attempt, type Pages, param, query, shown, wantsJson } from "./Pages.ts"
import * as Paths from "./Paths.ts"
import { ProjectChecks } from "./Reach.tsx"
import { scopeWords } from "./TokenPages.tsx"
import type { Visit } from "./Visit.ts"

/** Projects whose names the page offers for a restriction; the command line restricts by none. */
const maxOffered = 100

const EnterCode = ({
  code = "",
  problem,
  visit
}: {
  readonly visit: Visit
  readonly code?: string
  readonly problem?: AnyApiError | undefined
}) => (
  <Card who={visit} title="Log in a command line" lead="Enter the code that your terminal shows.">
    <form method="get" action={Paths.device}>
      <ProblemNote problem={problem} />
      <TextField
        name="code"
        label="Code"
        mono
        value={code}
        focus
        hint="Eight letters, like BCDF-GHJK. Enter only a code that you asked for yourself."
      />
      <div class="buttons">
        <button class="button button-primary">Continue</button>
      </div>
    </form>
  </Card>
)

const Host = ({ request }: { readonly request: DeviceRequest }) => {
  const host = request.host
  const said = [host?.hostname, host?.os].filter((text) => text !== undefined && text !== "")
  return said.length === 0 ? <span class="hint">says nothing about itself</span> : <>{said.join(", ")}</>
}

interface Offered {
  readonly projects: ReadonlyArray<Project>
  readonly environments: ReadonlyMap<ProjectId, ReadonlyArray<ProjectEnvironment>>
}

const DecidePage = ({
  form,
  offered,
  problem,
  request,
  visit
}: {
  readonly visit: Visit
  readonly request: DeviceRequest
  readonly offered: Offered
  readonly form?: Form.Form | undefined
  readonly problem?: AnyApiError | undefined
}) => {
  const teams = visit.caller.teams
  const several = teams.length > 1
  const projects = offered.projects.slice(0, maxOffered)
  const picked = (name: string, value: string, first: boolean) =>
    form === undefined ? first : form.all(name).includes(value)
  return (
    <Card who={visit} title="Log in this command line?" wide>
      <ProblemNote problem={problem} />
      <p class="code">{request.userCode}</p>
      <p class="lead">
        <strong>Does this code match your terminal?</strong> If you did not start a login a moment ago, deny it: someone
        may be trying to use your account.
      </p>
      <dl class="facts section-small">
        <dt>Asked</dt>
        <dd>
          <Ago at={request.createdAt} now={visit.now} />,{" "}
          <span data-expires={String(Math.max(0, Date.parse(request.expiresAt) - visit.now))}>
            expires <Until at={request.expiresAt} now={visit.now} />
          </span>
        </dd>
        <dt>From the address</dt>
        <dd>
          <code>{request.ip}</code>
        </dd>
        <dt>Claimed by the device</dt>
        <dd>
          <Host request={request} /> <Badge tone="amber">not verified</Badge>
        </dd>
        <dt>Keeps the login</dt>
        <dd>
          {request.credentialProtection === "os_keychain" ? (
            "in the keychain of its system, it says"
          ) : (
            <>
              as plain text in a file <Badge tone="amber">less safe</Badge>
            </>
          )}
        </dd>
      </dl>
      <form method="post" action="/app/device/approve">
        <input type="hidden" name="code" value={request.userCode} />
        <section class="part">
          <h2>What it may do</h2>
          {teams.map((team) => {
            const allowed = cliScopes.filter((scope) => Policy.roleAllows(team.role ?? "viewer", scope))
            return (
              <fieldset class="team-choice">
                <legend class={several ? "hidden" : undefined}>{team.name}</legend>
                {several ? (
                  <CheckBox name="team" value={team.id} checked={picked("team", team.id, team.id === visit.team?.id)}>
                    <strong>{team.name}</strong> <span class="hint">you are {team.role}</span>
                  </CheckBox>
                ) : (
                  <input type="hidden" name="team" value={team.id} />
                )}
                <div class="checks">
                  {allowed.map((scope) => (
                    <CheckBox
                      name={`scope.${team.id}`}
                      value={scope}
                      checked={picked(`scope.${team.id}`, scope, preselectedScopes.includes(scope))}
                      hint={scopeWords[scope]}
                    >
                      <code>{scope}</code>
                    </CheckBox>
                  ))}
                </div>
              </fieldset>
            )
          })}
        </section>
        {projects.length === 0 ? null : (
          <section class="part">
            <details class="disclosure" open={form?.has("projectIds") === true || form?.has("environmentIds") === true}>
              <summary>Restrict it to some projects or environments</summary>
              <p class="hint">None chosen: everything in the teams above. Both chosen: what is in both.</p>
              <fieldset class="part">
                <legend>Projects</legend>
                <ProjectChecks name="projectIds" projects={projects} form={form} />
              </fieldset>
              <fieldset class="part">
                <legend>Environments</legend>
                <div class="checks">
                  {projects.flatMap((project) =>
                    (offered.environments.get(project.id) ?? []).map((environment) => (
                      <CheckBox
                        name="environmentIds"
                        value={environment.id}
                        checked={picked("environmentIds", environment.id, false)}
                      >
                        {project.slug} / {environment.slug}{" "}
                        {environment.protected ? <Badge tone="amber">protected</Badge> : null}
                      </CheckBox>
                    ))
                  )}
                </div>
              </fieldset>
            </details>
          </section>
        )}
        {request.machineRequested ? (
          <section class="part">
            <h2>Unattended use</h2>
            <CheckBox
              name="machine"
              checked={picked("machine", "yes", true)}
              hint="The device asks to work on its own, without you in front of it: a build server, an agent."
            >
              Allow unattended use
            </CheckBox>
          </section>
        ) : null}
        <div class="buttons">
          <button class="button button-primary" data-decides>
            Yes, it matches: log in
          </button>
          <button class="button button-danger-quiet" formaction="/app/device/deny" data-decides>
            No, deny
          </button>
        </div>
      </form>
      <p class="card-foot">
        The login is your own: it can never do more than you, works for 180 days at most, and can be revoked at any
        time.
      </p>
    </Card>
  )
}

/** What the page says of a request that is decided. */
const ends = {
  approved: {
    title: "The login is approved",
    lead: "Go back to your terminal; it goes on by itself.",
    now: "Waiting for your terminal to take it …"
  },
  consumed: {
    title: "The command line is logged in",
    lead: "You can close this page.",
    now: "Your terminal has it: the command line is logged in."
  },
  denied: { title: "The login is denied", lead: "The device got nothing.", now: "The device got nothing." },
  expired: {
    title: "The code has expired",
    lead: "Start the login again in your terminal.",
    now: "Your terminal did not take it in time. Start the login again there."
  }
} as const
type Ended = keyof typeof ends
const endOf = (state: State): Ended => (state === "pending" ? "expired" : state)

/** `code`: of a request that this person approved, whose way to the terminal the page can follow. */
const DecidedPage = ({
  code,
  state,
  visit
}: {
  readonly visit: Visit
  readonly state: Ended
  readonly code?: string | undefined
}) => (
  <Card who={visit} title={ends[state].title} lead={ends[state].lead}>
    {state === "approved" && code !== undefined ? (
      <form
        method="post"
        action="/app/device/progress"
        class="progress"
        data-progress
        data-consumed={ends.consumed.now}
        data-expired={ends.expired.now}
      >
        <input type="hidden" name="code" value={code} />
        <p role="status" data-progress-text>
          {ends.approved.now}
        </p>
        <button class="button button-plain without-script">Look again</button>
      </form>
    ) : null}
    <p>
      <a class="button button-plain" href={Paths.grants}>
        Your CLI logins
      </a>
    </p>
  </Card>
)

/** What ids of restrictions are called, as far as the person still sees them. */
type Names = ReadonlyMap<string, string>
const none: Names = new Map()
const namesOf = ({ environments, projects }: Offered): Names =>
  new Map<string, string>(
    projects.flatMap((project) => [
      [project.id, project.name] as const,
      ...(environments.get(project.id) ?? []).map(({ id, slug }) => [id, `${project.slug} / ${slug}`] as const)
    ])
  )
const called = (names: Names, ids: ReadonlyArray<string>) => {
  const known = ids.flatMap((id) => names.get(id) ?? [])
  const gone = ids.length - known.length
  return [...known, ...(gone === 0 ? [] : [`${gone} that ${gone === 1 ? "is" : "are"} gone`])].join(", ")
}

const GrantsPage = ({
  items,
  names,
  visit
}: {
  readonly visit: Visit
  readonly items: ReadonlyArray<CliGrant>
  readonly names: Names
}) => (
  <Layout
    visit={visit}
    section="grants"
    title="CLI logins"
    lead="Command lines and agents that act for you. Each can be revoked; it stops with its next request."
  >
    {items.length === 0 ? (
      <Empty title="No logins">
        <p>Log in from your terminal:</p>
        <div class="narrow center">
          <Command>{`ampoule login --url ${visit.ui.baseUrl}`}</Command>
        </div>
      </Empty>
    ) : (
      <ul class="cards">
        {items.map((grant) => {
          const said = [grant.host?.hostname, grant.host?.os].filter((text) => text !== undefined && text !== "")
          const { environmentIds, projectIds } = grant.restrictions
          return (
            <li class="project">
              <div>
                <h2>{said.length === 0 ? "Unnamed device" : said.join(", ")}</h2>
                <span class="badges">
                  {grant.machine ? <Badge tone="amber">unattended</Badge> : null}
                  {grant.credentialProtection === "plaintext_local" ? (
                    <Badge tone="amber">kept as plain text</Badge>
                  ) : null}
                  {projectIds === null && environmentIds === null ? null : <Badge tone="accent">restricted</Badge>}
                </span>
              </div>
              <dl class="facts facts-small">
                <dt>Since</dt>
                <dd>
                  <Ago at={grant.createdAt} now={visit.now} />, expires <Until at={grant.expiresAt} now={visit.now} />
                </dd>
                <dt>Last use</dt>
                <dd>
                  {grant.lastUsedAt === null ? (
                    "never"
                  ) : (
                    <>
                      <Ago at={grant.lastUsedAt} now={visit.now} />
                      {grant.lastUsedIp === null ? "" : ` from ${grant.lastUsedIp}`}
                    </>
                  )}
                </dd>
                {projectIds === null ? null : (
                  <>
                    <dt>Projects</dt>
                    <dd>{called(names, projectIds)}</dd>
                  </>
                )}
                {environmentIds === null ? null : (
                  <>
                    <dt>Environments</dt>
                    <dd>{called(names, environmentIds)}</dd>
                  </>
                )}
                {grant.teams.map((team) => (
                  <>
                    <dt>{team.name}</dt>
                    <dd>
                      <ul class="keys">
                        {team.scopes.map((scope) => (
                          <li>
                            <code>{scope}</code>
                          </li>
                        ))}
                      </ul>
                    </dd>
                  </>
                ))}
              </dl>
              <Confirm action={`${Paths.grants}/${grant.id}/revoke`} label="Revoke" verb="Revoke this login">
                <p>It stops with its next request. The device has to log in again.</p>
              </Confirm>
            </li>
          )
        })}
      </ul>
    )}
  </Layout>
)

export const routes = (pages: Pages["Type"]) =>
  Effect.gen(function* () {
    const device = yield* DeviceGrants
    const grants = yield* CliGrants
    const projects = yield* Projects
    const environments = yield* Environments

    const offered = Effect.gen(function* () {
      const choices: Offered = { projects: yield* projects.list(), environments: yield* environments.byProject("all") }
      return choices
    })

    /** Whoever approved it sees how far it got; anybody else only that it is decided. */
    const decided = Effect.fnUntraced(function* (visit: Visit, code: string, status: Ended) {
      const own = yield* attempt(device.progress(code))
      return Either.isRight(own) ? (
        <DecidedPage visit={visit} state={endOf(own.right)} code={code} />
      ) : (
        <DecidedPage visit={visit} state={status} />
      )
    })

    /** The request that a code names, or the page that says why there is none. */
    const decide = Effect.fnUntraced(function* (visit: Visit, typed: string, form?: Form.Form, problem?: AnyApiError) {
      const code = yield* Form.decode(UserCode)(typed)
      const found = yield* attempt(device.show(code))
      if (Either.isLeft(found)) return shown(<EnterCode visit={visit} code={typed} problem={found.left} />, found.left)
      const request = found.right
      return request.status === "pending"
        ? shown(
            <DecidePage visit={visit} request={request} offered={yield* offered} form={form} problem={problem} />,
            problem
          )
        : shown(yield* decided(visit, request.userCode, endOf(request.status as State)), problem)
    })

    const view = pages.person((visit) =>
      Effect.gen(function* () {
        const typed = (yield* query).text("code")
        return typed === "" ? Html.page(<EnterCode visit={visit} />) : yield* decide(visit, typed)
      })
    )

    const approve = pages.person((visit) =>
      Effect.gen(function* () {
        const form = yield* Form.read
        const typed = form.text("code")
        const done = yield* attempt(
          Effect.gen(function* () {
            const body = yield* Form.decode(ApproveDevice)({
              teams: form.all("team").map((teamId) => ({ teamId, scopes: form.all(`scope.${teamId}`) })),
              ...(form.has("projectIds") ? { projectIds: form.all("projectIds") } : {}),
              ...(form.has("environmentIds") ? { environmentIds: form.all("environmentIds") } : {}),
              machine: form.has("machine")
            })
            return yield* device.approve(yield* Form.decode(UserCode)(typed), body)
          })
        )
        return Either.isRight(done)
          ? Html.page(<DecidedPage visit={visit} state={done.right.status} code={typed} />)
          : yield* decide(visit, typed, form, done.left)
      })
    )

    const deny = pages.person((visit) =>
      Effect.gen(function* () {
        const typed = (yield* Form.read).text("code")
        const done = yield* attempt(Effect.flatMap(Form.decode(UserCode)(typed), device.deny))
        return Either.isRight(done)
          ? Html.page(<DecidedPage visit={visit} state={done.right.status} />)
          : yield* decide(visit, typed, undefined, done.left)
      })
    )

    const progress = pages.person((visit) =>
      Effect.gen(function* () {
        const code = yield* Form.decode(UserCode)((yield* Form.read).text("code"))
        const state = endOf(yield* device.progress(code))
        return (yield* wantsJson)
          ? HttpServerResponse.unsafeJson({ value: state }, { headers: Html.headers })
          : Html.page(<DecidedPage visit={visit} state={state} code={code} />)
      })
    )

    const list = pages.person((visit) =>
      Effect.gen(function* () {
        const items = yield* grants.list()
        const names = items.some(({ restrictions: { environmentIds, projectIds } }) => environmentIds ?? projectIds)
          ? namesOf(yield* offered)
          : none
        return Html.page(<GrantsPage visit={visit} items={items} names={names} />)
      })
    )
    const revoke = pages.person(() =>
      Effect.gen(function* () {
        yield* grants.revokeOwn(yield* param("grantId", GrantId))
        return Html.seeOther(withNotice(Paths.grants, "grant-revoked"))
      })
    )

    return HttpRouter.empty.pipe(
      HttpRouter.get(Paths.device, view),
      HttpRouter.post("/app/device/approve", approve),
      HttpRouter.post("/app/device/deny", deny),
      HttpRouter.post("/app/device/progress", progress),
      HttpRouter.get(Paths.grants, list),
      HttpRouter.post("/app/grants/:grantId/revoke", revoke)
    )
  })

/** Views of a command line's login: entering its code, the decision, and its result. A GET never approves. */
import type { AnyApiError } from "#schema/ApiError.ts"
import type { CallerTeam } from "#schema/Caller.ts"
import type { DeviceRequest } from "#schema/DeviceApi.ts"
import { cliScopes, preselectedScopes } from "#schema/Scopes.ts"
import * as Actions from "#src/access/Actions.ts"
import * as Ui from "#src/dashboard/frame/Components.tsx"
import type * as Form from "#src/dashboard/frame/Form.ts"
import { Card } from "#src/dashboard/frame/Layout.tsx"
import * as Paths from "#src/dashboard/frame/Paths.ts"
import { isAboutReach, ReachFields, type Restrictable } from "#src/dashboard/frame/ReachFields.tsx"
import { scopeWords } from "./TokenForm.tsx"
import type { Visit } from "#src/dashboard/frame/Visit.ts"

export const EnterCode = ({
  code,
  problem,
  visit
}: {
  readonly visit: Visit
  readonly code: string
  readonly problem: AnyApiError | undefined
}) => (
  <Card
    visitor={visit}
    title="Enter a code"
    lead="Your terminal shows the code of a command line that wants to log in or to manage a team."
  >
    <form method="get" action={Paths.device}>
      <Ui.ProblemNote problem={problem} />
      <Ui.TextField
        name="code"
        label="Code"
        mono
        value={code}
        focus
        hint="Eight letters, like BCDF-GHJK. Enter a code only if you started the command yourself."
      />
      <Ui.Submit>Continue</Ui.Submit>
    </form>
  </Card>
)

const Host = ({ host }: Pick<DeviceRequest, "host">) => {
  const claims = [host?.hostname, host?.os].filter((text) => text !== undefined && text !== "")
  return claims.length === 0 ? <span class="hint">nothing</span> : <>{claims.join(", ")}</>
}

const RequestFacts = ({ now, request }: { readonly request: DeviceRequest; readonly now: number }) => (
  <dl class="facts section-small">
    <Ui.Fact name="Requested">
      <Ui.Ago at={request.createdAt} now={now} />,{" "}
      <span data-expires={String(Math.max(0, Date.parse(request.expiresAt) - now))}>
        expires <Ui.Until at={request.expiresAt} now={now} />
      </span>
    </Ui.Fact>
    <Ui.Fact name="From the address" is={<code>{request.ip}</code>} />
    <Ui.Fact name="Claimed by the device">
      <Host host={request.host} /> <Ui.Badge tone="amber">not verified</Ui.Badge>
    </Ui.Fact>
    {request.manages === undefined ? <StoredIn request={request} /> : null}
  </dl>
)

const StoredIn = ({ request }: { readonly request: DeviceRequest }) => (
  <Ui.Fact name="Stores the login">
    {request.credentialProtection === "os_keychain" ? (
      <>
        in the keychain of its system <Ui.Badge tone="amber">not verified</Ui.Badge>
      </>
    ) : (
      <>
        as plain text in a file <Ui.Badge tone="amber">less safe</Ui.Badge>
      </>
    )}
  </Ui.Fact>
)

/** True for a tick of the sent form, or of the preselection before that. */
type Ticked = (name: string, value: string, preselected: boolean) => boolean

const TeamScopes = ({
  single,
  team,
  ticked,
  visit
}: {
  readonly visit: Visit
  readonly team: CallerTeam
  readonly single: boolean
  readonly ticked: Ticked
}) => (
  <fieldset class="team-choice">
    <legend class={single ? undefined : "hidden"}>{team.name}</legend>
    {single ? (
      <input type="hidden" name="team" value={team.id} />
    ) : (
      <Ui.CheckBox name="team" value={team.id} checked={ticked("team", team.id, team.id === visit.team?.id)}>
        <strong>{team.name}</strong> <span class="hint">you are {team.role}</span>
      </Ui.CheckBox>
    )}
    <div class="checks">
      {cliScopes
        .filter((scope) => Actions.byRole[team.role ?? "viewer"].has(scope))
        .map((scope) => (
          <Ui.CheckBox
            name={`scope.${team.id}`}
            value={scope}
            checked={ticked(`scope.${team.id}`, scope, preselectedScopes.includes(scope))}
            hint={scopeWords[scope]}
          >
            <code>{scope}</code>
          </Ui.CheckBox>
        ))}
    </div>
  </fieldset>
)

const Unattended = ({ ticked }: { readonly ticked: Ticked }) => (
  <section class="part">
    <h2>Unattended use</h2>
    <Ui.CheckBox
      name="machine"
      checked={ticked("machine", "yes", true)}
      hint="The device wants to work without you, like a build server or an agent."
    >
      Allow unattended use
    </Ui.CheckBox>
  </section>
)

export const DecidePage = ({
  form,
  problem,
  request,
  restrictable,
  visit
}: {
  readonly visit: Visit
  readonly request: DeviceRequest
  readonly restrictable: Restrictable
  readonly form: Form.Form | undefined
  readonly problem: AnyApiError | undefined
}) => {
  const { teams } = visit.caller
  const ticked: Ticked = (name, value, preselected) =>
    form === undefined ? preselected : form.all(name).includes(value)
  return (
    <Card visitor={visit} title="Log in this command line?" wide>
      {isAboutReach(problem) ? null : <Ui.ProblemNote problem={problem} />}
      <p class="code">{request.userCode}</p>
      <p class="lead">
        <strong>Does this code match your terminal?</strong> If you did not start a login a moment ago, deny it. Someone
        may be trying to use your account.
      </p>
      <RequestFacts request={request} now={visit.now} />
      <form method="post" action="/app/device/approve">
        <input type="hidden" name="code" value={request.userCode} />
        <section class="part">
          <h2>What it may do</h2>
          {teams.map((team) => (
            <TeamScopes visit={visit} team={team} single={teams.length === 1} ticked={ticked} />
          ))}
        </section>
        <ReachFields restrictable={restrictable} form={form} labelOf={({ slug }) => slug} problem={problem} />
        {request.machineRequested ? <Unattended ticked={ticked} /> : null}
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
        The login acts for you. It can never do more than you can, and works for at most 180 days. You can revoke it at
        any time.
      </p>
    </Card>
  )
}

/** Decision about a login of this person that wants to manage a team for a few minutes. */
export const ManagePage = ({
  problem,
  request,
  team,
  visit
}: {
  readonly visit: Visit
  readonly request: DeviceRequest
  readonly team: { readonly id: string; readonly name: string }
  readonly problem: AnyApiError | undefined
}) => (
  <Card visitor={visit} title={`Let a command line manage ${team.name}?`} wide>
    <Ui.ProblemNote problem={problem} />
    <p class="code">{request.userCode}</p>
    <p class="lead">
      <strong>Does this code match your terminal?</strong> If you did not start such a command a moment ago, deny it:
      someone may be using your login.
    </p>
    <RequestFacts request={request} now={visit.now} />
    <section class="part">
      <h2>What it may do</h2>
      <p>
        For 10 minutes, it manages projects and their environments, API tokens and members of {team.name} in your name.
        It cannot read secrets or values. The command ends this access when it finishes.
      </p>
    </section>
    <form method="post" action="/app/device/approve-management">
      <input type="hidden" name="code" value={request.userCode} />
      <input type="hidden" name="manages" value={team.id} />
      <div class="buttons">
        <button class="button button-primary" data-decides>
          Yes, it matches: allow
        </button>
        <button class="button button-danger-quiet" formaction="/app/device/deny" data-decides>
          No, deny
        </button>
      </div>
    </form>
  </Card>
)

const managing = {
  approved: {
    title: "Management is approved",
    lead: "Go back to your terminal. The command continues there.",
    now: "Waiting for your terminal …"
  },
  consumed: {
    title: "The command line manages the team",
    lead: "You can close this page.",
    now: "The command line has its access."
  },
  denied: { title: "Management is denied", lead: "The command got no access.", now: "The command got no access." },
  expired: {
    title: "The code has expired",
    lead: "Start the command again in your terminal.",
    now: "Your terminal did not fetch it in time. Start the command again there."
  }
} as const

/** Texts about a decided login, by state. */
const outcomes = {
  approved: {
    title: "The login is approved",
    lead: "Go back to your terminal. The command continues there.",
    now: "Waiting for your terminal …"
  },
  consumed: {
    title: "The command line is logged in",
    lead: "You can close this page.",
    now: "The command line is logged in."
  },
  denied: { title: "The login is denied", lead: "The device got no access.", now: "The device got no access." },
  expired: {
    title: "The code has expired",
    lead: "Start the login again in your terminal.",
    now: "Your terminal did not fetch the login in time. Start the login again there."
  }
} as const
type DecidedState = keyof typeof outcomes
const isOutcome = (state: string): state is DecidedState => Object.hasOwn(outcomes, state)
/** State for the page; a state without texts counts as expired. */
export const outcomeOf = (state: string): DecidedState => (isOutcome(state) ? state : "expired")

/** `code` belongs to a request that this person approved. The page waits until the terminal has fetched the login. */
interface DecidedProps {
  readonly visit: Visit
  readonly state: DecidedState
  readonly code?: string | undefined
}

export const DecidedPage = (props: DecidedProps) => (
  <Outcomes {...props} words={outcomes} href={Paths.grants} label="Your CLI logins" />
)
export const ManagingPage = (props: DecidedProps) => (
  <Outcomes {...props} words={managing} href={Paths.sessions} label="Where you are signed in" />
)

const Outcomes = ({
  code,
  href,
  label,
  state,
  visit,
  words
}: DecidedProps & {
  readonly words: Readonly<
    Record<DecidedState, { readonly title: string; readonly lead: string; readonly now: string }>
  >
  readonly href: string
  readonly label: string
}) => (
  <Card visitor={visit} title={words[state].title} lead={words[state].lead}>
    {state === "approved" && code !== undefined ? (
      <form
        method="post"
        action="/app/device/progress"
        class="progress"
        data-progress
        data-consumed={words.consumed.now}
        data-expired={words.expired.now}
      >
        <input type="hidden" name="code" value={code} />
        <p role="status" data-progress-text>
          {words.approved.now}
        </p>
        <button class="button button-plain without-script">Check again</button>
      </form>
    ) : null}
    <p>
      <Ui.LinkButton href={href}>{label}</Ui.LinkButton>
    </p>
  </Card>
)

/** Access to an environment: requests, people, tokens, trust rules and logins, and the forms that change it. */
import type { AccessRequest } from "#schema/AccessRequestsApi.ts"
import type { ChangeRequest } from "#schema/ChangeRequestsApi.ts"
import type { TeamId } from "#schema/Ids.ts"
import type { WayIn } from "#schema/EnvironmentAccessApi.ts"
import { GrantLevel } from "#schema/Scopes.ts"
import type { Member } from "#schema/TeamsApi.ts"
import { OwnDecision, WaitingChanges } from "./ChangeViews.tsx"
import * as Ui from "#src/dashboard/frame/Components.tsx"
import { EnvironmentFrame, type Location } from "#src/dashboard/frame/EnvironmentFrame.tsx"
import * as Paths from "#src/dashboard/frame/Paths.ts"
import type { Form } from "#src/dashboard/frame/Form.ts"
import type { Attempt } from "#src/dashboard/frame/Routes.ts"
import { may } from "#src/dashboard/frame/Visit.ts"

/** People and credentials with access to the environment, and possible receivers of a grant. Only for its managers. */
export interface Reach {
  readonly members: ReadonlyArray<Member>
  readonly ways: ReadonlyArray<WayIn>
  /** True if `ways` leaves out some tokens, rules, logins or agents. */
  readonly hasMore: boolean
}

const levelWords = new Map<string, string>([
  ["names", "see names"],
  ["run", "run programs with its values"],
  ["values", "read values"],
  ["write", "read and write values"]
])
export const wordsOf = (level: string) => levelWords.get(level) ?? level
const levels = GrantLevel.literals.map((value) => ({ value, label: wordsOf(value) }))
const hours = [
  { value: "1", label: "1 hour" },
  { value: "2", label: "2 hours" },
  { value: "8", label: "8 hours" },
  { value: "24", label: "1 day" },
  { value: "72", label: "3 days" },
  { value: "168", label: "7 days" }
]

const pathOf = (location: Location) => `${Paths.environment(location.path)}/access`

const hoursAtMost = 168
/** Preset of a link, such as the one that an agent gives to its person. Ignores invalid parameters. */
const presetOf = (form: Form) => {
  const level = form.text("level")
  const count = Number(form.text("hours"))
  const isChoice = hours.some(({ value }) => value === String(count))
  return {
    level: levels.some(({ value }) => value === level) ? level : undefined,
    hours: Number.isInteger(count) && count >= 1 && count <= hoursAtMost ? String(count) : undefined,
    more: isChoice || !(count >= 1 && count <= hoursAtMost) ? [] : [{ value: String(count), label: `${count} hours` }]
  }
}

export const AskForm = ({
  form,
  location,
  problem,
  preset = { level: undefined, hours: undefined, more: [] }
}: Partial<Attempt> & { readonly location: Location; readonly preset?: ReturnType<typeof presetOf> }) => (
  <form method="post" action={`${pathOf(location)}/ask`} class="panel">
    <h2>Ask for access</h2>
    {problem?.field === undefined ? <Ui.ProblemNote problem={problem} /> : null}
    <div class="fields">
      <Ui.Select
        name="level"
        label="To"
        choices={levels}
        value={form?.filled("level") ?? preset.level ?? "values"}
        problem={problem}
      />
      <Ui.Select
        name="hours"
        label="How long"
        choices={[...hours, ...preset.more]}
        value={form?.filled("hours") ?? preset.hours ?? "2"}
        problem={problem}
      />
    </div>
    <Ui.TextField
      name="reason"
      label="Why"
      value={form?.text("reason")}
      hint="Shown to the people who decide, and kept in the audit trail."
      problem={problem}
    />
    <Ui.Submit>Ask</Ui.Submit>
  </form>
)

const Decide = ({
  asksSecondPerson,
  item,
  location
}: {
  readonly item: AccessRequest
  readonly location: Location
  readonly asksSecondPerson: boolean
}) => {
  const here = `${pathOf(location)}/requests/${item.id}`
  if (item.user.id === location.visit.user.id) {
    return <OwnDecision path={here} noun="request" asksSecondPerson={asksSecondPerson} />
  }
  if (!item.mayDecide) return <span class="hint">more access than you have here</span>
  return (
    <>
      <Ui.Act action={`${here}/approve`}>
        Approve<span class="hidden"> the request of {item.user.email}</span>
      </Ui.Act>{" "}
      <Ui.Act action={`${here}/deny`} kind="quiet">
        Deny<span class="hidden"> the request of {item.user.email}</span>
      </Ui.Act>
    </>
  )
}

const Requests = ({
  asksSecondPerson,
  location,
  requests
}: {
  readonly location: Location
  readonly asksSecondPerson: boolean
  readonly requests: ReadonlyArray<AccessRequest>
}) =>
  requests.length === 0 ? null : (
    <section class="section">
      <h2>
        Pending requests <Ui.Badge tone="accent">{requests.length}</Ui.Badge>
      </h2>
      <Ui.Table label="Pending requests" head={["Person", "Asks to", "How long", "Why", "Asked", ""]}>
        {requests.map((item) => (
          <tr>
            <th scope="row">{item.user.email}</th>
            <td data-label="Asks to">{wordsOf(item.level)}</td>
            <td data-label="How long">{item.hours} h</td>
            <td data-label="Why">{item.reason}</td>
            <td data-label="Asked" class="hint">
              <Ui.Ago at={item.createdAt} now={location.visit.now} />
              {item.approvals < 2 ? null : item.approvedBy === null ? (
                <>, needs two approvals</>
              ) : (
                <>, approved by {item.approvedBy.email}, needs one more</>
              )}
            </td>
            <td class="end">
              <Decide item={item} location={location} asksSecondPerson={asksSecondPerson} />
            </td>
          </tr>
        ))}
      </Ui.Table>
    </section>
  )

export const LastUse = ({ at, now }: { readonly at: string | null; readonly now: number }) =>
  at === null ? <>never</> : <Ui.Ago at={at} now={now} />

const Until = ({ now, until }: { readonly now: number; readonly until: string | null }) => (
  <td data-label="Until" class="hint">
    {until === null ? "no end" : <Ui.Until at={until} now={now} />}
  </td>
)

const Person = ({ location, way }: { readonly location: Location; readonly way: WayIn }) => {
  const { grant, id, lastUsedAt, level, person, role, until } = way
  const { now } = location.visit
  return (
    <tr>
      <th scope="row">{person.email}</th>
      <td data-label="May">{wordsOf(level)}</td>
      <td data-label="By" class="hint">
        {grant === null
          ? `the role ${role}`
          : `a grant ${grant.wholeProject ? "of the whole project " : ""}by ${grant.givenBy.email}${grant.reason === null ? "" : `: ${grant.reason}`}`}
      </td>
      {grant === null ? (
        <td data-label="Until" class="hint">
          –
        </td>
      ) : (
        <Until until={until} now={now} />
      )}
      <td data-label="Last read" class="hint">
        <LastUse at={lastUsedAt} now={now} />
      </td>
      {grant === null ? (
        <td />
      ) : (
        <td class="end">
          <Ui.Act action={`${pathOf(location)}/grants/${id}/end`} kind="quiet">
            End<span class="hidden"> the grant of {person.email}</span>
          </Ui.Act>
        </td>
      )}
    </tr>
  )
}

const isOfPerson = ({ way }: WayIn) => way === "role" || way === "grant"

const People = ({ location, ways }: { readonly location: Location; readonly ways: ReadonlyArray<WayIn> }) => (
  <section class="section">
    <h2>People</h2>
    <Ui.Table label="People who reach the environment" head={["Person", "May", "By", "Until", "Last read", ""]}>
      {ways.filter(isOfPerson).map((way) => (
        <Person location={location} way={way} />
      ))}
    </Ui.Table>
  </section>
)

const descriptionOf = ({ mcpOnly, person, way }: WayIn) =>
  new Map([
    ["api_token", `an API token${mcpOnly ? " for /mcp" : ""} created by ${person.email}`],
    ["machine_rule", `a trust rule created by ${person.email}`],
    ["cli_grant", `a CLI login of ${person.email}`],
    ["oauth_grant", `an agent connected by ${person.email}`]
  ]).get(way) ?? way

const pageOfWay = (teamId: TeamId, { id, way }: WayIn) =>
  way === "api_token"
    ? `${Paths.tokens(teamId)}/${id}`
    : way === "machine_rule"
      ? `${Paths.rules(teamId)}/${id}`
      : undefined

const Machine = ({ location, way }: { readonly location: Location; readonly way: WayIn }) => {
  const { now } = location.visit
  const name = way.name ?? "unnamed"
  const href = pageOfWay(location.project.teamId, way)
  return (
    <tr>
      <th scope="row">{href === undefined ? name : <a href={href}>{name}</a>}</th>
      <td data-label="May">{wordsOf(way.level)}</td>
      <td data-label="By" class="hint">
        {descriptionOf(way)}
      </td>
      <Until until={way.until} now={now} />
      <td data-label="Last use" class="hint">
        <LastUse at={way.lastUsedAt} now={now} />
      </td>
    </tr>
  )
}

const Machines = ({ location, reach: { hasMore, ways } }: { readonly location: Location; readonly reach: Reach }) => {
  const machines = ways.filter((way) => !isOfPerson(way))
  return (
    <section class="section">
      <h2>Tokens, trust rules, logins and agents</h2>
      {machines.length === 0 ? (
        <p class="hint">No credentials reach this environment.</p>
      ) : (
        <Ui.Table label="Credentials that reach the environment" head={["Name", "May", "By", "Until", "Last use"]}>
          {machines.map((way) => (
            <Machine location={location} way={way} />
          ))}
        </Ui.Table>
      )}
      {hasMore ? <p class="hint">There are more than this list shows.</p> : null}
    </section>
  )
}

const GiveForm = ({
  form,
  location,
  members,
  problem
}: Partial<Attempt> & { readonly location: Location; readonly members: ReadonlyArray<Member> }) => (
  <form method="post" action={`${pathOf(location)}/give`} class="panel">
    <h2>Give a grant</h2>
    {problem?.field === undefined ? <Ui.ProblemNote problem={problem} /> : null}
    <div class="fields">
      <Ui.Select
        name="userId"
        label="Person"
        choices={members.filter(({ active }) => active).map(({ email, userId }) => ({ value: userId, label: email }))}
        value={form?.filled("userId")}
        problem={problem}
      />
      <Ui.Select
        name="level"
        label="May"
        choices={levels}
        value={form?.filled("level") ?? "values"}
        problem={problem}
      />
      <Ui.Select
        name="hours"
        label="Until"
        member="until"
        choices={[...hours, { value: "", label: "no end" }]}
        value={form?.text("hours") ?? "8"}
        problem={problem}
      />
    </div>
    <Ui.TextField name="reason" label="Why" optional value={form?.text("reason")} problem={problem} />
    <Ui.Submit>Give the grant</Ui.Submit>
  </form>
)

/** Name of the refused form. */
export type Asking = "ask" | "give"

export const AccessPage = ({
  asking,
  asksSecondPerson,
  changes,
  form,
  location,
  problem,
  reach,
  requests,
  parameters
}: Attempt & {
  readonly location: Location
  readonly changes: ReadonlyArray<ChangeRequest>
  readonly requests: ReadonlyArray<AccessRequest>
  readonly reach: Reach | undefined
  readonly asking: Asking | undefined
  readonly asksSecondPerson: boolean
  /** Query of the page's address. */
  readonly parameters: Form
}) => {
  const { environment, lacksValues, visit } = location
  const attempt = { form, problem }
  const preset = presetOf(parameters)
  return (
    <EnvironmentFrame location={location} view="access" title="Access">
      {asking === undefined ? <Ui.ProblemNote problem={problem} /> : null}
      <p class="hint">
        {environment.readers === "granted"
          ? "Only people with a grant can read values here"
          : "The team can read values here, by role"}
        {may(visit, "environments:manage") ? (
          <>
            . <a href={Paths.projectSettings(location.project.id)}>Change this in the project settings</a>
          </>
        ) : null}
        .
      </p>
      <WaitingChanges location={location} changes={changes} asksSecondPerson={asksSecondPerson} />
      <Requests location={location} requests={requests} asksSecondPerson={asksSecondPerson} />
      {lacksValues || preset.level !== undefined ? (
        <section class="section">
          <AskForm location={location} preset={preset} {...(asking === "ask" ? attempt : {})} />
        </section>
      ) : null}
      {reach === undefined ? null : (
        <>
          <People location={location} ways={reach.ways} />
          <section class="section">
            <GiveForm location={location} members={reach.members} {...(asking === "give" ? attempt : {})} />
          </section>
          <Machines location={location} reach={reach} />
        </>
      )}
    </EnvironmentFrame>
  )
}

/** Who reaches an environment: requests, people, tokens, trust rules and logins, and the forms that change it. */
import * as Schema from "effect/Schema"
import type { AccessGrant } from "#schema/AccessApi.ts"
import type { AccessRequest } from "#schema/AccessRequestsApi.ts"
import type { ApiToken } from "#schema/ApiTokensApi.ts"
import type { ChangeRequest } from "#schema/ChangeRequestsApi.ts"
import type { MachineRule } from "#schema/MachineIdentityApi.ts"
import { GrantLevel, Role } from "#schema/Scopes.ts"
import type { Member } from "#schema/TeamsApi.ts"
import * as Policy from "#src/access/Policy.ts"
import type { Connection } from "#src/projects/AccessGrants.ts"
import { WaitingChanges } from "./ChangeViews.tsx"
import * as Ui from "./Components.tsx"
import { EnvironmentFrame, type Location } from "./EnvironmentFrame.tsx"
import * as Paths from "./Paths.ts"
import type { Form } from "./Form.ts"
import type { Attempt } from "./Routes.ts"
import { may } from "./Visit.ts"

/** Everything that reaches the environment beside people; only for who manages it. */
export interface Reach {
  readonly members: ReadonlyArray<Member>
  readonly grants: ReadonlyArray<AccessGrant>
  readonly tokens: ReadonlyArray<ApiToken>
  readonly rules: ReadonlyArray<MachineRule>
  readonly connections: ReadonlyArray<Connection>
  /** When people were last handed a value there, by their id. */
  readonly lastReads: ReadonlyMap<string, string>
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
/** What a link asks for; an agent's person comes by one. Words that say nothing are left out. */
const wantedOf = (form: Form) => {
  const level = form.text("level")
  const asked = Number(form.text("hours"))
  const isKnown = hours.some(({ value }) => value === String(asked))
  return {
    level: levels.some(({ value }) => value === level) ? level : undefined,
    hours: Number.isInteger(asked) && asked >= 1 && asked <= hoursAtMost ? String(asked) : undefined,
    more: isKnown || !(asked >= 1 && asked <= hoursAtMost) ? [] : [{ value: String(asked), label: `${asked} hours` }]
  }
}

export const AskForm = ({
  form,
  location,
  problem,
  wanted = { level: undefined, hours: undefined, more: [] }
}: Partial<Attempt> & { readonly location: Location; readonly wanted?: ReturnType<typeof wantedOf> }) => (
  <form method="post" action={`${pathOf(location)}/ask`} class="panel">
    <h2>Ask for access</h2>
    {problem?.field === undefined ? <Ui.ProblemNote problem={problem} /> : null}
    <div class="fields">
      <Ui.Select
        name="level"
        label="To"
        choices={levels}
        value={form?.filled("level") ?? wanted.level ?? "values"}
        problem={problem}
      />
      <Ui.Select
        name="hours"
        label="How long"
        choices={[...hours, ...wanted.more]}
        value={form?.filled("hours") ?? wanted.hours ?? "2"}
        problem={problem}
      />
    </div>
    <Ui.TextField
      name="reason"
      label="Why"
      value={form?.text("reason")}
      hint="Those who decide read it, and the audit trail keeps it."
      problem={problem}
    />
    <Ui.Submit>Ask</Ui.Submit>
  </form>
)

const Decide = ({ item, location }: { readonly item: AccessRequest; readonly location: Location }) => {
  const here = `${pathOf(location)}/requests/${item.id}`
  if (item.user.id === location.visit.user.id) {
    return (
      <Ui.Act action={`${here}/withdraw`} kind="quiet">
        Withdraw<span class="hidden"> your request</span>
      </Ui.Act>
    )
  }
  if (!item.mayDecide) return <span class="hint">above what you have here yourself</span>
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
  location,
  requests
}: {
  readonly location: Location
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
              <Decide item={item} location={location} />
            </td>
          </tr>
        ))}
      </Ui.Table>
    </section>
  )

const isRole = Schema.is(Role)
const isGranted = (text: string | undefined) => (text === "granted" ? "granted" : "team")

const roleLevel = (role: Role, { environment, project, visit }: Location): GrantLevel | undefined =>
  Policy.levelByRole(
    role,
    { adminsNeedGrants: visit.team?.adminsNeedGrants === true },
    {
      protected: environment.protected,
      readers: isGranted(environment.readers),
      visibility: isGranted(project.visibility)
    }
  )

export const LastUse = ({ at, now }: { readonly at: string | null; readonly now: number }) =>
  at === null ? <>never</> : <Ui.Ago at={at} now={now} />

const People = ({
  location,
  reach: { grants, lastReads, members }
}: {
  readonly location: Location
  readonly reach: Reach
}) => (
  <section class="section">
    <h2>People</h2>
    <Ui.Table label="People who reach the environment" head={["Person", "May", "By", "Until", "Last read", ""]}>
      {members
        .filter(({ active }) => active)
        .flatMap(({ email, role, userId }) => {
          const level = isRole(role) ? roleLevel(role, location) : undefined
          const lastRead = (
            <td data-label="Last read" class="hint">
              <LastUse at={lastReads.get(userId) ?? null} now={location.visit.now} />
            </td>
          )
          const byTheRole =
            level === undefined ? null : (
              <tr>
                <th scope="row">{email}</th>
                <td data-label="May">{wordsOf(level)}</td>
                <td data-label="By" class="hint">
                  the role {role}
                </td>
                <td data-label="Until" class="hint">
                  the role changes
                </td>
                {lastRead}
                <td />
              </tr>
            )
          return [
            byTheRole,
            ...grants
              .filter((grant) => grant.userId === userId)
              .map((grant) => (
                <tr>
                  <th scope="row">{email}</th>
                  <td data-label="May">{wordsOf(grant.level)}</td>
                  <td data-label="By" class="hint">
                    a grant {grant.environmentId === null ? "of the whole project " : ""}by {grant.createdBy.email}
                    {grant.reason === null ? "" : `: ${grant.reason}`}
                  </td>
                  <td data-label="Until" class="hint">
                    {grant.until === null ? "somebody ends it" : <Ui.Until at={grant.until} now={location.visit.now} />}
                  </td>
                  {lastRead}
                  <td class="end">
                    <Ui.Act action={`${pathOf(location)}/grants/${grant.id}/end`} kind="quiet">
                      End<span class="hidden"> the grant of {email}</span>
                    </Ui.Act>
                  </td>
                </tr>
              ))
          ]
        })}
    </Ui.Table>
  </section>
)

/** A write token changes a protected environment only when it names it. */
const tokenWords = (
  { accessLevel, environments }: Pick<ApiToken, "accessLevel" | "environments">,
  environment: Location["environment"]
) => wordsOf(accessLevel === "write" && (!environment.protected || environments !== null) ? "write" : "values")

interface MachineRow {
  readonly name: string
  readonly href?: string
  readonly may: string
  readonly by: string
  readonly until: string | null
  readonly lastUsedAt: string | null
}
const rowsOf = (
  { connections, rules, tokens }: Reach,
  { environment, project }: Location
): ReadonlyArray<MachineRow> => [
  ...tokens.map((token) => ({
    name: token.name,
    href: Paths.token(project.teamId, token.id),
    may: tokenWords(token, environment),
    by: `an API token${token.mcpOnly ? " for /mcp" : ""} made by ${token.createdBy.email}`,
    until: token.expiresAt,
    lastUsedAt: token.lastUsedAt
  })),
  ...rules.map((rule) => ({
    name: rule.name,
    href: Paths.rule(project.teamId, rule.id),
    may: tokenWords(rule, environment),
    by: `a trust rule made by ${rule.createdBy.email}`,
    until: null,
    lastUsedAt: rule.lastUsedAt
  })),
  ...connections.map(({ email, expiresAt, lastUsedAt, name, type }) => ({
    name: name ?? "unnamed",
    may: `at most what ${email} may`,
    by: type === "cli" ? `a CLI login of ${email}` : `an agent connected by ${email}`,
    until: expiresAt,
    lastUsedAt
  }))
]

const Machines = ({ location, reach }: { readonly location: Location; readonly reach: Reach }) => {
  const { now } = location.visit
  const rows = rowsOf(reach, location)
  return (
    <section class="section">
      <h2>Tokens, trust rules, logins and agents</h2>
      {rows.length === 0 ? (
        <p class="hint">None reaches this environment.</p>
      ) : (
        <Ui.Table label="Credentials that reach the environment" head={["Name", "May", "By", "Until", "Last use"]}>
          {rows.map(({ by, href, lastUsedAt, may, name, until }) => (
            <tr>
              <th scope="row">{href === undefined ? name : <a href={href}>{name}</a>}</th>
              <td data-label="May">{may}</td>
              <td data-label="By" class="hint">
                {by}
              </td>
              <td data-label="Until" class="hint">
                {until === null ? "somebody ends it" : <Ui.Until at={until} now={now} />}
              </td>
              <td data-label="Last use" class="hint">
                <LastUse at={lastUsedAt} now={now} />
              </td>
            </tr>
          ))}
        </Ui.Table>
      )}
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
        choices={[...hours, { value: "", label: "somebody ends it" }]}
        value={form?.text("hours") ?? "8"}
        problem={problem}
      />
    </div>
    <Ui.TextField name="reason" label="Why" optional value={form?.text("reason")} problem={problem} />
    <Ui.Submit>Give the grant</Ui.Submit>
  </form>
)

/** Which form of the page was refused. */
export type Asking = "ask" | "give"

export const AccessPage = ({
  asking,
  changes,
  form,
  location,
  problem,
  reach,
  requests,
  wanted: link
}: Attempt & {
  readonly location: Location
  readonly changes: ReadonlyArray<ChangeRequest>
  readonly requests: ReadonlyArray<AccessRequest>
  readonly reach: Reach | undefined
  readonly asking: Asking | undefined
  /** The query of the page. */
  readonly wanted: Form
}) => {
  const { environment, lacksValues, visit } = location
  const attempt = { form, problem }
  const wanted = wantedOf(link)
  return (
    <EnvironmentFrame location={location} view="access" title="Access">
      {asking === undefined ? <Ui.ProblemNote problem={problem} /> : null}
      <p class="hint">
        {environment.readers === "granted"
          ? "Values are read by those who were granted it"
          : "Values are read by the team, as the roles allow"}
        {may(visit, "environments:manage") ? (
          <>
            . <a href={Paths.projectSettings(location.project.id)}>Change this in the project settings</a>
          </>
        ) : null}
        .
      </p>
      <WaitingChanges location={location} changes={changes} />
      <Requests location={location} requests={requests} />
      {lacksValues || wanted.level !== undefined ? (
        <section class="section">
          <AskForm location={location} wanted={wanted} {...(asking === "ask" ? attempt : {})} />
        </section>
      ) : null}
      {reach === undefined ? null : (
        <>
          <People location={location} reach={reach} />
          <section class="section">
            <GiveForm location={location} members={reach.members} {...(asking === "give" ? attempt : {})} />
          </section>
          <Machines location={location} reach={reach} />
        </>
      )}
    </EnvironmentFrame>
  )
}

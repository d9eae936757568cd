/** Views of the pages about incidents. */
import type { Incident, IncidentRef, IncidentReport } from "#schema/IncidentApi.ts"
import type { LeakedCredential } from "#schema/LeakReportsApi.ts"
import type { Member } from "#schema/TeamsApi.ts"
import { doubtText, hasTypedText, waysText } from "#src/formats/ExposureText.ts"
import { DeactivateToo } from "#src/dashboard/frame/DeactivateToo.tsx"
import { WayOutFacts } from "#src/dashboard/frame/WayOutFacts.tsx"
import * as Ui from "#src/dashboard/frame/Components.tsx"
import * as CopyText from "#src/dashboard/frame/CopyText.tsx"
import { Layout } from "#src/dashboard/frame/Layout.tsx"
import * as Paths from "#src/dashboard/frame/Paths.ts"
import type { Attempt, TeamVisit } from "#src/dashboard/frame/Routes.ts"

type Value = Incident["exposed"][number]

export const subjectText = ({ name, type }: Incident["subject"]) =>
  type === "person"
    ? name
    : type === "token"
      ? `the token ${name}`
      : `the login ${name === "" ? "without a name" : name}`

const ByEmail = ({ members }: { readonly members: ReadonlyArray<Member> }) => (
  <Ui.Select
    name="person"
    label="Person"
    choices={[{ value: "", label: "none" }, ...members.map(({ email, userId }) => ({ value: userId, label: email }))]}
    value=""
    problem={undefined}
  />
)

const StartForm = ({
  here,
  members,
  problem
}: Pick<Attempt, "problem"> & { readonly here: string; readonly members: ReadonlyArray<Member> }) => (
  <form method="get" action={`${here}/new`} class="panel">
    <h2>Check which values were handed out</h2>
    <Ui.ProblemNote problem={problem} />
    <p class="hint">
      Choose one: a person, an API token or CI rule by its name or id, or a login by its id. This ends nothing yet.
    </p>
    <div class="fields">
      <ByEmail members={members} />
      <Ui.TextField name="token" label="Token or CI rule" optional problem={undefined} />
      <Ui.TextField name="grant" label="Id of a login or agent" optional problem={undefined} />
      <Ui.TextField name="since" label="Since (a day)" optional problem={undefined} hint="For example 2026-11-01." />
    </div>
    <Ui.Submit>Show what was handed out</Ui.Submit>
  </form>
)

const whatLeaked: ReadonlyMap<string, string> = new Map([
  ["api_token", "API token"],
  ["cli_grant", "CLI login"],
  ["oauth_token", "connected agent"],
  ["session", "session"],
  ["management", "management session"],
  ["invitation", "invitation"],
  ["password_reset", "link that sets a password"]
])

const Leaked = ({
  here,
  leaked,
  now
}: {
  readonly here: string
  readonly leaked: ReadonlyArray<LeakedCredential>
  readonly now: number
}) =>
  leaked.length === 0 ? null : (
    <section class="section" id="leaked">
      <h2>Leaked credentials</h2>
      <p class="hint">A scanner found them in public.</p>
      <Ui.Table label="Leaked credentials" head={["Credential", "Found", "Where", "State", ""]}>
        {leaked.map((one) => (
          <tr>
            <th scope="row">
              <bdi>{one.name === "" ? (one.person ?? "without a name") : one.name}</bdi>
              <span class="refs hint">
                {whatLeaked.get(one.type) ?? one.type}
                {one.person === null || one.name === "" ? "" : ` of ${one.person}`}
              </span>
            </th>
            <td data-label="Found" class="hint">
              <Ui.Ago at={one.reportedAt} now={now} />
            </td>
            <td data-label="Where" class="wrap hint">
              {one.url ?? "unknown"}
            </td>
            <td data-label="State">
              {one.revoked ? <Ui.Badge tone="ok">ended</Ui.Badge> : <Ui.Badge tone="danger">still works</Ui.Badge>}
            </td>
            <td class="end">
              {one.type === "api_token" ? (
                <a href={`${here}/new?token=${one.credentialId}`}>Which values it received</a>
              ) : one.type === "cli_grant" || one.type === "oauth_token" ? (
                <a href={`${here}/new?grant=${one.credentialId}`}>Which values it received</a>
              ) : null}
            </td>
          </tr>
        ))}
      </Ui.Table>
    </section>
  )

export const IncidentsPage = ({
  incidents,
  leaked,
  members,
  problem,
  visit
}: Attempt & {
  readonly visit: TeamVisit
  readonly incidents: ReadonlyArray<IncidentRef>
  readonly leaked: ReadonlyArray<LeakedCredential>
  readonly members: ReadonlyArray<Member>
}) => {
  const here = Paths.incidents(visit.team.id)
  return (
    <Layout
      visit={visit}
      section="members"
      title="Incidents"
      lead="Shut a person or a token out, see which values it received, and replace them."
      crumbs={[{ href: Paths.members(visit.team.id), label: "Members" }]}
    >
      <StartForm here={here} members={members} problem={problem} />
      <Leaked here={here} leaked={leaked} now={visit.now} />
      <section class="section">
        <h2>Opened</h2>
        {incidents.length === 0 ? (
          <p class="hint">There are no incidents.</p>
        ) : (
          <Ui.Table label="Incidents" head={["About", "Opened", "Handed out", "Still out"]}>
            {incidents.map((one) => (
              <tr>
                <th scope="row">
                  <a href={Paths.incident(visit.team.id, one.id)}>{subjectText(one.subject)}</a>
                </th>
                <td data-label="Opened" class="hint">
                  <Ui.Ago at={one.openedAt} now={visit.now} />
                </td>
                <td data-label="Handed out">{one.exposed}</td>
                <td data-label="Still out">
                  {one.out === 0 ? <Ui.Badge tone="ok">none</Ui.Badge> : <Ui.Badge tone="danger">{one.out}</Ui.Badge>}
                </td>
              </tr>
            ))}
          </Ui.Table>
        )}
      </section>
    </Layout>
  )
}

const SafeValues = ({ kept, keptCount }: Pick<IncidentReport, "kept" | "keptCount">) => (
  <section class="section">
    <h2>Not handed out</h2>
    <p class="hint">
      {keptCount} current {keptCount === 1 ? "value" : "values"}, according to the audit trail.
    </p>
    {kept.map(({ environment, keys, project }) => (
      <details>
        <summary>
          <bdi>{project}</bdi> / {environment}: {keys.length}
        </summary>
        <Ui.Keys of={keys} />
      </details>
    ))}
  </section>
)

const State = ({ now, value }: { readonly value: Value; readonly now: number }) => {
  const { out, replaced, uses } = value
  if (replaced !== null) {
    return (
      <>
        <Ui.Badge tone="ok">{replaced.version === null ? "deleted" : `replaced by v${replaced.version}`}</Ui.Badge>{" "}
        <span class="hint">
          <Ui.Ago at={replaced.at} now={now} /> by {replaced.by.name}
        </span>
      </>
    )
  }
  if (hasTypedText(value)) {
    return (
      <>
        <Ui.Badge tone="danger">to check</Ui.Badge>{" "}
        <span class="hint">composed of {uses.join(", ")}: the typed text around them may hold a secret</span>
      </>
    )
  }
  if (uses.length > 0) {
    return (
      <>
        <Ui.Badge tone={out ? "amber" : "ok"}>{out ? "changes with its references" : "changed"}</Ui.Badge>{" "}
        <span class="hint">composed of {uses.join(", ")}</span>
      </>
    )
  }
  return <Ui.Badge tone="danger">to replace</Ui.Badge>
}

const OpenSecret = ({ environment, projectId, secretId }: Value) => (
  <a href={Paths.secret({ projectId, slug: environment }, secretId)}>Open the secret</a>
)

const Steps = ({
  here,
  members,
  value
}: {
  readonly here: string
  readonly members: ReadonlyArray<Member>
  readonly value: Value
}) => {
  const { key, out, secretId, uses } = value
  if (out && hasTypedText(value)) return <OpenSecret {...value} />
  return !out || uses.length > 0 ? null : (
    <details>
      <summary class="button button-quiet">
        Replace<span class="hidden"> {key}</span>
      </summary>
      <div class="stack panel row-panel">
        <form method="post" action={`${here}/replace`}>
          <input type="hidden" name="secretId" value={secretId} />
          <p class="hint">For your own passwords: the server generates a random value that no person sees.</p>
          <Ui.Submit>Write a generated value</Ui.Submit>
        </form>
        <form method="post" action={`${here}/ask`}>
          <input type="hidden" name="secretId" value={secretId} />
          <Ui.Select
            id={`user-${secretId}`}
            name="userId"
            label="For a vendor's key: the person who manages it"
            choices={members
              .filter(({ active }) => active)
              .map(({ email, userId }) => ({ value: userId, label: email }))}
            value={undefined}
            problem={undefined}
          />
          <Ui.Submit>Create a page for this person</Ui.Submit>
        </form>
        <p>
          <OpenSecret {...value} /> to enter the value yourself.
        </p>
      </div>
    </details>
  )
}

const Values = ({
  exposed,
  steps,
  visit
}: {
  readonly visit: TeamVisit
  readonly exposed: ReadonlyArray<Value>
  readonly steps?: { readonly here: string; readonly members: ReadonlyArray<Member> }
}) => (
  <section class="section">
    <h2>Handed out</h2>
    {exposed.length === 0 ? (
      <p class="hint">According to the audit trail, no current value was handed out.</p>
    ) : (
      <Ui.Table label="Values that were handed out" head={["Secret", "How", "Times", "Last", "State", ""]}>
        {exposed.map((value) => (
          <tr>
            <th scope="row">
              <span class="key">
                <Ui.KeyName name={value.key} />
              </span>{" "}
              <span class="hint">
                v{value.version} {doubtText(value)}
                {value.renamedTo === null ? null : (
                  <>
                    , now <Ui.KeyName name={value.renamedTo} />
                  </>
                )}
              </span>
              <span class="refs hint">
                <bdi>{value.project}</bdi> / {value.environment} {value.protected ? <Ui.Protected /> : null}
              </span>
            </th>
            <td data-label="How">{waysText(value.ways ?? [])}</td>
            <td data-label="Times">{value.count}</td>
            <td data-label="Last" class="hint">
              <Ui.Ago at={value.lastAt} now={visit.now} />
            </td>
            <td data-label="State">
              <State value={value} now={visit.now} />
            </td>
            <td class="end">{steps === undefined ? null : <Steps {...steps} value={value} />}</td>
          </tr>
        ))}
      </Ui.Table>
    )}
  </section>
)

const UpTo = ({ upTo }: { readonly upTo: string }) => (
  <p class="hint section-small">As of {Ui.exact(upTo)}. Later reads appear within seconds: reload the page.</p>
)

const fieldOf = ({ id, type }: Incident["subject"]) => ({ name: type, value: id })

export const PreviewPage = ({ report, visit }: { readonly visit: TeamVisit; readonly report: IncidentReport }) => {
  const { subject } = report
  const here = Paths.incidents(visit.team.id)
  const field = fieldOf(subject)
  return (
    <Layout
      visit={visit}
      section="members"
      title={`Values that ${subjectText(subject)} received`}
      lead={report.since === null ? "Since the beginning of the audit trail." : `Since ${Ui.exact(report.since)}.`}
      crumbs={[{ href: here, label: "Incidents" }]}
    >
      <Ui.Confirm
        action={`${here}/open`}
        label="Shut out and open an incident"
        verb={`Shut out ${subjectText(subject)}`}
      >
        <input type="hidden" name={field.name} value={field.value} />
        {report.since === null ? null : <input type="hidden" name="since" value={report.since} />}
        <p>
          {subject.type === "person" ? "The person's grants in this team end at once." : "It stops working at once."}{" "}
          The list below is signed, and you can replace each value from it.
        </p>
        {subject.type === "person" ? (
          <>
            <p>If you manage the person in all of their teams:</p>
            <WayOutFacts of="incident" />
            <p>If the person has a team that you do not manage:</p>
            <WayOutFacts of="incident" here />
            <DeactivateToo />
          </>
        ) : null}
      </Ui.Confirm>
      <Values visit={visit} exposed={report.exposed} />
      <SafeValues {...report} />
      <UpTo upTo={report.upTo} />
    </Layout>
  )
}

export const IncidentPage = ({
  incident,
  members,
  problem,
  visit
}: Attempt & { readonly visit: TeamVisit; readonly incident: Incident; readonly members: ReadonlyArray<Member> }) => {
  const here = Paths.incident(visit.team.id, incident.id)
  const remaining = incident.exposed.filter(({ out }) => out).length
  return (
    <Layout
      visit={visit}
      section="members"
      title={`Incident: ${subjectText(incident.subject)}`}
      lead={
        remaining === 0
          ? "All values have been replaced."
          : `${remaining} of ${incident.exposed.length} values have not been replaced yet.`
      }
      crumbs={[{ href: Paths.incidents(visit.team.id), label: "Incidents" }]}
      actions={<Ui.LinkButton href={`${here}/note`}>Download the signed burn-down</Ui.LinkButton>}
    >
      <Ui.ProblemNote problem={problem} />
      <p class="hint">
        Opened <Ui.Ago at={incident.openedAt} now={visit.now} /> by {incident.openedBy.name}. All access that can be
        ended has ended.
      </p>
      <Values visit={visit} exposed={incident.exposed} steps={{ here, members }} />
      <SafeValues {...incident} />
      <UpTo upTo={incident.upTo} />
    </Layout>
  )
}

export const LinkPage = ({
  incidentId,
  link,
  visit
}: {
  readonly visit: TeamVisit
  readonly incidentId: Incident["id"]
  readonly link: { readonly url: string; readonly expiresAt: string }
}) => (
  <Layout
    visit={visit}
    section="members"
    title="The page is ready"
    crumbs={[{ href: Paths.incidents(visit.team.id), label: "Incidents" }]}
  >
    <div class="narrow stack">
      <CopyText.Once label="Send this address to the person" text={link.url} />
      <Ui.Callout>
        It works once, only for this person, and until {Ui.exact(link.expiresAt)}. The person must be signed in.
      </Ui.Callout>
      <p>
        <Ui.LinkButton href={Paths.incident(visit.team.id, incidentId)}>Back to the incident</Ui.LinkButton>
      </p>
    </div>
  </Layout>
)

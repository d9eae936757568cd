/** Views of a team's webhooks: addresses, the signing secret, and deliveries. */
import type { TeamId } from "#schema/Ids.ts"
import { type Webhook, type WebhookDelivery, WebhookEvent, type WebhookWithSecret } from "#schema/WebhooksApi.ts"
import { Beside } from "#src/dashboard/frame/Beside.tsx"
import * as Ui from "#src/dashboard/frame/Components.tsx"
import * as CopyText from "#src/dashboard/frame/CopyText.tsx"
import * as Form from "#src/dashboard/frame/Form.ts"
import * as Paths from "#src/dashboard/frame/Paths.ts"
import * as Problem from "#src/dashboard/frame/Problem.ts"
import { isTicked } from "#src/dashboard/credentials/TokenAccess.tsx"
import type { Attempt, TeamVisit } from "#src/dashboard/frame/Routes.ts"
import { SettingsFrame } from "#src/dashboard/frame/Layout.tsx"

const eventWords: Readonly<Record<WebhookEvent, string>> = {
  "secret.created": "a secret was added",
  "secret.updated": "a secret has a new version",
  "secret.deleted": "a secret was deleted",
  "secret.rolled_back": "a secret was rolled back to an earlier version",
  "secret.restored": "a deleted secret was restored",
  "secret.renamed": "a secret was renamed: the old key, then the new one",
  "secret.rotation_due": "the value of a secret is due for replacement",
  "token.created": "an API token was created",
  "token.updated": "an API token was renamed or restricted",
  "token.rotated": "an API token was replaced",
  "token.revoked": "an API token was revoked",
  "token.deleted": "an API token was deleted",
  "credential.leaked": "a credential was found in public",
  "change.requested": "a change waits for an approval",
  "change.withdrawn": "a change request was withdrawn",
  "change.denied": "a change request was denied",
  "change.approved": "a change request was approved and written",
  "access.break_glass":
    "an owner or admin acted without the second person whom the team requires, or ended the role of the last one",
  "session.break_glass": "an owner signed in with a password although the team accepts only issuers",
  "session.new_device": "a member signed in with a new device",
  "password.reset": "a member set a password with a reset link",
  "factor.removed": "a member removed a second factor",
  "email.changed": "a member changed their e-mail address",
  "access.requested": "a person asked for access",
  "access.withdrawn": "a request for access was withdrawn",
  "access.denied": "a request for access was denied",
  "access.granted": "a person was granted access"
}

/** Host of the address, without the path, which is often a secret. */
const hostOf = (url: string) => (URL.canParse(url) ? new URL(url).host : url)

const State = ({ failing, webhook }: { readonly webhook: Webhook; readonly failing: ReadonlySet<string> }) =>
  !webhook.enabled ? (
    <Ui.Badge>off</Ui.Badge>
  ) : failing.has(webhook.id) ? (
    <Ui.Badge tone="danger">failing</Ui.Badge>
  ) : (
    <Ui.Badge tone="ok">on</Ui.Badge>
  )

const Events = ({ events }: Pick<Webhook, "events">) =>
  events === null ? <>all events</> : events.length > 3 ? <>{events.length} events</> : <Ui.Keys of={events} />

export const WebhooksPage = ({
  failing,
  items,
  visit
}: {
  readonly visit: TeamVisit
  /** Ids of the webhooks whose last delivery failed. */
  readonly failing: ReadonlySet<string>
  readonly items: ReadonlyArray<Webhook>
}) => {
  const add = <Ui.AddButton href={`${Paths.webhooks(visit.team.id)}/new`}>New webhook</Ui.AddButton>
  return (
    <SettingsFrame
      visit={visit}
      view="webhooks"
      title="Webhooks"
      lead="Ampoule sends changes to secrets and tokens to these addresses: names and ids, never a value."
      actions={items.length === 0 ? undefined : add}
    >
      {items.length === 0 ? (
        <Ui.Empty title="No webhooks">
          <p>Use a webhook to restart a service when its secrets change, or to post to a chat channel.</p>
          <div class="buttons">{add}</div>
        </Ui.Empty>
      ) : (
        <Ui.Table label="Webhooks" head={["Webhook", "Sends to", "Events", "State"]}>
          {items.map((webhook) => (
            <tr>
              <th scope="row">
                <a href={Paths.webhook(webhook.teamId, webhook.id)}>{webhook.name}</a>
              </th>
              <td data-label="Sends to">
                <code class="key">{hostOf(webhook.url)}</code>
              </td>
              <td data-label="Events">
                <Events events={webhook.events} />
              </td>
              <td data-label="State">
                <State webhook={webhook} failing={failing} />
              </td>
            </tr>
          ))}
        </Ui.Table>
      )}
    </SettingsFrame>
  )
}

const Fields = ({
  focus = false,
  form,
  hint,
  offersAll = false,
  problem
}: Attempt & { readonly focus?: boolean; readonly hint?: string | undefined; readonly offersAll?: boolean }) => {
  const error = Problem.about(problem, "events")
  return (
    <>
      {["name", "url", "events"].some((field) => Problem.about(problem, field) !== undefined) ? null : (
        <Ui.ProblemNote problem={problem} />
      )}
      <Ui.TextField name="name" label="Name" value={form.text("name")} focus={focus} problem={problem} />
      <Ui.TextField
        name="url"
        label="Address"
        mono
        value={form.text("url")}
        hint="A public https address, or one that the operator of this server allowed. The receiver must answer 2xx within ten seconds."
        problem={problem}
      />
      <Ui.Select
        name="format"
        label="Format"
        choices={[
          { value: "json", label: "JSON, signed" },
          { value: "slack", label: "A message for Slack" }
        ]}
        value={form.filled("format") ?? "json"}
        problem={problem}
      />
      <fieldset class="part">
        <legend>Events</legend>
        {hint === undefined ? null : <p class="hint">{hint}</p>}
        {offersAll ? (
          <Ui.CheckBox
            name="allEvents"
            checked={form.has("allEvents")}
            hint="Includes kinds that are added later. The boxes below limit the webhook to some events."
          >
            All events
          </Ui.CheckBox>
        ) : null}
        <div class="checks">
          {WebhookEvent.literals.map((event) => (
            <Ui.CheckBox name="events" value={event} checked={isTicked(form, "events", event)} hint={eventWords[event]}>
              <code>{event}</code>
            </Ui.CheckBox>
          ))}
        </div>
        {error === undefined ? null : <p class="error">{error}</p>}
      </fieldset>
    </>
  )
}

const crumbs = (team: TeamId) => [
  { href: Paths.settings(team), label: "Settings" },
  { href: Paths.webhooks(team), label: "Webhooks" }
]

export const NewWebhookPage = ({ form, problem, visit }: Attempt & { readonly visit: TeamVisit }) => {
  const at = Paths.webhooks(visit.team.id)
  return (
    <SettingsFrame visit={visit} view="webhooks" title="New webhook" crumbs={crumbs(visit.team.id)}>
      <Beside
        words={[
          ["What is sent", "Names and ids: the event, the project, the environment, the keys. Never a value."],
          ["Signatures", "Each delivery is signed with a secret. The next page shows it once, and how to check it."],
          ["When a receiver is down", "Ampoule retries a delivery for 24 hours. Its page shows each attempt."]
        ]}
      >
        <form method="post" action={`${at}/new`} class="panel">
          <Fields form={form} problem={problem} focus offersAll />
          <Ui.Submit cancel={at}>Create the webhook</Ui.Submit>
        </form>
      </Beside>
    </SettingsFrame>
  )
}

export const SecretOnce = ({
  replaced,
  visit,
  webhook
}: {
  readonly visit: TeamVisit
  readonly webhook: WebhookWithSecret
  readonly replaced: boolean
}) => (
  <SettingsFrame
    visit={visit}
    view="webhooks"
    title={replaced ? `${webhook.name} has a new secret` : `${webhook.name} is created`}
    crumbs={crumbs(webhook.teamId)}
  >
    <div class="narrow stack">
      <CopyText.Once label="The secret, which is shown only once" text={webhook.secret} />
      {replaced ? (
        <p>
          For 24 hours, each delivery carries two signatures, one for each secret. Change your receiver within that
          time.
        </p>
      ) : null}
      <p>
        The header <code>Ampoule-Signature</code> holds <code>t=…,v1=…</code>: <code>v1</code> is the hex HMAC-SHA256 of{" "}
        <code>t</code>, a dot and the raw body, with this secret as the key. Compare it in constant time, and refuse a{" "}
        <code>t</code> older than five minutes.
      </p>
      <p>
        <Ui.LinkButton href={Paths.webhook(webhook.teamId, webhook.id)}>I have saved it</Ui.LinkButton>
      </p>
    </div>
  </SettingsFrame>
)

const problems: ReadonlyMap<string | null, string> = new Map([
  ["address", "the address is not public"],
  ["connection", "no connection"],
  ["timeout", "no answer within ten seconds"],
  ["secret", "the secret could not be decrypted"],
  ["altered", "the webhook was altered in the database"]
])
const outcomeOf = ({ problem, status }: WebhookDelivery["log"][number]) =>
  status === null ? (problems.get(problem) ?? "no answer") : `answered ${status}`

const DeliveryState = ({ state }: Pick<WebhookDelivery, "state">) =>
  state === "delivered" ? (
    <Ui.Badge tone="ok">delivered</Ui.Badge>
  ) : state === "failed" ? (
    <Ui.Badge tone="danger">failed</Ui.Badge>
  ) : (
    <Ui.Badge tone="amber">waiting</Ui.Badge>
  )

const Attempts = ({ delivery, now }: { readonly delivery: WebhookDelivery; readonly now: number }) => {
  const last = delivery.log.at(-1)
  if (last === undefined) return <span class="hint">not tried yet</span>
  if (delivery.attempts === 1 && delivery.nextAttemptAt === null) return <span class="hint">{outcomeOf(last)}</span>
  return (
    <details>
      <summary class="hint">
        {delivery.attempts} {delivery.attempts === 1 ? "attempt" : "attempts"}, {outcomeOf(last)}
        {delivery.nextAttemptAt === null ? null : (
          <>
            ; next attempt <Ui.Until at={delivery.nextAttemptAt} now={now} />
          </>
        )}
      </summary>
      <ol class="hint log">
        {delivery.log.map((attempt) => (
          <li>
            {Ui.exact(attempt.at)}: {outcomeOf(attempt)}
          </li>
        ))}
      </ol>
    </details>
  )
}

const Deliveries = ({
  deliveries,
  now
}: {
  readonly deliveries: ReadonlyArray<WebhookDelivery>
  readonly now: number
}) => (
  <section>
    <h2 class="section-head">Deliveries</h2>
    {deliveries.length === 0 ? (
      <p class="hint">No deliveries yet. Send a test event to check your receiver.</p>
    ) : (
      <>
        <Ui.Table label="Deliveries" head={["Event", "State", "When", "Attempts"]}>
          {deliveries.map((delivery) => (
            <tr>
              <th scope="row">
                <code>{delivery.event}</code>
              </th>
              <td data-label="State">
                <DeliveryState state={delivery.state} />
              </td>
              <td data-label="When" class="hint">
                <Ui.Ago at={delivery.createdAt} now={now} />
              </td>
              <td>
                <Attempts delivery={delivery} now={now} />
              </td>
            </tr>
          ))}
        </Ui.Table>
        <p class="hint section-small">
          The last {deliveries.length}, newest first. Ampoule retries for 24 hours until the receiver answers 2xx, and
          keeps finished deliveries for 7 days.
        </p>
      </>
    )}
  </section>
)

const SecretAndDelete = ({ here }: { readonly here: string }) => (
  <div>
    <section class="panel">
      <h2>Secret</h2>
      <p class="hint section-small">
        It signs each delivery. A new secret is shown once; the old one also signs for 24 hours.
      </p>
      <div class="buttons">
        <Ui.Confirm action={`${here}/rotate`} label="Rotate the secret" tone="plain" verb="Create a new secret">
          <p>Change your receiver to the new secret within 24 hours.</p>
        </Ui.Confirm>
      </div>
    </section>
    <section class="panel panel-danger">
      <h2>Delete</h2>
      <p class="hint section-small">
        To pause it, switch it off. It then keeps its secret and its deliveries. Deleting removes them.
      </p>
      <div class="buttons">
        <Ui.Confirm action={`${here}/delete`} label="Delete" verb="Delete the webhook">
          <p>It gets no more events, and deliveries that are waiting are dropped.</p>
        </Ui.Confirm>
      </div>
    </section>
  </div>
)

const formOf = (webhook: Webhook) =>
  new Form.Form([
    ["name", webhook.name],
    ["url", webhook.url],
    ["format", webhook.format ?? "json"],
    ...(webhook.events === null ? [["allEvents", "yes"] as const] : []),
    ...(webhook.events ?? []).map((event) => ["events", event] as const)
  ])

export const WebhookPage = ({
  deliveries,
  failing,
  form,
  problem,
  visit,
  webhook
}: Attempt & {
  readonly visit: TeamVisit
  readonly webhook: Webhook
  readonly failing: ReadonlySet<string>
  readonly deliveries: ReadonlyArray<WebhookDelivery>
}) => {
  const here = Paths.webhook(webhook.teamId, webhook.id)
  return (
    <SettingsFrame
      visit={visit}
      view="webhooks"
      title={webhook.name}
      lead={
        <>
          <State webhook={webhook} failing={failing} /> <code class="key">{hostOf(webhook.url)}</code>
        </>
      }
      actions={
        <>
          <Ui.Act action={`${here}/test`}>Send a test event</Ui.Act>
          <Ui.Act action={`${here}/${webhook.enabled ? "disable" : "enable"}`}>
            {webhook.enabled ? "Switch off" : "Switch on"}
          </Ui.Act>
        </>
      }
      crumbs={crumbs(webhook.teamId)}
    >
      <Deliveries deliveries={deliveries} now={visit.now} />
      <div class="columns section">
        <form method="post" action={here} class="panel">
          <h2>Edit</h2>
          <Fields
            form={problem === undefined ? formOf(webhook) : form}
            problem={problem}
            offersAll={webhook.events === null}
            hint={
              webhook.events === null ? undefined : "To get all events, including later kinds, create a new webhook."
            }
          />
          <Ui.Submit>Save</Ui.Submit>
        </form>
        <SecretAndDelete here={here} />
      </div>
    </SettingsFrame>
  )
}

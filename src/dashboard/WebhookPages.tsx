/** Webhooks of a team: who is told of changes, the secret that signs what they are told, and what became of it. */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import type { AnyApiError } from "#schema/ApiError.ts"
import type { AuditAction } from "#schema/Audit.ts"
import { RouteNotFound } from "#schema/Errors.ts"
import { TeamId, WebhookId } from "#schema/Ids.ts"
import {
  CreateWebhook,
  UpdateWebhook,
  type Webhook,
  type WebhookDelivery,
  WebhookEvent,
  type WebhookWithSecret
} from "#schema/WebhooksApi.ts"
import { Access } from "#src/access/Access.ts"
import { Webhooks } from "#src/webhooks/Webhooks.ts"
import {
  Act,
  Ago,
  Badge,
  CheckBox,
  Confirm,
  Empty,
  exact,
  Once,
  ProblemNote,
  Table,
  TextField,
  Until
} from "./Components.tsx"
import * as Form from "./Form.ts"
import * as Html from "./Html.ts"
import * as Icons from "./Icons.tsx"
import { withNotice } from "./Notices.ts"
import { attempt, type Pages, param, shown } from "./Pages.ts"
import * as Paths from "./Paths.ts"
import * as Problem from "./Problem.ts"
import { chosen, picked } from "./Reach.tsx"
import { SettingsFrame } from "./SettingsFrame.tsx"
import type { Visit } from "./Visit.ts"

const eventWords: Readonly<Record<WebhookEvent, string>> = {
  "secret.created": "a secret was added",
  "secret.updated": "a secret has a new version",
  "secret.deleted": "a secret was deleted",
  "secret.rolled_back": "a secret went back to an earlier version",
  "secret.restored": "a deleted secret is back",
  "token.created": "an API token was made",
  "token.updated": "an API token was renamed or narrowed",
  "token.rotated": "an API token was replaced",
  "token.revoked": "an API token was revoked",
  "token.deleted": "an API token was deleted"
}

/** Where it goes, without the part of the address that is often a secret itself. */
const hostOf = (url: string) => (URL.canParse(url) ? new URL(url).host : url)

const Enabled = ({ webhook }: { readonly webhook: Webhook }) =>
  webhook.enabled ? <Badge tone="ok">on</Badge> : <Badge>off</Badge>

const Events = ({ events }: Pick<Webhook, "events">) =>
  events === null ? (
    <>all events</>
  ) : events.length > 3 ? (
    <>{events.length} events</>
  ) : (
    <ul class="keys">
      {events.map((event) => (
        <li>
          <code>{event}</code>
        </li>
      ))}
    </ul>
  )

const WebhooksPage = ({ items, visit }: { readonly visit: Visit; readonly items: ReadonlyArray<Webhook> }) => {
  if (visit.team === null) return null
  const add = (
    <a class="button button-primary" href={`${Paths.webhooks(visit.team.id)}/new`}>
      <Icons.Plus /> New webhook
    </a>
  )
  return (
    <SettingsFrame
      visit={visit}
      view="webhooks"
      title="Webhooks"
      lead="Addresses of yours that are told of changes to secrets and tokens: names and ids, never a value."
      actions={items.length === 0 ? undefined : add}
    >
      {items.length === 0 ? (
        <Empty title="No webhooks">
          <p>Restart a service when its secrets change, or post to a channel when a token is made.</p>
          <div class="buttons">{add}</div>
        </Empty>
      ) : (
        <Table label="Webhooks" head={["Webhook", "Goes to", "Is told", "State"]}>
          {items.map((webhook) => (
            <tr>
              <th scope="row">
                <a href={Paths.webhook(webhook.teamId, webhook.id)}>{webhook.name}</a>
              </th>
              <td data-label="Goes to">
                <code class="key">{hostOf(webhook.url)}</code>
              </td>
              <td data-label="Is told">
                <Events events={webhook.events} />
              </td>
              <td data-label="State">
                <Enabled webhook={webhook} />
              </td>
            </tr>
          ))}
        </Table>
      )}
    </SettingsFrame>
  )
}

interface FormShown {
  readonly form: Form.Form
  readonly problem: AnyApiError | undefined
}

const Fields = ({
  focus = false,
  form,
  hint,
  problem
}: FormShown & { readonly focus?: boolean; readonly hint: string }) => {
  const error = Problem.about(problem, "events")
  return (
    <>
      {["name", "url", "events"].some((field) => Problem.about(problem, field) !== undefined) ? null : (
        <ProblemNote problem={problem} />
      )}
      <TextField name="name" label="Name" value={form.text("name")} focus={focus} problem={problem} />
      <TextField
        name="url"
        label="Address"
        mono
        value={form.text("url")}
        hint="A public https address. It is asked with POST, and answers 2xx within ten seconds."
        problem={problem}
      />
      <fieldset class="part">
        <legend>What it is told</legend>
        <p class="hint">{hint}</p>
        <div class="checks">
          {WebhookEvent.literals.map((event) => (
            <CheckBox name="events" value={event} checked={picked(form, "events", event)} hint={eventWords[event]}>
              <code>{event}</code>
            </CheckBox>
          ))}
        </div>
        {error === undefined ? null : <p class="error">{error}</p>}
      </fieldset>
    </>
  )
}

const below = (team: TeamId) => [
  { href: Paths.settings(team), label: "Settings" },
  { href: Paths.webhooks(team), label: "Webhooks" }
]

const NewWebhookPage = ({ form, problem, visit }: FormShown & { readonly visit: Visit }) => {
  if (visit.team === null) return null
  const at = Paths.webhooks(visit.team.id)
  return (
    <SettingsFrame visit={visit} view="webhooks" title="New webhook" crumbs={below(visit.team.id)}>
      <form method="post" action={`${at}/new`} class="panel narrow">
        <Fields form={form} problem={problem} focus hint="None chosen: all of these, also later kinds." />
        <div class="buttons">
          <button class="button button-primary">Create the webhook</button>
          <a class="button button-plain" href={at}>
            Cancel
          </a>
        </div>
      </form>
    </SettingsFrame>
  )
}

const SecretOnce = ({
  replaced,
  visit,
  webhook
}: {
  readonly visit: Visit
  readonly webhook: WebhookWithSecret
  readonly replaced: boolean
}) => (
  <SettingsFrame
    visit={visit}
    view="webhooks"
    title={replaced ? `${webhook.name} has a new secret` : `${webhook.name} is created`}
    crumbs={below(webhook.teamId)}
  >
    <div class="narrow stack">
      <Once label="The secret: this is the only time it is shown" text={webhook.secret} />
      {replaced ? (
        <p>
          For 24 hours each delivery carries two signatures, one of each secret: change your receiver within that time.
        </p>
      ) : null}
      <p>
        The header <code>Ampoule-Signature</code> holds <code>t=…,v1=…</code>: <code>v1</code> is the hex HMAC-SHA256 of{" "}
        <code>t</code>, a dot and the raw body, under this secret. Compare it in constant time, and refuse a{" "}
        <code>t</code> older than five minutes.
      </p>
      <p>
        <a class="button button-plain" href={Paths.webhook(webhook.teamId, webhook.id)}>
          I have saved it
        </a>
      </p>
    </div>
  </SettingsFrame>
)

const problems: Readonly<Record<string, string>> = {
  address: "the address is not a public one",
  connection: "no connection",
  timeout: "no answer within ten seconds",
  secret: "the secret could not be opened"
}
const outcomeOf = ({ problem, status }: WebhookDelivery["log"][number]) =>
  status === null ? (problems[problem ?? ""] ?? "no answer") : `answered ${status}`

const DeliveryState = ({ state }: Pick<WebhookDelivery, "state">) =>
  state === "delivered" ? (
    <Badge tone="ok">delivered</Badge>
  ) : state === "failed" ? (
    <Badge tone="danger">given up</Badge>
  ) : (
    <Badge tone="amber">waiting</Badge>
  )

const Delivery = ({ delivery, now }: { readonly delivery: WebhookDelivery; readonly now: number }) => {
  const last = delivery.log.at(-1)
  return (
    <tr>
      <th scope="row">
        <code>{delivery.event}</code>
      </th>
      <td data-label="State">
        <DeliveryState state={delivery.state} />
      </td>
      <td data-label="When" class="hint">
        <Ago at={delivery.createdAt} now={now} />
      </td>
      <td>
        {last === undefined ? (
          <span class="hint">not yet tried</span>
        ) : delivery.attempts === 1 && delivery.nextAttemptAt === null ? (
          <span class="hint">{outcomeOf(last)}</span>
        ) : (
          <details>
            <summary class="hint">
              {delivery.attempts} {delivery.attempts === 1 ? "attempt" : "attempts"}, {outcomeOf(last)}
              {delivery.nextAttemptAt === null ? null : (
                <>
                  ; again <Until at={delivery.nextAttemptAt} now={now} />
                </>
              )}
            </summary>
            <ol class="hint log">
              {delivery.log.map((attempt) => (
                <li>
                  {exact(attempt.at)}: {outcomeOf(attempt)}
                </li>
              ))}
            </ol>
          </details>
        )}
      </td>
    </tr>
  )
}

const WebhookPage = ({
  deliveries,
  form,
  problem,
  visit,
  webhook
}: FormShown & {
  readonly visit: Visit
  readonly webhook: Webhook
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
          <Enabled webhook={webhook} /> <code class="key">{hostOf(webhook.url)}</code>
        </>
      }
      actions={
        <>
          <Act action={`${here}/test`}>Send a test event</Act>
          <Act action={`${here}/${webhook.enabled ? "disable" : "enable"}`}>
            {webhook.enabled ? "Switch off" : "Switch on"}
          </Act>
        </>
      }
      crumbs={below(webhook.teamId)}
    >
      <section>
        <h2 class="section-head">Deliveries</h2>
        {deliveries.length === 0 ? (
          <p class="hint">Nothing was sent yet. A test event shows whether your receiver answers.</p>
        ) : (
          <>
            <Table label="Deliveries" head={["Event", "State", "When", "Attempts"]}>
              {deliveries.map((delivery) => (
                <Delivery delivery={delivery} now={visit.now} />
              ))}
            </Table>
            <p class="hint section-small">
              The last {deliveries.length}, newest first. What is not answered with 2xx is tried again for 24 hours;
              what has ended is kept for 7 days.
            </p>
          </>
        )}
      </section>
      <div class="columns section">
        <form method="post" action={here} class="panel">
          <h2>Change</h2>
          <Fields
            form={form}
            problem={problem}
            hint={
              webhook.events === null
                ? "It is told of everything now, also of later kinds. Choose some to narrow that."
                : "At least one. For all, also later kinds, make a new webhook."
            }
          />
          <div class="buttons">
            <button class="button button-primary">Save</button>
          </div>
        </form>
        <div>
          <section class="panel">
            <h2>Secret</h2>
            <p class="hint section-small">
              It signs what is sent. A new one is shown once; for 24 hours the old one signs as well.
            </p>
            <div class="buttons">
              <Confirm action={`${here}/rotate`} label="Rotate the secret" tone="plain" verb="Make a new secret">
                <p>Your receiver has a day to learn the new one.</p>
              </Confirm>
            </div>
          </section>
          <section class="panel panel-danger">
            <h2>Delete</h2>
            <p class="hint section-small">Switched off it keeps its secret and its deliveries; deleted it is gone.</p>
            <div class="buttons">
              <Confirm action={`${here}/delete`} label="Delete" verb="Delete the webhook">
                <p>It is told of nothing any more; what waits for delivery is dropped.</p>
              </Confirm>
            </div>
          </section>
        </div>
      </div>
    </SettingsFrame>
  )
}

const formOf = (webhook: Webhook) =>
  new Form.Form([
    ["name", webhook.name],
    ["url", webhook.url],
    ...(webhook.events ?? []).map((event) => ["events", event] as const)
  ])

export const routes = (pages: Pages) =>
  Effect.gen(function* () {
    const access = yield* Access
    const webhooks = yield* Webhooks
    const idParam = param("webhookId", WebhookId)
    const manage = (teamId: TeamId, audit: AuditAction) => access.team("tokens:manage", teamId, { audit })

    const list = pages.team((teamId, visit) =>
      Effect.gen(function* () {
        const items = yield* webhooks.list(yield* manage(teamId, "webhook.list"))
        return Html.page(<WebhooksPage visit={visit} items={items} />)
      })
    )
    const fresh = pages.team((teamId, visit) =>
      Effect.gen(function* () {
        yield* manage(teamId, "webhook.list")
        const page = { visit: visit, form: new Form.Form([]), problem: undefined }
        return Html.page(<NewWebhookPage {...page} />)
      })
    )
    const create = pages.team((teamId, visit) =>
      Effect.gen(function* () {
        const form = yield* Form.read
        const made = yield* attempt(
          Effect.gen(function* () {
            const permit = yield* manage(teamId, "webhook.create")
            const input = yield* Form.decode(CreateWebhook)({
              name: form.text("name"),
              url: form.text("url").trim(),
              ...chosen(form, "events")
            })
            return yield* webhooks.create(permit, input)
          })
        )
        return Either.isRight(made)
          ? Html.page(<SecretOnce visit={visit} webhook={made.right} replaced={false} />)
          : shown(<NewWebhookPage visit={visit} form={form} problem={made.left} />, made.left)
      })
    )

    /** The webhook that the path names, with its deliveries. */
    const one = Effect.fnUntraced(function* (teamId: TeamId, visit: Visit) {
      const id = yield* idParam
      const permit = yield* manage(teamId, "webhook.list")
      const webhook = (yield* webhooks.list(permit)).find((webhook) => webhook.id === id)
      if (webhook === undefined) return yield* new RouteNotFound({ message: "No such webhook." })
      return { visit, webhook, deliveries: yield* webhooks.deliveries(permit, id) }
    })
    const view = pages.team((teamId, visit) =>
      Effect.gen(function* () {
        const found = yield* one(teamId, visit)
        return Html.page(<WebhookPage {...found} form={formOf(found.webhook)} problem={undefined} />)
      })
    )
    const update = pages.team((teamId, visit) =>
      Effect.gen(function* () {
        const found = yield* one(teamId, visit)
        const { id } = found.webhook
        const form = yield* Form.read
        const done = yield* attempt(
          Effect.gen(function* () {
            const permit = yield* manage(teamId, "webhook.update")
            const input = yield* Form.decode(UpdateWebhook)({
              name: form.text("name"),
              url: form.text("url").trim(),
              // All events stay all as long as none is picked out.
              ...(found.webhook.events === null ? chosen(form, "events") : { events: form.all("events") })
            })
            return yield* webhooks.update(permit, id, input)
          })
        )
        return Either.isRight(done)
          ? Html.seeOther(withNotice(Paths.webhook(teamId, id), "webhook-changed"))
          : shown(<WebhookPage {...found} form={form} problem={done.left} />, done.left)
      })
    )
    const enable = (enabled: boolean) =>
      pages.team((teamId) =>
        Effect.gen(function* () {
          const id = yield* idParam
          yield* webhooks.update(yield* manage(teamId, "webhook.update"), id, { enabled })
          return Html.seeOther(withNotice(Paths.webhook(teamId, id), enabled ? "webhook-enabled" : "webhook-disabled"))
        })
      )
    const rotate = pages.team((teamId, visit) =>
      Effect.gen(function* () {
        const webhook = yield* webhooks.rotate(yield* manage(teamId, "webhook.rotate"), yield* idParam)
        return Html.page(<SecretOnce visit={visit} webhook={webhook} replaced />)
      })
    )
    const test = pages.team((teamId) =>
      Effect.gen(function* () {
        const id = yield* idParam
        yield* webhooks.test(yield* manage(teamId, "webhook.test"), id)
        return Html.seeOther(withNotice(Paths.webhook(teamId, id), "webhook-tested"))
      })
    )
    const remove = pages.team((teamId) =>
      Effect.gen(function* () {
        yield* webhooks.remove(yield* manage(teamId, "webhook.delete"), yield* idParam)
        return Html.seeOther(withNotice(Paths.webhooks(teamId), "webhook-deleted"))
      })
    )

    return HttpRouter.empty.pipe(
      HttpRouter.get("/app/teams/:teamId/webhooks", list),
      HttpRouter.get("/app/teams/:teamId/webhooks/new", fresh),
      HttpRouter.post("/app/teams/:teamId/webhooks/new", create),
      HttpRouter.get("/app/teams/:teamId/webhooks/:webhookId", view),
      HttpRouter.post("/app/teams/:teamId/webhooks/:webhookId", update),
      HttpRouter.post("/app/teams/:teamId/webhooks/:webhookId/enable", enable(true)),
      HttpRouter.post("/app/teams/:teamId/webhooks/:webhookId/disable", enable(false)),
      HttpRouter.post("/app/teams/:teamId/webhooks/:webhookId/rotate", rotate),
      HttpRouter.post("/app/teams/:teamId/webhooks/:webhookId/test", test),
      HttpRouter.post("/app/teams/:teamId/webhooks/:webhookId/delete", remove)
    )
  })

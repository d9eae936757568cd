/** Pending requests in all teams of a person: those that they can decide, and their own. */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { ComponentChildren } from "preact"
import type { AccessRequest } from "#schema/AccessRequestsApi.ts"
import { SecondPersonRequestId } from "#schema/Ids.ts"
import type { SecondPersonRequest } from "#schema/SecondPersonApi.ts"
import type { ChangeRequest } from "#schema/ChangeRequestsApi.ts"
import { wordsOf } from "./AccessViews.tsx"
import { ChangedKeys, visible } from "./ChangeViews.tsx"
import * as Ui from "#src/dashboard/frame/Components.tsx"
import { Layout } from "#src/dashboard/frame/Layout.tsx"
import * as Html from "#src/dashboard/frame/Html.ts"
import * as Paths from "#src/dashboard/frame/Paths.ts"
import { type AtPerson, button, page, person, screen, to, withIds } from "#src/dashboard/frame/Routes.ts"
import * as UseCases from "#src/dashboard/frame/UseCases.ts"
import type { Visit } from "#src/dashboard/frame/Visit.ts"

/** Common members of both kinds. */
type Item = Pick<
  AccessRequest,
  "createdAt" | "environment" | "expiresAt" | "mayDecide" | "project" | "projectId" | "user"
>
const pathOf = ({ environment, projectId }: Item) => `${Paths.environment({ projectId, slug: environment })}/access`

const Rows = <I extends Item>({
  items,
  label,
  render,
  visit
}: {
  readonly visit: Visit
  readonly label: string
  readonly items: ReadonlyArray<I>
  readonly render: (item: I) => ComponentChildren
}) =>
  items.length === 0 ? null : (
    <section class="section">
      <h2>{label}</h2>
      <Ui.Table label={label} head={["Person", "Where", "Wants to", "Since", "Ends", ""]}>
        {items.map((item) => (
          <tr>
            <th scope="row">{item.user.email}</th>
            <td data-label="Where">
              <bdi>{item.project}</bdi> / {item.environment}
            </td>
            <td data-label="Wants to">{render(item)}</td>
            <td data-label="Since" class="hint">
              <Ui.Ago at={item.createdAt} now={visit.now} />
            </td>
            <td data-label="Ends" class="hint">
              <Ui.Until at={item.expiresAt} now={visit.now} />
            </td>
            <td class="end">
              <Ui.LinkButton href={pathOf(item)} primary={item.mayDecide}>
                {item.mayDecide ? "Decide" : "Open"}
                <span class="hidden"> the request of {item.user.email}</span>
              </Ui.LinkButton>
            </td>
          </tr>
        ))}
      </Ui.Table>
    </section>
  )

const asks = (item: AccessRequest) => (
  <>
    {wordsOf(item.level)} for {item.hours} h<span class="refs hint">{item.reason}</span>
  </>
)
const proposes = (item: ChangeRequest) => <ChangedKeys of={item.changes} reason={item.reason} />

const SecondPersonRows = ({
  items,
  visit
}: {
  readonly visit: Visit
  readonly items: ReadonlyArray<SecondPersonRequest>
}) =>
  items.length === 0 ? null : (
    <section class="section">
      <h2>Waiting for a second person</h2>
      <Ui.Table label="Waiting for a second person" head={["Person", "Wants", "Since", "Ends", ""]}>
        {items.map(({ about, createdAt, expiresAt, hasLink, id, mayDecide, status, user }) => (
          <tr>
            <th scope="row">{user.email}</th>
            <td data-label="Wants">
              {visible(about)}
              {status === "approved" ? (
                <span class="refs hint">
                  {hasLink ? "approved: make the link and pass it on" : "approved: its author makes the link"}
                </span>
              ) : null}
            </td>
            <td data-label="Since" class="hint">
              <Ui.Ago at={createdAt} now={visit.now} />
            </td>
            <td data-label="Ends" class="hint">
              <Ui.Until at={expiresAt} now={visit.now} />
            </td>
            <td class="end">
              {mayDecide ? (
                <Ui.Act action={`${Paths.secondPerson}/${id}/approve`} kind="plain">
                  Approve<span class="hidden"> the request of {user.email}</span>
                </Ui.Act>
              ) : null}
              {hasLink ? (
                <Ui.Act action={`${Paths.secondPerson}/${id}/link`} kind="plain">
                  Show the link<span class="hidden"> of {about}</span>
                </Ui.Act>
              ) : null}
              {mayDecide || user.id === visit.user.id ? (
                <Ui.Act action={`${Paths.secondPerson}/${id}/deny`} kind="quiet">
                  {mayDecide ? "Deny" : "Withdraw"}
                  <span class="hidden"> the request of {user.email}</span>
                </Ui.Act>
              ) : null}
            </td>
          </tr>
        ))}
      </Ui.Table>
    </section>
  )

/** Shows the link that an approved action made, once. */
const LinkPage = ({ url, visit }: { readonly visit: Visit; readonly url: string }) => (
  <Layout
    visit={visit}
    section="waiting"
    title="Approved"
    lead="Pass this link on to the person it is for. It is shown once."
  >
    <p>
      <code>{url}</code>
    </p>
    <Ui.LinkButton href={Paths.waiting}>Requests</Ui.LinkButton>
  </Layout>
)

const WaitingPage = ({
  changes,
  requests,
  secondPerson,
  visit
}: {
  readonly visit: Visit
  readonly requests: ReadonlyArray<AccessRequest>
  readonly changes: ReadonlyArray<ChangeRequest>
  readonly secondPerson: ReadonlyArray<SecondPersonRequest>
}) => {
  const mine = <I extends Item>(items: ReadonlyArray<I>) => items.filter(({ user }) => user.id === visit.user.id)
  const theirs = <I extends Item>(items: ReadonlyArray<I>) => items.filter(({ mayDecide }) => mayDecide)
  return (
    <Layout
      visit={visit}
      section="waiting"
      title="Requests"
      lead="Requests for access and changes of secrets that wait for a decision."
    >
      {requests.length + changes.length + secondPerson.length === 0 ? (
        <Ui.Empty title="No requests">This page lists the requests that you can decide, and your own.</Ui.Empty>
      ) : null}
      <SecondPersonRows visit={visit} items={secondPerson} />
      <Rows visit={visit} label="Access requests to decide" items={theirs(requests)} render={asks} />
      <Rows visit={visit} label="Change requests to decide" items={theirs(changes)} render={proposes} />
      <Rows visit={visit} label="Your access requests" items={mine(requests)} render={asks} />
      <Rows visit={visit} label="Your change requests" items={mine(changes)} render={proposes} />
    </Layout>
  )
}

const load = () =>
  Effect.gen(function* () {
    const requests = (yield* UseCases.accessRequests.list()).items
    const changes = (yield* UseCases.changeRequests.list()).items
    return { requests, changes, secondPerson: (yield* UseCases.secondPerson.listAll()).items }
  })

const waiting = screen((at: AtPerson) => Effect.map(load(), (loaded) => ({ ...at, ...loaded })), WaitingPage)

const request = withIds(person, Schema.Struct({ requestId: SecondPersonRequestId }))
const approve = button(request, {
  run: ({ requestId }) => UseCases.secondPerson.approve(requestId),
  done: () => to(Paths.waiting, "second-person-approved")
})
const link = button(request, {
  run: ({ requestId }) => UseCases.secondPerson.link(requestId),
  done: ({ url }, { visit }) => Html.page(LinkPage({ visit, url }))
})
const deny = button(request, {
  run: ({ requestId }) => UseCases.secondPerson.deny(requestId),
  done: () => to(Paths.waiting, "second-person-denied")
})

export const routes = HttpRouter.empty.pipe(
  HttpRouter.get("/app/waiting", page(person, waiting)),
  HttpRouter.post(`${Paths.secondPerson}/:requestId/approve`, approve),
  HttpRouter.post(`${Paths.secondPerson}/:requestId/deny`, deny),
  HttpRouter.post(`${Paths.secondPerson}/:requestId/link`, link)
)

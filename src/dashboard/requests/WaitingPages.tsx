/** Pending requests in all teams of a person: those that they can decide, and their own. */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as Effect from "effect/Effect"
import type { ComponentChildren } from "preact"
import type { AccessRequest } from "#schema/AccessRequestsApi.ts"
import type { ChangeRequest } from "#schema/ChangeRequestsApi.ts"
import { wordsOf } from "./AccessViews.tsx"
import { ChangedKeys } from "./ChangeViews.tsx"
import * as Ui from "#src/dashboard/frame/Components.tsx"
import { Layout } from "#src/dashboard/frame/Layout.tsx"
import * as Paths from "#src/dashboard/frame/Paths.ts"
import { type AtPerson, page, person, screen } from "#src/dashboard/frame/Routes.ts"
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
const proposes = (item: ChangeRequest) => <ChangedKeys of={item.changes} />

const WaitingPage = ({
  changes,
  requests,
  visit
}: {
  readonly visit: Visit
  readonly requests: ReadonlyArray<AccessRequest>
  readonly changes: ReadonlyArray<ChangeRequest>
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
      {requests.length + changes.length === 0 ? (
        <Ui.Empty title="No requests">This page lists the requests that you can decide, and your own.</Ui.Empty>
      ) : null}
      <Rows visit={visit} label="Access requests to decide" items={theirs(requests)} render={asks} />
      <Rows visit={visit} label="Change requests to decide" items={theirs(changes)} render={proposes} />
      <Rows visit={visit} label="Your access requests" items={mine(requests)} render={asks} />
      <Rows visit={visit} label="Your change requests" items={mine(changes)} render={proposes} />
    </Layout>
  )
}

const load = () =>
  Effect.zipWith(UseCases.accessRequests.list(), UseCases.changeRequests.list(), (requests, changes) => ({
    requests: requests.items,
    changes: changes.items
  }))

const waiting = screen((at: AtPerson) => Effect.map(load(), (loaded) => ({ ...at, ...loaded })), WaitingPage)

export const routes = HttpRouter.empty.pipe(HttpRouter.get("/app/waiting", page(person, waiting)))

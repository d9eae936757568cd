/** The page about access to an environment, and its decisions. */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { CreateAccessGrant } from "#schema/AccessApi.ts"
import { CreateAccessRequest } from "#schema/AccessRequestsApi.ts"
import { ApproveChange } from "#schema/ChangeRequestsApi.ts"
import { GrantNotFound } from "#schema/Errors.ts"
import { AccessGrantId, AccessRequestId, ChangeRequestId } from "#schema/Ids.ts"
import { AccessPage, type Asking } from "./AccessViews.tsx"
import { RevealedPage } from "./ChangeViews.tsx"
import { type AtEnvironment, environment, type Location } from "#src/dashboard/frame/EnvironmentFrame.tsx"
import * as Form from "#src/dashboard/frame/Form.ts"
import * as Html from "#src/dashboard/frame/Html.ts"
import { query } from "#src/dashboard/frame/Pages.ts"
import * as Paths from "#src/dashboard/frame/Paths.ts"
import { action, button, page, screen, to, withIds } from "#src/dashboard/frame/Routes.ts"
import * as UseCases from "#src/dashboard/frame/UseCases.ts"
import { may } from "#src/dashboard/frame/Visit.ts"

const hour = 3_600_000

const reachOf = Effect.fnUntraced(function* ({ environment, project, visit }: Location) {
  if (!may(visit, "access:manage")) return undefined
  const { hasMore, items: ways } = yield* UseCases.environmentAccess.show(environment.id)
  return { members: yield* UseCases.members.list(project.teamId), ways, hasMore }
})

/** Whether the approval of one's own request or change is a request for a second person: owners and admins, by the team's rule. */
const asksSecondPersonOf = Effect.fnUntraced(function* (
  { project, visit }: Location,
  own: ReadonlyArray<{ readonly user: { readonly id: string } }>
) {
  if (!may(visit, "members:manage") || !own.some(({ user }) => user.id === visit.user.id)) return false
  return (yield* UseCases.teams.get(project.teamId)).secondPerson
})

const load = ({ location }: AtEnvironment) =>
  Effect.gen(function* () {
    const { items: requests } = yield* UseCases.accessRequests.listOfEnvironment(location.environment.id)
    const { items: changes } = yield* UseCases.changeRequests.listOfEnvironment(location.environment.id)
    const asksSecondPerson = yield* asksSecondPersonOf(location, [...requests, ...changes])
    return { requests, changes, asksSecondPerson, reach: yield* reachOf(location), parameters: yield* query }
  })
const view = (asking?: Asking) => screen(load, (props) => <AccessPage {...props} asking={asking} />)
const access = ({ location }: AtEnvironment) => `${Paths.environment(location.path)}/access`

const reasonOf = (form: Form.Form) => {
  const reason = form.filled("reason")
  return reason === undefined ? {} : { reason }
}

const ask = action(environment, {
  decode: (form) =>
    Form.decode(CreateAccessRequest)({
      level: form.text("level"),
      hours: Number(form.text("hours")),
      reason: form.text("reason")
    }),
  run: (input, { location }) => UseCases.accessRequests.create(location.environment.id, input),
  done: (_, at) => to(access(at), "access-asked"),
  again: view("ask")
})

/** Converts hours to the moment of the end. Leaves other text unchanged, so that the decoder refuses it. */
const endOf = (hours: string | undefined, now: number): string | null => {
  if (hours === undefined) return null
  return /^[1-9]\d{0,3}$/.test(hours) ? new Date(now + Number(hours) * hour).toISOString() : hours
}

const give = action(environment, {
  decode: (form, { location }) => {
    return Form.decode(CreateAccessGrant)({
      userId: form.text("userId"),
      level: form.text("level"),
      until: endOf(form.filled("hours"), location.visit.now),
      ...reasonOf(form)
    })
  },
  run: (input, { location }) => UseCases.accessGrants.grantEnvironment(location.environment.id, input),
  done: (_, at) => to(access(at), "access-given"),
  again: view("give")
})

const grant = withIds(environment, Schema.Struct({ grantId: AccessGrantId }))
const request = withIds(environment, Schema.Struct({ requestId: AccessRequestId }))

const end = button(grant, {
  run: ({ grantId }) => UseCases.accessGrants.end(grantId),
  done: (_, at) => to(access(at), "access-ended"),
  again: view()
})
const approve = button(request, {
  run: ({ requestId }) => UseCases.accessRequests.approve(requestId),
  done: ({ status }, at) => to(access(at), status === "approved" ? "access-approved" : "access-first-approval"),
  again: view()
})
const deny = button(request, {
  run: ({ requestId }) => UseCases.accessRequests.deny(requestId),
  done: (_, at) => to(access(at), "access-denied"),
  again: view()
})
const withdraw = button(request, {
  run: ({ requestId }) => UseCases.accessRequests.withdraw(requestId),
  done: (_, at) => to(access(at), "access-withdrawn"),
  again: view()
})

const change = withIds(environment, Schema.Struct({ requestId: ChangeRequestId }))
/** The names of the request are read first: an approved one has none. */
const revealChange = button(change, {
  run: ({ location, requestId }) =>
    Effect.gen(function* () {
      const { items } = yield* UseCases.changeRequests.listOfEnvironment(location.environment.id)
      const item = items.find(({ id }) => id === requestId)
      const revealed = yield* UseCases.changeRequests.reveal(requestId)
      return item === undefined ? yield* new GrantNotFound() : { item, revealed }
    }),
  done: (result, { location }) => Html.page(<RevealedPage location={location} {...result} />),
  again: view()
})
const approveChange = action(change, {
  decode: (form) => {
    const digest = form.filled("digest")
    return Form.decode(ApproveChange)(digest === undefined ? {} : { digest })
  },
  run: ({ digest }, { requestId }) => UseCases.changeRequests.approve(requestId, digest),
  done: (_, at) => to(access(at), "change-approved"),
  again: view()
})
const denyChange = button(change, {
  run: ({ requestId }) => UseCases.changeRequests.deny(requestId),
  done: (_, at) => to(access(at), "change-denied"),
  again: view()
})
const withdrawChange = button(change, {
  run: ({ requestId }) => UseCases.changeRequests.withdraw(requestId),
  done: (_, at) => to(access(at), "change-withdrawn"),
  again: view()
})

const at = "/app/projects/:projectId/env/:slug/access"
export const routes = HttpRouter.empty.pipe(
  HttpRouter.get(at, page(environment, view())),
  HttpRouter.post(`${at}/ask`, ask),
  HttpRouter.post(`${at}/give`, give),
  HttpRouter.post(`${at}/grants/:grantId/end`, end),
  HttpRouter.post(`${at}/requests/:requestId/approve`, approve),
  HttpRouter.post(`${at}/requests/:requestId/deny`, deny),
  HttpRouter.post(`${at}/requests/:requestId/withdraw`, withdraw),
  HttpRouter.post(`${at}/changes/:requestId/reveal`, revealChange),
  HttpRouter.post(`${at}/changes/:requestId/approve`, approveChange),
  HttpRouter.post(`${at}/changes/:requestId/deny`, denyChange),
  HttpRouter.post(`${at}/changes/:requestId/withdraw`, withdrawChange)
)

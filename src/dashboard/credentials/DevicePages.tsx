/** Pages and forms of a command line's login, and the list of logins. A GET never approves. */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import type { AnyApiError } from "#schema/ApiError.ts"
import { ApproveDevice, type DeviceRequest } from "#schema/DeviceApi.ts"
import { StepUpRequired } from "#schema/Errors.ts"
import { GrantId } from "#schema/Ids.ts"
import { UserCode } from "#schema/Values.ts"
import { GrantsPage, type Names, namesOf } from "./CliLoginViews.tsx"
import { DecidedPage, DecidePage, EnterCode, ManagePage, ManagingPage, outcomeOf } from "./DeviceViews.tsx"
import * as Form from "#src/dashboard/frame/Form.ts"
import * as Html from "#src/dashboard/frame/Html.ts"
import { attempt, pageWith, query, wantsJson } from "#src/dashboard/frame/Pages.ts"
import * as Paths from "#src/dashboard/frame/Paths.ts"
import { type AtPerson, button, page, person, screen, to, withIds } from "#src/dashboard/frame/Routes.ts"
import { reachOf, type Restrictable } from "#src/dashboard/frame/ReachFields.tsx"
import type { Visit } from "#src/dashboard/frame/Visit.ts"
import * as UseCases from "#src/dashboard/frame/UseCases.ts"

const restrictable = Effect.gen(function* () {
  const projects = yield* UseCases.projects.list()
  const environments = yield* UseCases.environments.byProject("all")
  const result: Restrictable = { projects, environments }
  return result
})

/** Page of a decided request. Only the person who approved it sees its progress. */
const decidedPage = Effect.fnUntraced(function* (visit: Visit, request: DeviceRequest, state: string) {
  const Page = request.manages === undefined ? DecidedPage : ManagingPage
  const own = yield* attempt(UseCases.deviceGrants.progress(request.userCode))
  return Either.isRight(own) ? (
    <Page visit={visit} state={outcomeOf(own.right)} code={request.userCode} />
  ) : (
    <Page visit={visit} state={outcomeOf(state)} />
  )
})

/** Page of the request with this code, or the form for another code. */
const requestPage = Effect.fnUntraced(function* (visit: Visit, typed: string, form?: Form.Form, problem?: AnyApiError) {
  const result = yield* attempt(
    Effect.flatMap(Form.decode(UserCode)(typed), (code) => UseCases.deviceGrants.show(code))
  )
  if (Either.isLeft(result)) {
    return pageWith(<EnterCode visit={visit} code={typed} problem={result.left} />, result.left)
  }
  const request = result.right
  if (request.status !== "pending") {
    return pageWith(yield* decidedPage(visit, request, request.status), problem)
  }
  if (request.manages !== undefined) {
    return pageWith(<ManagePage visit={visit} request={request} team={request.manages} problem={problem} />, problem)
  }
  return pageWith(
    <DecidePage visit={visit} request={request} restrictable={yield* restrictable} form={form} problem={problem} />,
    problem
  )
})

const view = person(({ visit }) =>
  Effect.gen(function* () {
    const typed = (yield* query).text("code")
    return typed === ""
      ? Html.page(<EnterCode visit={visit} code="" problem={undefined} />)
      : yield* requestPage(visit, typed)
  })
)

/** Lets a missing confirmation fail, so that it redirects there and back. The page shows any other failure. */
const attemptDecision = <A, E, R>(work: Effect.Effect<A, E, R>) =>
  Effect.flatMap(attempt(work), (result) =>
    Either.isLeft(result) && result.left._tag === StepUpRequired.code
      ? Effect.fail(result.left)
      : Effect.succeed(result)
  )

const decisionOf = Effect.fnUntraced(function* (form: Form.Form) {
  const { environmentIds, projectIds } = yield* reachOf(form)
  return yield* Form.decode(ApproveDevice)({
    teams: form.all("team").map((teamId) => ({ teamId, scopes: form.all(`scope.${teamId}`) })),
    ...(projectIds === undefined ? {} : { projectIds }),
    ...(environmentIds === undefined ? {} : { environmentIds }),
    machine: form.has("machine")
  })
})

const approve = person(({ visit }) =>
  Effect.gen(function* () {
    const form = yield* Form.read
    const typed = form.text("code")
    const approved = yield* attemptDecision(
      Effect.gen(function* () {
        const decision = yield* decisionOf(form)
        return yield* UseCases.deviceGrants.approve(yield* Form.decode(UserCode)(typed), decision)
      })
    )
    return Either.isRight(approved)
      ? Html.page(<DecidedPage visit={visit} state={approved.right.status} code={typed} />)
      : yield* requestPage(visit, typed, form, approved.left)
  })
)

const approveManagement = person(({ visit }) =>
  Effect.gen(function* () {
    const typed = (yield* Form.read).text("code")
    const approved = yield* attemptDecision(
      Effect.flatMap(Form.decode(UserCode)(typed), (code) => UseCases.deviceGrants.approveManagement(code))
    )
    return Either.isRight(approved)
      ? Html.page(<ManagingPage visit={visit} state={approved.right.status} code={typed} />)
      : yield* requestPage(visit, typed, undefined, approved.left)
  })
)

const deny = person(({ visit }) =>
  Effect.gen(function* () {
    const form = yield* Form.read
    const typed = form.text("code")
    const denied = yield* attempt(
      Effect.flatMap(Form.decode(UserCode)(typed), (code) => UseCases.deviceGrants.deny(code))
    )
    const Page = form.has("manages") ? ManagingPage : DecidedPage
    return Either.isRight(denied)
      ? Html.page(<Page visit={visit} state={denied.right.status} />)
      : yield* requestPage(visit, typed, form, denied.left)
  })
)

const progress = person(({ visit }) =>
  Effect.gen(function* () {
    const code = yield* Form.decode(UserCode)((yield* Form.read).text("code"))
    const state = outcomeOf(yield* UseCases.deviceGrants.progress(code))
    return (yield* wantsJson)
      ? HttpServerResponse.unsafeJson({ value: state }, { headers: Html.headers })
      : Html.page(<DecidedPage visit={visit} state={state} code={code} />)
  })
)

const noNames: Names = new Map()
const grants = screen(
  ({ visit }: AtPerson) =>
    Effect.gen(function* () {
      const items = yield* UseCases.cliGrants.list()
      const restricted = items.some(({ restrictions: { environmentIds, projectIds } }) => environmentIds ?? projectIds)
      return { visit, items, names: restricted ? namesOf(yield* restrictable) : noNames }
    }),
  GrantsPage
)

const revoke = button(withIds(person, Schema.Struct({ grantId: GrantId })), {
  run: ({ grantId }) => UseCases.cliGrants.revokeOwn(grantId),
  done: () => to(Paths.grants, "grant-revoked")
})

export const routes = HttpRouter.empty.pipe(
  HttpRouter.get(Paths.device, view),
  HttpRouter.post("/app/device/approve", approve),
  HttpRouter.post("/app/device/approve-management", approveManagement),
  HttpRouter.post("/app/device/deny", deny),
  HttpRouter.post("/app/device/progress", progress),
  HttpRouter.get(Paths.grants, page(person, grants)),
  HttpRouter.post("/app/grants/:grantId/revoke", revoke)
)

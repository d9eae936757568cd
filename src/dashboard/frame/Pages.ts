/**
 * Common handling of pages. The check of the API's session routes finds the person, failures become pages, and a
 * visitor without a session is redirected to the sign-in. The dashboard has no other authentication.
 */
import * as HttpBody from "@effect/platform/HttpBody"
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as ParseResult from "effect/ParseResult"
import type * as Schema from "effect/Schema"
import type { VNode } from "preact"
import { type AnyApiError, isApiError, statusOf } from "#schema/ApiError.ts"
import { OwnSessionCredential } from "#schema/Authentication.ts"
import { type Caller, type CallerTeam, CurrentCaller } from "#schema/Caller.ts"
import { RouteNotFound, SecondFactorMissing, ValidationFailed } from "#schema/Errors.ts"
import { TeamId } from "#schema/Ids.ts"
import * as Policy from "#src/access/Policy.ts"
import { AppConfig } from "#src/AppConfig.ts"
import { Sessions } from "#src/credentials/Sessions.ts"
import { countAddress } from "#src/http/engine/AddressLimit.ts"
import { judge, respond } from "#src/http/engine/ErrorEnvelope.ts"
import { CurrentExchange, pathOf } from "#src/http/engine/RequestContext.ts"
import { RowSeal } from "#src/rows/RowSeal.ts"
import { RateLimiter } from "#src/limits/RateLimiter.ts"
import { isLoopbackHost } from "#src/net/Loopback.ts"
import { AccessRequests } from "#src/projects/AccessRequests.ts"
import { SecondPersonRequests } from "#src/secrets/SecondPersonRequests.ts"
import { ChangeRequests } from "#src/secrets/ChangeRequests.ts"
import { Waits } from "#src/access/SecondPerson.ts"
import { Proposed } from "#src/secrets/SecretStore.ts"
import * as Assets from "./Assets.ts"
import * as Form from "./Form.ts"
import * as FormSeals from "./FormSeals.ts"
import * as Html from "./Html.ts"
import { withNotice } from "./Notices.ts"
import * as Paths from "./Paths.ts"
import { ProblemPage } from "./Layout.tsx"
import * as Theme from "./Theme.ts"
import type { UiSettings, Visit, Visitor } from "./Visit.ts"

export type Response = HttpServerResponse.HttpServerResponse

/** Codes of a missing or invalid credential, for which the person must sign in. */
const needsSignIn: ReadonlySet<string> = new Set([
  "UNAUTHENTICATED",
  "CREDENTIAL_INVALID",
  "CREDENTIAL_EXPIRED",
  "CREDENTIAL_REVOKED"
])

const asksJson = (request: HttpServerRequest.HttpServerRequest) =>
  request.headers["accept"]?.startsWith("application/json") === true
/** True for a page's script, which needs only data; a form needs a page. */
export const wantsJson = Effect.map(HttpServerRequest.HttpServerRequest, asksJson)

/** A parameter of the path. An invalid one means that the page does not exist. */
export const param = <A, I>(name: string, schema: Schema.Schema<A, I>) =>
  Effect.flatMap(HttpRouter.params, (params) =>
    Effect.mapError(ParseResult.decodeUnknown(schema)(params[name]), () => new RouteNotFound())
  )

/** The query, one text per name. */
export const query = Effect.map(
  HttpServerRequest.ParsedSearchParams,
  (params) =>
    new Form.Form(
      Object.entries(params).flatMap(([name, value]) =>
        typeof value === "string" ? [[name, value] as const] : value.map((one) => [name, one] as const)
      )
    )
)

/** Number of the list's page in the query, from 1. */
export const pageNumber = (query: Form.Form): number =>
  Math.min(Math.max(1, Number.parseInt(query.text("page"), 10) || 1), 1_000)

/** Turns an error of the API into a `Left`; any other failure stays a failure. */
export const attempt = <A, E, R>(work: Effect.Effect<A, E, R>): Effect.Effect<Either.Either<A, AnyApiError>, E, R> =>
  Effect.catchAll(Effect.map(work, Either.right<A>), (error) =>
    isApiError(error) ? Effect.succeed(Either.left(error)) : Effect.fail(error)
  )

/** A page with the status and the `Retry-After` of its problem. */
export const pageWith = (node: VNode, problem: AnyApiError | undefined): Response => {
  if (problem === undefined) return Html.page(node)
  const page = Html.page(node, { status: statusOf(problem) })
  const retryAfter = respond(problem).headers["retry-after"]
  return retryAfter === undefined ? page : HttpServerResponse.setHeader(page, "retry-after", retryAfter)
}

interface Needs {
  readonly ui: UiSettings
  readonly ownHost: string
  readonly session: OwnSessionCredential["Type"]
  readonly sessions: Sessions
  readonly rowSeal: RowSeal
  readonly limiter: RateLimiter
  readonly requests: AccessRequests
  readonly changes: ChangeRequests
  readonly secondPerson: SecondPersonRequests
}

const hostname = (host: string) => host.replace(/:\d+$/, "").toLowerCase()

/**
 * True for a visit to `localhost` while the server's address is `127.0.0.1`, or the reverse. Its forms would be refused
 * as those of another origin, so the visit is redirected to the server's own name.
 */
const hasOtherLoopbackName = ({ ownHost }: Needs, request: HttpServerRequest.HttpServerRequest): boolean => {
  const host = hostname(request.headers["host"] ?? ownHost)
  return request.method === "GET" && host !== ownHost && isLoopbackHost(host) && isLoopbackHost(ownHost)
}

const visitorOf = Effect.fnUntraced(function* ({ ui }: Needs) {
  const request = yield* HttpServerRequest.HttpServerRequest
  const params = yield* query
  const visitor: Visitor = {
    ui: { ...ui, theme: Theme.themeIn(request.cookies) },
    caller: null,
    path: pathOf(request.url),
    now: yield* Clock.currentTimeMillis,
    notice: params.text("done"),
    about: params.text("about")
  }
  return visitor
})

/** The page of a form, by its referrer, which browsers send only to the same origin. */
const pageOf = ({ headers, method, url }: HttpServerRequest.HttpServerRequest): string => {
  const from = method === "GET" ? url : (headers["referer"] ?? "").replace(/^https?:\/\/[^/]*/, "")
  return Paths.isOwnPage(from) ? from : Paths.home
}

/** Response to a failure. A missing confirmation redirects to its page, with the
 * sent form, and leads back. */
const failed = (visitor: Visitor | Visit, request: HttpServerRequest.HttpServerRequest, error: AnyApiError): Response =>
  asksJson(request)
    ? respond(error)
    : error._tag === "STEP_UP_REQUIRED"
      ? request.method === "POST" && request.headers["content-length"] !== "0"
        ? Html.sendTo(Paths.withQuery(Paths.confirmBefore, { to: request.url, next: pageOf(request) }))
        : Html.seeOther(Paths.withQuery(Paths.confirm, { next: pageOf(request) }))
      : pageWith(ProblemPage({ visit: visitor, problem: error }), error)

const isProposed = <E>(error: E): error is Extract<E, Proposed> => error instanceof Proposed
/** Redirects a change that needs approval to the page with its request. */
const toWaiting = ({ request: { environment, projectId } }: Proposed) =>
  Effect.succeed(
    Html.seeOther(withNotice(`${Paths.environment({ projectId, slug: environment })}/access`, "change-waits"))
  )

const isWaiting = <E>(error: E): error is Extract<E, Waits> => error instanceof Waits
/** Redirects an action that waits for a second person to the page of requests. */
const toRequests = () => Effect.succeed(Html.seeOther(withNotice(Paths.waiting, "second-person-waits")))

/** Turns any failure into a page, and logs it as the API does. */
const guarded = <E, R>(visitor: Visitor | Visit, work: Effect.Effect<Response, E, R>) =>
  Effect.flatMap(HttpServerRequest.HttpServerRequest, (request) =>
    Effect.catchAllCause(
      Effect.catchIf(Effect.catchIf(work, isProposed<E>, toWaiting), isWaiting, toRequests),
      (cause) =>
        Effect.flatMap(CurrentExchange, (exchange) =>
          Effect.map(judge(cause, exchange, request.method, visitor.path), (verdict) =>
            isApiError(verdict) ? failed(visitor, request, verdict) : verdict
          )
        )
    )
  )

const otherForm = new ValidationFailed({
  field: "seal",
  message:
    "This form belongs to another page, place or person, or to an earlier release. Nothing has changed. Go back and copy what you typed, then load the page again and send the form from there."
})

/** The seals of a sent form that hold. A form that waited for a confirmation has that of its own address. */
const sealsOf = Effect.fnUntraced(function* (
  { rowSeal }: Needs,
  { headers, url }: HttpServerRequest.HttpServerRequest
) {
  const isForm = headers["content-type"]?.startsWith("application/x-www-form-urlencoded") === true
  if (!isForm) return { sent: false, valid: [] }
  const form = yield* Form.read
  if (!FormSeals.hasSeal(form)) return { sent: false, valid: [] }
  const waiting = pathOf(url) === Paths.confirmBefore ? (yield* query).text("to") : url
  return { sent: true, valid: FormSeals.validSeals(form, yield* rowSeal.ready, waiting) }
})

/**
 * Refuses a form of another person or address. Browsers say that they navigate, and then a form without a seal is
 * refused too, unless servers of an earlier release may have sent its page. `user`: null for a page without a session,
 * whose person the form does not say.
 */
const checkSeal = Effect.fnUntraced(function* (needs: Needs, user: string | null) {
  const request = yield* HttpServerRequest.HttpServerRequest
  if (request.method !== "POST") return
  const { sent, valid } = yield* sealsOf(needs, request)
  const own = valid.filter((seal) => user === null || seal.user === user)
  const isNavigation = request.headers["sec-fetch-mode"] === "navigate"
  if (own.length === 0 && (sent || (isNavigation && !(yield* needs.rowSeal.trustsEarlierServers)))) {
    return yield* otherForm
  }
  const { formPlaces } = yield* CurrentExchange
  formPlaces.push(...own.flatMap(({ place }) => (place === "" ? [] : [place])))
})

/** Binds the forms of the page to the environment, and refuses a sent form that was shown for another one. */
export const bindForms = Effect.fnUntraced(function* (place: FormSeals.PagePlace) {
  const exchange = yield* CurrentExchange
  exchange.pagePlace = place
  if (exchange.formPlaces.some((id) => id !== place.id)) return yield* otherForm
})

/** The page with a seal in each form. Without the key it goes out as it is: its forms could not be taken either. */
const sealed = Effect.fnUntraced(function* ({ rowSeal }: Needs, user: string, page: Response) {
  const { body } = page
  if (body._tag !== "Uint8Array" || !body.contentType.startsWith("text/html")) return page
  const macs = yield* Effect.exit(rowSeal.ready)
  if (Exit.isFailure(macs)) return page
  const { url } = yield* HttpServerRequest.HttpServerRequest
  const { pagePlace: place } = yield* CurrentExchange
  const html = FormSeals.withSeals(Buffer.from(body.body).toString(), macs.value, { user, place, url })
  return HttpServerResponse.setBody(page, HttpBody.text(html, body.contentType))
})

/** Redirects to the sign-in, which continues at the page; a sent form starts again. */
const toSignIn = (request: HttpServerRequest.HttpServerRequest): Response => {
  const next = request.method === "GET" && Paths.isOwnPage(request.url) ? request.url : Paths.home
  return Html.seeOther(next === Paths.home ? Paths.signIn : `${Paths.signIn}?next=${encodeURIComponent(next)}`)
}

/** Guard of pages without a session, such as the sign-in and links with a code. */
const anyone = Effect.fnUntraced(function* <E, R>(
  needs: Needs,
  handler: (visitor: Visitor) => Effect.Effect<Response, E, R>
) {
  const exchange = yield* CurrentExchange
  exchange.via = "dashboard"
  const request = yield* HttpServerRequest.HttpServerRequest
  if (hasOtherLoopbackName(needs, request)) return Html.seeOther(`${needs.ui.origin}${request.url}`)
  const visitor = yield* visitorOf(needs)
  const checked = Effect.zipRight(countAddress(needs.limiter), checkSeal(needs, null))
  return yield* sealed(needs, "", yield* guarded(visitor, Effect.zipRight(checked, handler(visitor))))
})

const teamOr = (caller: Caller, id: TeamId | null): CallerTeam | null =>
  (id === null ? undefined : Policy.teamOf(caller, id)) ?? caller.teams[0] ?? null

/** Number of requests that the person can decide, for the badge of each page. A page's script needs no badge. */
const waitingOf = ({ changes, requests, secondPerson }: Needs, request: HttpServerRequest.HttpServerRequest) =>
  asksJson(request)
    ? Effect.succeed(0)
    : Effect.map(
        Effect.all([requests.list(), changes.list(), secondPerson.listAll()], { concurrency: "unbounded" }),
        ([access, proposals, second]) =>
          [...access.items, ...proposals.items].filter(({ mayDecide }) => mayDecide).length +
          second.items.filter(({ hasLink, mayDecide }) => hasLink || mayDecide).length
      )

/** Guard of pages for a signed-in person: 401 leads to the sign-in. Checks run in the order of the API. */
const person = Effect.fnUntraced(function* <E, R>(
  needs: Needs,
  handler: (visit: Visit) => Effect.Effect<Response, E, R>
) {
  const request = yield* HttpServerRequest.HttpServerRequest
  const exchange = yield* CurrentExchange
  exchange.via = "dashboard"
  if (hasOtherLoopbackName(needs, request)) return Html.seeOther(`${needs.ui.origin}${request.url}`)
  const visitor = yield* visitorOf(needs)
  const session = yield* Effect.either(needs.session)
  if (Either.isLeft(session)) {
    if (!isApiError(session.left)) return yield* guarded(visitor, Effect.fail(session.left))
    return needsSignIn.has(session.left._tag) && !asksJson(request)
      ? toSignIn(request)
      : failed(visitor, request, session.left)
  }
  const caller = session.right
  const { user } = caller
  // A missing second factor comes before any other page.
  if (caller.withheld.length > 0 && !Paths.isOfAccount(visitor.path)) {
    return asksJson(request) ? respond(new SecondFactorMissing()) : Html.seeOther(Paths.factors)
  }
  if (user === null) return failed(visitor, request, new RouteNotFound())
  const answer = guarded(
    { ...visitor, caller },
    Effect.gen(function* () {
      yield* checkSeal(needs, user.id)
      const team = teamOr(caller, yield* needs.sessions.activeTeam(caller))
      return yield* handler({ ...visitor, caller, user, team, waiting: yield* waitingOf(needs, request) })
    }).pipe(Effect.provideService(CurrentCaller, caller))
  )
  return yield* Html.compressed(yield* sealed(needs, user.id, yield* answer))
})

/** The visit with another team, which the path names. */
export const inTeam = (visit: Visit, id: TeamId): Visit => ({ ...visit, team: teamOr(visit.caller, id) })

const make = Effect.gen(function* () {
  const { baseUrl, teamCreation } = yield* AppConfig
  const assets = yield* Assets.load
  const { icon, islands, script, style } = assets
  const { hostname: ownHost, origin } = new URL(baseUrl)
  const needs: Needs = {
    ui: {
      baseUrl,
      origin,
      style: style.href,
      script: script.href,
      islands: islands.href,
      icon: icon.href,
      teamCreation
    },
    ownHost,
    session: yield* OwnSessionCredential,
    sessions: yield* Sessions,
    rowSeal: yield* RowSeal,
    limiter: yield* RateLimiter,
    requests: yield* AccessRequests,
    changes: yield* ChangeRequests,
    secondPerson: yield* SecondPersonRequests
  }
  return {
    assets,
    anyone: <E, R>(handler: (visitor: Visitor) => Effect.Effect<Response, E, R>) => anyone(needs, handler),
    person: <E, R>(handler: (visit: Visit) => Effect.Effect<Response, E, R>) => person(needs, handler)
  }
})

/** One per server, built with the routes, which provide the check of sessions. */
export class Pages extends Context.Tag("dashboard/Pages")<Pages, Effect.Effect.Success<typeof make>>() {}
export const layer = Layer.effect(Pages, make)

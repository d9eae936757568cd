/**
 * How a page is answered: who asks is found out by the check of the API's session routes, failures become pages, and
 * whoever is not signed in is sent to sign in first. The dashboard has no door of its own.
 */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as ParseResult from "effect/ParseResult"
import type * as Schema from "effect/Schema"
import type { VNode } from "preact"
import { type AnyApiError, isApiError, statusOf } from "#schema/ApiError.ts"
import { SessionCredential } from "#schema/Authentication.ts"
import { type Caller, type CallerTeam, CurrentCaller } from "#schema/Caller.ts"
import { RouteNotFound } from "#schema/Errors.ts"
import { TeamId } from "#schema/Ids.ts"
import * as Policy from "#src/access/Policy.ts"
import { AppConfig } from "#src/AppConfig.ts"
import { Sessions } from "#src/credentials/Sessions.ts"
import { countAddress } from "#src/http/AddressLimit.ts"
import { judge, respond } from "#src/http/ErrorEnvelope.ts"
import { CurrentExchange } from "#src/http/RequestContext.ts"
import { RateLimiter } from "#src/limits/RateLimiter.ts"
import { isLoopbackHost } from "#src/net/Loopback.ts"
import { pathOf } from "#src/net/RequestPath.ts"
import * as Form from "./Form.ts"
import * as Html from "./Html.ts"
import * as Paths from "./Paths.ts"
import { ProblemPage } from "./ProblemPage.tsx"
import type { Assets, Visit, Visitor } from "./Visit.ts"

export type Response = HttpServerResponse.HttpServerResponse
/** What the router gives to every handler. */
type Given = HttpRouter.HttpRouter.Provided

/** Who is not known, whatever the reason: signing in helps. */
const needsSignIn: ReadonlySet<string> = new Set([
  "UNAUTHENTICATED",
  "CREDENTIAL_INVALID",
  "CREDENTIAL_EXPIRED",
  "CREDENTIAL_REVOKED"
])

const asksJson = (request: HttpServerRequest.HttpServerRequest) =>
  request.headers["accept"]?.startsWith("application/json") === true
/** The script of a page asks for what it needs alone; a form is answered with a page. */
export const wantsJson = Effect.map(HttpServerRequest.HttpServerRequest, asksJson)

/** A member of the path; what cannot be one is a page that is not there. */
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

/** Reads the form; when the work fails by a rule, what stands in `again` says so next to what was typed. */
export const attempt = <A, E, R>(work: Effect.Effect<A, E, R>): Effect.Effect<Either.Either<A, AnyApiError>, E, R> =>
  Effect.catchIf(
    Effect.map(work, Either.right) as Effect.Effect<Either.Either<A, AnyApiError>, E, R>,
    (error) => isApiError(error),
    (error) => Effect.succeed(Either.left(error as E & AnyApiError))
  )

/** A page that shows a problem has its status, and says when to come back. */
export const shown = (node: VNode, problem: AnyApiError | undefined): Response => {
  if (problem === undefined) return Html.page(node)
  const page = Html.page(node, { status: statusOf(problem) })
  const retryAfter = respond(problem).headers["retry-after"]
  return retryAfter === undefined ? page : HttpServerResponse.setHeader(page, "retry-after", retryAfter)
}

const hostname = (host: string) => host.replace(/:\d+$/, "").toLowerCase()

export const make = (assets: Assets) =>
  Effect.gen(function* () {
    const { baseUrl } = yield* AppConfig
    const session = yield* SessionCredential
    const sessions = yield* Sessions
    const limiter = yield* RateLimiter
    const { hostname: ownHost, origin } = new URL(baseUrl)
    const ui = { baseUrl, origin, style: assets.style.href, script: assets.script.href }

    /**
     * Whoever types `localhost` for a server that calls itself `127.0.0.1` would see pages whose forms are refused as
     * another origin's: such a visit goes on under the server's own name.
     */
    const strayed = (request: HttpServerRequest.HttpServerRequest): boolean => {
      const host = hostname(request.headers["host"] ?? ownHost)
      return request.method === "GET" && host !== ownHost && isLoopbackHost(host) && isLoopbackHost(ownHost)
    }

    const visitor = Effect.gen(function* () {
      const request = yield* HttpServerRequest.HttpServerRequest
      const made: Visitor = {
        ui,
        caller: null,
        path: pathOf(request.url),
        now: yield* Clock.currentTimeMillis,
        notice: (yield* query).text("done")
      }
      return made
    })

    const failed = (who: Visitor | Visit, request: HttpServerRequest.HttpServerRequest, error: AnyApiError): Response =>
      asksJson(request) ? respond(error) : shown(ProblemPage({ visit: who, problem: error }), error)

    /** Whatever went wrong is a page, and in the log where the API would log it. */
    const guarded = <E, R>(who: Visitor | Visit, work: Effect.Effect<Response, E, R>) =>
      Effect.flatMap(HttpServerRequest.HttpServerRequest, (request) =>
        Effect.catchAllCause(work, (cause) =>
          Effect.flatMap(CurrentExchange, (exchange) =>
            Effect.map(judge(cause, exchange, request.method, who.path), (told) =>
              isApiError(told) ? failed(who, request, told) : told
            )
          )
        )
      )

    /** Where a page continues after signing in; a form that was sent starts again on its page. */
    const toSignIn = (request: HttpServerRequest.HttpServerRequest): Response => {
      const next = request.method === "GET" && Paths.isOwnPage(request.url) ? request.url : Paths.home
      return Html.seeOther(next === Paths.home ? Paths.signIn : `${Paths.signIn}?next=${encodeURIComponent(next)}`)
    }

    /** For everybody: signing in, links with a code. */
    const open = <E>(handler: (who: Visitor) => Effect.Effect<Response, E, Given>) =>
      Effect.gen(function* () {
        const exchange = yield* CurrentExchange
        exchange.via = "dashboard"
        const request = yield* HttpServerRequest.HttpServerRequest
        if (strayed(request)) return Html.seeOther(`${origin}${request.url}`)
        const who = yield* visitor
        return yield* guarded(who, Effect.zipRight(countAddress(limiter), handler(who)))
      })

    const standing = (caller: Caller, id: TeamId | null): CallerTeam | null =>
      (id === null ? undefined : Policy.teamOf(caller, id)) ?? caller.teams[0] ?? null

    /** For a person with a session: 401 leads to the sign-in page; the order of checks is the API's. */
    const person = <E>(handler: (visit: Visit) => Effect.Effect<Response, E, Given | CurrentCaller>) =>
      Effect.gen(function* () {
        const request = yield* HttpServerRequest.HttpServerRequest
        const exchange = yield* CurrentExchange
        exchange.via = "dashboard"
        if (strayed(request)) return Html.seeOther(`${origin}${request.url}`)
        const who = yield* visitor
        const known = yield* Effect.either(session)
        if (Either.isLeft(known)) {
          if (!isApiError(known.left)) return yield* guarded(who, Effect.fail(known.left))
          return needsSignIn.has(known.left._tag) && !asksJson(request)
            ? toSignIn(request)
            : failed(who, request, known.left)
        }
        const caller = known.right
        const { user } = caller
        if (user === null) return failed(who, request, new RouteNotFound())
        return yield* guarded(
          { ...who, caller },
          Effect.gen(function* () {
            const team = standing(caller, yield* sessions.activeTeam(caller))
            return yield* handler({ ...who, caller, user, team })
          }).pipe(Effect.provideService(CurrentCaller, caller))
        )
      })

    /** A page of one team, which its path names. */
    const inTeam = (visit: Visit, id: TeamId): Visit => ({ ...visit, team: standing(visit.caller, id) })

    /** A page of the team that its path names. Whether the person may see it is for the permit to say. */
    const team = <E>(handler: (teamId: TeamId, visit: Visit) => Effect.Effect<Response, E, Given | CurrentCaller>) =>
      person((visit) => Effect.flatMap(param("teamId", TeamId), (id) => handler(id, inTeam(visit, id))))

    return { ui, open, person, team, inTeam } as const
  })
export type Pages = Effect.Effect.Success<ReturnType<typeof make>>

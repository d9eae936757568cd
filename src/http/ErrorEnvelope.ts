/**
 * The last word on every answer: each failure of each route becomes `{statusCode, code, message, field?, …}` (decisions
 * 3), and each answer gets the headers that all answers have. No text of a request can pass through here: what decoding
 * says about an input is looked up by the kind of issue, never repeated (architecture S1, S2, S4).
 */
import type * as HttpApi from "@effect/platform/HttpApi"
import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as HttpApiError from "@effect/platform/HttpApiError"
import type * as HttpApp from "@effect/platform/HttpApp"
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import type * as Scope from "effect/Scope"
import { ServerApi } from "#schema/Api.ts"
import { type AnyApiError, bodyOf, isApiError, statusOf } from "#schema/ApiError.ts"
import {
  DependencyUnavailable,
  InternalError,
  type RateLimited,
  RouteNotFound,
  ValidationFailed
} from "#schema/Errors.ts"
import { DependencyDown, isDatabaseUnavailable } from "#src/access/Dependency.ts"
import { RequestInfo } from "#src/access/RequestInfo.ts"
import { AppConfig } from "#src/AppConfig.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { RateLimiter } from "#src/limits/RateLimiter.ts"
import { pathOf } from "#src/net/RequestPath.ts"
import { countAddress, countDeviceStart } from "./AddressLimit.ts"
import { causeText } from "./CauseText.ts"
import * as LostParameter from "./LostParameter.ts"
import * as RequestBody from "./RequestBody.ts"
import { CurrentExchange, type Exchange, exchangeOf, trustedProxies } from "./RequestContext.ts"

/** What an answer recommends when a dependency is down: recovery takes seconds (decisions 11). */
const dependencyRetrySeconds = 2

interface Issue {
  readonly _tag: string
  readonly path: ReadonlyArray<PropertyKey>
  readonly message: string
}

/**
 * The sentences of our own filters all start like this; the library's start with `Expected`, `Unable`, `is missing`,
 * `is unexpected` … and quote the input. The alphabet is that of our sentences, so that even a sentence that was built
 * wrongly could not carry much.
 */
const ownSentence = /^(?:must |is too |is not accepted: )[\w .,:;()$+{}-]{1,160}$/

const sentenceOf = (issue: Issue): string => {
  switch (issue._tag) {
    case "Missing":
      return "is required"
    case "Unexpected":
      return "is not accepted here"
    default:
      return ownSentence.test(issue.message) ? issue.message : "is not valid"
  }
}

const maxField = 300

/** Of several issues (a union reports each branch) the one that points deepest is the one that helps. */
export const validationFailed = (issues: ReadonlyArray<Issue>): ValidationFailed => {
  let deepest = issues[0]
  for (const issue of issues) if (issue.path.length > deepest.path.length) deepest = issue
  if (deepest === undefined) return new ValidationFailed()
  const sentence = sentenceOf(deepest)
  const field = deepest.path.map(String).join(".")
  if (field === "") return new ValidationFailed({ message: `The request ${sentence}.` })
  return new ValidationFailed({ field: field.slice(0, maxField), message: `This member ${sentence}.` })
}

/** How the platform prints a schema that makes an answer: there the failing value is ours (architecture H9). */
const answersSchema = "(<declaration schema>"

type Verdict =
  | { readonly answer: AnyApiError; readonly log?: "error" | "warning" }
  | { readonly response: HttpServerResponse.HttpServerResponse }

const verdictOf = (cause: Cause.Cause<unknown>): Verdict => {
  const error = Cause.squash(cause)
  if (isApiError(error)) return { answer: error }
  if (error instanceof HttpApiError.HttpApiDecodeError) {
    return error.message.startsWith(answersSchema)
      ? { answer: new InternalError(), log: "error" }
      : { answer: validationFailed(error.issues) }
  }
  if (Predicate.isTagged(error, "RequestError"))
    return { answer: new ValidationFailed({ message: "The body is not readable." }) }
  if (HttpServerResponse.isServerResponse(error)) return { response: error }
  if (
    error instanceof DependencyDown ||
    Predicate.isTagged(error, "VaultUnavailable") ||
    isDatabaseUnavailable(cause)
  ) {
    return { answer: new DependencyUnavailable(), log: "warning" }
  }
  return { answer: new InternalError(), log: "error" }
}

const isNoRoute = (cause: Cause.Cause<unknown>): boolean =>
  cause._tag === "Fail" && Predicate.isTagged(cause.error, "RouteNotFound")

const headersOf = (error: AnyApiError): Record<string, string> => {
  switch (statusOf(error)) {
    case 401:
      return { "www-authenticate": "Bearer" }
    case 429:
      return "retryAfterSeconds" in error ? { "retry-after": String(error.retryAfterSeconds) } : {}
    default:
      return error._tag === "DEPENDENCY_UNAVAILABLE" ? { "retry-after": String(dependencyRetrySeconds) } : {}
  }
}

export const respond = (error: AnyApiError): HttpServerResponse.HttpServerResponse =>
  HttpServerResponse.unsafeJson(bodyOf(error), { status: statusOf(error), headers: headersOf(error) })

/** A path without what identifies anything, for the log. */
const shapeOf = (path: string): string =>
  path
    .split("/")
    .map((segment) => (/^[a-z][a-z.-]{0,40}$/.test(segment) || segment === "" ? segment : ":"))
    .join("/")

/** What a failure is told as; the log has what the answer keeps to itself. */
export const judge = (
  cause: Cause.Cause<unknown>,
  exchange: Exchange,
  method: string,
  path: string
): Effect.Effect<AnyApiError | HttpServerResponse.HttpServerResponse> => {
  // The client is gone, or the server had to stop: there is nobody to answer.
  if (Cause.isInterruptedOnly(cause)) return Effect.failCause(cause as Cause.Cause<never>)
  const verdict = verdictOf(cause)
  if ("response" in verdict) return Effect.succeed(verdict.response)
  if (verdict.log === undefined) return Effect.succeed(verdict.answer)
  const log = verdict.log === "error" ? Effect.logError("request failed") : Effect.logWarning("dependency unavailable")
  return Effect.as(
    Effect.annotateLogs(log, { requestId: exchange.id, method, path: shapeOf(path), cause: causeText(cause) }),
    verdict.answer
  )
}

const answer = (cause: Cause.Cause<unknown>, exchange: Exchange, method: string, path: string) =>
  Effect.map(judge(cause, exchange, method, path), (told) => (isApiError(told) ? respond(told) : told))

const publicDocuments = /^\/(?:\.well-known\/|(?:dashboard\/)?openapi\.json$)/

/** A browser that was here once never asks in plain http again (RFC 6797), for a year from its last visit. */
const strictTransport = "max-age=31536000"

const finish = (
  response: HttpServerResponse.HttpServerResponse,
  exchange: Exchange,
  path: string,
  overTls: boolean
) => {
  const headers: Record<string, string> = {
    "x-request-id": exchange.id,
    "x-content-type-options": "nosniff",
    "cross-origin-resource-policy": "same-origin"
  }
  if (overTls) headers["strict-transport-security"] = strictTransport
  if (exchange.authenticated || (response.headers["cache-control"] === undefined && !publicDocuments.test(path))) {
    headers["cache-control"] = "no-store"
  }
  const taken = exchange.rateLimit
  if (taken !== undefined) {
    headers["ratelimit-limit"] = String(taken.limit)
    headers["ratelimit-remaining"] = String(taken.remaining)
    headers["ratelimit-reset"] = String(taken.resetSeconds)
  }
  return HttpServerResponse.setHeaders(response, headers)
}

/**
 * Paths that two readers could read differently (dot segments, encoded separators, `;`) name no route. Nor do letters,
 * digits and `-_~` that need no encoding (RFC 3986 2.3): the router decodes a path, and what is decided by a path as it
 * stands (limits, refusals of other sites) must not be passed by in another spelling of it.
 */
const ambiguous = /%(?:2[def]|3\d|4[1-9a-f]|5[\dacf]|6[1-9a-f]|7[\dae]|00)|[\\;#]|\/\/|\/\.{1,2}(?:\/|$)|^[^/]/i

/** What a route that nobody vouches for counts against, and whether it refuses parameters that it does not know. */
interface Open {
  readonly limits: "none" | "address" | "address and start"
  readonly strict: boolean
}

/** Routes without a credential in their declaration, as `METHOD path`. Health is exempt from limits. */
const openRoutes = (): ReadonlyMap<string, Open> => {
  const found = new Map<string, Open>()
  const { groups } = ServerApi as unknown as HttpApi.HttpApi.AnyWithProps
  for (const group of Object.values(groups)) {
    for (const endpoint of Object.values(group.endpoints)) {
      if (group.middlewares.size + endpoint.middlewares.size > 0) continue
      const { path } = endpoint
      found.set(`${endpoint.method} ${path}`, {
        limits: path.startsWith("/health/") ? "none" : path === "/auth/cli/device" ? "address and start" : "address",
        // OAuth 2.1 3.1 has unknown parameters ignored.
        strict: group.identifier !== "oauth"
      })
    }
  }
  return found
}

export const layer = HttpApiBuilder.middleware(
  Effect.gen(function* () {
    const crypto = yield* Crypto
    const limiter = yield* RateLimiter
    const { baseUrl, trustedProxies: proxies } = yield* AppConfig
    const overTls = baseUrl.startsWith("https:")
    const trusted = trustedProxies(proxies)
    const open = openRoutes()
    const counted = countAddress(limiter)
    const limits: Record<Open["limits"], Effect.Effect<unknown, RateLimited>> = {
      none: Effect.void,
      address: counted,
      "address and start": Effect.zipRight(counted, countDeviceStart(limiter))
    }

    /** A route that is not there is asked for by nobody in particular. */
    const lost = Effect.match(counted, { onFailure: respond, onSuccess: () => respond(new RouteNotFound()) })

    return (app: HttpApp.Default): HttpApp.Default => {
      /** Limits come before the shape of a request (decisions 3). */
      const opened = (route: Open, query: string): HttpApp.Default<unknown> =>
        limits[route.limits].pipe(
          Effect.zipRight(LostParameter.refuse(route.strict && LostParameter.isIn(query))),
          Effect.zipRight(app)
        )
      return Effect.flatMap(crypto.uuid, (id) =>
        Effect.contextWithEffect((context: Context.Context<HttpServerRequest.HttpServerRequest>) => {
          const request = Context.get(context, HttpServerRequest.HttpServerRequest)
          const path = pathOf(request.url)
          const { method } = request
          const reads = method === "GET" || method === "HEAD"
          const exchange = exchangeOf(id, request, trusted)
          const services = new Map(context.unsafeMap)
          services.set(RequestInfo.key, exchange)
          services.set(CurrentExchange.key, exchange)
          if (!reads) services.set(HttpServerRequest.HttpServerRequest.key, RequestBody.bounded(request, path))
          const route = open.get(`${reads ? "GET" : method} ${path}`)
          const answered: HttpApp.Default<unknown> = ambiguous.test(path)
            ? lost
            : route === undefined
              ? app
              : opened(route, request.url.slice(path.length))
          return answered.pipe(
            Effect.catchAllCause((cause) => (isNoRoute(cause) ? lost : answer(cause, exchange, method, path))),
            Effect.map((response) => finish(response, exchange, path, overTls)),
            Effect.mapInputContext(() =>
              Context.unsafeMake<HttpServerRequest.HttpServerRequest | Scope.Scope>(services)
            )
          )
        })
      )
    }
  })
)

/**
 * What happens around every route: the request gets its id and a bounded body, paths and open routes are checked before
 * anything runs, a failure becomes its answer (`ErrorEnvelope.ts`), and each answer gets the headers that all have.
 */
import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import type * as HttpApp from "@effect/platform/HttpApp"
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import type * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import type * as Scope from "effect/Scope"
import { type RateLimited, RouteNotFound } from "#schema/Errors.ts"
import { RequestInfo } from "#src/access/RequestInfo.ts"
import { AppConfig } from "#src/AppConfig.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { RateLimiter } from "#src/limits/RateLimiter.ts"
import { pathOf } from "#src/net/RequestPath.ts"
import { countAddress, countDeviceStart } from "./AddressLimit.ts"
import { answer, respond } from "./ErrorEnvelope.ts"
import * as LostParameter from "./LostParameter.ts"
import { type OpenRoute, openRoutes } from "./OpenRoutes.ts"
import * as RequestBody from "./RequestBody.ts"
import { CurrentExchange, type Exchange, exchangeOf, trustedProxies } from "./RequestContext.ts"

/**
 * Paths that two readers could read differently (dot segments, encoded separators, `;`) name no route. Nor do letters,
 * digits and `-_~` that need no encoding (RFC 3986 2.3): the router decodes a path, and what is decided by a path as it
 * is written (limits, refusals of other sites) must not be avoided by another spelling of it.
 */
const ambiguous = /%(?:2[def]|3\d|4[1-9a-f]|5[\dacf]|6[1-9a-f]|7[\dae]|00)|[\\;#]|\/\/|\/\.{1,2}(?:\/|$)|^[^/]/i

const isNoRoute = (cause: Cause.Cause<unknown>): boolean =>
  cause._tag === "Fail" && Predicate.isTagged(cause.error, "RouteNotFound")

const publicDocuments = /^\/(?:\.well-known\/|(?:dashboard\/)?openapi\.json$)/

/** A browser that was here once does not ask in plain http again (RFC 6797), for a year from its last visit. */
const strictTransport = "max-age=31536000"

const withHeaders = (
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

type RequestContext = Context.Context<HttpServerRequest.HttpServerRequest>

/**
 * What the route runs with: the scope of the request is in `context` too, which the platform's type leaves out. One
 * copy of the map, written in place: `Context.add` copies it for each service, three times for every request.
 */
const contextOf = (context: RequestContext, request: HttpServerRequest.HttpServerRequest, exchange: Exchange) => {
  const services = new Map(context.unsafeMap)
  services.set(HttpServerRequest.HttpServerRequest.key, request)
  services.set(RequestInfo.key, exchange)
  services.set(CurrentExchange.key, exchange)
  return Context.unsafeMake<HttpServerRequest.HttpServerRequest | Scope.Scope>(services)
}

const make = Effect.gen(function* () {
  const crypto = yield* Crypto
  const limiter = yield* RateLimiter
  const { baseUrl, trustedProxies: proxies } = yield* AppConfig
  const overTls = baseUrl.startsWith("https:")
  const trusted = trustedProxies(proxies)
  const open = openRoutes()
  const counted = countAddress(limiter)
  const limits: Record<OpenRoute["limits"], Effect.Effect<unknown, RateLimited>> = {
    none: Effect.void,
    address: counted,
    "address and start": Effect.zipRight(counted, countDeviceStart(limiter))
  }
  /** A request for a route that does not exist counts against its address. */
  const noRoute = Effect.match(counted, { onFailure: respond, onSuccess: () => respond(new RouteNotFound()) })

  return (app: HttpApp.Default): HttpApp.Default => {
    /** Limits come before the shape of a request. */
    const opened = (route: OpenRoute, query: string): HttpApp.Default<unknown> =>
      limits[route.limits].pipe(
        Effect.zipRight(LostParameter.refuse(route.strict && LostParameter.isIn(query))),
        Effect.zipRight(app)
      )
    const handle = (context: RequestContext, id: string): HttpApp.Default => {
      const request = Context.get(context, HttpServerRequest.HttpServerRequest)
      const { method, url } = request
      const path = pathOf(url)
      const reads = method === "GET" || method === "HEAD"
      const exchange = exchangeOf(id, request, trusted)
      const route = open.get(`${reads ? "GET" : method} ${path}`)
      const answered: HttpApp.Default<unknown> = ambiguous.test(path)
        ? noRoute
        : route === undefined
          ? app
          : opened(route, url.slice(path.length))
      return answered.pipe(
        Effect.catchAllCause((cause) => (isNoRoute(cause) ? noRoute : answer(cause, exchange, method, path))),
        Effect.map((response) => withHeaders(response, exchange, path, overTls)),
        Effect.mapInputContext(() => contextOf(context, reads ? request : RequestBody.bounded(request, path), exchange))
      )
    }
    return Effect.flatMap(crypto.uuid, (id) =>
      Effect.contextWithEffect((context: RequestContext) => handle(context, id))
    )
  }
})

export const layer = HttpApiBuilder.middleware(make)

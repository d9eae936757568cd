/**
 * One pass over every request: id, route, limits of open routes, then the route itself (`Endpoints.ts` for the
 * HttpApi). `ErrorEnvelope.ts` turns a failure into a response, and `Answer.ts` sends it with the common headers. Steps
 * that never wait run before the request has a fiber. docs/architecture.md lists the cost of each stage.
 */
import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as HttpServerRespondable from "@effect/platform/HttpServerRespondable"
import type * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Cause from "effect/Cause"
import * as Chunk from "effect/Chunk"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Runtime from "effect/Runtime"
import type * as Scope from "effect/Scope"
import * as FindMyWay from "find-my-way-ts"
import type { IncomingMessage } from "node:http"
import { type RateLimited, RouteNotFound } from "#schema/Errors.ts"
import { Probe } from "#src/trail/Probe.ts"
import { Busy } from "#src/database/Dependency.ts"
import { RequestInfo } from "#src/database/RequestInfo.ts"
import { AppConfig } from "#src/AppConfig.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { RateLimiter } from "#src/limits/RateLimiter.ts"
import { unknownAddress } from "#src/net/ForwardedFor.ts"
import { countAddress, countDeviceStart } from "./AddressLimit.ts"
import * as Answer from "./Answer.ts"
import { Declared, type RequestServices } from "./Endpoints.ts"
import { answer, respond } from "./ErrorEnvelope.ts"
import * as LostParameter from "./LostParameter.ts"
import type { Handler } from "./Metrics.ts"
import * as NodeRequest from "./NodeRequest.ts"
import { type OpenRoute, openRoutes } from "./OpenRoutes.ts"
import { CurrentExchange, type Exchange, exchangeOf, pathOf, queryOf, trustedProxies } from "./RequestContext.ts"
import * as Tracing from "./Tracing.ts"

/**
 * Paths that two parsers could read differently (dot segments, encoded separators, `;`) match no route. The same holds
 * for encoded letters, digits and `-_~`, which need no encoding (RFC 3986 2.3). The router decodes a path, while limits
 * and cross-site checks compare it as written: another spelling must not avoid them.
 */
const ambiguous = /%(?:2[def]|3\d|4[1-9a-f]|5[\dacf]|6[1-9a-f]|7[\dae]|00)|[\\;#]|\/\/|\/\.{1,2}(?:\/|$)|^[^/]/i

/** Paths are case-sensitive and a trailing slash is another path (docs/contract/errors.md). */
const routerConfig = {
  caseSensitive: true,
  ignoreTrailingSlash: false,
  ignoreDuplicateSlashes: false,
  maxParamLength: 4096
}

type Answering<R> = Effect.Effect<HttpServerResponse.HttpServerResponse, unknown, R>

interface Entry {
  readonly route: HttpRouter.Route<unknown, unknown>
  readonly open: OpenRoute | undefined
  /** True for routes outside the HttpApi, such as `/mcp`: they hold resources until the response is sent. */
  readonly scoped: boolean
  readonly answer: Answering<RequestServices | Scope.Scope>
}

const routeTable = Effect.gen(function* () {
  const beside = yield* (yield* HttpApiBuilder.Router).router
  const open = openRoutes()
  const table = FindMyWay.make<Entry>(routerConfig)
  const add = (route: HttpRouter.Route<unknown, unknown>, scoped: boolean, answer: Entry["answer"]) => {
    const entry = { route, scoped, answer, open: open.get(`${route.method} ${route.path}`) }
    if (route.method === "*") table.all(route.path, entry)
    else table.on(route.method, route.path, entry)
  }
  for (const route of yield* Declared) add(route, false, route.handler as Answering<RequestServices>)
  for (const route of Chunk.toReadonlyArray(beside.routes)) {
    // The platform's type requires services for sending files, which none of our routes does.
    const handler = route.handler as Effect.Effect<
      HttpServerRespondable.Respondable,
      unknown,
      HttpRouter.HttpRouter.Provided
    >
    add(route, true, Effect.flatMap(handler, HttpServerRespondable.toResponse))
  }
  return (method: string, url: string) =>
    table.find(method, url) ?? (method === "HEAD" ? table.find("GET", url) : undefined)
})

type Routed = Pick<Entry, "answer" | "scoped">
type Match = NonNullable<ReturnType<Effect.Effect.Success<typeof routeTable>>>

type Request = HttpServerRequest.HttpServerRequest

/**
 * Holds only facts about this request; handlers close over their services. The map belongs to the request, so later
 * steps add to it in place.
 */
const contextOf = (request: Request, exchange: Exchange) =>
  new Map<string, unknown>([
    [HttpServerRequest.HttpServerRequest.key, request],
    [RequestInfo.key, exchange],
    [CurrentExchange.key, exchange]
  ])

const addRoute = (services: Map<string, unknown>, { handler, params, searchParams }: Match) => {
  services.set(HttpServerRequest.ParsedSearchParams.key, searchParams)
  services.set(HttpRouter.RouteContext.key, {
    [HttpRouter.RouteContextTypeId]: HttpRouter.RouteContextTypeId,
    route: handler.route,
    params
  })
}

/** Limits of routes without a credential. They count before the input is checked. */
const limitsWith = (limiter: RateLimiter) => {
  const countOne = countAddress(limiter)
  const limits: Record<Exclude<OpenRoute["limits"], "none">, Effect.Effect<unknown, RateLimited>> = {
    address: countOne,
    "address and start": Effect.zipRight(countOne, countDeviceStart(limiter))
  }
  return {
    /** Counts a request for a missing route against its address. */
    noRoute: Effect.match(countOne, { onFailure: respond, onSuccess: () => respond(new RouteNotFound()) }),
    withLimits: ({ limits: kind, strict }: OpenRoute, url: string, answer: Entry["answer"]): Entry["answer"] => {
      const isLost = strict && LostParameter.isIn(queryOf(url))
      const checked = isLost ? Effect.zipRight(LostParameter.refuse(true), answer) : answer
      return kind === "none" ? checked : Effect.zipRight(limits[kind], checked)
    }
  }
}

/** Proxies that are reported by name. Later ones are misconfigured alike. */
const maxReported = 100

/** Logs a warning about each proxy once. */
const unreadableProxies = (log: (message: Effect.Effect<void>) => void) => {
  const reported = new Set<string>()
  return (proxy: string) => {
    if (reported.has(proxy) || reported.size >= maxReported) return
    reported.add(proxy)
    log(
      Effect.logWarning(
        `The proxy ${proxy} reports client addresses in a form that cannot be read. Limits count its clients as one, and tokens bound to addresses refuse them.`
      )
    )
  }
}

/** Milliseconds of work on one request (docs/contract/outages.md). */
const deadline = 10_000
/** Milliseconds between two checks of a request whose body is incomplete at the deadline. */
const recheck = 100

/**
 * Calls `expire` once when the work is late, unless the returned function is called first. The time in which the body
 * arrives and the response leaves does not count, since both depend on the client. A missing dependency fails earlier,
 * so lateness means overload. A timer costs less than a race of fibers.
 */
export const watchDeadline = (
  source: Pick<IncomingMessage, "complete">,
  expire: () => void,
  millis = deadline
): (() => void) => {
  const due = () => {
    if (source.complete) expire()
    else timer = setTimeout(() => (source.complete ? (timer = setTimeout(due, millis)) : due()), recheck)
  }
  let timer = setTimeout(due, millis)
  return () => clearTimeout(timer)
}

/** `traced` opens a span for each request. */
export const make = ({ traced }: { readonly traced: boolean }) =>
  Effect.gen(function* () {
    const crypto = yield* Crypto
    const limiter = yield* RateLimiter
    const probe = yield* Probe
    const { baseUrl, trustedProxies: proxies } = yield* AppConfig
    const clock = yield* Effect.clock
    const { fiberRefs, runtimeFlags } = yield* Effect.runtime<never>()
    const find = yield* routeTable
    const { noRoute, withLimits } = limitsWith(limiter)
    const overTls = baseUrl.startsWith("https:")
    const trusted = trustedProxies(proxies)

    const routed = ({ method, url }: Request, exchange: Exchange, services: Map<string, unknown>): Routed => {
      const match = ambiguous.test(exchange.path) ? undefined : find(method, url)
      if (match === undefined) return { answer: noRoute, scoped: false }
      const { answer, open, route, scoped } = match.handler
      exchange.route = route.path
      addRoute(services, match)
      return { answer: open === undefined ? answer : withLimits(open, url, answer), scoped }
    }

    const log = Runtime.runFork(Runtime.make({ context: Context.empty(), fiberRefs, runtimeFlags }))
    const reportUnreadable = unreadableProxies((message) => void log(message))

    const handle: Handler = (incoming, outgoing) => {
      const path = pathOf(incoming.url ?? "")
      const exchange = exchangeOf(crypto.uuidAt(clock.unsafeCurrentTimeMillis()), incoming, path, trusted)
      if (exchange.ip === unknownAddress) reportUnreadable(incoming.socket.remoteAddress ?? "")
      const request = NodeRequest.make(incoming, path)
      const services = contextOf(request, exchange)
      const options = { head: request.method === "HEAD", overTls }
      const failed = (cause: Cause.Cause<unknown>) => answer(cause, exchange, request.method, path)
      const send = (response: HttpServerResponse.HttpServerResponse) => {
        inTime()
        return Answer.send(outgoing, response, exchange, options)
      }
      const work = Effect.suspend(() => {
        const { answer, scoped } = routed(request, exchange, services)
        const response = traced ? Tracing.spanned(request, exchange, Effect.catchAllCause(answer, failed)) : answer
        return scoped ? Effect.scoped(Effect.flatMap(response, send)) : Effect.flatMap(response, send)
      })
      const whole = Effect.catchAllCause(work, (cause) => Effect.flatMap(failed(cause), send))
      const context = Context.unsafeMake<RequestServices | Scope.Scope>(services)
      const runFork = Runtime.runFork(Runtime.make({ context, fiberRefs, runtimeFlags }))
      const inTime = watchDeadline(incoming, () => {
        runFork(Effect.flatMap(failed(Cause.fail(new Busy())), send))
        fiber.unsafeInterruptAsFork(fiber.id())
      })
      const fiber = runFork(whole)
      // After this event, no client waits for the response.
      outgoing.once("close", () => {
        inTime()
        if (exchange.databaseFailed) probe.doubt()
        if (!outgoing.writableEnded) fiber.unsafeInterruptAsFork(fiber.id())
      })
      return exchange
    }
    return handle
  })

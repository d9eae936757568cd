/**
 * Requests, counted and timed where they are seen whole: around Node's handler, from the header to the last byte. The
 * router says which route it was; an address of no route is counted as one, whatever it was.
 */
import * as NodeHttpServerRequest from "@effect/platform-node/NodeHttpServerRequest"
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { IncomingMessage, RequestListener } from "node:http"
import * as Metrics from "#src/telemetry/Metrics.ts"

const routes = new WeakMap<IncomingMessage, string>()

/** The router, with each route noting its template on the request. */
export const noting = <E, R>(router: HttpRouter.HttpRouter<E, R>) => {
  const noted = <A, E, R>(path: string, handler: Effect.Effect<A, E, R>) =>
    Effect.flatMap(HttpServerRequest.HttpServerRequest, (request) => {
      routes.set(NodeHttpServerRequest.toIncomingMessage(request), path)
      return handler
    })
  const all = HttpRouter.fromIterable(
    Chunk.map(router.routes, (route) =>
      HttpRouter.makeRoute(route.method, route.path, noted(route.path, route.handler), {
        prefix: Option.getOrUndefined(route.prefix),
        uninterruptible: route.uninterruptible
      })
    )
  )
  return Chunk.reduce(router.mounts, all, (router, [prefix, app, options]) =>
    HttpRouter.mountApp(router, prefix as `/${string}`, noted(`${prefix}/*`, app), options)
  )
}

/** As proxies log it: the client went away before its answer was complete. */
const clientGone = 499

export const counted =
  (handler: RequestListener): RequestListener =>
  (request, response) => {
    const started = performance.now()
    Metrics.requestStarted()
    response.once("close", () => {
      const contentType = response.getHeader("content-type")
      const streams = typeof contentType === "string" && contentType.startsWith("text/event-stream")
      Metrics.requestEnded(
        routes.get(request) ?? "none",
        request.method ?? "",
        response.writableFinished || streams ? response.statusCode : clientGone,
        streams ? undefined : performance.now() - started
      )
    })
    handler(request, response)
  }

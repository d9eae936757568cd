/**
 * One span per request: template of the route, method, status, request id. The platform's own span carries the whole
 * address and all headers, including invitation codes and names, so it stays switched off.
 */
import type * as HttpApp from "@effect/platform/HttpApp"
import type * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as HttpTraceContext from "@effect/platform/HttpTraceContext"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { Exchange } from "./RequestContext.ts"

/** Accepts only hex, because a caller's trace ids are exported unchanged (W3C Trace Context, version 00). */
const traceparent = /^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/

const parentOf = (request: HttpServerRequest.HttpServerRequest) =>
  traceparent.test(request.headers["traceparent"] ?? "")
    ? Option.getOrUndefined(HttpTraceContext.w3c(request.headers))
    : undefined

export const spanned = <E, R>(
  request: HttpServerRequest.HttpServerRequest,
  exchange: Exchange,
  app: HttpApp.Default<E, R>
): HttpApp.Default<E, R> => {
  const parent = parentOf(request)
  return Effect.useSpan(
    "http.server",
    {
      kind: "server",
      captureStackTrace: false,
      attributes: {
        "http.request.method": request.method,
        "ampoule.request_id": exchange.id
      },
      ...(parent === undefined ? { root: true } : { parent })
    },
    (span) =>
      Effect.tap(Effect.withParentSpan(app, span), ({ status }) =>
        Effect.sync(() => {
          if (exchange.route !== "none") span.attribute("http.route", exchange.route)
          span.attribute("http.response.status_code", status)
        })
      )
  )
}

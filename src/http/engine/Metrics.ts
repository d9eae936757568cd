/**
 * Counts and times requests around the handler, from the header to the last byte. All addresses without a route count
 * under one name.
 */
import type { IncomingMessage, ServerResponse } from "node:http"
import * as Metrics from "#src/telemetry/Metrics.ts"
import type { Exchange } from "./RequestContext.ts"

/** Starts the response and returns the request's exchange. */
export type Handler = (request: IncomingMessage, response: ServerResponse) => Exchange

/** Status that proxies log for a client that left before its response was complete. */
const clientGone = 499

export const counted =
  (handler: Handler): Handler =>
  (request, response) => {
    const started = performance.now()
    Metrics.requestStarted()
    const exchange = handler(request, response)
    response.once("close", () =>
      Metrics.requestEnded(
        exchange.route,
        request.method ?? "",
        response.writableFinished || exchange.streams ? response.statusCode : clientGone,
        exchange.streams ? undefined : performance.now() - started
      )
    )
    return exchange
  }

/**
 * Requests, counted and timed where they are seen whole: around the handler, from the header to the last byte. An
 * address of no route is counted as one, whatever it was.
 */
import type { IncomingMessage, ServerResponse } from "node:http"
import * as Metrics from "#src/telemetry/Metrics.ts"
import type { Exchange } from "./RequestContext.ts"

/** Starts to answer. */
export type Handler = (request: IncomingMessage, response: ServerResponse) => Exchange

/** As proxies log it: the client went away before its answer was complete. */
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

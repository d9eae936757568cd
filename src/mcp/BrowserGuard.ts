/** Limits the pages that may call the endpoint: checks `Host` and `Origin`, and responds to preflights. */
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Effect from "effect/Effect"
import { isLoopbackHost } from "#src/net/Loopback.ts"
import { type HttpResponse, rpcError, sessionHeader, toolsHeader } from "./Message.ts"

export const allowedMethods = "GET, POST, DELETE"

const allowedHeaders = [
  "authorization",
  "content-type",
  "accept",
  "last-event-id",
  "mcp-protocol-version",
  sessionHeader,
  toolsHeader,
  "mcp-method",
  "mcp-name",
  "mcp-param-project",
  "mcp-param-environment"
].join(", ")

const parse = (text: string): URL | undefined => (URL.canParse(text) ? new URL(text) : undefined)

/** Refuses other names that resolve to this address (DNS rebinding, CVE-2025-66414). */
const isHost = (base: URL, header: string | undefined): boolean => {
  if (header === base.host) return true
  if (header === undefined || !/^[\w.:[\]-]{1,255}$/.test(header)) return false
  const hostname = parse(`http://${header}`)?.hostname
  return (
    hostname !== undefined &&
    (hostname === base.hostname || (isLoopbackHost(base.hostname) && isLoopbackHost(hostname)))
  )
}

/** Trusts a page on the same machine like a program on it. Any other page must have this exact origin. */
const isOrigin = (base: URL, header: string | undefined): boolean => {
  if (header === undefined || header === base.origin) return true
  const origin = parse(header)
  return (
    origin !== undefined && origin.origin === header && isLoopbackHost(base.hostname) && isLoopbackHost(origin.hostname)
  )
}

const cors = (origin: string): Record<string, string> => ({
  "access-control-allow-origin": origin,
  vary: "origin",
  "access-control-expose-headers": "WWW-Authenticate, Mcp-Session-Id, Retry-After"
})

/** Admits only requests of this service's pages and of programs. */
export const guarded = <E, R>(baseUrl: string, response: Effect.Effect<HttpResponse, E, R>) => {
  const base = new URL(baseUrl)
  return Effect.gen(function* () {
    const { headers, method } = yield* HttpServerRequest.HttpServerRequest
    const { host, origin } = headers
    if (!isHost(base, host)) return rpcError(403, -32_000, "Invalid Host")
    if (!isOrigin(base, origin)) return rpcError(403, -32_000, "Invalid Origin")
    if (method === "OPTIONS" && origin !== undefined) {
      return HttpServerResponse.empty({
        status: 204,
        headers: {
          ...cors(origin),
          "access-control-allow-methods": allowedMethods,
          "access-control-allow-headers": allowedHeaders,
          "access-control-max-age": "600"
        }
      })
    }
    const result = yield* response
    return origin === undefined ? result : HttpServerResponse.setHeaders(result, cors(origin))
  })
}

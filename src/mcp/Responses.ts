/** Shapes of the endpoint's own responses, and how those of the SDKs leave. */
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Effect from "effect/Effect"
import type { RateLimited } from "#schema/Errors.ts"

export type HttpResponse = HttpServerResponse.HttpServerResponse

export const sessionHeader = "mcp-session-id"

export const rpcError = (
  status: number,
  code: number,
  message: string,
  options: { readonly headers?: Record<string, string>; readonly data?: unknown } = {}
): HttpResponse =>
  HttpServerResponse.unsafeJson(
    {
      jsonrpc: "2.0",
      error: { code, message, ...(options.data === undefined ? {} : { data: options.data }) },
      id: null
    },
    { status, headers: options.headers ?? {} }
  )

export const tooManyRequests = ({ retryAfterSeconds }: RateLimited): HttpResponse =>
  rpcError(429, -32_000, "Too many requests", { headers: { "retry-after": String(retryAfterSeconds) } })

export const eventStream = {
  contentType: "text/event-stream",
  headers: { "cache-control": "no-store", "x-accel-buffering": "no" }
}

/** An SDK's response with the headers that clients need and no others. */
export const fromWeb = (response: globalThis.Response, extra: Record<string, string> = {}) =>
  Effect.map(
    Effect.promise(() => response.text()),
    (text) => {
      const headers: Record<string, string> = { ...extra }
      for (const name of ["allow", "www-authenticate"]) {
        const value = response.headers.get(name)
        if (value !== null) headers[name] = value
      }
      const contentType = response.headers.get("content-type")
      if (text === "") return HttpServerResponse.empty({ status: response.status, headers })
      return HttpServerResponse.text(text, {
        status: response.status,
        headers,
        contentType: contentType ?? "application/json"
      })
    }
  )

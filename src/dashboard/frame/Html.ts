/** Responses with pages: escaped by the renderer, never cached, and limited to our own files. */
import * as HttpBody from "@effect/platform/HttpBody"
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Effect from "effect/Effect"
import { promisify } from "node:util"
import * as zlib from "node:zlib"
import type { VNode } from "preact"
import { render } from "preact-render-to-string"

/** Forbids inline code, other origins and frames (docs/security.md). */
const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "form-action 'self'",
  "base-uri 'none'",
  "frame-ancestors 'none'"
].join("; ")

export const headers: Readonly<Record<string, string>> = {
  "content-security-policy": policy,
  "cross-origin-opener-policy": "same-origin",
  // With `no-referrer`, browsers send `Origin: null` with our own forms too (Fetch, "append a request `Origin`
  // header"),
  // and the check for requests of other sites would refuse them.
  "referrer-policy": "same-origin",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
  "cache-control": "no-store"
}

export const page = (node: VNode, options: { readonly status?: number } = {}): HttpServerResponse.HttpServerResponse =>
  HttpServerResponse.text(`<!doctype html>${render(node)}`, {
    status: options.status ?? 200,
    contentType: "text/html; charset=utf-8",
    headers
  })

/**
 * Allows other origins for the page's forms. Browsers check redirects of a form too, which matters for pages that
 * continue in another application.
 */
export const withFormActions = (page: HttpServerResponse.HttpServerResponse, origins: ReadonlyArray<string>) =>
  HttpServerResponse.setHeader(
    page,
    "content-security-policy",
    policy.replace("form-action 'self'", ["form-action 'self'", ...origins].join(" "))
  )

const gzip = promisify<Uint8Array, zlib.ZlibOptions, Buffer>(zlib.gzip)
/** Bytes; compressing a smaller page saves less than a packet or two. */
const minCompressed = 2_000

/**
 * Compresses responses to GET, which hold no value. The response to a form may hold a value beside text of the request.
 * Its compressed length would reveal how much the two have in common (BREACH), so it stays uncompressed.
 */
export const compressed = (page: HttpServerResponse.HttpServerResponse) =>
  Effect.flatMap(HttpServerRequest.HttpServerRequest, ({ headers, method }) => {
    const { body } = page
    const asks = /(?:^|,)\s*gzip\s*(?:,|;\s*q=(?:1|0\.\d*[1-9])|$)/i.test(headers["accept-encoding"] ?? "")
    if (!asks || method !== "GET" || body._tag !== "Uint8Array" || body.body.length < minCompressed) {
      return Effect.succeed(page)
    }
    return Effect.map(
      Effect.promise(() => gzip(body.body, { level: 5 })),
      (bytes) =>
        HttpServerResponse.setHeaders(HttpServerResponse.setBody(page, HttpBody.uint8Array(bytes, body.contentType)), {
          "content-encoding": "gzip",
          vary: "accept-encoding"
        })
    )
  })

/** Redirect that sends the same form to another page. */
export const sendTo = (location: string): HttpServerResponse.HttpServerResponse =>
  HttpServerResponse.empty({ status: 307, headers: { ...headers, location } })

/** Redirect after a change: the browser fetches the next page with GET, so a reload repeats nothing. */
export const seeOther = (location: string): HttpServerResponse.HttpServerResponse =>
  HttpServerResponse.empty({ status: 303, headers: { ...headers, location } })

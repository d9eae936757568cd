/**
 * An answer that is a page: escaped by the renderer, never cached, and allowed to load our own files and nothing else.
 */
import * as HttpBody from "@effect/platform/HttpBody"
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Effect from "effect/Effect"
import { promisify } from "node:util"
import * as zlib from "node:zlib"
import type { VNode } from "preact"
import { render } from "preact-render-to-string"

/** Nothing inline, nothing from elsewhere, in no frame (docs/security.md). */
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
  // Not `no-referrer`: under it browsers send `Origin: null` with forms, also to us (Fetch, "append a request `Origin`
  // header"), and the check for requests of other sites would refuse our own.
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
 * The page, with where else its forms may lead, as origins: the browser checks redirects of a form too, which matters
 * for pages that hand over to another application.
 */
export const withFormActions = (page: HttpServerResponse.HttpServerResponse, origins: ReadonlyArray<string>) =>
  HttpServerResponse.setHeader(
    page,
    "content-security-policy",
    policy.replace("form-action 'self'", ["form-action 'self'", ...origins].join(" "))
  )

const gzip = promisify<Uint8Array, zlib.ZlibOptions, Buffer>(zlib.gzip)
/** A packet or two: less is not worth the work. */
const worthIt = 2_000

/**
 * What a GET answers holds no value, and leaves compressed. What a form is answered with may hold one, beside text of
 * the request: its length must not tell how much they have in common (BREACH), so it leaves as it is.
 */
export const compressed = (page: HttpServerResponse.HttpServerResponse) =>
  Effect.flatMap(HttpServerRequest.HttpServerRequest, ({ headers, method }) => {
    const { body } = page
    const asks = /(?:^|,)\s*gzip\s*(?:,|;\s*q=(?:1|0\.\d*[1-9])|$)/i.test(headers["accept-encoding"] ?? "")
    if (!asks || method !== "GET" || body._tag !== "Uint8Array" || body.body.length < worthIt) {
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

/** After a change: the browser fetches the next page with GET, so that a reload repeats nothing. */
export const seeOther = (location: string): HttpServerResponse.HttpServerResponse =>
  HttpServerResponse.empty({ status: 303, headers: { ...headers, location } })

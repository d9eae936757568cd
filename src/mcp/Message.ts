/**
 * Reads the message of a POST: bounded, parsed once, and checked before either SDK sees it. Also the shapes of the
 * endpoint's own responses, and the conversion of the SDKs' responses.
 */
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Effect from "effect/Effect"
import { PayloadTooLarge, type RateLimited } from "#schema/Errors.ts"

export type HttpResponse = HttpServerResponse.HttpServerResponse

export const sessionHeader = "mcp-session-id"

/** Header of clients that list tools again after a notice: their list holds only the tools that they may call. */
export const toolsHeader = "ampoule-tools"
export const isStaged = (header: string | null | undefined): boolean => header === "staged"

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

/** Body of an SDK's response; undefined if empty, as for a notification. The response can still be sent. */
export const jsonOf = (response: globalThis.Response): Effect.Effect<unknown> =>
  Effect.promise(async () => {
    const text = await response.clone().text()
    return text === "" ? undefined : (JSON.parse(text) as unknown)
  })

/** An SDK's response, with only the headers that clients need. */
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

const maxBody = 1024 * 1024
/** Elements and levels of a message. Parsing is cheap, but validation is not (GHSA-f897-62hf-6gxq). */
const maxElements = 4_000
const maxDepth = 32
/** Messages of a batch. Only one revision has batches, and a few clients still use it. */
export const maxBatch = 20

export type JsonObject = { readonly [member: string]: unknown }

export const isObject = (value: unknown): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value)

export const memberOf = (value: unknown, name: string): unknown => (isObject(value) ? value[name] : undefined)

/** Method groups of a message or a batch: the part of each method before its slash (`tools`). */
export const methodsOf = (message: unknown): ReadonlySet<string> =>
  new Set(
    (Array.isArray(message) ? message : [message]).flatMap((one) => {
      const method = memberOf(one, "method")
      return typeof method === "string" ? (method.split("/", 1)[0] ?? []) : []
    })
  )

/** True if the value has too many elements or levels. Iterative, because the input decides the depth. */
export const isTooBig = (value: unknown): boolean => {
  const pending: Array<readonly [unknown, number]> = [[value, 1]]
  let elements = 0
  while (pending.length > 0) {
    const [next, depth] = pending.pop() ?? [undefined, 0]
    if (typeof next !== "object" || next === null) continue
    if (depth > maxDepth) return true
    const members: ReadonlyArray<unknown> = Array.isArray(next) ? next : Object.values(next)
    elements += members.length
    if (elements > maxElements) return true
    for (const member of members) pending.push([member, depth + 1])
  }
  return false
}

/** True if any message has an id of an invalid type, which a refusal would have to repeat. */
const hasForeignId = (message: unknown): boolean =>
  (Array.isArray(message) ? message : [message]).some((one) => {
    const id = memberOf(one, "id")
    return id !== undefined && id !== null && typeof id !== "string" && !Number.isSafeInteger(id)
  })

const mediaType = /^\s*application\/json\s*(?:;|$)/i
const tooLarge = rpcError(413, -32_000, "The body is too large")

/** The message, or the response that refuses it. */
export const read = Effect.gen(function* () {
  const request = yield* HttpServerRequest.HttpServerRequest
  if (!mediaType.test(request.headers["content-type"] ?? "")) {
    return rpcError(415, -32_000, "The content type must be application/json")
  }
  if (Number(request.headers["content-length"] ?? 0) > maxBody) return tooLarge
  const text = yield* Effect.either(request.text)
  if (text._tag === "Left") {
    return text.left instanceof PayloadTooLarge ? tooLarge : rpcError(400, -32_700, "The body is not readable")
  }
  if (Buffer.byteLength(text.right) > maxBody) return tooLarge
  const parsed = yield* Effect.option(Effect.try((): unknown => JSON.parse(text.right)))
  if (parsed._tag === "None") return rpcError(400, -32_700, "The body is not JSON")
  if (isTooBig(parsed.value)) return rpcError(400, -32_600, "The message has too many members or levels")
  if (hasForeignId(parsed.value)) return rpcError(400, -32_600, "The id of a message must be a string or an integer")
  return { message: parsed.value }
})

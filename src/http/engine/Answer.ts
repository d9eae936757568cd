/** Sends responses: common headers, body, and the moment at which each is written. */
import * as Cookies from "@effect/platform/Cookies"
import type * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Stream from "effect/Stream"
import type { OutgoingHttpHeaders, ServerResponse } from "node:http"
import * as EventStream from "./EventStream.ts"
import type { Exchange } from "./RequestContext.ts"

type Response = HttpServerResponse.HttpServerResponse

const publicDocuments = /^\/(?:\.well-known\/|(?:dashboard\/)?openapi\.json$)/

/** One year, in seconds: a browser uses https alone for this long after its last visit (RFC 6797). */
const strictTransport = "max-age=31536000"

const headersOf = (response: Response, exchange: Exchange, overTls: boolean): OutgoingHttpHeaders => {
  const headers: OutgoingHttpHeaders = {}
  for (const name in response.headers) headers[name] = response.headers[name]
  headers["x-request-id"] = exchange.id
  headers["x-content-type-options"] = "nosniff"
  headers["cross-origin-resource-policy"] = "same-origin"
  if (overTls) headers["strict-transport-security"] = strictTransport
  if (exchange.authenticated || (headers["cache-control"] === undefined && !publicDocuments.test(exchange.path))) {
    headers["cache-control"] = "no-store"
  }
  const { rateLimit } = exchange
  if (rateLimit !== undefined) {
    headers["ratelimit-limit"] = rateLimit.limit
    headers["ratelimit-remaining"] = rateLimit.remaining
    headers["ratelimit-reset"] = rateLimit.resetSeconds
  }
  if (exchange.forgets) headers["clear-site-data"] = '"cache", "storage"'
  const cookies = [...Cookies.toSetCookieHeaders(response.cookies), ...exchange.cookies]
  if (cookies.length > 0) headers["set-cookie"] = cookies
  return headers
}

const afterDrain = (outgoing: ServerResponse) =>
  Effect.async<void>((resume) => {
    outgoing.once("drain", () => resume(Effect.void))
  })

const stream = (outgoing: ServerResponse, bytes: Stream.Stream<Uint8Array, unknown>) =>
  Stream.runForEachChunk(bytes, (chunk) => {
    let room = true
    for (const part of Chunk.toReadonlyArray(chunk)) room = outgoing.write(part)
    return room ? Effect.void : afterDrain(outgoing)
  }).pipe(
    // An incomplete body must not look complete.
    Effect.onExit((exit) => Effect.sync(() => (Exit.isSuccess(exit) ? outgoing.end() : outgoing.destroy())))
  )

interface PendingBody {
  readonly outgoing: ServerResponse
  readonly content: string | Uint8Array
}
let pendingBodies: Array<PendingBody> = []

/**
 * Writes all responses of one turn of the event loop together, at its end. A single write wakes its client at once,
 * which costs more than a small response. Clients that are answered together send together, so their requests share
 * statements.
 */
const writeAtTurnEnd = (outgoing: ServerResponse, content: string | Uint8Array) => {
  const isFirst = pendingBodies.push({ outgoing, content }) === 1
  if (!isFirst) return
  setImmediate(() => {
    const batch = pendingBodies
    pendingBodies = []
    for (const { content, outgoing } of batch) {
      try {
        outgoing.end(content)
      } catch {
        // A failed write must not affect the other responses or the process.
        outgoing.destroy()
      }
    }
  })
}

/** Sends the response; completes when the whole body has been produced. */
export const send = (
  outgoing: ServerResponse,
  response: Response,
  exchange: Exchange,
  { head, overTls }: { readonly head: boolean; readonly overTls: boolean }
): Effect.Effect<unknown, unknown> => {
  // A response that fails half-way cannot become another one.
  if (outgoing.headersSent) return Effect.sync(() => outgoing.destroy())
  const { body, status } = response
  const events = body._tag === "Raw" && body.body instanceof EventStream.EventStream ? body.body : undefined
  exchange.streams = events !== undefined || body._tag === "Stream"
  outgoing.writeHead(status, headersOf(response, exchange, overTls))
  if (head || body._tag === "Empty") return Effect.sync(() => outgoing.end())
  if (events !== undefined) return Effect.sync(() => EventStream.send(outgoing, events))
  if (body._tag === "Stream") return stream(outgoing, body.stream)
  if (body._tag === "FormData") return Effect.dieMessage("no route answers with a form")
  // `Raw` is the text that `Endpoints.ts` encoded: it needs one write with its header, bytes need two.
  const content = body.body as string | Uint8Array
  return Effect.sync(() => writeAtTurnEnd(outgoing, content))
}

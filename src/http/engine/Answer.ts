/** Answers on their way to the socket. */
import * as Cookies from "@effect/platform/Cookies"
import type * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Stream from "effect/Stream"
import type { OutgoingHttpHeaders, ServerResponse } from "node:http"
import * as EventStream from "./EventStream.ts"
import type { Exchange } from "./RequestContext.ts"

type Answer = HttpServerResponse.HttpServerResponse

const publicDocuments = /^\/(?:\.well-known\/|(?:dashboard\/)?openapi\.json$)/

/** A browser that was here once does not ask in plain http again (RFC 6797), for a year from its last visit. */
const strictTransport = "max-age=31536000"

const headersOf = (answer: Answer, exchange: Exchange, overTls: boolean): OutgoingHttpHeaders => {
  const headers: OutgoingHttpHeaders = {}
  for (const name in answer.headers) headers[name] = answer.headers[name]
  headers["x-request-id"] = exchange.id
  headers["x-content-type-options"] = "nosniff"
  headers["cross-origin-resource-policy"] = "same-origin"
  if (overTls) headers["strict-transport-security"] = strictTransport
  if (exchange.authenticated || (headers["cache-control"] === undefined && !publicDocuments.test(exchange.path))) {
    headers["cache-control"] = "no-store"
  }
  const taken = exchange.rateLimit
  if (taken !== undefined) {
    headers["ratelimit-limit"] = taken.limit
    headers["ratelimit-remaining"] = taken.remaining
    headers["ratelimit-reset"] = taken.resetSeconds
  }
  if (exchange.forgets) headers["clear-site-data"] = '"cache", "storage"'
  const cookies = [...Cookies.toSetCookieHeaders(answer.cookies), ...exchange.cookies]
  if (cookies.length > 0) headers["set-cookie"] = cookies
  return headers
}

const drained = (outgoing: ServerResponse) =>
  Effect.async<void>((resume) => {
    outgoing.once("drain", () => resume(Effect.void))
  })

const stream = (outgoing: ServerResponse, bytes: Stream.Stream<Uint8Array, unknown>) =>
  Stream.runForEachChunk(bytes, (chunk) => {
    let room = true
    for (const part of Chunk.toReadonlyArray(chunk)) room = outgoing.write(part)
    return room ? Effect.void : drained(outgoing)
  }).pipe(
    // A body that is not complete must not look as if it were.
    Effect.onExit((exit) => Effect.sync(() => (Exit.isSuccess(exit) ? outgoing.end() : outgoing.destroy())))
  )

interface Leaving {
  readonly outgoing: ServerResponse
  readonly content: string | Uint8Array
}
let leaving: Array<Leaving> = []

/**
 * Answers that are ready in one turn of the event loop leave together at its end. One that leaves alone wakes whoever
 * waits for it, which costs more than a small answer itself; and clients that are answered together ask together, so that
 * their requests share statements.
 */
const leave = (outgoing: ServerResponse, content: string | Uint8Array) => {
  const isFirst = leaving.push({ outgoing, content }) === 1
  if (!isFirst) return
  setImmediate(() => {
    const ready = leaving
    leaving = []
    for (const { content, outgoing } of ready) {
      try {
        outgoing.end(content)
      } catch {
        // One that cannot leave takes none of the others along, nor the process.
        outgoing.destroy()
      }
    }
  })
}

/** Sends the answer; done when nothing more has to be made for it. */
export const send = (
  outgoing: ServerResponse,
  answer: Answer,
  exchange: Exchange,
  { head, overTls }: { readonly head: boolean; readonly overTls: boolean }
): Effect.Effect<unknown, unknown> => {
  // What failed was the answer itself, half-way.
  if (outgoing.headersSent) return Effect.sync(() => outgoing.destroy())
  const { body, status } = answer
  const events = body._tag === "Raw" && body.body instanceof EventStream.EventStream ? body.body : undefined
  exchange.streams = events !== undefined || body._tag === "Stream"
  outgoing.writeHead(status, headersOf(answer, exchange, overTls))
  if (head || body._tag === "Empty") return Effect.sync(() => outgoing.end())
  if (events !== undefined) return Effect.sync(() => EventStream.send(outgoing, events))
  if (body._tag === "Stream") return stream(outgoing, body.stream)
  if (body._tag === "FormData") return Effect.dieMessage("no route answers with a form")
  // `Raw` is the text that `Endpoints.ts` made: one write with its header, where bytes take a second one.
  const content = body.body as string | Uint8Array
  return Effect.sync(() => leave(outgoing, content))
}

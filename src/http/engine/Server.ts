/**
 * The listening server. It is built last, when everything it needs stands, so that the port opens ready (a request in
 * between would hang), and it closes first, so that running requests end on services that are still there.
 */
import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Http from "node:http"
import type { AddressInfo, Socket } from "node:net"
import { bodyOf } from "#schema/ApiError.ts"
import { PayloadTooLarge, ValidationFailed } from "#schema/Errors.ts"
import { StartRefused } from "#src/AppConfig.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { Declared } from "./Endpoints.ts"
import { counted } from "./Metrics.ts"
import * as RequestPipeline from "./RequestPipeline.ts"
import { Shutdown } from "./Shutdown.ts"

export interface Options {
  readonly host: string
  /** 0: any free port. */
  readonly port: number
  /** Spans of requests: only with somewhere to send them. */
  readonly traced: boolean
  /** Requests counted and timed: only when somebody reads it. */
  readonly measured?: boolean
  /** After how long a connection is cut on which nothing moves, in milliseconds; absent: a minute. */
  readonly stalledMillis?: number
}

/** Where the server listens. */
export class Listening extends Context.Tag("http/Listening")<
  Listening,
  { readonly host: string; readonly port: number }
>() {}

/** A stop takes at most 10 s, closing the database included: what still runs after this is cut off. */
const graceMillis = 7_000

const limits: Http.ServerOptions = {
  // Slow clients hold no connection for long; `/secrets/bulk` takes up to 32 MiB.
  headersTimeout: 15_000,
  requestTimeout: 120_000,
  connectionsCheckingInterval: 5_000,
  keepAliveTimeout: 60_000,
  // No route reads it, and Node's own refusal has no body.
  requireHostHeader: false
}

/** Who stops reading an answer holds its memory no longer than this. Event streams have their beats. */
const stalledMillis = 60_000

const listen = (server: Http.Server, { host, port }: Options) =>
  Effect.async<AddressInfo, StartRefused>((resume) => {
    const onError = (error: NodeJS.ErrnoException) =>
      resume(
        new StartRefused({
          message:
            error.code === "EADDRINUSE"
              ? `Port ${port} of ${host} is in use; stop what listens there or set AMPOULE_PORT.`
              : `Cannot listen on port ${port} of ${host} (${error.code ?? "unknown reason"}); check AMPOULE_HOST and AMPOULE_PORT.`
        })
      )
    server.once("error", onError)
    server.listen(port, host, () => {
      server.off("error", onError)
      // A server that listens on a port has an AddressInfo; a string is for pipes.
      resume(Effect.succeed(server.address() as AddressInfo))
    })
  })

/** By Node's code of what no handler sees. */
const refusalOf = ({ code }: NodeJS.ErrnoException) => {
  if (code === "HPE_HEADER_OVERFLOW") return new PayloadTooLarge({ message: "The request's header is too large." })
  const message =
    code === "ERR_HTTP_REQUEST_TIMEOUT"
      ? "The request did not arrive in time. Nothing was done: send it again."
      : "The request is not HTTP."
  return new ValidationFailed({ message })
}

/** What is not HTTP has no request to answer; it gets the same body all the same (docs/contract/errors.md). */
export const refuseGarbage = (newId: () => string) => (error: NodeJS.ErrnoException, socket: Socket) => {
  if (!socket.writable || error.code === "ECONNRESET") return socket.destroy()
  const refusal = refusalOf(error)
  const body = JSON.stringify(bodyOf(refusal))
  const status = error.code === "HPE_HEADER_OVERFLOW" ? "413 Payload Too Large" : "400 Bad Request"
  return socket.end(
    [
      `HTTP/1.1 ${status}`,
      "Content-Type: application/json",
      `Content-Length: ${Buffer.byteLength(body)}`,
      `X-Request-Id: ${newId()}`,
      "X-Content-Type-Options: nosniff",
      "Cache-Control: no-store",
      "Connection: close",
      "",
      body
    ].join("\r\n")
  )
}

/** No new connection, streams ended, running requests answered, then everything shut. */
const drain = (server: Http.Server, sockets: ReadonlySet<Socket>, shutdown: Context.Tag.Service<Shutdown>) =>
  Effect.zipRight(
    Deferred.succeed(shutdown.deferred, undefined),
    Effect.async<void>((resume) => {
      // A connection becomes idle when its last answer is out; Node looks only once.
      const sweep = setInterval(() => server.closeIdleConnections(), 20)
      const cut = setTimeout(() => server.closeAllConnections(), graceMillis)
      server.close(() => {
        clearInterval(sweep)
        clearTimeout(cut)
        resume(Effect.void)
      })
      // Node does not count a connection as idle that never asked for anything.
      for (const socket of sockets) if (socket.bytesRead === 0) socket.destroy()
    })
  )

export const layer = (options: Options) =>
  Layer.scoped(
    Listening,
    Effect.gen(function* () {
      const shutdown = yield* Shutdown
      const crypto = yield* Crypto
      const clock = yield* Effect.clock
      const handle = yield* RequestPipeline.make(options)
      const handler = options.measured === true ? counted(handle) : handle

      const server = Http.createServer(limits, handler)
      server.setTimeout(options.stalledMillis ?? stalledMillis)
      server.on("checkExpectation", handler)
      server.on(
        "clientError",
        refuseGarbage(() => crypto.uuidAt(clock.unsafeCurrentTimeMillis()))
      )
      const sockets = new Set<Socket>()
      server.on("connection", (socket) => {
        sockets.add(socket)
        socket.once("close", () => sockets.delete(socket))
      })
      const address = yield* Effect.acquireRelease(listen(server, options), () => drain(server, sockets, shutdown))
      return { host: address.address, port: address.port }
    })
  ).pipe(Layer.provide([HttpApiBuilder.Router.Live, Declared.Live]))

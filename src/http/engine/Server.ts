/**
 * The listening server. It is built last, so that no request arrives before the services are ready. It closes first, so
 * that running requests finish while the services still exist.
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
import { helpOf } from "./ErrorEnvelope.ts"
import { counted } from "./Metrics.ts"
import * as RequestPipeline from "./RequestPipeline.ts"
import { Shutdown } from "./Shutdown.ts"

export interface Options {
  readonly host: string
  /** 0: any free port. */
  readonly port: number
  /** Opens a span for each request; useful only with an exporter. */
  readonly traced: boolean
  /** Counts and times requests; useful only when metrics are read. */
  readonly measured?: boolean
  /** Milliseconds without traffic after which a connection is cut; by default, one minute. */
  readonly stalledMillis?: number
}

/** Address and port of the running server. */
export class Listening extends Context.Tag("http/Listening")<
  Listening,
  { readonly host: string; readonly port: number }
>() {}

/** Milliseconds until a stop cuts requests that still run. The whole stop, with the database, takes at most 10 s. */
const graceMillis = 7_000

const limits: Http.ServerOptions = {
  // Slow clients hold no connection for long; `/secrets/bulk` takes up to 32 MiB.
  headersTimeout: 15_000,
  requestTimeout: 120_000,
  connectionsCheckingInterval: 5_000,
  keepAliveTimeout: 60_000,
  // No route reads the host, and Node's own refusal has no body.
  requireHostHeader: false
}

/** Destroys a connection whose peer stops reading, in milliseconds. Event streams send heartbeats and stay open. */
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

/** Refusal by Node's error code, for requests that reach no handler. */
const refusalOf = ({ code }: NodeJS.ErrnoException) => {
  if (code === "HPE_HEADER_OVERFLOW") return new PayloadTooLarge({ message: "The request's header is too large." })
  const message =
    code === "ERR_HTTP_REQUEST_TIMEOUT"
      ? "The request did not arrive in time. Nothing was done: send it again."
      : "The request is not HTTP."
  return new ValidationFailed({ message })
}

/** Sends bytes that are not HTTP the same error body as a request (docs/contract/errors.md). */
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
      `Link: ${helpOf(refusal)}`,
      "X-Content-Type-Options: nosniff",
      "Cache-Control: no-store",
      "Connection: close",
      "",
      body
    ].join("\r\n")
  )
}

/** Refuses new connections, ends streams, lets running requests finish, then closes all sockets. */
const drain = (server: Http.Server, sockets: ReadonlySet<Socket>, shutdown: Context.Tag.Service<Shutdown>) =>
  Effect.zipRight(
    Deferred.succeed(shutdown.deferred, undefined),
    Effect.async<void>((resume) => {
      // A connection becomes idle after its last response, and Node checks only once.
      const sweep = setInterval(() => server.closeIdleConnections(), 20)
      const cut = setTimeout(() => server.closeAllConnections(), graceMillis)
      server.close(() => {
        clearInterval(sweep)
        clearTimeout(cut)
        resume(Effect.void)
      })
      // Node does not count a connection without any request as idle.
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

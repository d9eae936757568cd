/** The vault process's end of the protocol: a Unix socket for its own user, or TCP with certificates on both sides. */
import * as NodeSocket from "@effect/platform-node/NodeSocket"
import * as Socket from "@effect/platform/Socket"
import * as SocketServer from "@effect/platform/SocketServer"
import * as RpcSerialization from "@effect/rpc/RpcSerialization"
import * as RpcServer from "@effect/rpc/RpcServer"
import * as Effect from "effect/Effect"
import * as FiberSet from "effect/FiberSet"
import * as Layer from "effect/Layer"
import * as fs from "node:fs"
import * as net from "node:net"
import * as path from "node:path"
import * as tls from "node:tls"
import { VaultRpc } from "#schema/VaultRpc.ts"
import { StartRefused } from "#src/AppConfig.ts"
import { causeText } from "#src/telemetry/CauseText.ts"
import * as Handlers from "#src/vault/Handlers.ts"
import { type Certificates, print, readCertificates, VaultAddress } from "./VaultAddress.ts"

/**
 * Without records: their definitions must arrive in the order of encoding, but the client encodes its ping once and
 * repeats it forever.
 */
export const serialization = RpcSerialization.layerMsgPackWith({ useRecords: false })

const maxConnections = 256

const reasonOf = (error: NodeJS.ErrnoException) => error.code ?? "unknown reason"

const answers = (file: string) =>
  Effect.async<boolean>((resume) => {
    const socket = net.connect(file)
    socket.once("connect", () => {
      socket.destroy()
      resume(Effect.succeed(true))
    })
    socket.once("error", () => resume(Effect.succeed(false)))
  })

/** Prepares a private folder without the socket of a killed vault, before a token is drawn and the socket opened. */
export const prepare = (file: string) =>
  Effect.gen(function* () {
    const folder = path.dirname(file)
    yield* Effect.try({
      try: () => {
        if (!fs.existsSync(folder)) fs.mkdirSync(folder, { recursive: true, mode: 0o700 })
        if ((fs.statSync(folder).mode & 0o077) !== 0) throw new Error("open")
      },
      catch: () =>
        new StartRefused({
          message: `The folder of the vault's socket (${folder}) cannot be used: it must belong to this user alone (chmod 700).`
        })
    })
    if (!fs.existsSync(file)) return
    if (yield* answers(file)) {
      return yield* new StartRefused({ message: `Another vault listens on unix://${file}; stop that one first.` })
    }
    yield* Effect.sync(() => fs.rmSync(file, { force: true }))
  })

const listen = (server: net.Server, address: VaultAddress) =>
  Effect.async<void, StartRefused>((resume) => {
    const onError = (error: NodeJS.ErrnoException) =>
      resume(new StartRefused({ message: `The vault cannot listen on ${print(address)} (${reasonOf(error)}).` }))
    server.once("error", onError)
    const onListening = () => {
      server.off("error", onError)
      // An error of one connection must not end the vault.
      server.on("error", () => {})
      resume(Effect.void)
    }
    if (address._tag === "Tls") {
      server.listen(address.port, address.host, onListening)
      return
    }
    // The mask applies when the socket is created, so it is never open to others.
    const mask = process.umask(0o177)
    server.listen({ path: address.path }, onListening)
    process.umask(mask)
  })

const close = (server: net.Server) => Effect.async<void>((resume) => void server.close(() => resume(Effect.void)))

const make = (address: VaultAddress, certificates: Certificates | undefined) =>
  Effect.gen(function* () {
    const secured =
      certificates === undefined
        ? undefined
        : { ...(yield* readCertificates(certificates)), requestCert: true, rejectUnauthorized: true }
    const server = yield* Effect.acquireRelease(
      Effect.try({
        try: () => (secured === undefined ? net.createServer() : tls.createServer(secured)),
        catch: () => new StartRefused({ message: "The vault's certificate, its key or its authority is not valid." })
      }),
      close
    )
    server.maxConnections = maxConnections
    yield* listen(server, address)
    return SocketServer.SocketServer.of({
      address:
        address._tag === "Unix"
          ? { _tag: "UnixAddress", path: address.path }
          : { _tag: "TcpAddress", hostname: address.host, port: address.port },
      run: <R, E, _>(handler: (socket: Socket.Socket) => Effect.Effect<_, E, R>) =>
        Effect.scoped(
          Effect.gen(function* () {
            const connections = yield* FiberSet.make()
            const run = yield* FiberSet.runtime(connections)<R>()
            const onConnection = (connection: net.Socket) => {
              connection.on("error", () => {})
              const opened = Effect.acquireRelease(
                Effect.suspend(() =>
                  connection.destroyed
                    ? new Socket.SocketCloseError({ reason: "Close", code: 1000 })
                    : Effect.succeed(connection)
                ),
                () => Effect.sync(() => connection.destroySoon())
              )
              run(
                Effect.catchAllCause(Effect.flatMap(NodeSocket.fromDuplex(opened), handler), (cause) =>
                  Effect.annotateLogs(Effect.logDebug("A connection of the vault ended"), "cause", causeText(cause))
                )
              )
            }
            const event = secured === undefined ? "connection" : "secureConnection"
            yield* Effect.acquireRelease(
              Effect.sync(() => server.on(event, onConnection)),
              () => Effect.sync(() => server.off(event, onConnection))
            )
            return yield* Effect.never
          })
        )
    })
  })

export interface Options extends Handlers.Options {
  readonly address: VaultAddress
  /** Needed for `tls://`. */
  readonly certificates?: Certificates
}

/** Serves until the scope closes. */
export const layer = (options: Options) =>
  RpcServer.layer(VaultRpc, { disableTracing: true, disableFatalDefects: true }).pipe(
    Layer.provide(Handlers.layer(options)),
    Layer.provide(RpcServer.layerProtocolSocketServer),
    Layer.provide([serialization, Layer.scoped(SocketServer.SocketServer, make(options.address, options.certificates))])
  )

/**
 * Vault as a separate process, over `schema/VaultRpc.ts`. The server holds no root key, and waits 2 s at most for a
 * call. Lost connections are restored automatically.
 */
import * as NodeSocket from "@effect/platform-node/NodeSocket"
import * as Socket from "@effect/platform/Socket"
import * as RpcClient from "@effect/rpc/RpcClient"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import { readFile } from "node:fs/promises"
import * as net from "node:net"
import * as tls from "node:tls"
import { IntegrityFailure } from "#schema/Errors.ts"
import { VaultUnavailable } from "#schema/Vault.ts"
import { maxBatch, tokenHeader, VaultRpc, type WrappedItem } from "#schema/VaultRpc.ts"
import * as GroupCommit from "#src/database/GroupCommit.ts"
import * as Canary from "#src/crypto/Canary.ts"
import * as RootKey from "#src/crypto/RootKey.ts"
import { inTime, Vault } from "#src/crypto/Vault.ts"
import { VaultKeyWrong } from "#src/vault/KeyFile.ts"
import { type Certificates, readCertificates, tokenFileOf, type VaultAddress } from "./VaultAddress.ts"
import { serialization } from "./VaultServer.ts"

export interface Options {
  readonly address: VaultAddress
  /** None: the token beside the vault's socket. */
  readonly token: Option.Option<Redacted.Redacted<string>>
  /** Needed for `tls://`. */
  readonly certificates?: Certificates
}

const opening = (connect: () => net.Socket, event: "connect" | "secureConnect") =>
  Effect.acquireRelease(
    Effect.async<net.Socket, Socket.SocketError>((resume) => {
      const socket = connect()
      socket.once(event, () => resume(Effect.succeed(socket)))
      socket.on("error", (cause) => resume(new Socket.SocketGenericError({ reason: "Open", cause })))
      return Effect.sync(() => void socket.destroy())
    }),
    (socket) => Effect.sync(() => void socket.destroy())
  )

const connection = ({ address, certificates }: Options) => {
  if (address._tag === "Unix") return opening(() => net.connect({ path: address.path }), "connect")
  const { host, port } = address
  return Effect.gen(function* () {
    const secured =
      certificates === undefined
        ? {}
        : yield* Effect.mapError(
            readCertificates(certificates),
            (cause) => new Socket.SocketGenericError({ reason: "Open", cause })
          )
    return yield* opening(
      () => tls.connect({ host, port, servername: net.isIP(host) === 0 ? host : "", ...secured }),
      "secureConnect"
    )
  })
}

const reconnect = Schedule.union(Schedule.exponential("50 millis", 2), Schedule.spaced("1 second"))

const protocol = (options: Options) =>
  // A failed attempt fails its waiting calls at once, with the report that the vault is unreachable.
  Layer.scoped(
    RpcClient.Protocol,
    RpcClient.makeProtocolSocket({ retryTransientErrors: false, retrySchedule: reconnect })
  ).pipe(
    Layer.provide([
      serialization,
      Layer.effect(Socket.Socket, NodeSocket.fromDuplex(connection(options), { openTimeout: "2 seconds" }))
    ])
  )

const tokenOf = ({ address, token }: Options): Effect.Effect<string, VaultUnavailable> =>
  Option.match(token, {
    onSome: (token) => Effect.succeed(Redacted.value(token)),
    onNone: () =>
      address._tag === "Tls"
        ? new VaultUnavailable({ reason: "The vault's token is not set." })
        : // Read for each call, because a restarted vault has another one.
          Effect.tryPromise({
            try: () => readFile(tokenFileOf(address.path), "utf8"),
            catch: () => new VaultUnavailable({ reason: "The vault's token cannot be read; is the vault running?" })
          })
  })

/** Maps all failures to our own sentences. */
const withUnavailable = <A, E, R>(call: Effect.Effect<A, E, R>): Effect.Effect<A, VaultUnavailable, R> =>
  Effect.catchAllCause(call, (cause) => {
    if (Cause.isInterruptedOnly(cause)) return Effect.failCause(Cause.stripFailures(cause))
    const error: unknown = Cause.squash(cause)
    if (error instanceof VaultUnavailable) return error
    const tag = typeof error === "object" && error !== null && "_tag" in error ? error._tag : undefined
    return new VaultUnavailable({
      reason:
        tag === "VaultRefused"
          ? "The vault refused the server's token."
          : tag === "RpcClientError"
            ? "The vault cannot be reached."
            : "The vault returned no usable answer."
    })
  })

/** Batches in flight; further calls go with the next one. */
const maxInFlight = 8

const make = (options: Options) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const client = yield* RpcClient.make(VaultRpc, { disableTracing: true })

    const call = <A, E>(request: Effect.Effect<A, E>) =>
      inTime(
        Effect.flatMap(tokenOf(options), (token) =>
          withUnavailable(RpcClient.withHeaders(request, { [tokenHeader]: token.trim() }))
        )
      )

    const many = <A>(
      run: (items: ReadonlyArray<WrappedItem>) => Effect.Effect<ReadonlyArray<A | null>, VaultUnavailable>
    ) =>
      Effect.map(
        GroupCommit.make({ run, maxBatch, maxInFlight }),
        (one) => (item: WrappedItem) =>
          Effect.flatMap(one(item), (answer) =>
            answer === null || answer === undefined ? Either.left(new IntegrityFailure()) : Either.right(answer)
          )
      )
    const unwrap = yield* many((items) => call(client.Unwrap({ items })))
    const rewrap = yield* many((items) => call(client.Rewrap({ items })))

    const remote = Vault.of({
      generateDataKey: (context) =>
        Effect.map(call(client.GenerateDataKey({ context })), ({ key, rootKeyId, wrapped }) => ({
          key: RootKey.secretKeyFrom(key),
          rootKeyId,
          wrapped
        })),
      unwrap: (context, wrapped, rootKeyId) =>
        Effect.map(unwrap({ context, wrapped, rootKeyId }), RootKey.secretKeyFrom),
      rewrap: (context, wrapped, rootKeyId) => rewrap({ context, wrapped, rootKeyId }),
      wrapBytes: (context, bytes) => call(client.WrapBytes({ context, bytes: Redacted.value(bytes) })),
      unwrapBytes: (context, wrapped, rootKeyId) =>
        Effect.map(unwrap({ context, wrapped, rootKeyId }), (bytes): Redacted.Redacted<Uint8Array> =>
          Redacted.make(bytes)
        ),
      macAuditHead: (head) => call(client.MacAuditHead({ head })),
      auditHeadMatches: (head, mac) => call(client.AuditHeadMatches({ head, mac })),
      signCheckpoint: (text) => call(client.SignCheckpoint({ text })),
      checkpointKeys: call(client.CheckpointKeys({})),
      status: call(client.Status({}))
    })

    const rootKeyIds = new Set<string>()
    const check = Effect.gen(function* () {
      yield* Canary.check(remote)
      for (const id of (yield* remote.status).rootKeyIds) rootKeyIds.add(id)
    }).pipe(Effect.provideService(SqlClient.SqlClient, sql), Effect.catchTag("SqlError", Effect.die))

    /** A key that another vault wrapped must not be stored, because this database's vault cannot open it. */
    const trusted = (rootKeyId: string) =>
      rootKeyIds.has(rootKeyId)
        ? Effect.void
        : Effect.catchTag(check, "VaultForeign", () =>
            Effect.zipRight(
              Effect.logError("The vault holds other root keys than this database needs."),
              new VaultUnavailable({ reason: "The vault holds other root keys than this database needs." })
            )
          )

    yield* check.pipe(
      Effect.catchTags({
        VaultForeign: ({ heldId, rootKeyId }) =>
          new VaultKeyWrong({
            message: `The vault (root key ${heldId}) does not open this database, which was sealed with root key ${rootKeyId}; set AMPOULE_VAULT_URL to the right vault, or give it its original key file.`
          }),
        // The server may start before the vault. It becomes ready when the vault responds, without a restart.
        VaultUnavailable: ({ reason }) =>
          Effect.logWarning("Starting without the vault: the server is not ready until the vault responds.").pipe(
            Effect.annotateLogs({ reason })
          )
      })
    )

    return Vault.of({
      ...remote,
      generateDataKey: (context) => Effect.tap(remote.generateDataKey(context), ({ rootKeyId }) => trusted(rootKeyId)),
      rewrap: (context, wrapped, rootKeyId) =>
        Effect.tap(remote.rewrap(context, wrapped, rootKeyId), ({ rootKeyId }) => trusted(rootKeyId)),
      wrapBytes: (context, bytes) =>
        Effect.tap(remote.wrapBytes(context, bytes), ({ rootKeyId }) => trusted(rootKeyId)),
      status: Effect.tap(remote.status, ({ rootKeyId }) => trusted(rootKeyId))
    })
  })

export const layer = (options: Options) => Layer.provide(Layer.scoped(Vault, make(options)), protocol(options))

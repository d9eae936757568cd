/** The holder of the root key, which never leaves the implementation. Callers get data keys, wrapped bytes and MACs. */
import type { IntegrityFailure } from "#schema/Errors.ts"
import type { KeyContext, VaultStatus } from "#schema/Vault.ts"
import { VaultUnavailable } from "#schema/Vault.ts"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import type { KeyObject } from "node:crypto"
import { Crypto } from "./Crypto.ts"
import * as Envelope from "./Envelope.ts"
import type { RootKeyRing, Wrapped } from "./RootKey.ts"
import * as RootKey from "./RootKey.ts"

interface NewDataKey extends Wrapped {
  readonly key: KeyObject
}

interface AuditMac {
  readonly mac: Uint8Array
  readonly rootKeyId: string
}

/** 32 raw bytes of Ed25519, and the id of its root key. */
interface CheckpointKey {
  readonly publicKey: Uint8Array
  readonly rootKeyId: string
}

interface CheckpointSignature extends CheckpointKey {
  /** 64 bytes. */
  readonly signature: Uint8Array
}

export class Vault extends Context.Tag("crypto/Vault")<
  Vault,
  {
    /** A new 256-bit key, and the same key wrapped for storage. */
    readonly generateDataKey: (context: KeyContext) => Effect.Effect<NewDataKey, VaultUnavailable>
    readonly unwrap: (
      context: KeyContext,
      wrapped: Uint8Array,
      rootKeyId: string
    ) => Effect.Effect<KeyObject, VaultUnavailable | IntegrityFailure>
    /** The same key wrapped by the current root key, for its rotation. */
    readonly rewrap: (
      context: KeyContext,
      wrapped: Uint8Array,
      rootKeyId: string
    ) => Effect.Effect<Wrapped, VaultUnavailable | IntegrityFailure>
    /** Wraps other keys than 256-bit data keys, such as private sealing keys. */
    readonly wrapBytes: (
      context: KeyContext,
      bytes: Redacted.Redacted<Uint8Array>
    ) => Effect.Effect<Wrapped, VaultUnavailable>
    readonly unwrapBytes: (
      context: KeyContext,
      wrapped: Uint8Array,
      rootKeyId: string
    ) => Effect.Effect<Redacted.Redacted<Uint8Array>, VaultUnavailable | IntegrityFailure>
    /** HMAC-SHA256 of the head of an audit stream, under a key that a writer of the database lacks. */
    readonly macAuditHead: (head: Uint8Array) => Effect.Effect<AuditMac, VaultUnavailable>
    /** False also if the vault lacks the root key. */
    readonly auditHeadMatches: (head: Uint8Array, mac: AuditMac) => Effect.Effect<boolean, VaultUnavailable>
    /** Ed25519 signature of an audit checkpoint's text, by a key derived from the current root key. */
    readonly signCheckpoint: (text: Uint8Array) => Effect.Effect<CheckpointSignature, VaultUnavailable>
    /** One for every root key of the vault, the current one first. */
    readonly checkpointKeys: Effect.Effect<ReadonlyArray<CheckpointKey>, VaultUnavailable>
    readonly status: Effect.Effect<VaultStatus, VaultUnavailable>
  }
>() {}

/** Keeps requests within 3 s when the vault hangs (docs/contract/outages.md). */
const deadline = "2 seconds"

/** The interrupted call ends in the background. */
export const inTime = <A, E, R>(call: Effect.Effect<A, E, R>): Effect.Effect<A, E | VaultUnavailable, R> =>
  call.pipe(
    Effect.disconnect,
    Effect.timeoutFail({
      duration: deadline,
      onTimeout: () => new VaultUnavailable({ reason: "The vault did not answer in time." })
    })
  )

/** A vault over root keys in this process: the local vault, and the core of the vault process. */
export const make = Effect.fnUntraced(function* (ring: RootKeyRing) {
  const crypto = yield* Crypto
  const salt = crypto.randomBytes(Envelope.saltLength)

  const unwrap = (context: KeyContext, wrapped: Uint8Array, rootKeyId: string) =>
    Effect.flatMap(ring.having(rootKeyId), (keys) => RootKey.unwrap(keys, context, wrapped, rootKeyId))

  const wrap = (context: KeyContext, bytes: Uint8Array) =>
    Effect.zipWith(ring.now, salt, (keys, salt) => RootKey.wrap(keys, context, bytes, salt))

  return Vault.of({
    generateDataKey: Effect.fnUntraced(function* (context) {
      const bytes = yield* crypto.randomBytes(RootKey.keyLength)
      const wrapped = yield* wrap(context, bytes)
      return { ...wrapped, key: RootKey.secretKeyFrom(bytes) }
    }),
    unwrap: (context, wrapped, rootKeyId) => Effect.map(unwrap(context, wrapped, rootKeyId), RootKey.secretKeyFrom),
    rewrap: Effect.fnUntraced(function* (context, wrapped, rootKeyId) {
      const bytes = yield* unwrap(context, wrapped, rootKeyId)
      const rewrapped = yield* wrap(context, bytes)
      bytes.fill(0)
      return rewrapped
    }),
    wrapBytes: (context, bytes) => wrap(context, Redacted.value(bytes)),
    unwrapBytes: (context, wrapped, rootKeyId) =>
      Effect.map(unwrap(context, wrapped, rootKeyId), (bytes): Redacted.Redacted<Uint8Array> => Redacted.make(bytes)),
    macAuditHead: (head) =>
      Effect.map(ring.now, ({ current }) => ({ mac: RootKey.macAuditHead(current, head), rootKeyId: current.id })),
    auditHeadMatches: (head, { mac, rootKeyId }) =>
      Effect.map(ring.having(rootKeyId), ({ byId }) => {
        const root = byId.get(rootKeyId)
        return root !== undefined && RootKey.auditHeadMatches(root, head, mac)
      }),
    signCheckpoint: (text) =>
      Effect.map(ring.now, ({ current }) => ({
        signature: RootKey.signCheckpoint(current, text),
        publicKey: RootKey.checkpointPublicKey(current),
        rootKeyId: current.id
      })),
    checkpointKeys: Effect.map(ring.now, ({ byId, current }) =>
      [current, ...[...byId.values()].filter((root) => root.id !== current.id)].map((root) => ({
        publicKey: RootKey.checkpointPublicKey(root),
        rootKeyId: root.id
      }))
    ),
    status: Effect.map(ring.now, ({ byId, current }) => ({ rootKeyId: current.id, rootKeyIds: [...byId.keys()] }))
  })
})

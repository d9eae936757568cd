/**
 * Root keys and keys derived from them (docs/security.md). It runs only where a root key is present: in the local vault
 * and in the vault process.
 *
 *   root key -> key-encryption key of a team (derived, never stored) -> wraps data keys and private sealing keys
 */
import { IntegrityFailure } from "#schema/Errors.ts"
import type { KeyContext, VaultUnavailable } from "#schema/Vault.ts"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import type { KeyObject } from "node:crypto"
import {
  createHash,
  createHmac,
  createPrivateKey,
  createPublicKey,
  createSecretKey,
  sign,
  timingSafeEqual
} from "node:crypto"
import { boxContext, deriveKey, openBytes, sealBytes } from "./Envelope.ts"

export const keyLength = 32

export interface RootKey {
  /** `rk_` and 8 hex digits of SHA-256 of a derived value: names the key without revealing it. */
  readonly id: string
  readonly key: KeyObject
}

/**
 * The first key wraps, and every key unwraps its own boxes. A rotation needs no more: the new key first, the old one
 * after.
 */
export interface RootKeys {
  readonly current: RootKey
  readonly byId: ReadonlyMap<string, RootKey>
}

/** A source of keys that can change at run time: a key file that a rotation writes to. */
export interface RootKeyRing {
  /** The current keys, read before every wrapping, so that a replaced key wraps nothing more. */
  readonly now: Effect.Effect<RootKeys, VaultUnavailable>
  /** The keys, reloaded if needed to include the key of this id. */
  readonly having: (id: string) => Effect.Effect<RootKeys>
}

export const fixedRing = (keys: RootKeys): RootKeyRing => ({
  now: Effect.succeed(keys),
  having: () => Effect.succeed(keys)
})

export interface Wrapped {
  readonly wrapped: Uint8Array
  readonly rootKeyId: string
}

export const rootKey = (key: KeyObject): RootKey => {
  const derived = deriveKey(key, boxContext("ampoule root key id v1")).export()
  const id = createHash("sha256").update(derived).digest("hex")
  derived.fill(0)
  return { id: `rk_${id.slice(0, 8)}`, key }
}

export const rootKeys = (current: RootKey, older: ReadonlyArray<RootKey> = []): RootKeys => ({
  current,
  byId: new Map([...older, current].map((root) => [root.id, root]))
})

/** Overwrites the bytes; the key lives on outside the JS heap. */
export const secretKeyFrom = (bytes: Uint8Array): KeyObject => {
  const key = createSecretKey(bytes)
  bytes.fill(0)
  return key
}

const teamKey = (root: RootKey, teamId: string) => deriveKey(root.key, boxContext("ampoule kek v1", teamId))

const wrapContext = (root: RootKey, at: KeyContext) =>
  boxContext("ampoule wrapped key v1", at.purpose, at.teamId, at.projectId, at.environmentId, at.keyId, root.id)

export const wrap = (keys: RootKeys, at: KeyContext, bytes: Uint8Array, salt: Uint8Array): Wrapped => ({
  wrapped: sealBytes(teamKey(keys.current, at.teamId), wrapContext(keys.current, at), bytes, salt),
  rootKeyId: keys.current.id
})

/** Fails if the context differs, a byte changed, or no key of this id is present. */
export const unwrap = (
  keys: RootKeys,
  at: KeyContext,
  wrapped: Uint8Array,
  rootKeyId: string
): Either.Either<Buffer, IntegrityFailure> => {
  const root = keys.byId.get(rootKeyId)
  if (root === undefined) return Either.left(new IntegrityFailure())
  return openBytes(teamKey(root, at.teamId), wrapContext(root, at), wrapped)
}

export const macAuditHead = (root: RootKey, head: Uint8Array): Buffer =>
  createHmac("sha256", deriveKey(root.key, boxContext("ampoule audit mac v1")))
    .update(head)
    .digest()

export const auditHeadMatches = (root: RootKey, head: Uint8Array, mac: Uint8Array): boolean =>
  mac.length === 32 && timingSafeEqual(macAuditHead(root, head), mac)

/** PrivateKeyInfo of an Ed25519 key up to its 32 bytes of seed (RFC 8410 7). */
const ed25519Prefix = Buffer.from("302e020100300506032b657004220420", "hex")

/** Ed25519 (RFC 8032). Overwrites the 32 bytes of seed. */
export const signingKeyFrom = (seed: Buffer): KeyObject => {
  const der = Buffer.concat([ed25519Prefix, seed])
  const key = createPrivateKey({ key: der, format: "der", type: "pkcs8" })
  seed.fill(0)
  der.fill(0)
  return key
}

/** The key that signs audit checkpoints. It is derived, so a holder of the root key can always name its public half. */
const checkpointKey = (root: RootKey): KeyObject =>
  signingKeyFrom(deriveKey(root.key, boxContext("ampoule audit checkpoint v1")).export())

/** 64 bytes. */
export const signCheckpoint = (root: RootKey, text: Uint8Array): Buffer => sign(null, text, checkpointKey(root))

/** 32 raw bytes. */
export const checkpointPublicKey = (root: RootKey): Buffer =>
  createPublicKey(checkpointKey(root)).export({ format: "der", type: "spki" }).subarray(-32)

/** Reads 32 bytes from 64 hex digits, or from base64 or base64url with or without padding. None for other texts. */
export const parseRootKey = (text: Redacted.Redacted<string>): Option.Option<RootKey> => {
  const s = Redacted.value(text).trim()
  const bytes = /^[0-9a-fA-F]{64}$/.test(s)
    ? Buffer.from(s, "hex")
    : /^[A-Za-z0-9+/_-]{43}=?$/.test(s)
      ? Buffer.from(s, "base64")
      : undefined
  return bytes?.length === keyLength ? Option.some(rootKey(secretKeyFrom(bytes))) : Option.none()
}

/**
 * The box, the format of every stored ciphertext (docs/security.md; published vectors: test/vectors/box-v1.json).
 *
 *   byte  0       1    format version
 *   byte  1            algorithm: 1 is HKDF-SHA256 with XChaCha20-Poly1305, 2 the same with AES-256-GCM
 *   bytes 2-33    salt, random, never repeated under a key
 *   bytes 34-65   commitment to key and context
 *   bytes 66-     ciphertext, then the 16-byte tag
 *
 * info is bytes 0-1 and the context (fields below). HKDF-SHA256(key, salt, info) gives 32 bytes of subkey, 24 (AES: 12)
 * of nonce, 32 of commitment. info is also the AAD. The commitment is compared before decryption, because neither cipher
 * alone prevents one ciphertext from opening under two keys. Subkey and nonce repeat only if a 256-bit salt does, so no
 * counter is needed. info contains the algorithm, so a change of it changes the commitment. The row of a box has a column
 * for its data key. The context contains the key's id, so a box fails to open in another row.
 */
import { IntegrityFailure } from "#schema/Errors.ts"
import * as Context from "effect/Context"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import type { KeyObject } from "node:crypto"
import { createHmac, createSecretKey, hkdfSync, timingSafeEqual } from "node:crypto"
import { aesGcm, tagLength, xChaCha } from "./Aead.ts"

const version = 1
/** The supported algorithms. Each opens its boxes for good, since a box names its algorithm. */
const ciphers = {
  "xchacha20-poly1305": { byte: 1, ...xChaCha },
  "aes-256-gcm": { byte: 2, ...aesGcm }
} as const
export type CipherName = keyof typeof ciphers
type Cipher = (typeof ciphers)[CipherName]
const byByte: ReadonlyMap<number | undefined, Cipher> = new Map(
  Object.values(ciphers).map((cipher) => [cipher.byte, cipher])
)

/** The cipher of new values (`AMPOULE_VALUE_CIPHER`). */
export class ValueCipher extends Context.Reference<ValueCipher>()("crypto/ValueCipher", {
  defaultValue: (): CipherName => "xchacha20-poly1305"
}) {}

export const saltLength = 32
const commitmentLength = 32
const headerLength = 2
const commitmentAt = headerLength + saltLength
const sealedAt = commitmentAt + commitmentLength

/** Bytes that a box adds to its plaintext, with either algorithm. */
export const overhead = sealedAt + tagLength

/** OpenSSL's limit for HKDF info. Contexts are far below it, unless a row was altered. */
const maxInfoLength = 1024

declare const context: unique symbol
/** Encoded context: the kind and the place of a ciphertext. Only named functions of this folder create it. */
export type BoxContext = Uint8Array & { readonly [context]: true }

/**
 * Injective: each field follows its length (4 bytes, big-endian), so different lists never encode alike. The first
 * field names the context and its version.
 */
export const boxContext = (name: `ampoule ${string} v${number}`, ...fields: ReadonlyArray<string>): BoxContext => {
  let length = 4 + Buffer.byteLength(name)
  for (const field of fields) length += 4 + Buffer.byteLength(field)
  const out = Buffer.alloc(length)
  let at = 0
  const put = (field: string) => {
    const size = out.write(field, at + 4)
    out.writeUInt32BE(size, at)
    at += 4 + size
  }
  put(name)
  for (const field of fields) put(field)
  // The brand: only this function creates contexts, with the length before each field.
  return out as Uint8Array as BoxContext
}

/** The place of one version of one secret. Ids are lower-case text. */
export interface ValueContext {
  readonly teamId: string
  readonly projectId: string
  readonly environmentId: string
  readonly secretId: string
  /** The secret's name, so that a writer of the database cannot rename a value. */
  readonly key: string
  /** The kind, so that a literal cannot become a template, which would be expanded. */
  readonly kind: string
  readonly version: number
  readonly dataKeyId: string
  /** The id of the database that the data key is bound to. Undefined: a data key of a release without it. */
  readonly instance: string | undefined
}

/**
 * The place of a box of changes that wait for an approval. No secret has an empty key or version 0: neither kind of box
 * opens in place of the other.
 */
export const requestPlace = (id: string) => ({ secretId: id, key: "", kind: "changes", version: 0 })

const secretContext = (at: ValueContext): BoxContext => {
  const { dataKeyId, environmentId, instance, key, kind, projectId, secretId, teamId } = at
  const version = String(at.version)
  return instance === undefined
    ? boxContext("ampoule secret v1", teamId, projectId, environmentId, secretId, key, kind, version, dataKeyId)
    : boxContext(
        "ampoule secret v2",
        instance,
        teamId,
        projectId,
        environmentId,
        secretId,
        key,
        kind,
        version,
        dataKeyId
      )
}

const infoOf = (cipher: Cipher, at: BoxContext) => {
  const info = new Uint8Array(headerLength + at.length)
  info[0] = version
  info[1] = cipher.byte
  info.set(at, headerLength)
  return info
}

const derive = (cipher: Cipher, key: KeyObject, salt: Uint8Array, info: Uint8Array) => {
  const nonceAt = cipher.keyLength
  const commitmentAt = nonceAt + cipher.nonceLength
  const material = new Uint8Array(hkdfSync("sha256", key, salt, info, commitmentAt + commitmentLength))
  return {
    material,
    subkey: material.subarray(0, nonceAt),
    nonce: material.subarray(nonceAt, commitmentAt),
    commitment: material.subarray(commitmentAt)
  }
}

/** `salt`: 32 fresh random bytes. The result has `plaintext.length + overhead` bytes. */
export const sealBytes = (
  key: KeyObject,
  at: BoxContext,
  plaintext: Uint8Array,
  salt: Uint8Array,
  name: CipherName = "xchacha20-poly1305"
): Buffer => {
  if (salt.length !== saltLength) throw new RangeError("a salt has 32 bytes")
  const cipher = ciphers[name]
  const info = infoOf(cipher, at)
  const { commitment, material, nonce, subkey } = derive(cipher, key, salt, info)
  const box = Buffer.allocUnsafeSlow(overhead + plaintext.length)
  box[0] = version
  box[1] = cipher.byte
  box.set(salt, headerLength)
  box.set(commitment, commitmentAt)
  cipher.sealInto(box, sealedAt, subkey, nonce, info, plaintext)
  material.fill(0)
  return box
}

const integrityFailure = Either.left(new IntegrityFailure())

/** Fails if a byte of box or context was changed, or if the key is another. */
export const openBytes = (key: KeyObject, at: BoxContext, box: Uint8Array): Either.Either<Buffer, IntegrityFailure> => {
  const cipher = byByte.get(box[1])
  if (box.length < overhead || box[0] !== version || cipher === undefined) return integrityFailure
  const info = infoOf(cipher, at)
  if (info.length > maxInfoLength) return integrityFailure
  const { commitment, material, nonce, subkey } = derive(cipher, key, box.subarray(headerLength, commitmentAt), info)
  const plaintext = timingSafeEqual(commitment, box.subarray(commitmentAt, sealedAt))
    ? cipher.open(subkey, nonce, info, box.subarray(sealedAt))
    : Option.none()
  material.fill(0)
  return Option.isSome(plaintext) ? Either.right(plaintext.value) : integrityFailure
}

/**
 * Seals one version of a secret, synchronously in about 20 µs. The text must be well-formed, which `SecretText` checks.
 */
export const sealValue = (
  key: KeyObject,
  at: ValueContext,
  plaintext: string,
  salt: Uint8Array,
  cipher?: CipherName
): Buffer => {
  const bytes = Buffer.from(plaintext)
  const box = sealBytes(key, secretContext(at), bytes, salt, cipher)
  // Small buffers share a slab in Node, whose content later buffers can see.
  bytes.fill(0)
  return box
}

export const openValue = (key: KeyObject, at: ValueContext, box: Uint8Array): Either.Either<string, IntegrityFailure> =>
  Either.map(openBytes(key, secretContext(at), box), (bytes) => {
    const text = bytes.toString()
    bytes.fill(0)
    return text
  })

/** Derives a key by HKDF-SHA256 without salt, for one purpose of a uniform key (RFC 5869 3.1). */
export const deriveKey = (key: KeyObject, at: BoxContext): KeyObject => {
  const bytes = new Uint8Array(hkdfSync("sha256", key, new Uint8Array(0), at, 32))
  const derived = createSecretKey(bytes)
  bytes.fill(0)
  return derived
}

/**
 * HMAC-SHA256 under a key derived for `purpose`, 32 bytes. A fingerprint that reveals nothing to a reader of the
 * database, such as that of a request body stored with its idempotency key.
 */
export const mac = (key: KeyObject, purpose: string, bytes: Uint8Array): Buffer =>
  createHmac("sha256", deriveKey(key, boxContext("ampoule mac v1", purpose)))
    .update(bytes)
    .digest()

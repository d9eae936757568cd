/**
 * A leaf folder: the server and the command line both import `src/sealed`, which imports nothing of either.
 *
 * HPKE (RFC 9180) base mode, DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-256-GCM (docs/contract/sealed-values.md).
 * Base mode, because sealing must need the public key and nothing else.
 */
import { Aes256Gcm, CipherSuite, DhkemX25519HkdfSha256, HkdfSha256 } from "@hpke/core"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { createPrivateKey, createPublicKey } from "node:crypto"

export const algorithm = "hpke-x25519-hkdf-sha256-aes-256-gcm"
export const keyLength = 32
/** The encapsulated key that precedes a ciphertext. */
export const encLength = 32
export const tagLength = 16

const suite = new CipherSuite({ kem: new DhkemX25519HkdfSha256(), kdf: new HkdfSha256(), aead: new Aes256Gcm() })

/** The bytes are no X25519 key that can be used, for example a point of small order. */
export class SealingKeyInvalid extends Data.TaggedError("SealingKeyInvalid")<{}> {}

/** Altered, sealed for something else, or by another key: AEADs do not say which. */
export class OpenRefused extends Data.TaggedError("OpenRefused")<{}> {}

/** 32 raw bytes each. */
export interface KeyPair {
  readonly publicKey: Uint8Array
  readonly privateKey: Redacted.Redacted<Uint8Array>
}

export type PublicKey = CryptoKey
/** The private half cannot be exported. With the public half at hand no opening has to derive it again. */
export type OpeningKey = CryptoKeyPair

/** WebCrypto takes an ArrayBuffer of its own: never a view into a shared pool. */
const own = (bytes: Uint8Array): ArrayBuffer => Uint8Array.from(bytes).buffer

/** DeriveKeyPair of RFC 9180 7.1.3. `seed`: 32 random bytes, used for this only. */
export const deriveKeyPair = (seed: Redacted.Redacted<Uint8Array>): Effect.Effect<KeyPair> =>
  Effect.promise(async () => {
    const pair = await suite.kem.deriveKeyPair(own(Redacted.value(seed)))
    return {
      publicKey: new Uint8Array(await suite.kem.serializePublicKey(pair.publicKey)),
      privateKey: Redacted.make(new Uint8Array(await suite.kem.serializePrivateKey(pair.privateKey)))
    }
  })

export const importPublicKey = (bytes: Uint8Array): Effect.Effect<PublicKey, SealingKeyInvalid> =>
  Effect.tryPromise({
    try: () => suite.kem.deserializePublicKey(own(bytes)),
    catch: () => new SealingKeyInvalid()
  })

/** PrivateKeyInfo of an X25519 key up to its 32 bytes (RFC 8410 7): WebCrypto has no raw import for private keys. */
const pkcs8Prefix = Buffer.from("302e020100300506032b656e04220420", "hex")

/** The public half that belongs to a private one, 32 raw bytes. */
export const publicKeyOf = (privateKey: Redacted.Redacted<Uint8Array>): Effect.Effect<Uint8Array, SealingKeyInvalid> =>
  Effect.try({
    try: () => {
      const der = Buffer.concat([pkcs8Prefix, Redacted.value(privateKey)])
      const key = createPublicKey(createPrivateKey({ key: der, format: "der", type: "pkcs8" }))
      der.fill(0)
      return new Uint8Array(key.export({ format: "der", type: "spki" }).subarray(-keyLength))
    },
    catch: () => new SealingKeyInvalid()
  })

export const importOpeningKey = (pair: KeyPair): Effect.Effect<OpeningKey, SealingKeyInvalid> =>
  Effect.tryPromise({
    try: async () => {
      const pkcs8 = own(Buffer.concat([pkcs8Prefix, Redacted.value(pair.privateKey)]))
      const privateKey = await crypto.subtle.importKey("pkcs8", pkcs8, { name: "X25519" }, false, ["deriveBits"])
      new Uint8Array(pkcs8).fill(0)
      return { privateKey, publicKey: await suite.kem.deserializePublicKey(own(pair.publicKey)) }
    },
    catch: () => new SealingKeyInvalid()
  })

/** enc ‖ ciphertext, with a fresh ephemeral key each time. */
export const seal = (
  publicKey: PublicKey,
  info: Uint8Array,
  aad: Uint8Array,
  plaintext: Uint8Array
): Effect.Effect<Uint8Array, SealingKeyInvalid> =>
  Effect.tryPromise({
    try: async () => {
      const sender = { recipientPublicKey: publicKey, info: own(info) }
      const { ct, enc } = await suite.seal(sender, own(plaintext), own(aad))
      return Buffer.concat([new Uint8Array(enc), new Uint8Array(ct)])
    },
    catch: () => new SealingKeyInvalid()
  })

export const open = (
  key: OpeningKey,
  info: Uint8Array,
  aad: Uint8Array,
  sealed: Uint8Array
): Effect.Effect<Uint8Array, OpenRefused> =>
  Effect.tryPromise({
    try: async () => {
      const recipient = { recipientKey: key, enc: own(sealed.subarray(0, encLength)), info: own(info) }
      return new Uint8Array(await suite.open(recipient, own(sealed.subarray(encLength)), own(aad)))
    },
    catch: () => new OpenRefused()
  })

/**
 * The two authenticated ciphers of boxes, by OpenSSL, with ciphertext and tag in one piece.
 */
import { hchacha } from "@noble/ciphers/chacha.js"
import * as Option from "effect/Option"
import {
  type CipherChaCha20Poly1305,
  type CipherGCM,
  type CipherKey,
  createCipheriv,
  createDecipheriv,
  type DecipherChaCha20Poly1305,
  type DecipherGCM
} from "node:crypto"

/** Bytes. */
export const tagLength = 16
const options = { authTagLength: tagLength }

/** A cipher by key and nonce. Key and nonce belong to one box. */
export interface Cipher<Key> {
  /** Bytes. */
  readonly keyLength: number
  readonly nonceLength: number
  /** Writes ciphertext and tag into `out` from `offset` on: `plaintext.length + 16` bytes. */
  readonly sealInto: (
    out: Buffer,
    offset: number,
    key: Key,
    nonce: Uint8Array,
    aad: Uint8Array,
    plaintext: Uint8Array
  ) => void
  /** Returns the plaintext in its own memory. */
  readonly open: (key: Key, nonce: Uint8Array, aad: Uint8Array, sealed: Uint8Array) => Option.Option<Buffer>
}

/** Writes ciphertext and tag into `out` from `offset` on: `plaintext.length + 16` bytes. */
const sealWith = (
  out: Buffer,
  offset: number,
  cipher: CipherGCM | CipherChaCha20Poly1305,
  aad: Uint8Array,
  plaintext: Uint8Array
): void => {
  cipher.setAAD(aad, { plaintextLength: plaintext.length })
  cipher.update(plaintext).copy(out, offset)
  // Both are stream ciphers: `final` adds nothing to the text.
  cipher.final()
  cipher.getAuthTag().copy(out, offset + plaintext.length)
}

/** Returns the plaintext in its own memory, so that a caller can overwrite it. `sealed` ends with the tag. */
const openWith = (
  sealed: Uint8Array,
  aad: Uint8Array,
  decipherOf: () => DecipherGCM | DecipherChaCha20Poly1305
): Option.Option<Buffer> => {
  const length = sealed.length - tagLength
  if (length < 0) return Option.none()
  const decipher = decipherOf()
  decipher.setAAD(aad, { plaintextLength: length })
  decipher.setAuthTag(sealed.subarray(length))
  const plaintext = decipher.update(sealed.subarray(0, length))
  // node:crypto reports a wrong tag only by throwing here.
  try {
    decipher.final()
  } catch {
    plaintext.fill(0)
    return Option.none()
  }
  return Option.some(plaintext)
}

// --- AES-256-GCM ---

/**
 * AES-256-GCM (NIST SP 800-38D), for users limited to approved ciphers. Its 12-byte nonce is too short to draw at random
 * under one key, so key and nonce are derived from the salt of their box, or the nonce counts.
 */
export const aesGcm: Cipher<CipherKey> = {
  keyLength: 32,
  nonceLength: 12,
  sealInto: (out, offset, key, nonce, aad, plaintext) =>
    sealWith(out, offset, createCipheriv("aes-256-gcm", key, nonce, options), aad, plaintext),
  open: (key, nonce, aad, sealed) => openWith(sealed, aad, () => createDecipheriv("aes-256-gcm", key, nonce, options))
}

// --- XChaCha20-Poly1305 ---

const xChaChaKeyLength = 32

const words = (bytes: Uint8Array) => new Uint32Array(Uint8Array.from(bytes).buffer)

const sigma = words(new TextEncoder().encode("expand 32-byte k"))

/** Calls `use` with the inner key, and then overwrites that key and the copy of the subkey. */
const withInnerKey = <A>(key: Uint8Array, nonce: Uint8Array, use: (innerKey: Uint8Array) => A): A => {
  const inner = new Uint32Array(xChaChaKeyLength / 4)
  const subkey = words(key)
  hchacha(sigma, subkey, words(nonce.subarray(0, 16)), inner)
  const out = use(new Uint8Array(inner.buffer))
  subkey.fill(0)
  inner.fill(0)
  return out
}

/** Four zero bytes and the last eight of the 24-byte nonce (draft section 2.3). */
const innerNonce = (nonce: Uint8Array) => {
  const out = new Uint8Array(12)
  out.set(nonce.subarray(16), 4)
  return out
}

/**
 * XChaCha20-Poly1305 (draft-irtf-cfrg-xchacha-03). `@noble/ciphers` derives the inner key (HChaCha20, which
 * `node:crypto` lacks), and OpenSSL does the inner ChaCha20-Poly1305 (RFC 8439). The result equals noble's own
 * `xchacha20poly1305` bit for bit (test/crypto/XChaCha.test.ts), in a tenth of the time for large values, and without
 * plaintext copies in noble. One path serves every size, so one set of vectors covers it. Use it with one-value subkeys
 * only, never with long-lived keys: noble keeps copies of keys in the JS heap.
 */
export const xChaCha: Cipher<Uint8Array> = {
  keyLength: xChaChaKeyLength,
  nonceLength: 24,
  sealInto: (out, offset, key, nonce, aad, plaintext) => {
    const cipher = withInnerKey(key, nonce, (innerKey) =>
      createCipheriv("chacha20-poly1305", innerKey, innerNonce(nonce), options)
    )
    sealWith(out, offset, cipher, aad, plaintext)
  },
  open: (key, nonce, aad, sealed) =>
    openWith(sealed, aad, () =>
      withInnerKey(key, nonce, (innerKey) =>
        createDecipheriv("chacha20-poly1305", innerKey, innerNonce(nonce), options)
      )
    )
}

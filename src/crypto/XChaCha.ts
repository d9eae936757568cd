/**
 * XChaCha20-Poly1305 (draft-irtf-cfrg-xchacha-03). `@noble/ciphers` derives the inner key (HChaCha20, which
 * `node:crypto` lacks), and OpenSSL does the inner ChaCha20-Poly1305 (RFC 8439). The result equals noble's own
 * `xchacha20poly1305` bit for bit (test/crypto/XChaCha.test.ts), in a tenth of the time for large values, and without
 * plaintext copies in noble. One path serves every size, so one set of vectors covers it. Use it with one-value subkeys
 * only, never with long-lived keys: noble keeps copies of keys in the JS heap.
 */
import { hchacha } from "@noble/ciphers/chacha.js"
import type * as Option from "effect/Option"
import { createCipheriv, createDecipheriv } from "node:crypto"
import * as Aead from "./Aead.ts"

export const keyLength = 32
export const nonceLength = 24
const options = { authTagLength: Aead.tagLength }

const words = (bytes: Uint8Array) => new Uint32Array(Uint8Array.from(bytes).buffer)

const sigma = words(new TextEncoder().encode("expand 32-byte k"))

/** Calls `use` with the inner key, and then overwrites that key and the copy of the subkey. */
const withInnerKey = <A>(key: Uint8Array, nonce: Uint8Array, use: (innerKey: Uint8Array) => A): A => {
  const inner = new Uint32Array(keyLength / 4)
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

/** Writes ciphertext and tag into `out` from `offset` on: `plaintext.length + 16` bytes. */
export const sealInto = (
  out: Buffer,
  offset: number,
  key: Uint8Array,
  nonce: Uint8Array,
  aad: Uint8Array,
  plaintext: Uint8Array
): void => {
  const cipher = withInnerKey(key, nonce, (innerKey) =>
    createCipheriv("chacha20-poly1305", innerKey, innerNonce(nonce), options)
  )
  Aead.sealInto(out, offset, cipher, aad, plaintext)
}

/** Returns the plaintext in its own memory. */
export const open = (key: Uint8Array, nonce: Uint8Array, aad: Uint8Array, sealed: Uint8Array): Option.Option<Buffer> =>
  Aead.open(sealed, aad, () =>
    withInnerKey(key, nonce, (innerKey) => createDecipheriv("chacha20-poly1305", innerKey, innerNonce(nonce), options))
  )

/**
 * AES-256-GCM (NIST SP 800-38D) by OpenSSL, with the interface of XChaCha.ts, for users limited to approved ciphers.
 * Its 12-byte nonce is too short to draw at random under one key. Here key and nonce belong to one box, derived from
 * its salt.
 */
import type * as Option from "effect/Option"
import { type CipherKey, createCipheriv, createDecipheriv } from "node:crypto"
import * as Aead from "./Aead.ts"

export const keyLength = 32
export const nonceLength = 12
const options = { authTagLength: Aead.tagLength }

/** Writes ciphertext and tag into `out` from `offset` on: `plaintext.length + 16` bytes. */
export const sealInto = (
  out: Buffer,
  offset: number,
  key: CipherKey,
  nonce: Uint8Array,
  aad: Uint8Array,
  plaintext: Uint8Array
): void => Aead.sealInto(out, offset, createCipheriv("aes-256-gcm", key, nonce, options), aad, plaintext)

/** Returns the plaintext in its own memory. */
export const open = (key: CipherKey, nonce: Uint8Array, aad: Uint8Array, sealed: Uint8Array): Option.Option<Buffer> =>
  Aead.open(sealed, aad, () => createDecipheriv("aes-256-gcm", key, nonce, options))

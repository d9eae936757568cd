/**
 * AES-256-GCM (NIST SP 800-38D) by OpenSSL, in the shape of XChaCha.ts: for who may use approved ciphers only. Its
 * nonce has 12 bytes, too few to draw at random under one key; here key and nonce are both of one box, derived from its
 * salt.
 */
import * as Option from "effect/Option"
import { createCipheriv, createDecipheriv } from "node:crypto"

export const keyLength = 32
export const nonceLength = 12
export const tagLength = 16

/** Writes ciphertext and tag into `out` from `offset` on: `plaintext.length + 16` bytes. */
export const sealInto = (
  out: Buffer,
  offset: number,
  key: Uint8Array,
  nonce: Uint8Array,
  aad: Uint8Array,
  plaintext: Uint8Array
): void => {
  const cipher = createCipheriv("aes-256-gcm", key, nonce, { authTagLength: tagLength })
  cipher.setAAD(aad)
  cipher.update(plaintext).copy(out, offset)
  cipher.final()
  cipher.getAuthTag().copy(out, offset + plaintext.length)
}

/** The plaintext in memory of its own, so that a caller can overwrite it. */
export const open = (
  key: Uint8Array,
  nonce: Uint8Array,
  aad: Uint8Array,
  sealed: Uint8Array
): Option.Option<Buffer> => {
  const length = sealed.length - tagLength
  if (length < 0) return Option.none()
  const decipher = createDecipheriv("aes-256-gcm", key, nonce, { authTagLength: tagLength })
  decipher.setAAD(aad)
  decipher.setAuthTag(sealed.subarray(length))
  const plaintext = decipher.update(sealed.subarray(0, length))
  // node:crypto reports a tag that does not match only by throwing here.
  try {
    decipher.final()
  } catch {
    plaintext.fill(0)
    return Option.none()
  }
  return Option.some(plaintext)
}

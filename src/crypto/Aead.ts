/** Ciphertext and tag in one piece, for the authenticated ciphers of OpenSSL that have a tag of 16 bytes. */
import * as Option from "effect/Option"
import type { CipherChaCha20Poly1305, CipherGCM, DecipherChaCha20Poly1305, DecipherGCM } from "node:crypto"

export const tagLength = 16

/** Writes ciphertext and tag into `out` from `offset` on: `plaintext.length + 16` bytes. */
export const sealInto = (
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
export const open = (
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

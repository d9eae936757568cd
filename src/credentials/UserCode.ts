/** The code that a person compares and types (RFC 8628 6.1): 8 letters out of 20 without vowels, 34.6 bits. Pure. */
import { sha256 } from "#src/crypto/Crypto.ts"

export const alphabet = "BCDFGHJKLMNPQRSTVWXZ"
export const length = 8

const canonicalPattern = /^[BCDFGHJKLMNPQRSTVWXZ]{8}$/

/** Canonical form of a typed code; case, dashes and spaces are ignored. Undefined for text that cannot be a code. */
export const canonical = (typed: string): string | undefined => {
  if (typed.length > 64) return undefined
  const code = typed.replace(/[\s\p{Dash_Punctuation}]/gu, "").toUpperCase()
  return canonicalPattern.test(code) ? code : undefined
}

/** Format `XXXX-XXXX` of a canonical code. */
export const print = (code: string): string => `${code.slice(0, 4)}-${code.slice(4)}`

/** Look-up key of a canonical code, which itself is never stored. */
export const hash = (code: string): Buffer => sha256(code)

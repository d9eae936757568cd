/** The code a person compares and types (RFC 8628 6.1): 8 letters of 20, 34.6 bits, never a vowel. Pure. */
import { sha256 } from "#src/crypto/Crypto.ts"

export const alphabet = "BCDFGHJKLMNPQRSTVWXZ"
export const length = 8

const canonicalPattern = /^[BCDFGHJKLMNPQRSTVWXZ]{8}$/

/** As typed to as stored; case, dashes and spaces do not count. Undefined for what no code can be. */
export const canonical = (typed: string): string | undefined => {
  if (typed.length > 64) return undefined
  const code = typed.replace(/[\s\p{Dash_Punctuation}]/gu, "").toUpperCase()
  return canonicalPattern.test(code) ? code : undefined
}

/** `XXXX-XXXX` of a canonical code. */
export const print = (code: string): string => `${code.slice(0, 4)}-${code.slice(4)}`

/** What the database looks a canonical code up by: the code itself is stored nowhere. */
export const hash = (code: string): Buffer => sha256(code)

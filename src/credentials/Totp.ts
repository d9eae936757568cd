/**
 * One-time codes of an authenticator app: TOTP (RFC 6238) with SHA-1, six digits and 30 seconds, as every app supports.
 * Pure.
 */
import { createHmac, timingSafeEqual } from "node:crypto"

const stepSeconds = 30
const digits = 6
/** Bytes; 160 bits, as RFC 4226 4 recommends. */
export const secretLength = 20

const base32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"

/** RFC 4648 without padding, for a person who types the secret into an app. */
export const base32Of = (bytes: Uint8Array): string => {
  let text = ""
  let bits = 0
  let pending = 0
  for (const byte of bytes) {
    pending = (pending << 8) | byte
    bits += 8
    for (; bits >= 5; bits -= 5) text += base32[(pending >> (bits - 5)) & 31]
    pending &= (1 << bits) - 1
  }
  return bits === 0 ? text : text + base32[(pending << (5 - bits)) & 31]
}

export const stepAt = (millis: number): number => Math.floor(millis / 1_000 / stepSeconds)

/** The code of one step (RFC 4226 5.3). */
export const codeAt = (secret: Uint8Array, step: number, length = digits, algorithm = "sha1"): string => {
  const counter = Buffer.alloc(8)
  counter.writeBigUInt64BE(BigInt(step))
  const mac = createHmac(algorithm, secret).update(counter).digest()
  const offset = mac[mac.length - 1] & 15
  const number = mac.readUInt32BE(offset) & 0x7f_ff_ff_ff
  return String(number % 10 ** length).padStart(length, "0")
}

/** Whether the text has six digits, with any spaces. */
export const isCode = (typed: string): boolean => /^(?:\s*\d){6}\s*$/.test(typed)

/**
 * The step of the typed code: the current one, or a neighbour, for clock differences and slow typing. Never one up to
 * `usedStep`: a code is good once (RFC 6238 5.2). All three are compared, in constant time.
 */
export const matchingStep = (
  secret: Uint8Array,
  typed: string,
  { millis, usedStep }: { readonly millis: number; readonly usedStep: number }
): number | undefined => {
  const code = Buffer.from(typed.replace(/\s/g, ""))
  const now = stepAt(millis)
  const matching = [now - 1, now, now + 1].filter((step) => {
    const expected = Buffer.from(codeAt(secret, step))
    return code.length === expected.length && timingSafeEqual(code, expected)
  })
  return matching.find((step) => step > usedStep)
}

/** Address for the QR code that an app scans. */
export const uriOf = (secret: Uint8Array, email: string, issuer: string): string =>
  `otpauth://totp/${encodeURIComponent(issuer)}:${encodeURIComponent(email)}?${new URLSearchParams({
    secret: base32Of(secret),
    issuer,
    algorithm: "SHA1",
    digits: String(digits),
    period: String(stepSeconds)
  }).toString()}`

/** Secrets of registered clients. The library compares what it finds in the store, so the store has their hashes. */
import { timingSafeEqual } from "node:crypto"
import { sha256 } from "#src/crypto/Crypto.ts"

const prefix = "sha256:"

export const hashOf = (secret: string): string => prefix + sha256(secret).toString("base64url")

/** In constant time. */
export const matches = (stored: string | undefined, given: string): boolean => {
  const a = Buffer.from(stored ?? "")
  const b = Buffer.from(hashOf(given))
  return stored?.startsWith(prefix) === true && a.length === b.length && timingSafeEqual(a, b)
}

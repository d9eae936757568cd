/**
 * MAC over content that a caller saw and names again. Its key comes from a data key: without it a digest can neither be
 * made nor be used to test guesses.
 */
import { createHmac, hkdfSync, type KeyObject } from "node:crypto"
import type { BoxContext } from "./Envelope.ts"

/** 32 bytes, in base64url. */
export const contentMac = (dataKey: KeyObject, at: BoxContext, content: string): string => {
  const key = Buffer.from(hkdfSync("sha256", dataKey, new Uint8Array(0), at, 32))
  const mac = createHmac("sha256", key).update(content).digest("base64url")
  key.fill(0)
  return mac
}

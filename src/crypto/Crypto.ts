/** Randomness, ids and digests as a service (docs/architecture.md). */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { createHash, randomBytes, timingSafeEqual } from "node:crypto"

/** The source of random bytes: the operating system, or a test's. */
export class Randomness extends Context.Reference<Randomness>()("crypto/Randomness", {
  defaultValue: () => ({ bytes: (length: number): Buffer => randomBytes(length) })
}) {}

export const base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

export const sha256 = (...parts: ReadonlyArray<Uint8Array | string>): Buffer => {
  const hash = createHash("sha256")
  for (const part of parts) hash.update(part)
  return hash.digest()
}

/** Constant-time for equal lengths. Lengths are never secret here (digests, MACs). */
export const safeEqual = (a: Uint8Array, b: Uint8Array): boolean => a.length === b.length && timingSafeEqual(a, b)

/** Random bytes of a UUIDv7. */
const uuidBytes = 10

export class Crypto extends Effect.Service<Crypto>()("crypto/Crypto", {
  effect: Effect.gen(function* () {
    const random = yield* Randomness

    // UUIDv7 with a 12-bit counter (RFC 9562 6.2 method 1). Ids of one process sort in order of creation, even if the
    // clock stops or steps back.
    let lastMillis = -1
    let counter = 0
    // Drawn for many ids at once: a call per id would cost more than the rest of the id.
    let pool: Buffer = Buffer.alloc(0)
    const nextBytes = (): Buffer => {
      if (pool.length < uuidBytes) pool = random.bytes(uuidBytes * 256)
      const bytes = pool.subarray(0, uuidBytes)
      pool = pool.subarray(uuidBytes)
      return bytes
    }
    const nextUuid = (millis: number): string => {
      const bytes = nextBytes()
      if (millis > lastMillis) {
        lastMillis = millis
        counter = bytes.readUInt16BE(8) & 0x7ff
      } else if (++counter > 0xfff) {
        lastMillis++
        counter = 0
      }
      const tail = bytes.toString("hex", 0, 8)
      const time = lastMillis.toString(16).padStart(12, "0")
      const variant = ((bytes[0] & 0x3f) | 0x80).toString(16)
      return `${time.slice(0, 8)}-${time.slice(8)}-7${counter.toString(16).padStart(3, "0")}-${variant}${tail.slice(2, 4)}-${tail.slice(4)}`
    }

    /** Uniform over the alphabet (at most 256 characters). It discards bytes that would favour the first characters. */
    const text = (alphabet: string, length: number): string => {
      const limit = 256 - (256 % alphabet.length)
      let out = ""
      while (out.length < length) {
        for (const byte of random.bytes(length - out.length + 8)) {
          if (byte < limit && out.length < length) out += alphabet[byte % alphabet.length]
        }
      }
      return out
    }

    return {
      randomBytes: (length: number): Effect.Effect<Buffer> => Effect.sync(() => random.bytes(length)),
      /** A UUIDv7 for a time that the caller has read. */
      uuidAt: nextUuid,
      /** A UUIDv7 in lower case. */
      uuid: Effect.map(Clock.currentTimeMillis, nextUuid),
      /** `count` ids in ascending order. */
      uuids: (count: number): Effect.Effect<ReadonlyArray<string>> =>
        Effect.map(Clock.currentTimeMillis, (millis) => Array.from({ length: count }, () => nextUuid(millis))),
      randomText: (alphabet: string, length: number): Effect.Effect<string> =>
        Effect.sync(() => text(alphabet, length)),
      /** The look-up half of a credential: 16 base62 characters (docs/contract/credentials.md). */
      lookupId: Effect.sync(() => text(base62, 16)),
      /** The secret half of a credential: 43 base62 characters, 256 bits. */
      credentialSecret: Effect.sync(() => Redacted.make(text(base62, 43)))
    }
  })
}) {}

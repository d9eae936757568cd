/**
 * Encrypts what the process caches (resolved environments) in memory, with AES-256-GCM rather than the box of
 * Envelope.ts. The key belongs to the process, drawn at start and never written. So a counter can serve as nonce, and
 * large snapshots open ten times faster than with a subkey per value.
 *
 *   12 bytes counter | ciphertext | 16 bytes tag
 */
import * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import { generateKeySync } from "node:crypto"
import { aesGcm, tagLength } from "./Aead.ts"

const { nonceLength } = aesGcm

export class SnapshotCipher extends Effect.Service<SnapshotCipher>()("crypto/SnapshotCipher", {
  sync: () => {
    const key = generateKeySync("aes", { length: 256 })
    let count = 0n

    /** `aad` identifies the bytes, so that one snapshot cannot replace another. */
    const seal = (bytes: Uint8Array, aad: Uint8Array): Buffer => {
      const out = Buffer.allocUnsafeSlow(nonceLength + bytes.length + tagLength)
      out.writeUInt32BE(0, 0)
      out.writeBigUInt64BE(++count, 4)
      aesGcm.sealInto(out, nonceLength, key, out.subarray(0, nonceLength), aad, bytes)
      return out
    }

    const open = (sealed: Uint8Array, aad: Uint8Array): Option.Option<Buffer> =>
      aesGcm.open(key, sealed.subarray(0, nonceLength), aad, sealed.subarray(nonceLength))

    return { seal, open }
  }
}) {}

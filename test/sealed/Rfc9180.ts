/** HPKE base mode for X25519 and HKDF-SHA256 from the text of RFC 9180, on node:crypto: the tests' second opinion. */
import {
  createCipheriv,
  createDecipheriv,
  createHmac,
  createPrivateKey,
  createPublicKey,
  diffieHellman
} from "node:crypto"

interface Aead {
  readonly id: number
  readonly name: "aes-128-gcm" | "aes-256-gcm"
  readonly keyLength: number
}
export const aes128: Aead = { id: 1, name: "aes-128-gcm", keyLength: 16 }
export const aes256: Aead = { id: 2, name: "aes-256-gcm", keyLength: 32 }

const u16 = (n: number) => Buffer.of(n >> 8, n & 0xff)
const kemSuite = Buffer.concat([Buffer.from("KEM"), u16(0x20)])
const hpkeSuite = (aead: Aead) => Buffer.concat([Buffer.from("HPKE"), u16(0x20), u16(1), u16(aead.id)])

const hmac = (key: Uint8Array, ...parts: ReadonlyArray<Uint8Array>) =>
  createHmac("sha256", key).update(Buffer.concat(parts)).digest()
const empty = Buffer.alloc(0)

const extract = (suite: Buffer, salt: Uint8Array, label: string, ikm: Uint8Array) =>
  hmac(salt, Buffer.from("HPKE-v1"), suite, Buffer.from(label), ikm)
/** One block of HKDF-Expand: enough for all lengths here. */
const expand = (suite: Buffer, prk: Uint8Array, label: string, info: Uint8Array, length: number) =>
  hmac(prk, u16(length), Buffer.from("HPKE-v1"), suite, Buffer.from(label), info, Buffer.of(1)).subarray(0, length)

const privateKey = (raw: Uint8Array) =>
  createPrivateKey({
    key: Buffer.concat([Buffer.from("302e020100300506032b656e04220420", "hex"), raw]),
    format: "der",
    type: "pkcs8"
  })
const publicKey = (raw: Uint8Array) =>
  createPublicKey({
    key: Buffer.concat([Buffer.from("302a300506032b656e032100", "hex"), raw]),
    format: "der",
    type: "spki"
  })

export const publicKeyOf = (raw: Uint8Array): Buffer =>
  createPublicKey(privateKey(raw)).export({ format: "der", type: "spki" }).subarray(-32)

const keySchedule = (aead: Aead, dh: Buffer, enc: Uint8Array, recipient: Uint8Array, info: Uint8Array) => {
  const prk = extract(kemSuite, empty, "eae_prk", dh)
  const shared = expand(kemSuite, prk, "shared_secret", Buffer.concat([enc, recipient]), 32)
  const suite = hpkeSuite(aead)
  const context = Buffer.concat([
    Buffer.of(0),
    extract(suite, empty, "psk_id_hash", empty),
    extract(suite, empty, "info_hash", info)
  ])
  const secret = extract(suite, shared, "secret", empty)
  return {
    key: expand(suite, secret, "key", context, aead.keyLength),
    nonce: expand(suite, secret, "base_nonce", context, 12)
  }
}

/** `ephemeral`: 32 raw bytes of the sender's one-time private key. Answers enc ‖ ciphertext. */
export const seal = (
  aead: Aead,
  recipient: Uint8Array,
  ephemeral: Uint8Array,
  info: Uint8Array,
  aad: Uint8Array,
  plaintext: Uint8Array
): Buffer => {
  const enc = publicKeyOf(ephemeral)
  const dh = diffieHellman({ privateKey: privateKey(ephemeral), publicKey: publicKey(recipient) })
  const { key, nonce } = keySchedule(aead, dh, enc, recipient, info)
  const cipher = createCipheriv(aead.name, key, nonce)
  cipher.setAAD(aad)
  return Buffer.concat([enc, cipher.update(plaintext), cipher.final(), cipher.getAuthTag()])
}

export const open = (
  aead: Aead,
  recipient: Uint8Array,
  info: Uint8Array,
  aad: Uint8Array,
  sealed: Uint8Array
): Buffer => {
  const enc = sealed.subarray(0, 32)
  const dh = diffieHellman({ privateKey: privateKey(recipient), publicKey: publicKey(enc) })
  const { key, nonce } = keySchedule(aead, dh, enc, publicKeyOf(recipient), info)
  const decipher = createDecipheriv(aead.name, key, nonce)
  decipher.setAAD(aad)
  decipher.setAuthTag(sealed.subarray(-16))
  return Buffer.concat([decipher.update(sealed.subarray(32, -16)), decipher.final()])
}

/**
 * Generations of a service key. Each MAC, hash and box names the generation that made it, so that a new key can take
 * over while servers run (docs/security.md, "Service keys"). Pure.
 */
import { createHmac, type Hmac, type KeyObject } from "node:crypto"

export interface RingKey {
  readonly generation: number
  /** Id of the database that the key serves. Undefined: a key of a release without generations. */
  readonly instance: string | undefined
  readonly key: KeyObject
}

/** `newest` writes; each key of `live` verifies what its generation wrote. */
export interface KeyRing {
  readonly newest: RingKey
  readonly live: ReadonlyMap<number, RingKey>
}

export const of = (newest: RingKey, older: ReadonlyArray<RingKey> = []): KeyRing => ({
  newest,
  live: new Map([...older, newest].map((one) => [one.generation, one]))
})

/** Generation of keys made before generations. */
export const first = 1

/** A ring with one key of a release without generations. */
export const unbound = (key: KeyObject): KeyRing => of({ generation: first, instance: undefined, key })

/** Bytes of SHA-256. */
const digestLength = 32
/** Big-endian number of the generation before a digest. */
const prefixLength = 2

const prefixOf = (generation: number): Buffer => {
  const prefix = Buffer.allocUnsafe(prefixLength)
  prefix.writeUInt16BE(generation)
  return prefix
}

/** The digest with its key's generation. A key of a release without generations adds nothing. */
export const tagged = ({ generation, instance }: RingKey, digest: Buffer): Buffer =>
  instance === undefined ? digest : Buffer.concat([prefixOf(generation), digest])

/** Generation of a stored digest. Undefined: a length that no server writes. */
export const generationOf = (stored: Uint8Array): number | undefined =>
  stored.length === digestLength
    ? first
    : stored.length === prefixLength + digestLength
      ? stored[0] * 256 + stored[1]
      : undefined

/** The live key that made a stored digest. */
export const madeBy = ({ live }: KeyRing, stored: Uint8Array): RingKey | undefined => {
  const key = live.get(generationOf(stored) ?? 0)
  return key !== undefined && (key.instance === undefined) === (stored.length === digestLength) ? key : undefined
}

export const isNewest = (ring: KeyRing, stored: Uint8Array): boolean => madeBy(ring, stored) === ring.newest

/** HMAC-SHA256 for one purpose. The text under it begins with the purpose and the id of the database. */
export const hmac = ({ instance, key }: RingKey, purpose: string): Hmac =>
  createHmac("sha256", key).update(
    instance === undefined ? `ampoule ${purpose} v1` : `ampoule ${purpose} v2\0${instance}\0`
  )

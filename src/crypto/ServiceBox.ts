/**
 * Boxes under a service key. A box names the generation of its key, and its context holds the id of the database.
 *
 *   byte  0       2    the number below follows; 1: a box of a release without generations (Envelope.ts)
 *   bytes 1-2          generation, big-endian
 *   bytes 3-           the box
 */
import * as Either from "effect/Either"
import { IntegrityFailure } from "#schema/Errors.ts"
import * as Envelope from "./Envelope.ts"
import * as KeyRing from "./KeyRing.ts"

const format = 2
const headerLength = 3

/** Purpose of a box, and the ids of its place. */
export interface Place {
  readonly purpose: string
  readonly ids: ReadonlyArray<string>
}

const contextOf = ({ instance }: KeyRing.RingKey, { ids, purpose }: Place) =>
  instance === undefined
    ? Envelope.boxContext(`ampoule ${purpose} v1`, ...ids)
    : Envelope.boxContext(`ampoule ${purpose} v2`, instance, ...ids)

/** `salt`: 32 fresh random bytes. */
export const seal = (ring: KeyRing.KeyRing, place: Place, bytes: Uint8Array, salt: Uint8Array): Buffer => {
  const { newest } = ring
  const box = Envelope.sealBytes(newest.key, contextOf(newest, place), bytes, salt)
  if (newest.instance === undefined) return box
  const header = Buffer.allocUnsafe(headerLength)
  header[0] = format
  header.writeUInt16BE(newest.generation, 1)
  return Buffer.concat([header, box])
}

/** Generation of a stored box. */
const generationOf = (box: Uint8Array): number =>
  box[0] === format && box.length > headerLength ? box[1] * 256 + box[2] : KeyRing.first

const integrityFailure = Either.left(new IntegrityFailure())

/** Fails for an unknown generation, another place or database, and an altered byte. */
export const open = (ring: KeyRing.KeyRing, place: Place, box: Uint8Array): Either.Either<Buffer, IntegrityFailure> => {
  const key = ring.live.get(generationOf(box))
  const isBound = box[0] === format
  if (key === undefined || (key.instance !== undefined) !== isBound) return integrityFailure
  return Envelope.openBytes(key.key, contextOf(key, place), isBound ? box.subarray(headerLength) : box)
}

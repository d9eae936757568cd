/**
 * Seals a password's hash under a key that the vault wraps, so that a copy of the database does not even allow guesses.
 * A hash can be sealed without its password, in contrast to a keyed hash: those of an earlier release, and all of them
 * after a change of the key.
 */
import * as Either from "effect/Either"
import { createHmac } from "node:crypto"
import { IntegrityFailure } from "#schema/Errors.ts"
import * as Envelope from "#src/crypto/Envelope.ts"
import * as KeyRing from "#src/crypto/KeyRing.ts"

/** `sealed$2$…`: under generation 2. Without a number: under the key of a release without generations. */
const prefix = "sealed$"
const pattern = /^sealed\$(?:(\d{1,5})\$)?([A-Za-z0-9+/]+={0,2})$/

const contextOf = ({ instance }: KeyRing.RingKey) =>
  instance === undefined
    ? Envelope.boxContext("ampoule password hash v1")
    : Envelope.boxContext("ampoule password hash v2", instance)

export const isSealed = (stored: string): boolean => stored.startsWith(prefix)

/** A PHC string contains a random salt, so a salt derived from it is as good as a random one. */
export const seal = ({ newest }: KeyRing.KeyRing, phc: string): string => {
  const salt = createHmac("sha256", newest.key).update("ampoule password salt v1\0").update(phc).digest()
  const box = Envelope.sealBytes(newest.key, contextOf(newest), Buffer.from(phc), salt).toString("base64")
  return newest.instance === undefined ? prefix + box : `${prefix}${newest.generation}$${box}`
}

export const open = (ring: KeyRing.KeyRing, stored: string): Either.Either<string, IntegrityFailure> => {
  const match = pattern.exec(stored)
  const named = match?.[1]
  const key = ring.live.get(named === undefined ? KeyRing.first : Number(named))
  if (match === null || key === undefined || (key.instance === undefined) !== (named === undefined))
    return Either.left(new IntegrityFailure())
  return Either.map(Envelope.openBytes(key.key, contextOf(key), Buffer.from(match[2], "base64")), (bytes) =>
    bytes.toString()
  )
}

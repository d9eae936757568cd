/**
 * A password's hash as its column has it: sealed under a key that the vault wraps, so that whoever has the database
 * alone cannot even guess. Sealed and not keyed into the hash, since a hash can be sealed without its password: those of a
 * release before, and all of them when the key changes.
 */
import * as Either from "effect/Either"
import { createHmac, type KeyObject } from "node:crypto"
import type { IntegrityFailure } from "#schema/Errors.ts"
import * as Envelope from "#src/crypto/Envelope.ts"

const prefix = "sealed$"
const context = Envelope.boxContext("ampoule password hash v1")

export const isSealed = (stored: string): boolean => stored.startsWith(prefix)

/** Of a PHC string, which has a random salt of its own: a salt that follows from it is as good as a random one. */
export const seal = (key: KeyObject, phc: string): string => {
  const salt = createHmac("sha256", key).update("ampoule password salt v1\0").update(phc).digest()
  return prefix + Envelope.sealBytes(key, context, Buffer.from(phc), salt).toString("base64")
}

export const open = (key: KeyObject, stored: string): Either.Either<string, IntegrityFailure> =>
  Either.map(Envelope.openBytes(key, context, Buffer.from(stored.slice(prefix.length), "base64")), (bytes) =>
    bytes.toString()
  )

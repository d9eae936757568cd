/**
 * Seals a password's hash under a key that the vault wraps, so that a copy of the database does not even allow guesses.
 * A hash can be sealed without its password, in contrast to a keyed hash: those of an earlier release, and all of them
 * after a change of the key.
 */
import * as Either from "effect/Either"
import { createHmac, type KeyObject } from "node:crypto"
import type { IntegrityFailure } from "#schema/Errors.ts"
import * as Envelope from "#src/crypto/Envelope.ts"

const prefix = "sealed$"
const context = Envelope.boxContext("ampoule password hash v1")

export const isSealed = (stored: string): boolean => stored.startsWith(prefix)

/** A PHC string contains a random salt, so a salt derived from it is as good as a random one. */
export const seal = (key: KeyObject, phc: string): string => {
  const salt = createHmac("sha256", key).update("ampoule password salt v1\0").update(phc).digest()
  return prefix + Envelope.sealBytes(key, context, Buffer.from(phc), salt).toString("base64")
}

export const open = (key: KeyObject, stored: string): Either.Either<string, IntegrityFailure> =>
  Either.map(Envelope.openBytes(key, context, Buffer.from(stored.slice(prefix.length), "base64")), (bytes) =>
    bytes.toString()
  )

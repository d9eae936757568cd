/**
 * Long lists of an entry's keys. The entry contains the hash of the list, and the list is stored once. So a read of
 * 4,000 secrets takes as little space in the trail as one of 10.
 */
import { createHash } from "node:crypto"

/** Most keys that an entry contains itself. */
const maxInline = 8

/** A cache by array: recorded arrays never change, and a snapshot returns the same array for every read. */
const cachedHashes = new WeakMap<ReadonlyArray<string>, string>()

/** SHA-256 of a label and of the list as JSON, in hexadecimal. */
const hashOf = (keys: ReadonlyArray<string>): string => {
  const cached = cachedHashes.get(keys)
  if (cached !== undefined) return cached
  const hash = createHash("sha256").update("ampoule audit keys v1").update(JSON.stringify(keys)).digest("hex")
  cachedHashes.set(keys, hash)
  return hash
}

/** Whether the entry names this list. */
export const hasHash = (keys: ReadonlyArray<string>, name: string): boolean => hashOf(keys) === name

/** Undefined: the entry contains the keys itself. */
export const hashIfLong = (keys: ReadonlyArray<string> = []): string | undefined =>
  keys.length > maxInline ? hashOf(keys) : undefined

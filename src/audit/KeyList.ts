/**
 * The keys that an entry is about, when there are many: the entry holds the hash of the list, and the list is stored
 * once. So a read of 4,000 secrets costs as much in the trail as one of 10.
 */
import { createHash } from "node:crypto"

/** Lists of up to so many keys stand in the entry itself. */
const inlineAtMost = 8

/** Arrays are not altered once they are recorded, and one snapshot hands out the same one for every read. */
const known = new WeakMap<ReadonlyArray<string>, string>()

/** SHA-256 of a label and of the list as JSON, in hexadecimal. */
const hashOf = (keys: ReadonlyArray<string>): string => {
  const held = known.get(keys)
  if (held !== undefined) return held
  const hash = createHash("sha256").update("ampoule audit keys v1").update(JSON.stringify(keys)).digest("hex")
  known.set(keys, hash)
  return hash
}

/** Whether the list is the one that an entry names. */
export const isNamed = (keys: ReadonlyArray<string>, name: string): boolean => hashOf(keys) === name

/** Undefined: the keys stand in the entry. */
export const hashIfLong = (keys: ReadonlyArray<string> = []): string | undefined =>
  keys.length > inlineAtMost ? hashOf(keys) : undefined

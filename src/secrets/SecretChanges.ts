/** Changes of keys, and their results. */
import type { SecretMetadata } from "./SecretMetadata.ts"
import type { Write } from "./ValueSource.ts"

/** A deleted secret that comes back at the version it had. The caller checked that no live secret has its key. */
export interface Restoration {
  readonly restored: SecretMetadata
  readonly write: Write
}
/**
 * A secret that goes on under this key with all its versions: a live one of another key, or a deleted one whose text is
 * to be another than it was. The caller checked that no live secret has the key.
 */
export interface Continuation {
  readonly continued: SecretMetadata
  readonly write: Write
}
/** A text for a key, a secret that comes back or goes on under it, or null for a deletion. */
export type Change = Write | Restoration | Continuation | null
export type Changes = ReadonlyMap<string, Change>
/** The member of the request that a key's text came in: one for all keys, or by key. */
export type Fields = string | ReadonlyMap<string, string>

export interface KeyResult {
  readonly secret: SecretMetadata
  readonly outcome: "created" | "updated" | "unchanged" | "restored"
}
/** Of each key that was written, without deleted ones. */
export type Results = ReadonlyMap<string, KeyResult>

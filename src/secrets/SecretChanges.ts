/** What a write does to keys, and what came of it. */
import type { SecretMetadata } from "./SecretMetadata.ts"
import type { Write } from "./ValueSource.ts"

/** A deleted secret that comes back at the version it had. The caller checked that no live secret has its key. */
export interface Restoration {
  readonly restored: SecretMetadata
  readonly write: Write
}
/** What becomes of a key: a text, a deleted secret that comes back, or null for a deletion. */
export type Change = Write | Restoration | null
export type Changes = ReadonlyMap<string, Change>
export type FieldOf = (key: string) => string | undefined

export interface Written {
  readonly secret: SecretMetadata
  readonly outcome: "created" | "updated" | "unchanged" | "restored"
}
/** What became of each key that was written; deleted ones are not in it. */
export type Results = ReadonlyMap<string, Written>
export const isRestoration = (change: Write | Restoration): change is Restoration => "restored" in change

/** The effect of an import before it is sent, for the bulk paste and `secrets import`. Names only, no values. */
import type { ParsedEntry } from "./Entry.ts"

export interface Preview {
  /** Keys that are new, in the order of the file. */
  readonly create: ReadonlyArray<string>
  /** Keys that exist. Whether their value differs only the server can tell. */
  readonly update: ReadonlyArray<string>
  readonly invalidKeys: ReadonlyArray<{ readonly line: number; readonly name: string }>
}

/** The key grammar of the contract (docs/contract/credentials.md). */
const secretKey = /^[A-Z][A-Z0-9_]{0,254}$/

export const preview = (entries: ReadonlyArray<ParsedEntry>, existing: ReadonlySet<string>): Preview => {
  const valid = entries.filter((entry) => secretKey.test(entry.key)).map((entry) => entry.key)
  return {
    create: valid.filter((key) => !existing.has(key)),
    update: valid.filter((key) => existing.has(key)),
    invalidKeys: entries.filter((entry) => !secretKey.test(entry.key)).map(({ key, line }) => ({ line, name: key }))
  }
}

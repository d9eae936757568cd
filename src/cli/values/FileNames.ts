/** Names of a file as keys: the name in the file stays beside the key, where it is another one. */
import * as Effect from "effect/Effect"
import type { ParsedEntry } from "#src/formats/Entry.ts"
import { CliFailure } from "#src/cli/terminal/Failure.ts"
import { keyOf } from "#src/cli/terminal/KeyNames.ts"
import { plain } from "#src/cli/terminal/Output.ts"

const refuseSameKey = Effect.fnUntraced(function* (
  entries: ReadonlyArray<ParsedEntry>,
  renamed: ReadonlyArray<ParsedEntry>
) {
  const first = new Map<string, number>()
  for (const [i, { key, line }] of renamed.entries()) {
    const other = first.get(key)
    if (other !== undefined) {
      return yield* new CliFailure({
        message: `line ${line}: ${plain(entries[i]?.key ?? "")} and ${plain(entries[other]?.key ?? "")} would both be ${plain(key)}.`,
        hint: "Rename one of them in the file, then try again."
      })
    }
    first.set(key, i)
  }
})

const withKey = (entry: ParsedEntry): ParsedEntry => {
  const key = keyOf(entry.key)
  return key === entry.key ? entry : { ...entry, key, alias: entry.key }
}

/** Fails when two names have one key. */
export const withKeys = (entries: ReadonlyArray<ParsedEntry>) => {
  const renamed = entries.map(withKey)
  return Effect.as(refuseSameKey(entries, renamed), renamed)
}

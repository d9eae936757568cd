/** Entries of JSON and YAML with their lines. */
import * as Either from "effect/Either"
import type { ParsedEntry, ParseFailure, ParseOptions } from "./Entry.ts"
import { checkEntries, failure, lineCounter } from "./Entry.ts"
import type { Recognised } from "./Origins.ts"
import type { Broken } from "./Tree.ts"

export interface ReadResult {
  readonly entries: ReadonlyArray<ParsedEntry>
  /** The program whose export it is, where the file tells. */
  readonly origin: string | undefined
  /** Names that this program adds by itself, and that are left out. */
  readonly leftOut: ReadonlyArray<string>
}
export type ReadTree = (text: string, options?: ParseOptions) => Either.Either<ReadResult, ParseFailure>

export const readTree = (
  source: string,
  recognised: Either.Either<Recognised, Broken>,
  options: ParseOptions | undefined
): Either.Either<ReadResult, ParseFailure> => {
  const fail = ({ at, reason, remedy }: Broken) => failure(lineCounter(source)(at), reason, remedy)
  if (Either.isLeft(recognised)) return fail(recognised.left)
  const { entries: all, leftOut, origin } = recognised.right
  const lineAt = lineCounter(source)
  const entries: Array<ParsedEntry> = []
  for (const one of all) {
    if (Either.isLeft(one)) return fail(one.left)
    const { at, key, note, value } = one.right
    entries.push({ key, value, line: lineAt(at), ...(note === undefined ? {} : { note }) })
  }
  return Either.map(checkEntries(entries, options), (checked) => ({ entries: checked, origin, leftOut }))
}

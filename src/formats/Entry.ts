/** What every file format reads and writes. A leaf: nothing of the service is imported here. */
import * as Data from "effect/Data"
import * as Either from "effect/Either"

export interface Entry {
  readonly key: string
  readonly value: string
}

/** `line` counts from 1: where the entry starts in the file. */
export interface ParsedEntry extends Entry {
  readonly line: number
}

/** A format cannot carry this entry. The reason is a fixed sentence: it never repeats a value. */
export class FormatRefused extends Data.TaggedError("FormatRefused")<{
  readonly key: string
  readonly reason: string
}> {
  override get message(): string {
    return `${this.key}: ${this.reason}`
  }
}

/** A file cannot be read. The reason is a fixed sentence: it never repeats what the file says. */
export class ParseFailure extends Data.TaggedError("ParseFailure")<{
  readonly line: number
  readonly reason: string
}> {
  override get message(): string {
    return `line ${this.line}: ${this.reason}`
  }
}

export const failure = (line: number, reason: string): Either.Either<never, ParseFailure> =>
  Either.left(new ParseFailure({ line, reason }))

export type Print = (entries: ReadonlyArray<Entry>) => Either.Either<string, FormatRefused>
export type Parse = (text: string) => Either.Either<ReadonlyArray<ParsedEntry>, ParseFailure>

/** A POSIX name (XBD 3.216). Anything else could end the name and start a command in a file that a shell reads. */
const posixName = /^[A-Za-z_][A-Za-z0-9_]*$/

/**
 * One line (or what the format has for it) per entry; `refusal` gives the reason why a value cannot stand in the
 * format.
 */
export const printEach = (
  entries: ReadonlyArray<Entry>,
  refusal: (entry: Entry) => string | undefined,
  line: (entry: Entry) => string
): Either.Either<ReadonlyArray<string>, FormatRefused> => {
  for (const entry of entries) {
    const reason = posixName.test(entry.key) ? refusal(entry) : "the key is not a name that an environment can hold"
    if (reason !== undefined) return Either.left(new FormatRefused({ key: entry.key, reason }))
  }
  return Either.right(entries.map(line))
}

export const joinLines = (lines: ReadonlyArray<string>): string => lines.map((line) => line + "\n").join("")

export const withoutByteOrderMark = (text: string): string => (text.startsWith("\ufeff") ? text.slice(1) : text)

/** What holds in every format: a key stands once, and text is text (escapes can spell lone surrogates). */
export const checkEntries = (
  entries: ReadonlyArray<ParsedEntry>
): Either.Either<ReadonlyArray<ParsedEntry>, ParseFailure> => {
  const lines = new Map<string, number>()
  for (const { key, value, line } of entries) {
    if (!key.isWellFormed() || !value.isWellFormed()) return failure(line, "the text holds half of a surrogate pair")
    const first = lines.get(key)
    if (first !== undefined) return failure(line, `the key is already on line ${first}`)
    lines.set(key, line)
  }
  return Either.right(entries)
}

/**
 * Counts lines for offsets asked for in rising order. Linear over all of them: the next line end is looked for once.
 */
export const lineCounter = (text: string): ((offset: number) => number) => {
  let line = 1
  let next = text.indexOf("\n")
  return (offset) => {
    while (next !== -1 && next < offset) {
      line++
      next = text.indexOf("\n", next + 1)
    }
    return line
  }
}

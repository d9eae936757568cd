/** Entries that every file format reads and writes. A leaf: it imports nothing of the service. */
import * as Data from "effect/Data"
import * as Either from "effect/Either"

export interface Entry {
  readonly key: string
  readonly value: string
  /** Of a template as written: `value` is its source. A format that has a form for references uses it. */
  readonly kind?: "template"
}

export interface ParsedEntry {
  readonly key: string
  readonly value: string
  /** Counts from 1: where the entry starts in the file. */
  readonly line: number
  /** Offsets of each `$` in `value` that stands for itself, because the file escapes or quotes it. `all`: each of them. */
  readonly plainDollars?: "all" | ReadonlyArray<number>
  /** How it is written, where common readers disagree on what that means. */
  readonly forms?: ReadonlyArray<Form>
  /** Lines of earlier entries of this key, which this one replaces. */
  readonly replaces?: ReadonlyArray<number>
  /** The name in the file, where the key is another one. */
  readonly alias?: string
  /** The file's remark about the entry, beside its value. */
  readonly note?: string
}

/** Ways of writing a value that common readers of `.env` files read differently. */
export type Form =
  | "hash"
  | "only-comment"
  | "blanks"
  | "tilde"
  | "unquoted"
  | "quotes"
  | "escape"
  | "comment"
  | "backtick"
  | "line-ends"

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
  /** An option that would read the file all the same, where the caller has that choice. */
  readonly remedy?: "last-wins" | "flatten"
}> {
  override get message(): string {
    return `line ${this.line}: ${this.reason}`
  }
}

export const failure = (
  line: number,
  reason: string,
  remedy?: ParseFailure["remedy"]
): Either.Either<never, ParseFailure> =>
  Either.left(new ParseFailure({ line, reason, ...(remedy === undefined ? {} : { remedy }) }))

export type Print = (entries: ReadonlyArray<Entry>) => Either.Either<string, FormatRefused>
export interface ParseOptions {
  /** Names of nested values of JSON and YAML are joined with this; without it they are refused. */
  readonly flatten?: string
  /** Of a key that the file has several times, the last entry counts; without it such a file is refused. */
  readonly lastWins?: boolean
}
export type Parse = (text: string, options?: ParseOptions) => Either.Either<ReadonlyArray<ParsedEntry>, ParseFailure>

/** A POSIX name (XBD 3.216). Anything else could end the name and start a command in a file that a shell reads. */
const posixName = /^[A-Za-z_][A-Za-z0-9_]*$/

/**
 * One line (or what the format has for it) per entry; `refusal` gives the reason why a value cannot stand in the
 * format.
 */
export const printEach = (
  entries: ReadonlyArray<Entry>,
  refusal: (entry: Entry) => string | undefined,
  line: (entry: Entry) => string,
  isName: (key: string) => boolean = (key) => posixName.test(key)
): Either.Either<ReadonlyArray<string>, FormatRefused> => {
  for (const entry of entries) {
    const reason = isName(entry.key) ? refusal(entry) : "the key is not a name that an environment can hold"
    if (reason !== undefined) return Either.left(new FormatRefused({ key: entry.key, reason }))
  }
  return Either.right(entries.map(line))
}

export const joinLines = (lines: ReadonlyArray<string>): string => lines.map((line) => line + "\n").join("")

export const withoutByteOrderMark = (text: string): string => (text.startsWith("\ufeff") ? text.slice(1) : text)

/** Rules of every format: a key is in it once, and text is text (escapes can spell lone surrogates). */
export const checkEntries = (
  entries: ReadonlyArray<ParsedEntry>,
  { lastWins = false }: ParseOptions = {}
): Either.Either<ReadonlyArray<ParsedEntry>, ParseFailure> => {
  const byKey = new Map<string, ParsedEntry>()
  for (const entry of entries) {
    const { key, line, value } = entry
    if (!key.isWellFormed() || !value.isWellFormed()) return failure(line, "the text holds half of a surrogate pair")
    const first = byKey.get(key)
    if (first !== undefined && !lastWins) {
      return failure(line, `the key is already on line ${first.line}`, "last-wins")
    }
    byKey.delete(key)
    byKey.set(key, first === undefined ? entry : { ...entry, replaces: [...(first.replaces ?? []), first.line] })
  }
  return Either.right([...byKey.values()])
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

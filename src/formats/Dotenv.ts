/**
 * `.env` files. There is no standard; this reads what npm dotenv, dotenvx, docker compose and shells agree on, and refuses
 * with a line number where they would silently read something else than was meant. A scanner by hand, linear in the
 * file
 * (the common regular expression is polynomial, docs/security.md, "Lessons from others").
 *
 *     [export] NAME=value     NAME: value     # comment     (a comment after a value needs a space before its #)
 *     unquoted                to the end of the line, trimmed
 *     'single', `backtick`    as it stands, over several lines too
 *     "double"                the same, with \n \r \t \\ \" \$ \` as escapes
 */
import * as Either from "effect/Either"
import type { Parse, ParsedEntry, Print } from "./Entry.ts"
import { checkEntries, failure, joinLines, lineCounter, printEach, withoutByteOrderMark } from "./Entry.ts"

const isBlank = (c: string | undefined): boolean => c === " " || c === "\t"

const skipBlanks = (source: string, from: number): number => {
  let at = from
  while (isBlank(source[at])) at++
  return at
}

const endOfLine = (source: string, from: number): number => {
  const at = source.indexOf("\n", from)
  return at === -1 ? source.length : at
}

/** End of the line when only blanks or a comment follow, else -1. */
const endOfEntry = (source: string, from: number): number => {
  const at = skipBlanks(source, from)
  if (at >= source.length || source[at] === "\n") return at
  return source[at] === "#" && at > from ? endOfLine(source, at) : -1
}

const endOfName = (source: string, from: number): number => {
  let at = from
  for (; at < source.length; at++) {
    const c = source.charCodeAt(at)
    const letterOrDigit = (c >= 65 && c <= 90) || (c >= 97 && c <= 122) || (c >= 48 && c <= 57)
    if (!letterOrDigit && c !== 95 && c !== 45 && c !== 46) break
  }
  return at
}

type Value = { readonly value: string; readonly end: number } | { readonly reason: string }

const escapes: ReadonlyMap<string, string> = new Map([
  ["n", "\n"],
  ["r", "\r"],
  ["t", "\t"],
  ["\\", "\\"],
  ['"', '"'],
  ["$", "$"],
  ["`", "`"]
])

const unescape = (body: string): string => {
  let value = ""
  let start = 0
  for (let at = body.indexOf("\\"); at !== -1; at = body.indexOf("\\", start)) {
    const meant = escapes.get(body[at + 1] ?? "")
    value += body.slice(start, at) + (meant ?? body.slice(at, at + 2))
    start = at + 2
  }
  return value + body.slice(start)
}

const closingQuote = (source: string, quote: string, from: number): number => {
  if (quote !== '"') return source.indexOf(quote, from)
  let at = from
  while (at < source.length && source[at] !== '"') at += source[at] === "\\" ? 2 : 1
  return at < source.length ? at : -1
}

/**
 * The value ends at the first quote that the line ends behind. Stray quotes before it belong to the value, as npm
 * dotenv
 * has it (`'it's'`, `"{"a":1}"`), but only on the first line: further down nobody could tell where the value was to
 * end.
 * `'\''` is a shell's single quote.
 */
const quoted = (source: string, open: number): Value => {
  const quote = source[open]
  const firstLine = endOfLine(source, open)
  let stray = false
  let from = open + 1
  for (;;) {
    const close = closingQuote(source, quote, from)
    if (stray && (close === -1 || close > firstLine)) return { reason: "there is text after the closing quote" }
    if (close === -1) return { reason: "the quote is not closed" }
    if (quote === "'" && source.startsWith("\\''", close + 1)) {
      from = close + 4
      continue
    }
    const end = endOfEntry(source, close + 1)
    if (end !== -1) {
      const body = source.slice(open + 1, close)
      return { value: quote === '"' ? unescape(body) : body.replaceAll("'\\''", "'"), end }
    }
    if (quote === '"' || source[close - 1] !== "\\") stray = true
    from = close + 1
  }
}

const unquoted = (source: string, start: number): Value => {
  const end = endOfLine(source, start)
  // Of the line alone: a search that runs on to the next # of the file would be quadratic.
  const line = source.slice(start, end)
  let cut = line.length
  for (let at = line.indexOf("#"); at !== -1; at = line.indexOf("#", at + 1)) {
    if (at === 0 || isBlank(line[at - 1])) {
      cut = at
      break
    }
  }
  const value = line.slice(0, cut).trim()
  // The lines below would be read as keys, and base64 would end up in messages about keys.
  return value.startsWith("-----BEGIN") ? { reason: "a value of several lines needs quotes" } : { value, end }
}

/**
 * The entries of a `.env` file in order. A key that stands twice is refused. A value with references (`${KEY}`) comes
 * back as it stands, whatever its quotes.
 */
export const parse: Parse = (text) => {
  const source = withoutByteOrderMark(text).replaceAll("\r\n", "\n").replaceAll("\r", "\n")
  const lineAt = lineCounter(source)
  const entries: Array<ParsedEntry> = []
  let at = 0
  while (at < source.length) {
    const start = skipBlanks(source, at)
    if (start >= source.length || source[start] === "\n" || source[start] === "#") {
      at = endOfLine(source, start) + 1
      continue
    }
    const line = lineAt(start)
    const name =
      source.startsWith("export", start) && isBlank(source[start + 6]) ? skipBlanks(source, start + 6) : start
    const nameEnd = endOfName(source, name)
    const sign = skipBlanks(source, nameEnd)
    const assigns =
      source[sign] === "=" ||
      (source[sign] === ":" && (sign + 1 >= source.length || " \t\n".includes(source[sign + 1])))
    if (nameEnd === name || !assigns) return failure(line, "not of the form KEY=value")
    const valueStart = skipBlanks(source, sign + 1)
    const value = `'"\``.includes(source[valueStart] ?? "\n")
      ? quoted(source, valueStart)
      : unquoted(source, valueStart)
    if ("reason" in value) return failure(line, value.reason)
    entries.push({ key: source.slice(name, nameEnd), value: value.value, line })
    at = value.end + 1
  }
  return checkEntries(entries)
}

const special = /["$`\\]/

const escape = (value: string): string => {
  let body = ""
  for (const c of value) body += c === "\r" ? "\\r" : special.test(c) ? "\\" + c : c
  return body
}

/**
 * In single quotes where that can be. The others are in double quotes with escapes, which docker compose and we read;
 * shells read them too unless there is a carriage return; npm dotenv leaves the backslashes in.
 */
const quote = (value: string): string => {
  const mark = value.includes("'") || value.includes("\r") ? '"' : "'"
  const body = mark === '"' ? escape(value) : value
  // npm dotenv may take a backslash before the closing quote as an escape and read on to a later quote that ends its
  // line:
  // the quote in this comment does not end its line, which makes dotenv step back.
  return mark + body + mark + (body.endsWith("\\") ? ` # ${mark}.` : "")
}

/**
 * Refuses U+0000 only, which no environment can hold. Safe to be sourced by a shell: nothing in a value is ever run.
 */
export const print: Print = (entries) =>
  Either.map(
    printEach(
      entries,
      ({ value }) => (value.includes("\0") ? "the value holds U+0000, which no environment can hold" : undefined),
      ({ key, value }) => `${key}=${quote(value)}`
    ),
    joinLines
  )

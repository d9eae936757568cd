/**
 * `.env` files. There is no standard; this reads what npm dotenv, dotenvx, docker compose and shells agree on, and refuses
 * with a line number where they would silently read something else than was meant. What they read otherwise has its
 * form named (`Form`), and test/formats/readers.test.ts holds each against the answers of the readers themselves. A
 * scanner by hand, linear in the file (the common regular expression is polynomial, docs/security.md, "Lessons from
 * others").
 *
 *     [export] NAME=value     NAME: value     # comment     (a comment after a value needs a space before its #)
 *     unquoted                to the end of the line, trimmed; \${ is a plain ${
 *     'single'                as written, over several lines too; every $ in it is text
 *     `backtick`              as written
 *     "double"                the same, with \n \r \t \\ \" \$ \` as escapes
 *     'a'\''b'"$KEY"           one word of a shell
 */
import type { Form, Parse, ParsedEntry } from "./Entry.ts"
import { checkEntries, failure, lineCounter, withoutByteOrderMark } from "./Entry.ts"

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

/** End of the line when only blanks or a comment follow, else -1. `#` right behind a quote begins a comment too. */
const endOfEntry = (source: string, from: number): number => {
  const at = skipBlanks(source, from)
  if (at >= source.length || source[at] === "\n") return at
  return source[at] === "#" ? endOfLine(source, at) : -1
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

type Value =
  | {
      readonly value: string
      readonly end: number
      readonly plainDollars?: "all" | ReadonlyArray<number>
      readonly forms: ReadonlyArray<Form>
    }
  | { readonly reason: string }

const escapes: ReadonlyMap<string, string> = new Map([
  ["n", "\n"],
  ["r", "\r"],
  ["t", "\t"],
  ["\\", "\\"],
  ['"', '"'],
  ["$", "$"],
  ["`", "`"]
])

/** The text that a body with escapes means, and where in it the `$` are that were escaped. */
const unescape = (body: string, meant: (next: string) => string | undefined) => {
  let value = ""
  let start = 0
  const plainDollars: Array<number> = []
  for (let at = body.indexOf("\\"); at !== -1; at = body.indexOf("\\", start)) {
    value += body.slice(start, at)
    const text = meant(body.slice(at + 1, at + 3))
    if (text === "$") plainDollars.push(value.length)
    value += text ?? body.slice(at, at + 2)
    start = at + 2
  }
  return { value: value + body.slice(start), plainDollars }
}

const ofDoubleQuotes = (body: string) => unescape(body, (next) => escapes.get(next[0] ?? ""))
/** Without quotes a backslash is itself, except before a reference, where every reader that expands one takes it away. */
const ofNoQuotes = (body: string) => unescape(body, (next) => (next === "${" ? "$" : undefined))

const closingQuote = (source: string, quote: string, from: number): number => {
  if (quote !== '"') return source.indexOf(quote, from)
  let at = from
  while (at < source.length && source[at] !== '"') at += source[at] === "\\" ? 2 : 1
  return at < source.length ? at : -1
}

const variable = /"\$([A-Z][A-Z0-9_]{0,254})"/y

/**
 * One word of a shell: text in single quotes, with escaped quotes and backslashes and `"$KEY"` right behind it, as
 * `Shell.ts` writes them (`'it'\''s'`, `'<'"$KEY"'>'`). Undefined: the text is not of that form to the end of its line.
 */
const shellWord = (source: string, open: number): Value | undefined => {
  let value = ""
  let at = open
  let isJoined = false
  const plainDollars: Array<number> = []
  for (;;) {
    if (source[at] === "'") {
      const close = source.indexOf("'", at + 1)
      if (close === -1) return undefined
      const text = source.slice(at + 1, close)
      for (let i = text.indexOf("$"); i !== -1; i = text.indexOf("$", i + 1)) plainDollars.push(value.length + i)
      value += text
      at = close + 1
      if (source[at] === "'") return undefined
      continue
    }
    if (source[at] === "\\" && (source[at + 1] === "\\" || source[at + 1] === "'")) {
      value += source[at + 1]
      at += 2
    } else {
      variable.lastIndex = at
      const key = variable.exec(source)?.[1]
      if (key === undefined) break
      value += `\${${key}}`
      at = variable.lastIndex
    }
    isJoined = true
  }
  const end = isJoined ? endOfEntry(source, at) : -1
  return end === -1 ? undefined : { value, end, plainDollars, forms: ["quotes"] }
}

const isTouched = (source: string, end: number): boolean => source[end] === "#"

const readBody = (source: string, open: number, close: number): Omit<Extract<Value, { value: string }>, "end"> => {
  const quote = source[open]
  const body = source.slice(open + 1, close)
  const touched: ReadonlyArray<Form> = isTouched(source, close + 1) ? ["comment"] : []
  const inner: ReadonlyArray<Form> = body.includes(quote) ? ["quotes"] : []
  if (quote === "`") return { value: body, forms: [...touched, ...inner, "backtick"] }
  const backslash: ReadonlyArray<Form> =
    body.includes("\\") && !(quote === "'" && isPlainInSingle(body)) ? ["escape"] : []
  const forms = [...touched, ...inner, ...backslash]
  return quote === "'" ? { value: body, plainDollars: "all", forms } : { ...ofDoubleQuotes(body), forms }
}

/** A backslash that no reader takes for an escape: neither doubled, nor before a quote. */
const isPlainInSingle = (body: string): boolean => !/\\(?:\\|'|$)/.test(body)

/**
 * The value ends at the first quote that the line ends behind. Stray quotes before it belong to the value, as npm
 * dotenv has it (`'it's'`, `"{"a":1}"`), but only on the first line: further down it would be a guess where the value
 * was to end.
 */
const quoted = (source: string, open: number): Value => {
  const quote = source[open]
  if (source.startsWith(quote.repeat(3), open) && quote !== "`") {
    const end = endOfLine(source, open)
    if (source.slice(open + 3, end).trim() !== "" || source.indexOf(quote.repeat(3), open + 3) !== -1) {
      return { reason: "three quotes are of TOML or Python: write the value in one pair of quotes" }
    }
  }
  if (quote === "'") {
    const word = shellWord(source, open)
    if (word !== undefined) return word
  }
  const firstLine = endOfLine(source, open)
  let stray = false
  let from = open + 1
  for (;;) {
    const close = closingQuote(source, quote, from)
    if (stray && (close === -1 || close > firstLine)) return { reason: textBehind }
    if (close === -1) return { reason: "the quote is not closed" }
    const end = endOfEntry(source, close + 1)
    if (end !== -1) return { ...readBody(source, open, close), end }
    if (quote === '"' || source[close - 1] !== "\\") stray = true
    from = close + 1
  }
}

const textBehind = "there is text after the closing quote: put all of the value in one pair of quotes"

/** Base64 on the lines below would be read as keys, and end up in messages about keys. */
const isCutKey = (source: string, value: string, end: number): boolean => {
  if (!value.startsWith("-----BEGIN") || value.includes("-----END")) return false
  const next = source.slice(end + 1, endOfLine(source, end + 1)).trim()
  return end < source.length && next !== "" && !next.startsWith("#")
}

const formsOfUnquoted = (around: string, value: string, hasComment: boolean): ReadonlyArray<Form> => [
  ...(value.includes("#") ? (["hash"] as const) : []),
  ...(value === "" && hasComment ? (["only-comment"] as const) : []),
  ...(/[^ \n]/.test(around) ? (["blanks"] as const) : []),
  ...(/^~|[:=]~/.test(value) ? (["tilde"] as const) : []),
  ...(/["'`\\]/.test(value) ? (["unquoted"] as const) : [])
]

const unquoted = (source: string, start: number, blanks: string): Value => {
  const end = endOfLine(source, start)
  // Of the line alone: a search that runs on to the next # of the file would be quadratic.
  const line = source.slice(start, end)
  let cut = line.length
  for (let at = line.indexOf("#"); at !== -1; at = line.indexOf("#", at + 1)) {
    if (at === 0 ? blanks !== "" : isBlank(line[at - 1])) {
      cut = at
      break
    }
  }
  const value = line.slice(0, cut).trim()
  if (isCutKey(source, value, end)) return { reason: "a value of several lines needs quotes around all of it" }
  const around = blanks + line.slice(0, cut).replace(value, "")
  return { ...ofNoQuotes(value), end, forms: formsOfUnquoted(around, value, cut < line.length) }
}

const reasonOf = (source: string, name: number, nameEnd: number): string => {
  if (source[name] === "[") return "a section, as in TOML or INI files: .env files have none, so take the line out"
  const isAlone = nameEnd > name && skipBlanks(source, nameEnd) >= endOfLine(source, name)
  return isAlone
    ? "not of the form KEY=value: a name alone has no value here; write KEY= for an empty one, or take the line out"
    : "not of the form KEY=value"
}

/**
 * The entries of a `.env` file in order. A key that is in it twice is refused, unless `lastWins`. A value with references
 * (`${KEY}`) comes back as it is written; `plainDollars` says which `$` of it are text.
 */
export const parse: Parse = (text, options) => {
  const source = withoutByteOrderMark(text).replaceAll("\r\n", "\n").replaceAll("\r", "\n")
  const lineAt = lineCounter(source)
  const lineEnds: ReadonlyArray<Form> = text.includes("\r") ? ["line-ends"] : []
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
    if (nameEnd === name || !assigns) return failure(line, reasonOf(source, name, nameEnd))
    const valueStart = skipBlanks(source, sign + 1)
    const value = `'"\``.includes(source[valueStart] ?? "\n")
      ? quoted(source, valueStart)
      : unquoted(source, valueStart, source.slice(sign + 1, valueStart))
    if ("reason" in value) return failure(line, value.reason)
    const forms = [...value.forms, ...lineEnds]
    entries.push({
      key: source.slice(name, nameEnd),
      value: value.value,
      line,
      ...(value.plainDollars === undefined || value.plainDollars.length === 0
        ? {}
        : { plainDollars: value.plainDollars }),
      ...(forms.length === 0 ? {} : { forms })
    })
    at = value.end + 1
  }
  return checkEntries(entries, options)
}

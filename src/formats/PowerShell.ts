/**
 * PowerShell: `$env:KEY = 'a' + [char]0x000a + 'b'`. PowerShell takes four typographic quotes for an apostrophe too, and a
 * pipe into it changes line ends and encodings, so that all but printable ASCII is written by its number.
 */
import * as Either from "effect/Either"
import type { Entry, Parse, ParsedEntry, Print } from "./Entry.ts"
import { checkEntries, failure, joinLines, printEach, withoutByteOrderMark } from "./Entry.ts"
import { pieces } from "./References.ts"

const textTerms = (text: string): ReadonlyArray<string> =>
  text
    .split(/([^\x20-\x7e])/)
    .flatMap((run, i) =>
      i % 2 === 1
        ? [`[char]0x${run.charCodeAt(0).toString(16).padStart(4, "0")}`]
        : run === ""
          ? []
          : [`'${run.replaceAll("'", "''")}'`]
    )

const expression = ({ kind, value }: Entry): string => {
  const terms =
    kind === "template"
      ? pieces(value).pieces.flatMap((piece) => (typeof piece === "string" ? textTerms(piece) : [`$env:${piece.key}`]))
      : textTerms(value)
  // The first operand decides what + does: text.
  return (terms[0]?.startsWith("'") === true ? terms : ["''", ...terms]).join(" + ")
}

export const print: Print = (entries) =>
  Either.map(
    printEach(
      entries,
      ({ value }) => (value.includes("\0") ? "the value holds U+0000, which no environment can hold" : undefined),
      (entry) => `$env:${entry.key} = ${expression(entry)}`
    ),
    joinLines
  )

const form = /^[ \t]*\$env:([A-Za-z_][A-Za-z0-9_]*)[ \t]*=[ \t]*/i
const term = /(?:'((?:[^'\u2018-\u201b]|'')*)'|\[char\]0x([0-9a-f]{4})|\$env:([A-Z][A-Z0-9_]*))[ \t]*/iy

const readExpression = (line: string, from: number): Omit<ParsedEntry, "key" | "line"> | undefined => {
  let value = ""
  const plainDollars: Array<number> = []
  let at = from
  for (;;) {
    term.lastIndex = at
    const match = term.exec(line)
    if (match === null) return undefined
    at = term.lastIndex
    const [, text, code, key] = match
    if (key === undefined) {
      const added = text === undefined ? String.fromCharCode(parseInt(code, 16)) : text.replaceAll("''", "'")
      for (let i = added.indexOf("$"); i !== -1; i = added.indexOf("$", i + 1)) plainDollars.push(value.length + i)
      value += added
    } else value += `\${${key}}`
    if (line[at] !== "+") break
    at++
    while (line[at] === " " || line[at] === "\t") at++
  }
  const isAll = at >= line.length || line[at] === "#"
  return isAll ? { value, ...(plainDollars.length === 0 ? {} : { plainDollars }) } : undefined
}

/** Reads what `print` writes, blank lines and comments; any other PowerShell is refused. */
export const parse: Parse = (text, options) => {
  const entries: Array<ParsedEntry> = []
  for (const [i, at] of withoutByteOrderMark(text).split("\n").entries()) {
    const line = at.trim()
    if (line === "" || line.startsWith("#")) continue
    const match = form.exec(line)
    const value = match === null ? undefined : readExpression(line, match[0].length)
    if (match === null || value === undefined) {
      return failure(i + 1, "not of the form $env:KEY = 'value': write the value itself in single quotes")
    }
    entries.push({ key: match[1], line: i + 1, ...value })
  }
  return checkEntries(entries, options)
}

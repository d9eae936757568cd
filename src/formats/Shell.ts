/** POSIX shell: `export KEY='…'`, single quotes only (XCU 2.2.2), so nothing in a value is ever expanded or run. */
import * as Either from "effect/Either"
import type { Parse, ParsedEntry, Print } from "./Entry.ts"
import { checkEntries, failure, joinLines, lineCounter, printEach, withoutByteOrderMark } from "./Entry.ts"

export const print: Print = (entries) =>
  Either.map(
    printEach(
      entries,
      ({ value }) => (value.includes("\0") ? "the value holds U+0000, which no shell variable can hold" : undefined),
      ({ key, value }) => `export ${key}='${value.replaceAll("'", () => "'\\''")}'`
    ),
    joinLines
  )

const assignment = /(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)=/y

/** Reads what `print` writes (also without `export`), blank lines and comments; any other shell syntax is refused. */
export const parse: Parse = (text) => {
  const source = withoutByteOrderMark(text)
  const lineAt = lineCounter(source)
  const entries: Array<ParsedEntry> = []
  let at = 0
  while (at < source.length) {
    if (" \t\r\n".includes(source[at])) {
      at++
      continue
    }
    if (source[at] === "#") {
      const end = source.indexOf("\n", at)
      at = end === -1 ? source.length : end
      continue
    }
    const line = lineAt(at)
    assignment.lastIndex = at
    const found = assignment.exec(source)
    if (found === null) return failure(line, "not of the form export KEY='value'")
    at = assignment.lastIndex
    let value = ""
    while (at < source.length && !"\r\n".includes(source[at])) {
      if (source.startsWith("\\'", at)) {
        value += "'"
        at += 2
        continue
      }
      if (source[at] !== "'") return failure(line, "the value is not in single quotes")
      const close = source.indexOf("'", at + 1)
      if (close === -1) return failure(line, "the quote is not closed")
      value += source.slice(at + 1, close)
      at = close + 1
    }
    entries.push({ key: found[1], value, line })
  }
  return checkEntries(entries)
}

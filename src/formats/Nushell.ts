/**
 * Nushell: a record in NUON, which is data and never code: `… --format nushell | from nuon | load-env`. Nushell has no
 * `eval`, so a script of assignments could not be read from a pipe.
 */
import * as Either from "effect/Either"
import type { Parse, ParsedEntry, Print } from "./Entry.ts"
import { checkEntries, failure, printEach, withoutByteOrderMark } from "./Entry.ts"

const escapes: ReadonlyMap<string, string> = new Map([
  ["\n", "\\n"],
  ["\r", "\\r"],
  ["\t", "\\t"],
  ['"', '\\"'],
  ["\\", "\\\\"]
])

// eslint-disable-next-line no-control-regex
const special = /["\\\u0000-\u001f\u007f-\u009f\u2028\u2029\ufeff]/g
const scalarOf = (text: string): string =>
  `"${text.replace(special, (c) => escapes.get(c) ?? `\\u{${c.charCodeAt(0).toString(16)}}`)}"`

export const print: Print = (entries) =>
  Either.map(
    printEach(
      entries,
      ({ value }) => (value.includes("\0") ? "the value holds U+0000, which no environment can hold" : undefined),
      ({ key, value }) => `  "${key}": ${scalarOf(value)}`
    ),
    (lines) => (lines.length === 0 ? "{}\n" : `{\n${lines.join(",\n")}\n}\n`)
  )

const member =
  /^[ \t]*(?:"([A-Za-z_][A-Za-z0-9_]*)"|([A-Za-z_][A-Za-z0-9_]*))[ \t]*:[ \t]*"((?:[^"\\]|\\.)*)"[ \t]*(?:,[ \t]*)?$/
const escape = /\\(?:u\{([0-9a-fA-F]{1,6})\}|(.))/g
const meant: ReadonlyMap<string, string> = new Map([...escapes].map(([c, written]) => [written.slice(1), c]))

const unescape = (body: string): string | undefined => {
  let isWhole = true
  const text = body.replace(escape, (_, code: string | undefined, c: string | undefined) => {
    if (code !== undefined && parseInt(code, 16) <= 0x10ffff) return String.fromCodePoint(parseInt(code, 16))
    const meaningOfEscape = c === "'" || c === "/" ? c : meant.get(c ?? "")
    if (meaningOfEscape === undefined) isWhole = false
    return meaningOfEscape ?? ""
  })
  return isWhole ? text : undefined
}

/** Reads what `print` writes: one member on a line. */
export const parse: Parse = (text, options) => {
  const entries: Array<ParsedEntry> = []
  for (const [i, at] of withoutByteOrderMark(text).split("\n").entries()) {
    const line = at.trim()
    if (line === "" || line.startsWith("#") || line === "{" || line === "}" || line === "{}") continue
    const match = member.exec(line)
    const value = unescape(match?.[3] ?? "")
    const key = match?.[1] ?? match?.[2]
    if (key === undefined || value === undefined) return failure(i + 1, 'not of the form KEY: "value", one on a line')
    entries.push({ key, value, line: i + 1 })
  }
  return checkEntries(entries, options)
}

/**
 * CSV (RFC 4180) with a header that names a column `key` (or `name`) and one `value`: `infisical export --format=csv`.
 * Read only.
 */
import type { Parse, ParsedEntry } from "./Entry.ts"
import { checkEntries, failure, withoutByteOrderMark } from "./Entry.ts"

interface Row {
  readonly line: number
  readonly fields: ReadonlyArray<string>
}

type Rows = { readonly rows: ReadonlyArray<Row> } | { readonly line: number; readonly reason: string }

const read = (source: string): Rows => {
  const rows: Array<Row> = []
  let line = 1
  let at = 0
  while (at < source.length) {
    const start = line
    const fields: Array<string> = []
    for (;;) {
      let field = ""
      if (source[at] === '"') {
        let from = at + 1
        for (;;) {
          const close = source.indexOf('"', from)
          if (close === -1) return { line: start, reason: "the quote is not closed" }
          field += source.slice(from, close)
          from = close + 1
          if (source[from] !== '"') break
          field += '"'
          from++
        }
        line += field.split("\n").length - 1
        at = from
        if (at < source.length && !",\r\n".includes(source[at])) {
          return { line, reason: "there is text after the closing quote" }
        }
      } else {
        const from = at
        while (at < source.length && !",\n".includes(source[at])) at++
        field = source.slice(from, at)
        if (field.endsWith("\r") && source[at] !== ",") field = field.slice(0, -1)
        if (field.includes('"')) return { line, reason: "an unquoted field contains a quote" }
      }
      fields.push(field)
      if (source[at] !== ",") break
      at++
    }
    if (source[at] === "\r") at++
    if (at < source.length && source[at] !== "\n") return { line, reason: "there is text after the closing quote" }
    at++
    line++
    if (fields.length > 1 || fields[0] !== "") rows.push({ line: start, fields })
  }
  return { rows }
}

/** @public `EnvFile.ts` picks it from several formats. */
export const parse: Parse = (text, options) => {
  const records = read(withoutByteOrderMark(text))
  if ("reason" in records) return failure(records.line, records.reason)
  const [header, ...rows] = records.rows
  if (header === undefined) return checkEntries([])
  const names = header.fields.map((name) => name.trim().toLowerCase())
  const key = names.findIndex((name) => name === "key" || name === "name")
  const value = names.indexOf("value")
  if (key === -1 || value === -1) return failure(header.line, "the first line does not name the columns key and value")
  const entries: Array<ParsedEntry> = []
  for (const { fields, line } of rows) {
    if (fields.length !== names.length) return failure(line, "not as many fields as the first line has")
    entries.push({ key: fields[key], value: fields[value], line })
  }
  return checkEntries(entries, options)
}

/** Whether the first line is such a header. */
export const looksLike = (text: string): boolean => /^\ufeff?"?(key|name)"?,(.*,)?"?value"?(,|\r?\n|$)/i.test(text)

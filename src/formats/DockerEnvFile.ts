/**
 * `docker run --env-file`: one `KEY=value` per line, the value as written. The format has no quotes and no escapes
 * (docker/cli pkg/kvfile), so what it cannot carry is refused.
 */
import * as Either from "effect/Either"
import type { Entry, Parse, ParsedEntry, Print } from "./Entry.ts"
import { checkEntries, failure, joinLines, printEach, withoutByteOrderMark } from "./Entry.ts"

/** Docker reads lines through a 64 KiB buffer that must also hold the line feed. */
const maxLineBytes = 64 * 1024 - 1

const refusal = ({ key, value }: Entry): string | undefined => {
  if (value.includes("\n") || value.includes("\r"))
    return "the value holds a line break, and a docker env-file has one line per key"
  if (value.includes("\0")) return "the value holds U+0000, which no environment can hold"
  return Buffer.byteLength(value) + key.length + 1 > maxLineBytes
    ? "the line would be longer than the 65535 bytes that docker reads"
    : undefined
}

export const print: Print = (entries) =>
  Either.map(
    printEach(entries, refusal, ({ key, value }) => `${key}=${value}`),
    joinLines
  )

export const parse: Parse = (text, options) => {
  const entries: Array<ParsedEntry> = []
  const lines = withoutByteOrderMark(text).split("\n")
  for (let i = 0; i < lines.length; i++) {
    const content = (lines[i].endsWith("\r") ? lines[i].slice(0, -1) : lines[i]).trimStart()
    if (content === "" || content.startsWith("#")) continue
    const sign = content.indexOf("=")
    const key = content.slice(0, sign)
    if (sign <= 0 || key.includes(" ") || key.includes("\t")) return failure(i + 1, "not of the form KEY=value")
    entries.push({ key, value: content.slice(sign + 1), line: i + 1 })
  }
  return checkEntries(entries, options)
}

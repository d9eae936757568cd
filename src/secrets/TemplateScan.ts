/** Scans a text for `${KEY}` references and `$${` escapes. Pure, and without imports: a browser runs it, too. */
const maxKeyLength = 255
const A = 65
const Z = 90
const digit0 = 48
const digit9 = 57
const underscore = 95
const closing = 125

/** Returns the index of the `}` after the key that starts at `from`, or -1 when there is no well-formed key. */
const endOfKey = (source: string, from: number): number => {
  const first = source.charCodeAt(from)
  if (!(first >= A && first <= Z)) return -1
  let i = from + 1
  while (i - from <= maxKeyLength) {
    const c = source.charCodeAt(i)
    if (c === closing) return i
    if (!((c >= A && c <= Z) || (c >= digit0 && c <= digit9) || c === underscore)) return -1
    i++
  }
  return -1
}

interface Reference {
  readonly key: string
}

/** A string is literal text. */
export type Part = string | Reference

/**
 * A parsed template. It has no empty text, no two adjacent texts, and no text that ends in `$` directly before a
 * reference, because the language cannot write that (`$${` is the escape). Only `scan` and `inline` make one.
 */
export type Parts = ReadonlyArray<Part>

/** The result of one scan of a text. */
export interface Scan {
  /**
   * The kind of a value that is written without a kind: a template when the text holds at least one well-formed `${KEY}`
   * or one `$${`, else a literal.
   */
  readonly kind: "literal" | "template"
  /** Undefined when a `${` is neither a reference nor part of an escape. */
  readonly parts: Parts | undefined
}

export const scan = (source: string): Scan => {
  const parts: Array<Part> = []
  // References to one key share an object, so that 64 KiB of them need little memory.
  const byKey = new Map<string, Reference>()
  let kind: "literal" | "template" = "literal"
  let isMalformed = false
  let text = ""
  let start = 0
  let at = source.indexOf("$")
  while (at !== -1 && !(isMalformed && kind === "template")) {
    let next = at + 1
    if (source.startsWith("$${", at)) {
      kind = "template"
      text += source.slice(start, at) + "${"
      next = start = at + 3
    } else if (source[at + 1] === "{") {
      const end = endOfKey(source, at + 2)
      if (end === -1) {
        isMalformed = true
        next = at + 2
      } else {
        kind = "template"
        text += source.slice(start, at)
        if (text !== "") parts.push(text)
        text = ""
        const key = source.slice(at + 2, end)
        let reference = byKey.get(key)
        if (reference === undefined) byKey.set(key, (reference = { key }))
        parts.push(reference)
        next = start = end + 1
      }
    }
    at = source.indexOf("$", next)
  }
  text += source.slice(start)
  if (text !== "") parts.push(text)
  return { kind, parts: isMalformed ? undefined : parts }
}

/** Returns the keys that a template refers to, each once, in the order of first use. */
export const references = (parts: Parts): ReadonlyArray<string> => {
  const keys = new Set<string>()
  for (const part of parts) if (typeof part !== "string") keys.add(part.key)
  return [...keys]
}

/** Keys that a text refers to, each once. Of a text that is no template: none. */
export const keysIn = (source: string): ReadonlyArray<string> => {
  const keys = new Set<string>()
  for (let at = source.indexOf("${"); at !== -1; at = source.indexOf("${", at + 2)) {
    const end = source[at - 1] === "$" ? -1 : endOfKey(source, at + 2)
    if (end !== -1) keys.add(source.slice(at + 2, end))
  }
  return [...keys]
}

/**
 * The `${KEY}` language (docs/contract/secrets.md). A text is scanned once, from left to right, without regular
 * expression or recursion.
 *
 *     source    = *( reference / escape / text )
 *     reference = "${" KEY "}"        KEY = [A-Z][A-Z0-9_]*, at most 255 characters
 *     escape    = "$${"               a plain "${"
 *     text      = any other character, also a lone "$"; "${" is never text
 */
import type { SecretKind } from "#schema/Values.ts"
import { endOfKey } from "./TemplateScan.ts"

export interface Reference {
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
  readonly kind: SecretKind
  /** Undefined when a `${` is neither a reference nor part of an escape. */
  readonly parts: Parts | undefined
}

export const scan = (source: string): Scan => {
  const parts: Array<Part> = []
  // References to one key share an object, so that 64 KiB of them need little memory.
  const known = new Map<string, Reference>()
  let kind: SecretKind = "literal"
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
        let reference = known.get(key)
        if (reference === undefined) known.set(key, (reference = { key }))
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

/** Returns the template source that expands to exactly `text`: it puts one more `$` before every `${`. */
export const escape = (text: string): string => text.split("${").join("$${")

/** Returns the source of a template; it is the inverse of `scan`. */
export const print = (parts: Parts): string =>
  parts.map((part) => (typeof part === "string" ? escape(part) : "${" + part.key + "}")).join("")

/** Returns the expanded text, given the value of each key. Values are not scanned: a `${` in a value stays as it is. */
export const expand = (parts: Parts, valueOf: (key: string) => string): string =>
  parts.map((part) => (typeof part === "string" ? part : valueOf(part.key))).join("")

/**
 * Replaces every reference to `key` by its value. The language cannot write a reference directly after a `$`: a
 * reference that would follow one is replaced by its value too, so that the expanded text stays the same.
 */
export const inline = (parts: Parts, key: string, valueOf: (key: string) => string): Parts => {
  const result: Array<Part> = []
  let text = ""
  let endsInDollar = false
  const append = (piece: string) => {
    text += piece
    // `endsWith` on the growing `text` would copy it at every step.
    if (piece !== "") endsInDollar = piece.endsWith("$")
  }
  for (const part of parts) {
    if (typeof part === "string") append(part)
    else if (part.key === key || endsInDollar) append(valueOf(part.key))
    else {
      if (text !== "") result.push(text)
      text = ""
      result.push(part)
    }
  }
  if (text !== "") result.push(text)
  return result
}

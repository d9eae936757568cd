/**
 * The `${KEY}` language (docs/contract/secrets.md). A text is scanned once, from left to right, without regular
 * expression or recursion.
 *
 *     source    = *( reference / escape / text )
 *     reference = "${" KEY "}"        KEY = [A-Z][A-Z0-9_]*, at most 255 characters
 *     escape    = "$${"               a plain "${"
 *     text      = any other character, also a lone "$"; "${" is never text
 */
import type { Part, Parts } from "./TemplateScan.ts"

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

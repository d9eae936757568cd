/**
 * The `${KEY}` language of templates (docs/contract/secrets.md, "Templates"), as far as files need it: which text the
 * server takes for a template, and how a text that looks like one is written so that it means itself.
 */

const quoteless: ReadonlySet<string> = new Set(["json", "yaml", "csv", "docker", "nushell", "toml"])

/** Formats whose quotes say nothing of references: their texts are in this language, where `$${` is a plain `${`. */
export const isQuoteless = (format: string): boolean => quoteless.has(format)

/** Text, or the key of a reference. */
export type Piece = string | { readonly key: string }

const referenceAt = /\$\{([A-Z][A-Z0-9_]{0,254})\}/y

/** The key of the well-formed reference that starts at `at`. */
export const keyAt = (text: string, at: number): string | undefined => {
  referenceAt.lastIndex = at
  return referenceAt.exec(text)?.[1]
}

/** Whether the server takes this text for a template when no kind is given. */
export const isTemplate = (text: string): boolean => /\$\{[A-Z][A-Z0-9_]{0,254}\}|\$\$\{/.test(text)

/** The source of a template that means this very text. */
export const escaped = (text: string): string => text.split("${").join("$${")

export interface Pieces {
  readonly pieces: ReadonlyArray<Piece>
  /** A `$${`, which is a plain `${`. */
  readonly hasEscape: boolean
  /** A `${` that is neither a reference nor an escape: the server refuses it in a template. */
  readonly hasStray: boolean
  /** A reference directly behind a `$`, which the language cannot write. */
  readonly hasBehindDollar: boolean
}

/** `isText`: whether the `$` at this offset stands for itself, whatever follows it. */
export const pieces = (source: string, isText: (offset: number) => boolean = () => false): Pieces => {
  const parts: Array<Piece> = []
  let [hasEscape, hasStray, hasBehindDollar] = [false, false, false]
  let text = ""
  let start = 0
  const flush = () => {
    if (text !== "") parts.push(text)
    text = ""
  }
  for (let at = source.indexOf("${"); at !== -1; at = source.indexOf("${", at + 2)) {
    if (isText(at)) continue
    if (source[at - 1] === "$" && at - 1 >= start && !isText(at - 1)) {
      text += source.slice(start, at - 1) + "${"
      start = at + 2
      hasEscape = true
      continue
    }
    const key = keyAt(source, at)
    if (key === undefined) {
      hasStray = true
      continue
    }
    text += source.slice(start, at)
    hasBehindDollar ||= text.endsWith("$")
    flush()
    parts.push({ key })
    start = at + key.length + 3
  }
  text += source.slice(start)
  flush()
  return { pieces: parts, hasEscape, hasStray, hasBehindDollar }
}

/** The keys that these pieces refer to, each once, in the order of first use. */
export const keysOf = (all: ReadonlyArray<Piece>): ReadonlyArray<string> => [
  ...new Set(all.flatMap((piece) => (typeof piece === "string" ? [] : [piece.key])))
]

/** The source of a template of these pieces. */
export const sourceOf = (all: ReadonlyArray<Piece>): string =>
  all.map((piece) => (typeof piece === "string" ? escaped(piece) : `\${${piece.key}}`)).join("")

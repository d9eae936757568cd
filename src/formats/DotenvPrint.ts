/**
 * `.env` files, written. Their readers disagree on quotes and escapes, so no form carries every value to all of them:
 * `printFor` writes for one reader, and `readOtherwise` names those that read what `print` wrote differently. Both are
 * tried with the readers themselves (test/formats/DotenvPrint.test.ts, test/readers).
 */
import * as Either from "effect/Either"
import type { Entry, Print } from "./Entry.ts"
import { joinLines, printEach } from "./Entry.ts"
import type { Reader } from "./FormatNames.ts"
import { type Piece, pieces } from "./References.ts"

const special = /["$`\\]/

const escape = (text: string): string => {
  let body = ""
  for (const c of text) body += c === "\r" ? "\\r" : special.test(c) ? `\\${c}` : c
  return body
}

const nothing = "the value holds U+0000, which no environment can hold"
const refuseNul = ({ value }: Entry) => (value.includes("\0") ? nothing : undefined)

const isSingle = (value: string): boolean => !value.includes("'") && !value.includes("\r")

/**
 * Single quotes where possible. Otherwise double quotes with escapes, which docker compose and Ampoule read; shells read
 * them too unless there is a carriage return; npm dotenv leaves the backslashes in.
 */
const quote = (value: string): string => {
  const mark = isSingle(value) ? "'" : '"'
  const body = mark === '"' ? escape(value) : value
  // npm dotenv may take a backslash before the closing quote as an escape and read on to a later quote that ends its
  // line: the quote in this comment does not end its line, which makes dotenv step back.
  return mark + body + mark + (body.endsWith("\\") ? ` # ${mark}.` : "")
}

const pieceOf = (piece: Piece): string => (typeof piece === "string" ? escape(piece) : `\${${piece.key}}`)

/** A template in double quotes, in which references are expanded. Without a reference its `$${` stays, which says that it is one. */
const template = (source: string): string => {
  const { pieces: all } = pieces(source)
  const hasReference = all.some((piece) => typeof piece !== "string")
  return `"${hasReference ? all.map(pieceOf).join("") : source.split("$${").map(escape).join("$${")}"`
}

/** Safe to be sourced by a shell: nothing in a value is ever run. Refuses U+0000 only. */
export const print: Print = (entries) =>
  Either.map(
    printEach(
      entries,
      refuseNul,
      ({ key, kind, value }) => `${key}=${kind === "template" ? template(value) : quote(value)}`
    ),
    joinLines
  )

/** Readers that differ from what `print` wrote for this value, by what people call them. */
export const readOtherwise = (value: string): ReadonlyArray<string> => {
  const isPython = value.includes("${")
  if (isSingle(value)) {
    if (value.endsWith("\\")) return ["python-dotenv", "compose", "godotenv"]
    return isPython || value.includes("\\\\") ? ["python-dotenv"] : []
  }
  const body = escape(value)
  if (!body.includes("\\")) return []
  return [
    "npm dotenv",
    "node",
    "dotenvx",
    ...(/[$`]/.test(value) ? ["python-dotenv"] : []),
    ...(value.includes("`") ? ["compose"] : []),
    "godotenv",
    ...(value.includes("\r") ? ["shells"] : [])
  ]
}

// --- for one reader ---

/** The first mark that the value does not hold; these readers know no escape of a quote. */
const marked = (value: string, marks: ReadonlyArray<string>, fits: (mark: string) => boolean): string | undefined => {
  const mark = marks.find((one) => !value.includes(one) && fits(one))
  return mark === undefined ? undefined : mark + value + mark
}

/** In double quotes npm dotenv and node read \n as a line feed; npm reads \r too. */
const holdsLineEscape = (value: string): boolean => /\\[nr]/.test(value)

const forNpm = (value: string): string | undefined => {
  if (value.includes("\r")) {
    // A carriage return outlives npm's own reading of line ends as an escape alone.
    return value.includes('"') || holdsLineEscape(value) || value.endsWith("\\")
      ? undefined
      : `"${value.replaceAll("\r", "\\r")}"`
  }
  if (value.endsWith("\\")) return value.includes("'") ? undefined : `'${value}' # '.`
  return marked(value, ["'", '"', "`"], (mark) => mark !== '"' || !holdsLineEscape(value))
}

const forNode = (value: string): string | undefined =>
  value.includes("\r") ? undefined : marked(value, ["'", '"', "`"], (mark) => mark !== '"' || !holdsLineEscape(value))

const forCompose = (value: string): string =>
  isSingle(value) && !value.endsWith("\\")
    ? `'${value}'`
    : `"${value.replaceAll(/[\\"$]/g, (c) => `\\${c}`).replaceAll("\r", "\\r")}"`

/** `${` begins a variable in all quotes; `${:-$}` is the default of a name that no variable has, a plain `$`. */
const forPython = (value: string): string =>
  `"${value
    .replaceAll(/[\\"]/g, (c) => `\\${c}`)
    .replaceAll("\r", "\\r")
    .replaceAll("${", "${:-$}{")}"`

const forShell = (value: string): string => `'${value.replaceAll("'", "'\\''")}'`

const quotes: Readonly<Record<Reader, (value: string) => string | undefined>> = {
  npm: forNpm,
  node: forNode,
  compose: forCompose,
  python: forPython,
  shell: forShell
}

const names: Readonly<Record<Reader, string>> = {
  npm: "npm dotenv",
  node: "node --env-file",
  compose: "docker compose",
  python: "python-dotenv",
  shell: "a shell"
}

/** Every value is read back by this reader; one that it cannot read in any form is refused. */
export const printFor =
  (reader: Reader): Print =>
  (entries) =>
    Either.map(
      printEach(
        entries,
        (entry) =>
          refuseNul(entry) ??
          (quotes[reader](entry.value) === undefined
            ? `${names[reader]} has no way to write this mix of quotes, backslashes and line ends`
            : undefined),
        ({ key, value }) => `${key}=${quotes[reader](value) ?? ""}`
      ),
      joinLines
    )

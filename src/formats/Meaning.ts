/**
 * Turns the entries of a file into secrets: text, or a template with references. Also collects remarks for a person:
 * references, text that only looks like one, and values that other readers read differently.
 */
import type { Form, ParsedEntry } from "./Entry.ts"
import type { ReadFormat } from "./FormatNames.ts"
import { isQuoteless, isTemplate, keyAt, keysOf, pieces, sourceOf } from "./References.ts"

/** References of other dialects, which are text here. */
type ForeignForm = "$NAME" | "${NAME:-default}" | "${name}" | "$(command)" | "`command`" | "$$" | "$1"

export interface Meaning {
  readonly key: string
  readonly line: number
  /** The text that the server receives. */
  readonly value: string
  /** The text would be taken for a template without it. */
  readonly kind?: "literal"
  /** Keys that it refers to. */
  readonly references: ReadonlyArray<string>
  readonly foreign: ReadonlyArray<ForeignForm>
  readonly forms: ReadonlyArray<Form>
  readonly replaces: ReadonlyArray<number>
  readonly note: string | undefined
  readonly alias: string | undefined
  /** Why no text of the server can say this. */
  readonly problem: string | undefined
}

export interface MeaningOptions {
  readonly format: ReadFormat
  /** All of it is text. */
  readonly literal?: boolean
  /** `$KEY` of these keys is a reference too. */
  readonly bareKeys?: ReadonlySet<string>
}

const foreignAt = /\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([^}]*)\}?|(\()|(\$)|([0-9]))/y

const formAt = (text: string, at: number): ForeignForm | undefined => {
  foreignAt.lastIndex = at
  const match = foreignAt.exec(text)
  if (match === null || keyAt(text, at) !== undefined) return undefined
  const [, name, braces, command, dollar] = match
  if (name !== undefined) return "$NAME"
  if (braces !== undefined) return /^[A-Za-z_][A-Za-z0-9_]*$/.test(braces) ? "${name}" : "${NAME:-default}"
  return command !== undefined ? "$(command)" : dollar !== undefined ? "$$" : "$1"
}

const bareAt = /\$([A-Z][A-Z0-9_]{0,254})(?![A-Za-z0-9_])/y

/** `$KEY` of these keys as `${KEY}`. Offsets of the `$` that are text move along. */
const withBraces = (text: string, plain: ReadonlySet<number>, keys: ReadonlySet<string>) => {
  let value = ""
  const moved: Array<number> = []
  let at = 0
  while (at < text.length) {
    bareAt.lastIndex = at
    const key = text[at] === "$" && !plain.has(at) && text[at - 1] !== "$" ? bareAt.exec(text)?.[1] : undefined
    if (key !== undefined && keys.has(key)) {
      value += `\${${key}}`
      at += key.length + 1
    } else {
      if (plain.has(at)) moved.push(value.length)
      value += text[at]
      at++
    }
  }
  return { value, plain: new Set(moved) }
}

const dollarsOf = (text: string): ReadonlyArray<number> => [...text.matchAll(/\$/g)].map(({ index }) => index)

const behindDollar =
  "a reference right behind a $ cannot be written: write the value of the key there, or put text between"
const strayBrace =
  "a ${ that is no reference is beside one that is: write the plain one as $${, or quote what is text in single quotes"

const isDotenvLike = (format: ReadFormat): boolean => format === "dotenv" || format === "docker"

/** The references of other dialects that stand in a text. A `$$` counts once, whatever follows it. */
const foreignOf = (text: string, plain: ReadonlySet<number>, format: ReadFormat): ReadonlyArray<ForeignForm> => {
  const forms = new Set<ForeignForm>()
  for (let at = text.indexOf("$"); at !== -1; at = text.indexOf("$", at + 1)) {
    const form = plain.has(at) ? undefined : formAt(text, at)
    if (form === "$$") {
      if (isDotenvLike(format)) forms.add(form)
      at++
    } else if (form !== undefined && (isDotenvLike(format) || form.startsWith("${"))) forms.add(form)
  }
  return [...forms]
}

/** The meaning of one entry, with remarks about it. */
export const meaningOf = (entry: ParsedEntry, options: MeaningOptions): Meaning => {
  const { alias, forms = [], key, line, note, plainDollars = [], replaces = [] } = entry
  const dollars = new Set(plainDollars === "all" ? dollarsOf(entry.value) : plainDollars)
  const { plain, value: text } =
    options.bareKeys === undefined
      ? { plain: dollars, value: entry.value }
      : withBraces(entry.value, dollars, options.bareKeys)
  const about = { key, line, forms, replaces, note, alias, foreign: foreignOf(text, plain, options.format) }
  const asText = (value: string): Meaning => ({
    ...about,
    value,
    ...(isTemplate(value) ? { kind: "literal" as const } : {}),
    references: [],
    problem: undefined
  })
  if (options.literal === true) return { ...asText(entry.value), foreign: [] }
  const parsed = pieces(text, (at) => plain.has(at))
  const references = keysOf(parsed.pieces)
  const isLive = references.length > 0 || parsed.hasEscape
  if (!isLive) return asText(text)
  if (references.length === 0 && isQuoteless(options.format) && !parsed.hasStray) return asText(joined(parsed.pieces))
  const problem = parsed.hasBehindDollar ? behindDollar : parsed.hasStray ? strayBrace : undefined
  return { ...about, value: plain.size === 0 ? text : sourceOf(parsed.pieces), references, problem }
}

const joined = (all: ReturnType<typeof pieces>["pieces"]): string =>
  all.map((piece) => (typeof piece === "string" ? piece : "")).join("")

/** Other readers' interpretation of a form, as the rest of a sentence behind the key. */
export const formTexts: Readonly<Record<Form, string>> = {
  hash: "npm dotenv, node and dotenvx end it at the #",
  "only-comment": "it is empty here; compose and godotenv take the comment for the value",
  blanks: "node and shells keep the tabs and hard spaces around it",
  tilde: "a shell puts the home folder in the place of ~",
  unquoted: "a shell takes its quotes and backslashes away",
  quotes: "readers disagree on quotes within quotes",
  escape: "readers disagree on what its backslashes mean",
  comment: "a shell takes the comment right behind the quote for a part of it",
  backtick: "compose, python-dotenv and godotenv keep the backticks, and a shell runs what is in them",
  "line-ends": "a shell keeps the carriage returns at the ends of its lines"
}

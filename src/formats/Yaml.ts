/** YAML: one mapping of names to text. Written so that YAML 1.1 and 1.2 readers agree; read without guessing types. */
import * as Either from "effect/Either"
import * as YAML from "yaml"
import type { Parse, ParsedEntry, Print } from "./Entry.ts"
import { checkEntries, failure, joinLines, lineCounter, printEach, withoutByteOrderMark } from "./Entry.ts"

/**
 * What JSON leaves as it is and YAML 1.1 or 1.2 would refuse or fold: control characters, extra line breaks, U+FEFF.
 */
// eslint-disable-next-line no-control-regex
const notPrintable = /[\u007f-\u009f\u2028\u2029\ufeff\ufffe\uffff]/g

/** A JSON string is a YAML double-quoted scalar. */
const scalarOf = (text: string): string =>
  JSON.stringify(text).replace(notPrintable, (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"))

/** Keys that some YAML 1.1 reader takes for a boolean, null or a number (`E1`). */
const ambiguous = /^(?:y|n|yes|no|on|off|true|false|null|_*(?:e[0-9_]*|[0-9][0-9_]*)?)$/i

export const print: Print = (entries) =>
  Either.map(
    printEach(
      entries,
      () => undefined,
      ({ key, value }) => `${ambiguous.test(key) ? scalarOf(key) : key}: ${scalarOf(value)}`
    ),
    (lines) => (lines.length === 0 ? "{}\n" : joinLines(lines))
  )

/** YAML 1.2.2, 10.3.2: what a plain scalar must not be when text is meant. Numbers and booleans keep their own text. */
const plainNull = /^(?:~|null|Null|NULL)$/

const isScalar = (token: YAML.CST.Token | null | undefined): boolean =>
  token === null ||
  token === undefined ||
  token.type === "scalar" ||
  token.type === "single-quoted-scalar" ||
  token.type === "double-quoted-scalar" ||
  token.type === "block-scalar"

/**
 * Offset of the first thing that is no flat mapping, or -1. Asked of the tokens, whose parser does not recurse: the
 * composer behind it does, and deep nesting can end the whole process there.
 */
const firstNested = (tokens: ReadonlyArray<YAML.CST.Token>): number => {
  for (const token of tokens) {
    if (token.type !== "document") continue
    const root = token.value
    if (root === undefined) continue
    if (root.type !== "block-map" && root.type !== "flow-collection") return root.offset
    if (root.type === "flow-collection" && root.start.source !== "{") return root.offset
    for (const item of root.items) {
      if (!isScalar(item.key)) return item.key?.offset ?? root.offset
      if (!isScalar(item.value)) return item.value?.offset ?? root.offset
    }
  }
  return -1
}

/**
 * An export of ours or of `infisical export --format=yaml`: plain scalars keep the text they were written with (`012`,
 * `yes`,
 * `1e3`); null, nested values, aliases and tags are refused.
 */
export const parse: Parse = (text, options) => {
  const source = withoutByteOrderMark(text)
  const lineAt = lineCounter(source)
  const tokens = [...new YAML.Parser().parse(source)]
  const nested = firstNested(tokens)
  if (nested !== -1) return failure(lineAt(nested), "not a flat mapping of keys to text")
  const documents = tokens.filter((token) => token.type === "document")
  if (documents.length > 1) return failure(lineAt(documents[1].offset), "more than one document")

  const document = YAML.parseDocument(source, {
    schema: "failsafe",
    // Ours is linear; and a message with an excerpt of the file must not even be made.
    uniqueKeys: false,
    prettyErrors: false,
    logLevel: "silent"
  })
  const error = document.errors[0] ?? document.warnings[0]
  if (error !== undefined) return failure(lineAt(error.pos[0]), "not valid YAML")
  if (document.contents === null) return Either.right([])
  if (!YAML.isMap(document.contents)) return failure(1, "not a flat mapping of keys to text")

  const entries: Array<ParsedEntry> = []
  for (const { key, value } of document.contents.items) {
    if (!YAML.isScalar(key) || typeof key.value !== "string") return failure(1, "not a flat mapping of keys to text")
    const line = lineAt(key.range?.[0] ?? 0)
    if (value === null) {
      entries.push({ key: key.value, value: "", line })
      continue
    }
    if (
      !YAML.isScalar(value) ||
      typeof value.value !== "string" ||
      (value.tag ?? "tag:yaml.org,2002:str") !== "tag:yaml.org,2002:str"
    ) {
      return failure(line, "the value is not text")
    }
    if (value.type === "PLAIN" && plainNull.test(value.value)) return failure(line, "the value is null")
    entries.push({ key: key.value, value: value.value, line })
  }
  return checkEntries(entries, options)
}

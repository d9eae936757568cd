/** YAML: a mapping of names to text, or what other programs print. Written so that YAML 1.1 and 1.2 readers agree; read without guessing types. */
import * as Either from "effect/Either"
import * as YAML from "yaml"
import type { Parse, Print } from "./Entry.ts"
import { joinLines, printEach, withoutByteOrderMark } from "./Entry.ts"
import { scan } from "./JsonFormat.ts"
import { areManifests, fromManifests, type Recognised, recognise } from "./Origins.ts"
import { type Broken, maxNesting, type Member, type Node } from "./Tree.ts"
import { type ReadTree, readTree } from "./TreeEntries.ts"

/** Characters that JSON keeps, and YAML 1.1 or 1.2 would refuse or fold: controls, extra line breaks, U+FEFF. */
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

const braceOrBracket = (token: YAML.CST.Token): boolean =>
  token.type === "flow-collection" || token.type === "block-map" || token.type === "block-seq"

/**
 * Offset of the first thing that is nested too deeply, or that is no key, no text and no collection; or -1. Asked of the
 * tokens, whose parser does not recurse: the composer behind it does, and deep nesting can end the whole process there.
 */
const firstUnreadable = (
  tokens: ReadonlyArray<YAML.CST.Token>
): { readonly at: number; readonly reason: string } | undefined => {
  const open = tokens.flatMap((token) =>
    token.type === "document" && token.value !== undefined ? [{ token: token.value, depth: 0 }] : []
  )
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const { depth, token } = next
    if (token.type === "alias") return { at: token.offset, reason: "an alias: write the value itself" }
    if (!braceOrBracket(token) || !("items" in token)) continue
    if (depth > maxNesting) return { at: token.offset, reason: "nested too deeply" }
    for (const item of token.items) {
      if (item.key !== undefined && item.key !== null && braceOrBracket(item.key)) {
        return { at: item.key.offset, reason: "a key is not text" }
      }
      if (item.value !== undefined) open.push({ token: item.value, depth: depth + 1 })
    }
  }
  return undefined
}

const text = "tag:yaml.org,2002:str"

const nodeOf = (node: unknown, at: number): Either.Either<Node, Broken> => {
  if (node === null || node === undefined) return Either.right({ type: "text", text: "", at })
  if (YAML.isScalar(node)) {
    if (typeof node.value !== "string" || (node.tag ?? text) !== text) {
      return Either.left({ at, reason: "the value is not text" })
    }
    const isNull = node.type === "PLAIN" && plainNull.test(node.value)
    return Either.right(isNull ? { type: "null", at } : { type: "text", text: node.value, at })
  }
  if (YAML.isMap(node)) {
    const members: Array<Member> = []
    for (const { key, value } of node.items) {
      if (!YAML.isScalar(key) || typeof key.value !== "string") return Either.left({ at, reason: "a key is not text" })
      const start = key.range?.[0] ?? at
      const inner = nodeOf(value, start)
      if (Either.isLeft(inner)) return inner
      members.push([key.value, start, inner.right])
    }
    return Either.right({ type: "object", members, at })
  }
  if (!YAML.isSeq(node)) return Either.left({ at, reason: "the value is not text" })
  const items: Array<Node> = []
  for (const item of node.items) {
    const inner = nodeOf(item, YAML.isNode(item) ? (item.range?.[0] ?? at) : at)
    if (Either.isLeft(inner)) return inner
    items.push(inner.right)
  }
  return Either.right({ type: "array", items, at })
}

const documentsOf = (source: string): Either.Either<ReadonlyArray<Node>, Broken> => {
  const tokens = [...new YAML.Parser().parse(source)]
  const unreadable = firstUnreadable(tokens)
  if (unreadable !== undefined) return Either.left(unreadable)
  const documents = YAML.parseAllDocuments(source, {
    schema: "failsafe",
    // Ours is linear; and a message with an excerpt of the file must not even be made.
    uniqueKeys: false,
    prettyErrors: false,
    logLevel: "silent"
  })
  if ("empty" in documents) return Either.right([])
  const nodes: Array<Node> = []
  for (const document of documents) {
    const error = document.errors[0] ?? document.warnings[0]
    if (error !== undefined) return Either.left({ at: error.pos[0], reason: "not valid YAML" })
    if (document.contents === null) continue
    const node = nodeOf(document.contents, document.contents.range?.[0] ?? 0)
    if (Either.isLeft(node)) return Either.left(node.left)
    nodes.push(node.right)
  }
  return Either.right(nodes)
}

const notAMapping = "not a mapping of keys to text"

/**
 * An export of ours, of `infisical export --format=yaml`, of kubectl, and what else JSON is read of. Plain scalars keep
 * the text they were written with (`012`, `yes`, `1e3`); null, aliases and tags are refused.
 */
export const read: ReadTree = (text, options) => {
  const source = withoutByteOrderMark(text)
  const recognised = Either.flatMap(documentsOf(source), (nodes): Either.Either<Recognised, Broken> => {
    const [first, second] = nodes
    if (first === undefined) return Either.right({ origin: undefined, entries: [], leftOut: [] })
    if (second !== undefined) {
      return areManifests(nodes)
        ? Either.right(fromManifests(nodes))
        : Either.left({ at: second.at, reason: "more than one document" })
    }
    return first.type === "text" || first.type === "null"
      ? Either.left({ at: first.at, reason: notAMapping })
      : Either.right(recognise(first, options ?? {}, scan))
  })
  return readTree(source, recognised, options)
}

export const parse: Parse = (text, options) => Either.map(read(text, options), ({ entries }) => entries)

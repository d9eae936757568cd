/**
 * JSON: an object of strings (ours and Doppler's), or an array of objects with a name and a value (Infisical's). Read by a
 * scanner of our own, because `JSON.parse` drops repeated keys, rounds long numbers and quotes the input in its messages.
 */
import * as Either from "effect/Either"
import type { Parse, ParsedEntry, Print } from "./Entry.ts"
import { checkEntries, failure, lineCounter, printEach, withoutByteOrderMark } from "./Entry.ts"

export const print: Print = (entries) =>
  Either.map(
    printEach(
      entries,
      () => undefined,
      ({ key, value }) => `  ${JSON.stringify(key)}: ${JSON.stringify(value)}`
    ),
    (lines) => (lines.length === 0 ? "{}\n" : `{\n${lines.join(",\n")}\n}\n`)
  )

type Node = { readonly at: number } & (
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "null" }
  | { readonly type: "array"; readonly items: ReadonlyArray<Node> }
  | { readonly type: "object"; readonly members: ReadonlyArray<readonly [key: string, at: number, value: Node]> }
)

interface Broken {
  readonly at: number
  readonly reason: string
}

/** Deeper than any export, shallow enough for the call stack. */
const maxNesting = 32

const scalar = /true|false|null|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y

const read = (source: string): Either.Either<Node, Broken> => {
  let at = 0
  const broken = (reason: string) => Either.left({ at, reason })

  const skip = () => {
    while (at < source.length && " \t\r\n".includes(source[at])) at++
  }

  const readString = (): Either.Either<string, Broken> => {
    const start = at
    let end = start + 1
    while (end < source.length && source[end] !== '"') end += source[end] === "\\" ? 2 : 1
    const parsed = Either.try((): unknown => JSON.parse(source.slice(start, end + 1)))
    if (Either.isLeft(parsed) || typeof parsed.right !== "string") return broken("not a valid JSON string")
    at = end + 1
    return Either.right(parsed.right)
  }

  /** Items up to `close`, separated by commas. */
  const readList = <A>(
    close: string,
    item: () => Either.Either<A, Broken>
  ): Either.Either<ReadonlyArray<A>, Broken> => {
    const items: Array<A> = []
    at++
    skip()
    while (source[at] !== close) {
      if (items.length > 0) {
        if (source[at] !== ",") return broken("not valid JSON: a comma or the closing bracket is missing")
        at++
        skip()
      }
      const next = item()
      if (Either.isLeft(next)) return Either.left(next.left)
      items.push(next.right)
      skip()
    }
    at++
    return Either.right(items)
  }

  const readMember = (depth: number) => (): Either.Either<readonly [string, number, Node], Broken> => {
    const start = at
    if (source[at] !== '"') return broken("not valid JSON: a member name is missing")
    const key = readString()
    if (Either.isLeft(key)) return Either.left(key.left)
    skip()
    if (source[at] !== ":") return broken("not valid JSON: a colon is missing")
    at++
    return Either.map(readNode(depth), (value) => [key.right, start, value] as const)
  }

  const readNode = (depth: number): Either.Either<Node, Broken> => {
    skip()
    const start = at
    if (depth > maxNesting) return broken("nested too deeply")
    if (source[at] === '"') return Either.map(readString(), (text): Node => ({ type: "text", text, at: start }))
    if (source[at] === "{") {
      return Either.map(readList("}", readMember(depth + 1)), (members): Node => ({
        type: "object",
        members,
        at: start
      }))
    }
    if (source[at] === "[") {
      return Either.map(
        readList("]", () => readNode(depth + 1)),
        (items): Node => ({ type: "array", items, at: start })
      )
    }
    scalar.lastIndex = at
    const found = scalar.exec(source)
    if (found === null) return broken("not valid JSON: a value is missing")
    at = scalar.lastIndex
    // Numbers and booleans keep the text they were written with: 5432, 1.10, true.
    return Either.right(found[0] === "null" ? { type: "null", at: start } : { type: "text", text: found[0], at: start })
  }

  const node = readNode(0)
  if (Either.isLeft(node)) return node
  skip()
  return at < source.length ? broken("not valid JSON: text stands behind the end") : node
}

type Found = Either.Either<{ readonly key: string; readonly value: string; readonly at: number }, Broken>

const entryOf = (key: string, at: number, value: Node): Found =>
  value.type === "text"
    ? Either.right({ key, value: value.text, at })
    : Either.left({ at, reason: value.type === "null" ? "the value is null" : "the value is not text" })

/** Members that name a secret and hold its value: `infisical export`, then `infisical secrets` of the raw API. */
const shapes = [
  ["key", "value"],
  ["secretKey", "secretValue"]
]

const entryOfItem = (item: Node): Found => {
  if (item.type !== "object") return Either.left({ at: item.at, reason: "the item is not an object" })
  for (const [keyName, valueName] of shapes) {
    const key = item.members.find(([name]) => name === keyName)
    const value = item.members.find(([name]) => name === valueName)
    if (key !== undefined && value !== undefined && key[2].type === "text")
      return entryOf(key[2].text, item.at, value[2])
  }
  return Either.left({ at: item.at, reason: "the item has no key and value" })
}

export const parse: Parse = (text) => {
  const source = withoutByteOrderMark(text)
  const root = read(source)
  const found: Either.Either<ReadonlyArray<Found>, Broken> = Either.flatMap(root, (node) =>
    node.type === "object"
      ? Either.right(node.members.map(([key, at, value]) => entryOf(key, at, value)))
      : node.type === "array"
        ? Either.right(node.items.map(entryOfItem))
        : Either.left({ at: node.at, reason: "neither an object nor an array" })
  )
  if (Either.isLeft(found)) return failure(lineCounter(source)(found.left.at), found.left.reason)
  const lineAt = lineCounter(source)
  const entries: Array<ParsedEntry> = []
  for (const one of found.right) {
    if (Either.isLeft(one)) return failure(lineAt(one.left.at), one.left.reason)
    entries.push({ key: one.right.key, value: one.right.value, line: lineAt(one.right.at) })
  }
  return checkEntries(entries)
}

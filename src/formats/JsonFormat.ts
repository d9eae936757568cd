/**
 * JSON: an object of names and values, and what other programs print (`recognise`). Read by a scanner of our own,
 * because
 * `JSON.parse` drops repeated keys, rounds long numbers and quotes the input in its messages.
 */
import * as Either from "effect/Either"
import type { Parse, Print } from "./Entry.ts"
import { printEach, withoutByteOrderMark } from "./Entry.ts"
import { recognise } from "./Origins.ts"
import { type Broken, maxNesting, type Node } from "./Tree.ts"
import { type ReadTree, readTree } from "./TreeEntries.ts"

export const print: Print = (entries) =>
  Either.map(
    printEach(
      entries,
      () => undefined,
      ({ key, value }) => `  ${JSON.stringify(key)}: ${JSON.stringify(value)}`
    ),
    (lines) => (lines.length === 0 ? "{}\n" : `{\n${lines.join(",\n")}\n}\n`)
  )

const scalar = /true|false|null|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y

export const scan = (source: string): Either.Either<Node, Broken> => {
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
    const match = scalar.exec(source)
    if (match === null) return broken("not valid JSON: a value is missing")
    at = scalar.lastIndex
    // Numbers and booleans keep the text they were written with: 5432, 1.10, true.
    return Either.right(match[0] === "null" ? { type: "null", at: start } : { type: "text", text: match[0], at: start })
  }

  const node = readNode(0)
  if (Either.isLeft(node)) return node
  skip()
  return at < source.length ? broken("not valid JSON: there is text after the end") : node
}

/** The entries of an export, and the program that printed it where its form says so. */
export const read: ReadTree = (text, options) => {
  const source = withoutByteOrderMark(text)
  return readTree(
    source,
    Either.map(scan(source), (node) => recognise(node, options ?? {}, scan)),
    options
  )
}

export const parse: Parse = (text, options) => Either.map(read(text, options), ({ entries }) => entries)

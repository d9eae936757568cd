/**
 * JSON: an object of names and values, and what other programs print (`recognise`). Read by a scanner of our own,
 * because
 * `JSON.parse` drops repeated keys, rounds long numbers and quotes the input in its messages.
 */
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import type { Parse, ParsedEntry, ParseFailure, ParseOptions, Print } from "./Entry.ts"
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

const scan = (source: string): Either.Either<Node, Broken> => {
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
  return at < source.length ? broken("not valid JSON: there is text after the end") : node
}

type Found = Either.Either<{ readonly key: string; readonly value: string; readonly at: number }, Broken>
type Founds = ReadonlyArray<Found>
type ObjectNode = Extract<Node, { readonly type: "object" }>

const member = (node: Node | undefined, ...names: ReadonlyArray<string>): Node | undefined => {
  let found = node
  for (const name of names) {
    found = found?.type === "object" ? found.members.find(([other]) => other === name)?.[2] : undefined
  }
  return found
}
const textOf = (node: Node | undefined): string | undefined => (node?.type === "text" ? node.text : undefined)
const broken = (at: number, reason: string): Found => Either.left({ at, reason })

const entryOf = (key: string, at: number, value: Node): Found =>
  value.type === "text"
    ? Either.right({ key, value: value.text, at })
    : broken(at, value.type === "null" ? "the value is null" : "the value is not text")

const flat = (node: ObjectNode): Founds => node.members.map(([key, at, value]) => entryOf(key, at, value))

/** Of a path like `/app/production/db-url` or `projects/1/secrets/db-url/versions/2`. */
const lastOf = (path: string): string => path.slice(path.lastIndexOf("/") + 1)

/** Members that name a secret and hold its value: Infisical's export and its API, then AWS and what is like it. */
const shapes = [
  ["key", "value"],
  ["secretKey", "secretValue"],
  ["Name", "Value"],
  ["name", "value"]
] as const

const entryOfItem = (item: Node): Found => {
  if (item.type !== "object") return broken(item.at, "the item is not an object")
  for (const [keyName, valueName] of shapes) {
    const [key, value] = [textOf(member(item, keyName)), member(item, valueName)]
    if (key !== undefined && value !== undefined) return entryOf(keyName === "Name" ? lastOf(key) : key, item.at, value)
  }
  return broken(item.at, "the item has no key and value")
}

const base64 = (key: string, at: number, value: Node): Found => {
  const text = textOf(value)
  if (text === undefined || !/^[A-Za-z0-9+/_-]*={0,2}$/.test(text)) return broken(at, "the value is not base64")
  const bytes = Buffer.from(text, "base64")
  const decoded = bytes.toString("utf8")
  return Buffer.from(decoded).equals(bytes)
    ? Either.right({ key, value: decoded, at })
    : broken(at, "the value is not UTF-8 text")
}

/** `doppler secrets --json`: as written where its references are to keys that come along, else as computed. */
const fromDoppler = (node: ObjectNode): Founds => {
  const keys = new Set(node.members.map(([key]) => key))
  return node.members.map(([key, at, value]) => {
    const raw = textOf(member(value, "raw"))
    const references = raw?.match(/\$\{[^}]*\}?/g) ?? []
    const comesAlong = references.every((reference) => keys.has(reference.slice(2, -1)))
    const chosen = raw !== undefined && comesAlong ? member(value, "raw") : member(value, "computed")
    return chosen === undefined || chosen.type === "null"
      ? broken(at, "the value is restricted in Doppler, and not in the export")
      : entryOf(key, at, chosen)
  })
}

/** The line of a text within the text. */
const standsAt =
  (offset: number) =>
  <A extends { readonly at: number }>(found: A): A => ({ ...found, at: offset })

/** `aws secretsmanager get-secret-value`: the JSON object in its text, else its text under its own name. */
const fromSecretsManager = (text: Node, name: string): Founds => {
  const inner = text.type === "text" ? Either.getRight(scan(text.text)) : Option.none()
  return Option.isSome(inner) && inner.value.type === "object"
    ? flat(inner.value).map((found) => Either.mapBoth(found, { onLeft: standsAt(text.at), onRight: standsAt(text.at) }))
    : [entryOf(lastOf(name), text.at, text)]
}
const isObject = (node: Node | undefined): node is ObjectNode => node?.type === "object"

/** Which program printed it, and its entries. */
const recognise = (node: ObjectNode): { readonly origin: string | undefined; readonly found: Founds } => {
  const data = member(node, "data")
  if (isObject(data) && (member(node, "lease_id") !== undefined || member(node, "request_id") !== undefined)) {
    // The second version of the engine keeps the entries a level down, beside their metadata.
    const inner = member(data, "data")
    return { origin: "vault kv get", found: flat(isObject(inner) && isObject(member(data, "metadata")) ? inner : data) }
  }
  if (textOf(member(node, "kind")) === "Secret" && member(node, "apiVersion") !== undefined) {
    const plain = member(node, "stringData")
    return {
      origin: "kubectl get secret",
      found: [
        ...(isObject(data) ? data.members.map(([key, offset, value]) => base64(key, offset, value)) : []),
        ...(isObject(plain) ? flat(plain) : [])
      ]
    }
  }
  const secretString = member(node, "SecretString")
  const name = textOf(member(node, "Name"))
  if (secretString !== undefined && name !== undefined) {
    return { origin: "aws secretsmanager", found: fromSecretsManager(secretString, name) }
  }
  const parameters = member(node, "Parameters")
  if (parameters?.type === "array") return { origin: "aws ssm", found: parameters.items.map(entryOfItem) }
  const parameter = member(node, "Parameter")
  if (isObject(parameter)) return { origin: "aws ssm", found: [entryOfItem(parameter)] }
  const payload = member(node, "payload", "data")
  const version = /^projects\/[^/]+\/secrets\/([^/]+)\//.exec(textOf(member(node, "name")) ?? "")
  if (payload !== undefined && version !== null) {
    return { origin: "gcloud secrets", found: [base64(version[1] ?? "", payload.at, payload)] }
  }
  const nested = node.members.length > 0 && node.members.every(([, , value]) => isObject(value))
  if (nested && node.members.every(([, , value]) => member(value, "computed") !== undefined)) {
    return { origin: "doppler secrets", found: fromDoppler(node) }
  }
  return { origin: undefined, found: flat(node) }
}

/** `origin`: the program whose export it is, where it can be told from another. */
export const read = (
  text: string,
  options?: ParseOptions
): Either.Either<
  { readonly entries: ReadonlyArray<ParsedEntry>; readonly origin: string | undefined },
  ParseFailure
> => {
  const source = withoutByteOrderMark(text)
  const root = scan(source)
  if (Either.isLeft(root)) return failure(lineCounter(source)(root.left.at), root.left.reason)
  const node = root.right
  if (node.type !== "object" && node.type !== "array") {
    return failure(lineCounter(source)(node.at), "neither an object nor an array")
  }
  const { found, origin } =
    node.type === "object" ? recognise(node) : { origin: undefined, found: node.items.map(entryOfItem) }
  const lineAt = lineCounter(source)
  const entries: Array<ParsedEntry> = []
  for (const one of found) {
    if (Either.isLeft(one)) return failure(lineAt(one.left.at), one.left.reason)
    entries.push({ key: one.right.key, value: one.right.value, line: lineAt(one.right.at) })
  }
  return Either.map(checkEntries(entries, options), (checked) => ({ entries: checked, origin }))
}

export const parse: Parse = (text, options) => Either.map(read(text, options), ({ entries }) => entries)

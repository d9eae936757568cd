/**
 * TOML 1.0: names and values, and tables by `--flatten`. Read by a scanner of our own, because parsers give no lines and
 * turn numbers and dates into values with another text.
 */
import * as Either from "effect/Either"
import type { Parse } from "./Entry.ts"
import { withoutByteOrderMark } from "./Entry.ts"
import { recognise } from "./Origins.ts"
import { type Broken, maxNesting, type Node } from "./Tree.ts"
import { type ReadTree, readTree } from "./TreeEntries.ts"

interface Table {
  readonly at: number
  readonly members: Array<readonly [key: string, at: number, slot: Slot]>
  /** First one of each name. */
  readonly byName: Map<string, Slot>
}
type Slot = Node | { readonly table: Table } | { readonly tables: Array<Table> }

const emptyTable = (at: number): Table => ({ at, members: [], byName: new Map() })

const add = (table: Table, name: string, at: number, slot: Slot): void => {
  table.members.push([name, at, slot])
  if (!table.byName.has(name)) table.byName.set(name, slot)
}

/** Place and reason of the first fault. Caught in `scan`, so that each step reads as in the grammar. */
class Fault extends Error {
  readonly at: number
  readonly reason: string
  constructor(at: number, reason: string) {
    super()
    this.at = at
    this.reason = reason
  }
}

const escapes: ReadonlyMap<string, string> = new Map([
  ["b", "\b"],
  ["t", "\t"],
  ["n", "\n"],
  ["f", "\f"],
  ["r", "\r"],
  ["e", "\u001b"],
  ['"', '"'],
  ["\\", "\\"]
])

const bareKey = /[A-Za-z0-9_-]+/y
const scalar =
  /(?:true|false|[+-]?(?:inf|nan)|0x[0-9A-Fa-f_]+|0o[0-7_]+|0b[01_]+|\d{4}-\d\d-\d\d(?:[Tt ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:[Zz]|[+-]\d\d:\d\d)?)?|\d\d:\d\d(?::\d\d(?:\.\d+)?)?|[+-]?(?:0|[1-9][\d_]*)(?:\.\d[\d_]*)?(?:[eE][+-]?\d[\d_]*)?)(?=[\s,\]}#]|$)/y

/** Text of a number without its dividers: `1_000` is 1000. Other text stays as it is written. */
const plainScalar = (text: string): string => (text.includes("_") ? text.replaceAll("_", "") : text)

class Scanner {
  at = 0
  constructor(readonly source: string) {}

  fail(reason: string, at = this.at): never {
    throw new Fault(at, reason)
  }

  startsWith(text: string): boolean {
    return this.source.startsWith(text, this.at)
  }

  match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.at
    const text = pattern.exec(this.source)?.[0]
    if (text !== undefined) this.at += text.length
    return text
  }

  blanks(): void {
    this.match(/[ \t]*/y)
  }

  /** Blanks, line ends and comments. */
  space(): void {
    this.match(/(?:[ \t\r\n]|#[^\n]*\n)*(?:#[^\n]*)?/y)
  }

  lineEnd(): void {
    this.blanks()
    this.match(/#[^\n]*/y)
    if (this.at < this.source.length && this.match(/\r?\n/y) === undefined) {
      this.fail("not valid TOML: there is text behind the value")
    }
  }

  escape(many: boolean): string {
    const start = this.at++
    const letter = this.source[this.at++] ?? ""
    const plain = escapes.get(letter)
    if (plain !== undefined) return plain
    if (letter === "u" || letter === "U") {
      const digits = this.match(letter === "u" ? /[0-9A-Fa-f]{4}/y : /[0-9A-Fa-f]{8}/y)
      const code = digits === undefined ? NaN : parseInt(digits, 16)
      if (code <= 0x10ffff && !(code >= 0xd800 && code <= 0xdfff)) return String.fromCodePoint(code)
    }
    this.at = start + 1
    if (many && this.match(/[ \t]*\r?\n[ \t\r\n]*/y) !== undefined) return ""
    return this.fail("not a valid escape: write \\\\ for a backslash, or the value in single quotes", start)
  }

  string(): string {
    const start = this.at
    const quote = this.source[this.at] === "'" ? "'" : '"'
    const many = this.startsWith(quote.repeat(3))
    this.at += many ? 3 : 1
    if (many) this.match(/\r?\n/y)
    let text = ""
    for (;;) {
      const next = this.source[this.at]
      if (next === undefined || (!many && next === "\n")) return this.fail("the quote is not closed", start)
      if (next === quote && (!many || this.startsWith(quote.repeat(3)))) break
      if (next === "\\" && quote === '"') text += this.escape(many)
      else {
        text += next
        this.at++
      }
    }
    if (!many) {
      this.at++
      return text
    }
    // One or two quotes may be the end of the text itself.
    const quotes = this.match(quote === '"' ? /"{3,5}/y : /'{3,5}/y) ?? ""
    return text + quote.repeat(quotes.length - 3)
  }

  key(): string {
    const next = this.source[this.at]
    if (next === '"' || next === "'") {
      if (this.startsWith(next.repeat(3))) return this.fail("not valid TOML: a name has one pair of quotes")
      return this.string()
    }
    return this.match(bareKey) ?? this.fail("not of the form KEY = value")
  }

  path(): ReadonlyArray<string> {
    const names = [this.key()]
    for (this.blanks(); this.source[this.at] === "."; this.blanks()) {
      this.at++
      this.blanks()
      names.push(this.key())
    }
    if (names.length > maxNesting) return this.fail("nested too deeply")
    return names
  }

  value(depth: number): Slot {
    const start = this.at
    if (depth > maxNesting) return this.fail("nested too deeply")
    switch (this.source[start]) {
      case '"':
      case "'":
        return { type: "text", text: this.string(), at: start }
      case "[":
        return { type: "array", items: this.items("]", () => nodeOf(this.value(depth + 1))), at: start }
      case "{": {
        const table = emptyTable(start)
        this.items("}", () => this.pair(table, depth + 1))
        return { table }
      }
      default: {
        const text = this.match(scalar) ?? this.fail("not a TOML value: text needs quotes around it")
        return { type: "text", text: /^[+-]?\d/.test(text) ? plainScalar(text) : text, at: start }
      }
    }
  }

  items<A>(close: string, item: () => A): ReadonlyArray<A> {
    const items: Array<A> = []
    this.at++
    for (this.space(); this.source[this.at] !== close; this.space()) {
      if (items.length > 0) {
        if (this.source[this.at] !== ",") this.fail("not valid TOML: a comma or the closing bracket is missing")
        this.at++
        this.space()
        if (this.source[this.at] === close) break
      }
      items.push(item())
    }
    this.at++
    return items
  }

  pair(table: Table, depth: number): void {
    const start = this.at
    const path = this.path()
    if (this.source[this.at] !== "=") this.fail("not of the form KEY = value", start)
    this.at++
    this.blanks()
    const last = path.at(-1) ?? ""
    const parent = path.slice(0, -1).reduce((inner, name) => this.tableIn(inner, name, start), table)
    const slot = this.value(depth)
    const other = parent.byName.get(last)
    if (other !== undefined && !("type" in other && "type" in slot)) this.fail("the name is there already", start)
    add(parent, last, start, slot)
  }

  tableIn(parent: Table, name: string, at: number): Table {
    const slot = parent.byName.get(name)
    if (slot === undefined) {
      const table = emptyTable(at)
      add(parent, name, at, { table })
      return table
    }
    const table = "table" in slot ? slot.table : "tables" in slot ? slot.tables.at(-1) : undefined
    return table ?? this.fail("the name has a value already", at)
  }

  /** `[a.b]` or `[[a.b]]`: the table that the next lines fill. */
  header(root: Table): Table {
    const start = this.at
    const isOfList = this.startsWith("[[")
    this.at += isOfList ? 2 : 1
    this.blanks()
    const path = this.path()
    if (!this.startsWith(isOfList ? "]]" : "]")) this.fail("not valid TOML: the bracket of the table is not closed")
    this.at += isOfList ? 2 : 1
    if (!isOfList) return path.reduce((inner, name) => this.tableIn(inner, name, start), root)
    const parent = path.slice(0, -1).reduce((inner, name) => this.tableIn(inner, name, start), root)
    const last = path.at(-1) ?? ""
    const table = emptyTable(start)
    const slot = parent.byName.get(last)
    if (slot === undefined) add(parent, last, start, { tables: [table] })
    else if ("tables" in slot) slot.tables.push(table)
    else this.fail("the name has a value already", start)
    return table
  }

  file(): Table {
    const root = emptyTable(0)
    let table = root
    for (this.space(); this.at < this.source.length; this.space()) {
      if (this.source[this.at] === "[") table = this.header(root)
      else this.pair(table, 1)
      this.lineEnd()
    }
    return root
  }
}

const ofTable = ({ at, members }: Table): Node => ({
  type: "object",
  at,
  members: members.map(([key, place, slot]) => [key, place, nodeOf(slot)] as const)
})

const nodeOf = (slot: Slot): Node => {
  if ("type" in slot) return slot
  if ("table" in slot) return ofTable(slot.table)
  return { type: "array", at: slot.tables[0]?.at ?? 0, items: slot.tables.map(ofTable) }
}

const scan = (source: string): Either.Either<Node, Broken> => {
  try {
    return Either.right(ofTable(new Scanner(source).file()))
  } catch (error) {
    if (error instanceof Fault) return Either.left({ at: error.at, reason: error.reason })
    throw error
  }
}

/** A text that is no file of any program: its form says nothing of an origin. */
const noOther = (): Either.Either<Node, Broken> => Either.left({ at: 0, reason: "not JSON" })

export const read: ReadTree = (text, options) => {
  const source = withoutByteOrderMark(text)
  const recognised = Either.map(scan(source), (node) => {
    const { entries, ...rest } = recognise(node, options ?? {}, noOther)
    // A table may be continued below another one.
    const placeOf = (one: (typeof entries)[number]) => (Either.isRight(one) ? one.right.at : one.left.at)
    return { ...rest, entries: entries.toSorted((a, b) => placeOf(a) - placeOf(b)) }
  })
  return readTree(source, recognised, options)
}

export const parse: Parse = (text, options) => Either.map(read(text, options), ({ entries }) => entries)

/** True where a line names a table and another one has a `=`. An array of JSON has neither. */
export const looksLike = (text: string): boolean =>
  /^[ \t]*\[{1,2}[ \t]*(?:[A-Za-z0-9_-]+|"[^"\n]*")(?:[ \t]*\.[ \t]*(?:[A-Za-z0-9_-]+|"[^"\n]*"))*[ \t]*\]{1,2}[ \t]*(?:#.*)?\r?$/m.test(
    text
  ) && /^[ \t]*[A-Za-z0-9_."-]+[ \t]*=/m.test(text)

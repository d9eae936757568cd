/**
 * The keys of a project by environment, as a page shows them: made by the server, read by its page and by the script of
 * the page. Names, versions and which values are alike; never a value. Pure, and without imports: a browser runs it.
 */

export interface MatrixColumn {
  readonly slug: string
  readonly name: string
  readonly protected: boolean
  /** What the person writes here waits for an approval. */
  readonly waits: boolean
  readonly writes: boolean
  readonly reads: boolean
}
/** 0 where the environment has no such key. `like`: cells of a row with the same number are equal; -1: not compared. */
export type Cell = 0 | readonly [version: number, template: 0 | 1, like: number]
export type Row = readonly [key: string, ...cells: ReadonlyArray<Cell>]

/** What is done first in a project, and how far the person is with it. */
export interface FirstSteps {
  /** Address that says how far. */
  readonly href: string
  /** Commands of the terminal. */
  readonly login: string
  readonly run: string
  readonly saved: boolean
  readonly loggedIn: boolean
  readonly ran: boolean
}

export interface MatrixData {
  /** Address of the project's page. */
  readonly here: string
  /** Address that takes changes. */
  readonly changes: string
  readonly columns: ReadonlyArray<MatrixColumn>
  readonly rows: ReadonlyArray<Row>
  readonly compared: boolean
  /** While the project is empty or new, and not all is done. */
  readonly steps?: FirstSteps
  /** Of the keys that have any: the key, then its tags. */
  readonly tags: ReadonlyArray<readonly [key: string, ...tags: ReadonlyArray<string>]>
}

export const cellsOf = ([, ...cells]: Row): ReadonlyArray<Cell> => cells

export const shows = ["all", "missing", "differs"] as const
export type Show = (typeof shows)[number]

/** A key that some environment lacks. */
export const isMissing = (row: Row): boolean => cellsOf(row).includes(0)
/** A key whose compared values are not all equal. */
export const differs = (row: Row): boolean => {
  // Asked of thousands of rows before a page answers its person: it makes no list on the way.
  let first = -1
  for (let i = 1; i < row.length; i++) {
    const cell = row[i]
    if (typeof cell !== "object" || cell[2] < 0) continue
    if (first < 0) first = cell[2]
    else if (cell[2] !== first) return true
  }
  return false
}

export type Tags = ReadonlyMap<string, ReadonlyArray<string>>
export const tagsOf = ({ tags }: MatrixData): Tags => new Map(tags.map(([key, ...of]) => [key, of]))

/** A text that begins with # asks for keys with a tag that begins so, another for keys that contain it. */
export const isAskedFor = (key: string, tags: ReadonlyArray<string>, words: string): boolean => {
  const text = words.trim()
  return text.startsWith("#")
    ? tags.some((tag) => tag.startsWith(text.slice(1).toLowerCase()))
    : key.includes(text.toUpperCase())
}

export const fits = (row: Row, words: string, show: Show, tags: Tags): boolean =>
  isAskedFor(row[0], tags.get(row[0]) ?? [], words) &&
  (show === "all" || (show === "missing" ? isMissing(row) : differs(row)))

/** What stands beside a value: `=` and the columns it equals, or `≠`. With two groups of equals, which of them. */
export interface Mark {
  readonly sign: "=" | "≠"
  readonly letter: string
  /** Columns with the same value. */
  readonly like: ReadonlyArray<number>
}
export const markOf = (row: Row, column: number): Mark | undefined => {
  const cells = cellsOf(row)
  const likes = cells.map((cell) => (cell === 0 ? -1 : cell[2]))
  const own = likes[column]
  if (own === undefined || own < 0 || likes.filter((like) => like >= 0).length < 2) return undefined
  const like = likes.flatMap((other, i) => (other === own && i !== column ? [i] : []))
  if (like.length === 0) return { sign: "≠", letter: "", like }
  const shared = [...new Set(likes.filter((one, i) => one >= 0 && likes.indexOf(one) !== i))]
  return { sign: "=", letter: shared.length > 1 ? String.fromCharCode(97 + shared.indexOf(own)) : "", like }
}

const prefixOf = (key: string) => key.slice(0, Math.max(0, key.indexOf("_")))
/** Keys that begin alike stand under a line of their own, from this many on. */
const groupFrom = 3

export type Line = { readonly group: string; readonly count: number } | { readonly row: Row }

/** Rows in the order of keys, those of one prefix under its name. */
export const linesOf = (rows: ReadonlyArray<Row>): ReadonlyArray<Line> => {
  const counts = new Map<string, number>()
  for (const [key] of rows) counts.set(prefixOf(key), (counts.get(prefixOf(key)) ?? 0) + 1)
  const lines: Array<Line> = []
  let before = ""
  for (const row of rows) {
    const prefix = prefixOf(row[0])
    const count = counts.get(prefix) ?? 0
    const group = prefix !== "" && count >= groupFrom ? prefix : ""
    if (group !== before && group !== "") lines.push({ group, count })
    before = group
    lines.push({ row })
  }
  return lines
}

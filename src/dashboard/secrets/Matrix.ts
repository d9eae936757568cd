/**
 * Matrix of a project's keys by environment. The server makes it; the page and its script read it. It holds names,
 * versions and equality of values, never a value. Pure and without imports, because browsers run it.
 */

export interface MatrixColumn {
  readonly slug: string
  readonly name: string
  readonly protected: boolean
  /** True if the person's changes need an approval here. */
  readonly waits: boolean
  readonly writes: boolean
  readonly reads: boolean
}
/** 0 for a missing key. Cells of a row with the same `like` have equal values; -1 means not compared. */
export type Cell = 0 | readonly [version: number, template: 0 | 1, like: number]
export type Row = readonly [key: string, ...cells: ReadonlyArray<Cell>]

/** First steps of a project, and the person's progress. */
export interface FirstSteps {
  /** Address that returns the progress. */
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
  /** Address that accepts changes. */
  readonly changes: string
  readonly columns: ReadonlyArray<MatrixColumn>
  readonly rows: ReadonlyArray<Row>
  readonly compared: boolean
  /** Present while the project is empty or new, and a step is open. */
  readonly steps?: FirstSteps
  /** Keys with tags: the key, then its tags. */
  readonly tags: ReadonlyArray<readonly [key: string, ...tags: ReadonlyArray<string>]>
}

export const cellsOf = ([, ...cells]: Row): ReadonlyArray<Cell> => cells

export const shows = ["all", "missing", "differs"] as const
export type Show = (typeof shows)[number]

/** True if an environment lacks the key. */
export const isMissing = (row: Row): boolean => cellsOf(row).includes(0)
/** True if the compared values are not all equal. */
export const differs = (row: Row): boolean => {
  // A loop without lists, because each page runs this for thousands of rows.
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

/** Matches tags by their beginning for a text with #, and keys by any part for other texts. */
export const matchesWords = (key: string, tags: ReadonlyArray<string>, words: string): boolean => {
  const text = words.trim()
  return text.startsWith("#")
    ? tags.some((tag) => tag.startsWith(text.slice(1).toLowerCase()))
    : key.includes(text.toUpperCase())
}

export const fits = (row: Row, words: string, show: Show, tags: Tags): boolean =>
  matchesWords(row[0], tags.get(row[0]) ?? [], words) &&
  (show === "all" || (show === "missing" ? isMissing(row) : differs(row)))

/** Mark beside a value: `=` for equal columns, or `≠`. A letter distinguishes several groups of equal values. */
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
/** Number of keys with a common prefix from which they form a group. */
const groupFrom = 3

export type Line = { readonly group: string; readonly count: number } | { readonly row: Row }

/** Rows in the order of keys, with a heading before each group. */
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

/** Tables that fit the terminal, and relative times. Pure. */

const length = (text: string): number => [...text].length
const pad = (text: string, to: number): string => text + " ".repeat(Math.max(0, to - length(text)))
const gap = 2

/** Lines of at most this width. Breaks between words, and within a word only when it is longer than a line. */
const wrap = (text: string, width: number): ReadonlyArray<string> => {
  const lines: Array<string> = []
  let line = ""
  for (const word of text.split(" ")) {
    if (line !== "" && length(line) + 1 + length(word) <= width) line += ` ${word}`
    else {
      if (line !== "") lines.push(line)
      let rest = [...word]
      for (; rest.length > width; rest = rest.slice(width)) lines.push(rest.slice(0, width).join(""))
      line = rest.join("")
    }
  }
  return [...lines, line]
}

const widest = (texts: ReadonlyArray<string>): number => Math.max(0, ...texts.map(length))
const longestWord = (texts: ReadonlyArray<string>): number => widest(texts.flatMap((text) => text.split(" ")))

/** Column widths: the widest cell if it fits, else the longest word and a share of the remaining room. */
const shares = (columns: ReadonlyArray<ReadonlyArray<string>>, width: number): ReadonlyArray<number> | undefined => {
  const full = columns.map(widest)
  const least = columns.map(longestWord)
  const room = width - gap * (columns.length - 1)
  let remaining = room - least.reduce((sum, n) => sum + n, 0)
  if (remaining < 0) return undefined
  return least.map((n, i) => {
    const more = Math.min(remaining, (full[i] ?? n) - n)
    remaining -= more
    return n + more
  })
}

type Row = ReadonlyArray<string>

/** Lines of each row. A column is as wide as its widest line. */
const inColumns = (
  rows: ReadonlyArray<Row>,
  maximumWidths: ReadonlyArray<number>
): ReadonlyArray<ReadonlyArray<string>> => {
  const wrappedRows = rows.map((row) => row.map((cell, i) => wrap(cell, Math.max(1, maximumWidths[i] ?? 1))))
  const widths = maximumWidths.map((_, i) => widest(wrappedRows.flatMap((row) => row[i] ?? [])))
  return wrappedRows.map((row) =>
    Array.from({ length: Math.max(...row.map((lines) => lines.length)) }, (_, at) =>
      row
        .map((lines, i) => pad(lines[at] ?? "", widths[i] ?? 0))
        .join(" ".repeat(gap))
        .trimEnd()
    )
  )
}

/** Titles and values below each other, for a terminal that is too narrow for columns. */
const asRecords = (titles: Row, rows: ReadonlyArray<Row>, width: number): ReadonlyArray<string> => {
  const indent = widest(titles) + gap
  return rows.flatMap((row, n) => [
    ...(n === 0 ? [] : [""]),
    ...row.flatMap((cell, i) =>
      wrap(cell, Math.max(8, width - indent)).map((line, at) =>
        `${pad(at === 0 ? (titles[i] ?? "") : "", indent)}${line}`.trimEnd()
      )
    )
  ])
}

interface Layout {
  /** Lines with the titles; empty when each value follows its own title. */
  readonly head: ReadonlyArray<string>
  readonly body: ReadonlyArray<string>
}

/** `width` undefined: output for a program, each row on one line. */
export const layout = (titles: Row, rows: ReadonlyArray<Row>, width: number | undefined): Layout => {
  const columns = titles.map((title, i) => [title, ...rows.map((row) => row[i] ?? "")])
  const widths = width === undefined ? columns.map(widest) : shares(columns, width)
  if (widths === undefined) return { head: [], body: asRecords(titles, rows, width ?? 0) }
  const [head = [], ...body] = inColumns([titles, ...rows], widths)
  return { head, body: body.flat() }
}

// eslint-disable-next-line no-control-regex
const escapes = /\u001b\[[0-9;]*m/g
const shownLength = (text: string): number => length(text.replace(escapes, ""))

/** Words with the spaces before them. Text between backticks stays whole, because it is meant to be copied. */
const pieces = (text: string): ReadonlyArray<string> => {
  // A backtick without a partner is an ordinary character.
  const unclosed = text.split("`").length % 2 === 0 ? text.lastIndexOf("`") : -1
  const all: Array<string> = []
  let current = ""
  let isWhole = false
  for (let i = 0; i < text.length; i++) {
    const unit = text.charAt(i)
    if (unit === "`" && i !== unclosed) isWhole = !isWhole
    if (unit === " " && !isWhole && current !== "" && !current.endsWith(" ")) {
      all.push(current)
      current = ""
    }
    current += unit
  }
  return current.trim() === "" ? all : [...all, current]
}

/**
 * Breaks sentences between words into lines of at most this width. `indent`: of further lines, for lines without an
 * indent. `width` undefined: unchanged.
 */
export const prose = (text: string, width: number | undefined, indent = 2): string => {
  if (width === undefined) return text
  const wrappedLines = text.split("\n").map((line) => {
    const before = /^ */.exec(line)?.[0] ?? ""
    if (shownLength(line) <= width) return line
    const further = before === "" ? " ".repeat(indent) : before
    const lines: Array<string> = []
    let current = ""
    for (const piece of pieces(line)) {
      if (current !== "" && shownLength(current) + shownLength(piece) > width) {
        lines.push(current)
        current = further + piece.trimStart()
      } else current += piece
    }
    return [...lines, current].join("\n")
  })
  return wrappedLines.join("\n")
}

/** A name with its text: beside it if there is room, else below. */
export const beside = (name: string, text: string, width: number | undefined): string => {
  const line = `${name}${text}`
  if (width === undefined || shownLength(line) <= width) return line
  const indent = shownLength(name)
  if (width - indent >= 30) return prose(line, width, indent)
  return `${name.trimEnd()}\n${prose(`  ${text}`, width)}`
}

const instant = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z$/
const steps = [
  [60, "s", 1],
  [3_600, "min", 60],
  [2 * 86_400, "h", 3_600],
  [60 * 86_400, "days", 86_400]
] as const

/** Replaces each time in a sentence by a relative one. */
export const relativeIn = (text: string, now: number): string =>
  text.replaceAll(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z/g, (found) => relative(found, now))

/** `3 h ago`, `in 5 min`, or a day for distant times. Other text stays unchanged. */
export const relative = (text: string, now: number): string => {
  if (!instant.test(text)) return text
  const seconds = Math.round((Date.parse(text) - now) / 1_000)
  const far = Math.abs(seconds)
  if (far < 5) return "now"
  const step = steps.find(([below]) => far < below)
  if (step === undefined) return text.slice(0, 10)
  const [, unit, size] = step
  const count = `${Math.floor(far / size)} ${unit}`
  return seconds < 0 ? `${count} ago` : `in ${count}`
}

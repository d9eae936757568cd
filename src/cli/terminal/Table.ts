/** Tables as a terminal has room for them, and times as people say them. Pure. */

const length = (text: string): number => [...text].length
const pad = (text: string, to: number): string => text + " ".repeat(Math.max(0, to - length(text)))
const gap = 2

/** Lines of at most this width: broken between words, and inside one only where it is longer than a line. */
const wrapped = (text: string, width: number): ReadonlyArray<string> => {
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

/** What the columns get: their widest cell where there is room, else their longest word and a share of what is left. */
const shares = (columns: ReadonlyArray<ReadonlyArray<string>>, width: number): ReadonlyArray<number> | undefined => {
  const full = columns.map(widest)
  const least = columns.map(longestWord)
  const room = width - gap * (columns.length - 1)
  let left = room - least.reduce((sum, n) => sum + n, 0)
  if (left < 0) return undefined
  return least.map((n, i) => {
    const more = Math.min(left, (full[i] ?? n) - n)
    left -= more
    return n + more
  })
}

type Row = ReadonlyArray<string>

/** The lines of each row. A column is as wide as what came to stand in it. */
const inColumns = (rows: ReadonlyArray<Row>, most: ReadonlyArray<number>): ReadonlyArray<ReadonlyArray<string>> => {
  const broken = rows.map((row) => row.map((cell, i) => wrapped(cell, Math.max(1, most[i] ?? 1))))
  const widths = most.map((_, i) => widest(broken.flatMap((row) => row[i] ?? [])))
  return broken.map((row) =>
    Array.from({ length: Math.max(...row.map((lines) => lines.length)) }, (_, at) =>
      row
        .map((lines, i) => pad(lines[at] ?? "", widths[i] ?? 0))
        .join(" ".repeat(gap))
        .trimEnd()
    )
  )
}

/** One below the other, for a terminal that is too narrow for columns. */
const asRecords = (titles: Row, rows: ReadonlyArray<Row>, width: number): ReadonlyArray<string> => {
  const indent = widest(titles) + gap
  return rows.flatMap((row, n) => [
    ...(n === 0 ? [] : [""]),
    ...row.flatMap((cell, i) =>
      wrapped(cell, Math.max(8, width - indent)).map((line, at) =>
        `${pad(at === 0 ? (titles[i] ?? "") : "", indent)}${line}`.trimEnd()
      )
    )
  ])
}

interface Layout {
  /** Lines with the titles; none where each value stands behind its own. */
  readonly head: ReadonlyArray<string>
  readonly body: ReadonlyArray<string>
}

/** `width` undefined: it goes to a program, which gets each row on one line. */
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

/** Words with the spaces before them, and what stands between backticks whole: it is to be copied. */
const pieces = (text: string): ReadonlyArray<string> => {
  // A backtick without another one after it is a character like others.
  const unclosed = text.split("`").length % 2 === 0 ? text.lastIndexOf("`") : -1
  const found: Array<string> = []
  let now = ""
  let isWhole = false
  for (let i = 0; i < text.length; i++) {
    const unit = text.charAt(i)
    if (unit === "`" && i !== unclosed) isWhole = !isWhole
    if (unit === " " && !isWhole && now !== "" && !now.endsWith(" ")) {
      found.push(now)
      now = ""
    }
    now += unit
  }
  return now.trim() === "" ? found : [...found, now]
}

/**
 * Sentences in lines of at most this width, broken between words alone. `indent`: of the lines behind the first, for
 * sentences that have none of their own. `width` undefined: as they are.
 */
export const prose = (text: string, width: number | undefined, indent = 2): string => {
  if (width === undefined) return text
  const broken = text.split("\n").map((line) => {
    const before = /^ */.exec(line)?.[0] ?? ""
    if (shownLength(line) <= width) return line
    const further = before === "" ? " ".repeat(indent) : before
    const lines: Array<string> = []
    let now = ""
    for (const piece of pieces(line)) {
      if (now !== "" && shownLength(now) + shownLength(piece) > width) {
        lines.push(now)
        now = further + piece.trimStart()
      } else now += piece
    }
    return [...lines, now].join("\n")
  })
  return broken.join("\n")
}

/** A name and what is said of it: beside it where there is room, else below. */
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

/** Each time in a sentence as people say it. */
export const relativeIn = (text: string, now: number): string =>
  text.replaceAll(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z/g, (found) => relative(found, now))

/** `3 h ago`, `in 5 min`; a day where it is long ago or far away. What is no time stays as it is. */
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

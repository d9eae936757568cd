/**
 * Figures that pages quote from test/records. A comment behind a paragraph, list item or table names the record, and for
 * each figure its path and its text:
 *
 *     <!-- record bench.json
 *     starts > embeddedFirst > millis = 2.2 s
 *     -->
 *
 * `s`: the record has milliseconds. `% more`, `% fewer`: the record has a ratio. Sums of paths are written with ` + `.
 */
import * as Schema from "effect/Schema"
import * as fs from "node:fs"
import { parsed } from "#test/support/Json.ts"

export interface Block {
  readonly line: number
  readonly text: string
  /** Contents of the comments behind it. */
  readonly notes: ReadonlyArray<string>
}

/** Paragraphs, list items and tables of a page, code left out. */
export const blocksOf = (page: string): ReadonlyArray<Block> => {
  const blocks: Array<{ line: number; text: string; notes: Array<string> }> = []
  let isOpen = false
  const withoutCode = page.replaceAll(/^ *```[\s\S]*?^ *```/gm, (code) => code.replaceAll(/[^\n]/g, ""))
  const comment = /^\s*<!--([\s\S]*?)-->\s*$/
  const pieces = withoutCode.split(/(^[ \t]*<!--[\s\S]*?-->[ \t]*$)/m)
  let line = 1
  for (const piece of pieces) {
    const note = comment.exec(piece)?.[1]
    if (note !== undefined) blocks.at(-1)?.notes.push(note.trim())
    const lines = piece.split("\n")
    for (const [i, text] of note === undefined ? lines.entries() : []) {
      if (text.trim() === "" || /^\s*(?:[*-]|\d+\.) /.test(text) || text.startsWith("#")) isOpen = false
      if (text.trim() === "") continue
      const last = blocks.at(-1)
      if (isOpen && last !== undefined) last.text += `\n${text}`
      else blocks.push({ line: line + i, text, notes: [] })
      isOpen = true
    }
    line += lines.length - 1
  }
  return blocks
}

const readRecord = parsed(Schema.Unknown)

const valueAt = (record: unknown, path: string): number | string | undefined => {
  let value = record
  for (const name of path.split(" > ")) {
    if (typeof value !== "object" || value === null) return undefined
    value = (value as Record<string, unknown>)[name.trim()]
  }
  return typeof value === "number" || typeof value === "string" ? value : undefined
}

/** Half of the last digit that is written. A round number of thousands may stand for one near it. */
const tolerance = (digits: string): number => {
  const decimals = /\.(\d+)$/.exec(digits)?.[1].length ?? 0
  const zeros = digits.includes(",") ? (/0*$/.exec(digits.replaceAll(",", ""))?.[0].length ?? 0) : 0
  return 10 ** (zeros - decimals) / 2 + 1e-9
}

/** Whether a text says the value, as far as it is rounded. */
export const says = (text: string, value: number | string): boolean => {
  if (typeof value === "string") return text === value
  const [, digits, unit] = /^([\d,]+(?:\.\d+)?) ?(s|% more|% fewer|%|)$/.exec(text) ?? []
  if (digits === undefined) return false
  const scaled =
    unit === "s" ? value / 1000 : unit === "% more" ? (value - 1) * 100 : unit === "% fewer" ? (1 - value) * 100 : value
  return Math.abs(Number(digits.replaceAll(",", "")) - scaled) <= tolerance(digits)
}

const escaped = (text: string) => text.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`)

/** A figure as a whole: no digit is beside it. */
const isIn = (text: string, quote: string) =>
  new RegExp(String.raw`(?<![\d.,])${escaped(quote)}(?![\d]|[.,]\d)`).test(text.replaceAll(/\s+/g, " "))

const sum = (values: ReadonlyArray<number | string | undefined>) =>
  values.every((value) => typeof value === "number") ? values.reduce((a, b) => a + b, 0) : undefined

/** Faults of the quotes behind a block, a sentence each. */
export const faultsOf = ({ notes, text }: Block): ReadonlyArray<string> =>
  notes.flatMap((note) => {
    const [head, ...lines] = note.split("\n").map((line) => line.trim())
    const name = /^record (\w+\.json)$/.exec(head)?.[1]
    if (name === undefined) return []
    const record = readRecord(fs.readFileSync(`test/records/${name}`, "utf8"))
    return lines.flatMap((line) => {
      const [, path, quote] = /^(.+) = (.+)$/.exec(line) ?? []
      if (path === undefined || quote === undefined) return [`not a quote: ${line}`]
      const parts = path.split(" + ")
      const value = parts.length === 1 ? valueAt(record, path) : sum(parts.map((part) => valueAt(record, part)))
      if (value === undefined) return [`${name} has no ${path}`]
      if (!says(quote, value)) return [`${name} has ${value} at ${path}, the page says ${quote}`]
      return isIn(text, quote) ? [] : [`the text before has no "${quote}"`]
    })
  })

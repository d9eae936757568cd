/**
 * Files that a shell reads: `export KEY='…'`, and `set -gx KEY '…'` for fish. In single quotes nothing is expanded or
 * run, but shells differ in what a backslash means there: fish takes it for an escape. So quotes and backslashes are
 * written outside of quotes (`'a'\\\''b'`), which bash, zsh, dash, ksh and fish read alike.
 */
import * as Either from "effect/Either"
import type { Entry, Parse, ParsedEntry, Print } from "./Entry.ts"
import { checkEntries, failure, joinLines, lineCounter, printEach, withoutByteOrderMark } from "./Entry.ts"
import { keyAt, type Piece, pieces } from "./References.ts"

const runs = (text: string): string =>
  text
    .split(/([\\']+)/)
    .map((run, i) => (run === "" ? "" : i % 2 === 0 ? `'${run}'` : run.replaceAll(/[\\']/g, (c) => `\\${c}`)))
    .join("")

/** `"$KEY"`, which all of them read: a name in braces is an error in fish. */
const wordOf = (piece: Piece): string => (typeof piece === "string" ? runs(piece) : `"$${piece.key}"`)

/** One word for any of these shells, whatever the text. It begins with a single quote, which readers of .env files know. */
const word = ({ kind, value }: Entry): string => {
  const text = kind === "template" ? pieces(value).pieces.map(wordOf).join("") : runs(value)
  return text.startsWith("'") ? text : `''${text}`
}

const refusal = ({ value }: Entry) =>
  value.includes("\0") ? "the value holds U+0000, which no shell variable can hold" : undefined

const printAs =
  (line: (entry: Entry) => string): Print =>
  (entries) =>
    Either.map(printEach(entries, refusal, line), joinLines)

export const print: Print = printAs((entry) => `export ${entry.key}=${word(entry)}`)
export const printFish: Print = printAs((entry) => `set -gx ${entry.key} ${word(entry)}`)

// --- reading ---

const assignment = /(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)=/y
const fishAssignment = /set[ \t]+-gx[ \t]+([A-Za-z_][A-Za-z0-9_]*)(?:[ \t]+|(?=[\r\n]|$))/y

/** Text of a word so far, and the offsets of its `$` that stand for themselves. */
interface Word {
  readonly value: string
  readonly plainDollars: ReadonlyArray<number>
  readonly end: number
}

const variableAt = /\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\})/y
const isUpper = (name: string): boolean => keyAt(`\${${name}}`, 0) !== undefined

/** Refuses text that only a shell can run or work out. */
const needsTheShell = "the shell would run a command or work out a value here: write the value itself in single quotes"
const unquotedSpecial = /["'`\\$;&|<>()*?[\]{}~]/

/** Reads one word: runs in single quotes, in double quotes, escaped, and plain ones side by side. */
const readWord = (source: string, from: number, isFish: boolean): Word | { readonly reason: string } => {
  let value = ""
  const plain: Array<number> = []
  const addText = (text: string) => {
    for (let i = text.indexOf("$"); i !== -1; i = text.indexOf("$", i + 1)) plain.push(value.length + i)
    value += text
  }
  let at = from
  /** A `$` outside of single quotes: a variable becomes a reference. */
  const readDollar = (): string | undefined => {
    variableAt.lastIndex = at
    const match = variableAt.exec(source)
    const name = match?.[1] ?? match?.[2]
    if (match === null || name === undefined) return needsTheShell
    if (!isUpper(name)) return `the shell puts the variable ${name} here, and it is no key: write the value itself`
    value += `\${${name}}`
    at = variableAt.lastIndex
    return undefined
  }
  const readDouble = (): string | undefined => {
    at++
    while (at < source.length && source[at] !== '"') {
      const c = source[at]
      if (c === "\\" && '$`"\\'.includes(source[at + 1] ?? " ") && !(isFish && source[at + 1] === "`")) {
        addText(source[at + 1])
        at += 2
      } else if (c === "\\" && source[at + 1] === "\n") at += 2
      else if (c === "`" && !isFish) return needsTheShell
      else if (c === "$") {
        const reason = readDollar()
        if (reason !== undefined) return reason
      } else {
        value += c
        at++
      }
    }
    if (at >= source.length) return "the quote is not closed"
    at++
    return undefined
  }
  const readSingle = (): string | undefined => {
    const ends = isFish ? "'\\" : "'"
    at++
    for (;;) {
      const start = at
      while (at < source.length && !ends.includes(source[at])) at++
      addText(source.slice(start, at))
      if (at >= source.length) return "the quote is not closed"
      if (source[at] === "'") break
      // fish alone: \\ and \' are escapes in single quotes.
      const isEscape = source[at + 1] === "\\" || source[at + 1] === "'"
      addText(isEscape ? source[at + 1] : "\\")
      at += isEscape ? 2 : 1
    }
    at++
    return undefined
  }
  while (at < source.length && !" \t\r\n".includes(source[at])) {
    const c = source[at]
    let reason: string | undefined
    if (c === "'") reason = readSingle()
    else if (c === '"') reason = readDouble()
    else if (c === "$") reason = readDollar()
    else if (c === "\\" && "\\'\"$` #".includes(source[at + 1] ?? "n")) {
      addText(source[at + 1])
      at += 2
    } else if (unquotedSpecial.test(c) || (c === "#" && isFish && at === from)) reason = needsTheShell
    else {
      value += c
      at++
    }
    if (reason !== undefined) return { reason }
  }
  return { value, plainDollars: plain, end: at }
}

/** The end of the line when only blanks or a comment follow, else -1. */
const endOfLine = (source: string, from: number): number => {
  let at = from
  while (source[at] === " " || source[at] === "\t" || source[at] === "\r") at++
  if (at >= source.length || source[at] === "\n") return at
  if (source[at] !== "#" || at === from) return -1
  const end = source.indexOf("\n", at)
  return end === -1 ? source.length : end
}

const entryOf = (key: string, line: number, { plainDollars, value }: Word): ParsedEntry => ({
  key,
  value,
  line,
  ...(plainDollars.length === 0 ? {} : { plainDollars })
})

const parseAs =
  (names: RegExp, form: string, isFish: boolean): Parse =>
  (text, options) => {
    const source = withoutByteOrderMark(text)
    const lineAt = lineCounter(source)
    const entries: Array<ParsedEntry> = []
    let at = 0
    while (at < source.length) {
      if (" \t\r\n".includes(source[at])) {
        at++
        continue
      }
      if (source[at] === "#") {
        const end = source.indexOf("\n", at)
        at = end === -1 ? source.length : end
        continue
      }
      const line = lineAt(at)
      names.lastIndex = at
      const match = names.exec(source)
      if (match === null) return failure(line, `not of the form ${form}`)
      const word = readWord(source, names.lastIndex, isFish)
      if ("reason" in word) return failure(line, word.reason)
      const end = endOfLine(source, word.end)
      if (end === -1) return failure(line, "more than one word is assigned: put the value in single quotes")
      entries.push(entryOf(match[1], line, word))
      at = end
    }
    return checkEntries(entries, options)
  }

/** Assignments with or without `export`, blank lines and comments. What a shell would run is refused. */
export const parse: Parse = parseAs(assignment, "export KEY='value'", false)
/** The same for fish: `set -gx KEY 'value'`. */
export const parseFish: Parse = parseAs(fishAssignment, "set -gx KEY 'value'", true)

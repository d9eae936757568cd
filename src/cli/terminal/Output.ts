/** Writing to the terminal. Results go to standard output, everything else to standard error. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { beside, layout, prose, relative, relativeIn } from "./Table.ts"

export const out = (text: string): Effect.Effect<void> =>
  Effect.sync(() => {
    process.stdout.write(text)
  })

/** Columns of a terminal, at least 40; undefined without a known width. */
const columnsOf = ({ columns, isTTY }: NodeJS.WriteStream): number | undefined =>
  isTTY === true && columns > 0 ? Math.max(40, columns) : undefined

/** Text for standard error, wrapped to the width of a terminal. */
export const wrapped = (text: string): string => prose(text, columnsOf(process.stderr))

export const note = (text: string): Effect.Effect<void> =>
  Effect.sync(() => {
    process.stderr.write(`${wrapped(text)}\n`)
  })

export const warn = (text: string): Effect.Effect<void> => note(`ampoule: ${text}`)

/** Sets the exit code of this command, unless a failure sets its own. */
export const exitWith = (code: number): Effect.Effect<void> =>
  Effect.sync(() => {
    process.exitCode = code
  })

export const stdoutIsTerminal = (): boolean => process.stdout.isTTY === true
export const stderrIsTerminal = (): boolean => process.stderr.isTTY === true
export const stdinIsTerminal = (): boolean => process.stdin.isTTY === true

// eslint-disable-next-line no-control-regex
const unprintable = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g

/** Text from elsewhere, safe for a terminal: without escape sequences, control and direction characters. */
export const plain = (text: string): string => text.replace(unprintable, "\u00b7")

// For text of several lines and columns: line ends and tabs stay.
// eslint-disable-next-line no-control-regex
const unprintableInText = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g
const escaped = (character: string): string => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`

/** Text of several lines from elsewhere, safe for a terminal: control and direction characters are visible. */
export const plainText = (text: string): string => text.replace(unprintableInText, escaped)

/** Escapes control characters that JSON allows, so that a terminal cannot act on them. */
export const json = (value: unknown): Effect.Effect<void> => out(`${plainText(JSON.stringify(value, null, 2))}\n`)

/**
 * A value for standard output. Programs, and `raw`, receive it unchanged; at a terminal, control characters are made
 * visible.
 */
export const value = Effect.fnUntraced(function* (text: string, options: { readonly raw: boolean }) {
  const isForPerson = stdoutIsTerminal() && !options.raw
  const printable = isForPerson ? plainText(text) : text
  yield* out(stdoutIsTerminal() && !text.endsWith("\n") ? `${printable}\n` : printable)
  if (printable !== text)
    yield* warn("control characters are shown as \\uNNNN; --raw, a file or a pipe receives them unchanged.")
})

// eslint-disable-next-line no-control-regex
const escapes = /\u001b\[[0-9;]*m/g
export const withoutColour = (text: string): string => text.replace(escapes, "")
const colourIsWelcome = (): boolean => (process.env["NO_COLOR"] ?? "") === "" && process.env["TERM"] !== "dumb"
export const wantsColour = (): boolean => stdoutIsTerminal() && colourIsWelcome()

const colours = { bold: 1, red: 31, green: 32, yellow: 33 } as const
export type Colour = keyof typeof colours
const withColour = (text: string, colour: Colour): string => `\u001b[${colours[colour]}m${text}\u001b[0m`
/** Colour for standard output, if it is a terminal with colours. */
export const paint = (text: string, colour: Colour): string => (wantsColour() ? withColour(text, colour) : text)
/** Colour for standard error. */
export const paintNote = (text: string, colour: Colour): string =>
  stderrIsTerminal() && colourIsWelcome() ? withColour(text, colour) : text

/** Marks of keys in a difference or a plan. */
export const marks = { "+": "green", "-": "red", "~": "yellow" } as const satisfies Readonly<Record<string, Colour>>

/** Number of names shown of a plan, so that the question stays in view. */
const maximumPlanned = 20

/** Shows a plan by its keys' names, on standard error. */
export const showPlan = (mark: keyof typeof marks, keys: ReadonlyArray<string>): Effect.Effect<void> => {
  const visible = keys.length > maximumPlanned + 5 ? keys.slice(0, maximumPlanned) : keys
  const lines = visible.map((key) => paintNote(`${mark} ${plain(key)}`, marks[mark]))
  if (visible.length < keys.length) lines.push(`${mark} … and ${keys.length - visible.length} more`)
  return Effect.forEach(lines, note, { discard: true })
}

const terminalWidth = (): number | undefined => (stdoutIsTerminal() ? (columnsOf(process.stdout) ?? 80) : undefined)

interface Fact {
  readonly name: string
  readonly text: string
  /** Colour of the first word. */
  readonly colour?: Colour
}

/** Prints names with their text. On a terminal it wraps them, and shows relative times. */
export const facts = Effect.fnUntraced(function* (all: ReadonlyArray<Fact>) {
  const now = yield* Clock.currentTimeMillis
  const width = stdoutIsTerminal() ? columnsOf(process.stdout) : undefined
  const lines = all.map(({ colour, name, text }) => {
    const line = beside(name, plain(stdoutIsTerminal() ? relativeIn(text, now) : text), width)
    return colour === undefined ? line : line.replace(/^\S+/, (word) => paint(word, colour))
  })
  yield* out(lines.map((line) => `${line}\n`).join(""))
})

export type Columns<A> = ReadonlyArray<readonly [title: string, cell: (item: A) => string]>

/**
 * Prints a table. On a terminal it fits the width and shows relative times. For a program each row is one line, with
 * exact times.
 */
export const table = Effect.fnUntraced(function* <A>(items: ReadonlyArray<A>, columns: Columns<A>) {
  const now = yield* Clock.currentTimeMillis
  const width = terminalWidth()
  const cellText = (text: string) => (width === undefined ? text : relative(text, now))
  const rows = items.map((item) => columns.map(([, cell]) => plain(cellText(cell(item)))))
  const { body, head } = layout(
    columns.map(([title]) => title),
    rows,
    width
  )
  yield* out([...head.map((line) => paint(line, "bold")), ...body].map((line) => `${line}\n`).join(""))
})

/** Prints a list as JSON, as a table, or as a sentence when it is empty. */
export const list = <A>(
  options: { readonly json: boolean },
  items: ReadonlyArray<A>,
  none: string,
  columns: Columns<A>
): Effect.Effect<void> => (options.json ? json(items) : items.length === 0 ? note(none) : table(items, columns))

/** Progress of long work: one line on standard error that overwrites itself, only on a terminal. */
export const progress = (text: string): Effect.Effect<void> =>
  Effect.sync(() => {
    if (stderrIsTerminal()) process.stderr.write(`\r\u001b[K${text}`)
  })

/** Shows the reason for a wait after one second, only on a terminal that can erase it again. */
export const whileWaiting =
  (text: string) =>
  <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> => {
    if (!stderrIsTerminal() || process.env["TERM"] === "dumb") return self
    return Effect.acquireUseRelease(
      Effect.sync(() => {
        const progress = { yet: false }
        const timer = setTimeout(() => {
          progress.yet = true
          process.stderr.write(`\r\u001b[K${text}`)
        }, 1_000)
        return { told: progress, timer }
      }),
      () => self,
      ({ told, timer }) =>
        Effect.sync(() => {
          clearTimeout(timer)
          if (told.yet) process.stderr.write("\r\u001b[K")
        })
    )
  }
export const progressDone: Effect.Effect<void> = Effect.sync(() => {
  if (stderrIsTerminal()) process.stderr.write("\r\u001b[K")
})

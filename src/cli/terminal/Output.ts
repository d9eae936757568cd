/** Writing to the terminal. Results go to standard output, everything else to standard error. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { beside, layout, prose, relative, relativeIn } from "./Table.ts"

export const out = (text: string): Effect.Effect<void> =>
  Effect.sync(() => {
    process.stdout.write(text)
  })

/** Of a terminal that says how wide it is: none is taken for narrower than 40 columns. */
const told = ({ columns, isTTY }: NodeJS.WriteStream): number | undefined =>
  isTTY === true && columns > 0 ? Math.max(40, columns) : undefined

/** For standard error: in the width of a terminal. */
export const sentences = (text: string): string => prose(text, told(process.stderr))

export const note = (text: string): Effect.Effect<void> =>
  Effect.sync(() => {
    process.stderr.write(`${sentences(text)}\n`)
  })

export const warn = (text: string): Effect.Effect<void> => note(`ampoule: ${text}`)

/** How this command ends, when it is not by a failure that has its own. */
export const exitWith = (code: number): Effect.Effect<void> =>
  Effect.sync(() => {
    process.exitCode = code
  })

export const stdoutIsTerminal = (): boolean => process.stdout.isTTY === true
export const stderrIsTerminal = (): boolean => process.stderr.isTTY === true
export const stdinIsTerminal = (): boolean => process.stdin.isTTY === true

// eslint-disable-next-line no-control-regex
const unprintable = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g

/** Text from elsewhere as it may stand on a terminal: without escape sequences, control and direction characters. */
export const plain = (text: string): string => text.replace(unprintable, "\u00b7")

// Of several lines and columns: line ends and tabs are part of it.
// eslint-disable-next-line no-control-regex
const unprintableInText = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g
const escaped = (character: string): string => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`

/** Control characters that JSON lets through, escaped: the same JSON, and nothing that a terminal acts upon. */
export const json = (value: unknown): Effect.Effect<void> =>
  out(`${JSON.stringify(value, null, 2).replace(unprintableInText, escaped)}\n`)

/**
 * A value for standard output: the value itself to a program or with `raw`, with what a terminal acts upon made visible
 * to a person.
 */
export const value = Effect.fnUntraced(function* (text: string, options: { readonly raw: boolean }) {
  const isSeen = stdoutIsTerminal() && !options.raw
  const shown = isSeen ? text.replace(unprintableInText, escaped) : text
  yield* out(stdoutIsTerminal() && !text.endsWith("\n") ? `${shown}\n` : shown)
  if (shown !== text)
    yield* warn("control characters are shown as \\uNNNN; --raw, a file or a pipe gets them as they are.")
})

// eslint-disable-next-line no-control-regex
const escapes = /\u001b\[[0-9;]*m/g
export const withoutColour = (text: string): string => text.replace(escapes, "")
const colourIsWelcome = (): boolean => (process.env["NO_COLOR"] ?? "") === "" && process.env["TERM"] !== "dumb"
export const wantsColour = (): boolean => stdoutIsTerminal() && colourIsWelcome()

const colours = { bold: 1, red: 31, green: 32, yellow: 33 } as const
export type Colour = keyof typeof colours
const painted = (text: string, colour: Colour): string => `\u001b[${colours[colour]}m${text}\u001b[0m`
/** For standard output, where it is a terminal that shows colours. */
export const paint = (text: string, colour: Colour): string => (wantsColour() ? painted(text, colour) : text)
/** For standard error. */
export const paintNote = (text: string, colour: Colour): string =>
  stderrIsTerminal() && colourIsWelcome() ? painted(text, colour) : text

/** What a difference or a plan shows of a key. */
export const marks = { "+": "green", "-": "red", "~": "yellow" } as const satisfies Readonly<Record<string, Colour>>

/** Most names of a plan that are shown: nobody reads thousands before a question. */
const mostPlanned = 20

/** A plan by the names of its keys, on standard error. */
export const planned = (mark: keyof typeof marks, keys: ReadonlyArray<string>): Effect.Effect<void> => {
  const shown = keys.length > mostPlanned + 5 ? keys.slice(0, mostPlanned) : keys
  const lines = shown.map((key) => paintNote(`${mark} ${plain(key)}`, marks[mark]))
  if (shown.length < keys.length) lines.push(`${mark} … and ${keys.length - shown.length} more`)
  return Effect.forEach(lines, note, { discard: true })
}

const terminalWidth = (): number | undefined => (stdoutIsTerminal() ? (told(process.stdout) ?? 80) : undefined)

interface Fact {
  readonly name: string
  readonly text: string
  /** Of the first word. */
  readonly colour?: Colour
}

/** Names, each with what is said of it; on a terminal in its width, with times as people say them. */
export const facts = Effect.fnUntraced(function* (all: ReadonlyArray<Fact>) {
  const now = yield* Clock.currentTimeMillis
  const width = stdoutIsTerminal() ? told(process.stdout) : undefined
  const lines = all.map(({ colour, name, text }) => {
    const line = beside(name, plain(stdoutIsTerminal() ? relativeIn(text, now) : text), width)
    return colour === undefined ? line : line.replace(/^\S+/, (word) => paint(word, colour))
  })
  yield* out(lines.map((line) => `${line}\n`).join(""))
})

type Columns<A> = ReadonlyArray<readonly [title: string, cell: (item: A) => string]>

/** In the width of a terminal, with times as people say them; for a program each row on one line, with times as they are. */
export const table = Effect.fnUntraced(function* <A>(items: ReadonlyArray<A>, columns: Columns<A>) {
  const now = yield* Clock.currentTimeMillis
  const width = terminalWidth()
  const shown = (text: string) => (width === undefined ? text : relative(text, now))
  const rows = items.map((item) => columns.map(([, cell]) => plain(shown(cell(item)))))
  const { body, head } = layout(
    columns.map(([title]) => title),
    rows,
    width
  )
  yield* out([...head.map((line) => paint(line, "bold")), ...body].map((line) => `${line}\n`).join(""))
})

/** A list as JSON, as the sentence that nothing is in it, or as a table. */
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

/** Says what is waited for, once that has taken a second; only on a terminal that can take it back. */
export const whileWaiting =
  (text: string) =>
  <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> => {
    if (!stderrIsTerminal() || process.env["TERM"] === "dumb") return self
    return Effect.acquireUseRelease(
      Effect.sync(() => {
        const told = { yet: false }
        const timer = setTimeout(() => {
          told.yet = true
          process.stderr.write(`\r\u001b[K${text}`)
        }, 1_000)
        return { told, timer }
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

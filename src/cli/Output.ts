/** Writing to the terminal. Results go to standard output, everything else to standard error. */
import * as Effect from "effect/Effect"

export const out = (text: string): Effect.Effect<void> =>
  Effect.sync(() => {
    process.stdout.write(text)
  })

export const note = (text: string): Effect.Effect<void> =>
  Effect.sync(() => {
    process.stderr.write(`${text}\n`)
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
export const wantsColour = (): boolean => stdoutIsTerminal() && (process.env["NO_COLOR"] ?? "") === ""

type Columns<A> = ReadonlyArray<readonly [title: string, cell: (item: A) => string]>

/** Columns padded to their widest cell. */
export const table = <A>(items: ReadonlyArray<A>, columns: Columns<A>): Effect.Effect<void> => {
  const all = [columns.map(([title]) => title), ...items.map((item) => columns.map(([, cell]) => plain(cell(item))))]
  const widths = columns.map((_, i) => all.reduce((widest, row) => Math.max(widest, [...(row[i] ?? "")].length), 0))
  const line = (row: ReadonlyArray<string>) =>
    row
      .map((cell, i) => (i === row.length - 1 ? cell : cell + " ".repeat(widths[i]! - [...cell].length)))
      .join("  ")
      .trimEnd()
  return out(all.map((row) => `${line(row)}\n`).join(""))
}

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
export const progressDone: Effect.Effect<void> = Effect.sync(() => {
  if (stderrIsTerminal()) process.stderr.write("\r\u001b[K")
})

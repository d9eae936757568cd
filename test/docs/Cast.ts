/** A recorded terminal: asciicast version 2 (https://docs.asciinema.org/manual/asciicast/v2/), and its rendering as text. */
import * as Schema from "effect/Schema"
import { parsed } from "#test/support/Json.ts"

/** Seconds since the start, kind (`o` = output, `i` = input, `m` = marker), text. */
export type Event = readonly [seconds: number, kind: "o" | "i" | "m", text: string]
export interface Cast {
  readonly width: number
  readonly height: number
  readonly title: string
  readonly events: ReadonlyArray<Event>
}

const Header = Schema.Struct({
  version: Schema.Literal(2),
  width: Schema.Number,
  height: Schema.Number,
  title: Schema.String
})
const EventOf = Schema.Tuple(Schema.Number, Schema.Literal("o", "i", "m"), Schema.String)

export const print = ({ events, ...header }: Cast): string =>
  [{ version: 2, ...header }, ...events].map((line) => `${JSON.stringify(line)}\n`).join("")

export const read = (text: string): Cast => {
  const [first = "", ...lines] = text.trimEnd().split("\n")
  const { version: _, ...header } = parsed(Header)(first)
  return { ...header, events: lines.map((line) => parsed(EventOf)(line)) }
}

/** Colours and movements of the cursor. */
const controls = new RegExp(`${String.fromCodePoint(27)}(?:\\[[\\d;?]*[A-Za-z]|[=>])`, "g")

/** Lines of the screen, each with the second at which it began; a carriage return begins the line again. */
export const linesOf = ({ events }: Cast): ReadonlyArray<{ readonly seconds: number; readonly text: string }> => {
  const lines: Array<{ seconds: number; text: string }> = [{ seconds: 0, text: "" }]
  for (const [seconds, kind, chunk] of events) {
    if (kind !== "o") continue
    const plain = chunk.replaceAll("\u001b[1G", "\r").replaceAll(controls, "").replaceAll("\r\n", "\n")
    for (const [i, piece] of plain.split("\n").entries()) {
      if (i > 0) lines.push({ seconds, text: "" })
      const last = lines.at(-1)
      if (last === undefined) continue
      if (last.text === "") last.seconds = seconds
      const from = piece.lastIndexOf("\r")
      last.text = from < 0 ? last.text + piece : piece.slice(from + 1)
    }
  }
  return lines.filter(({ text }) => text.trim() !== "")
}

/** The rendering: seconds in front of each line. */
export const textOf = (cast: Cast): string =>
  linesOf(cast)
    .map(({ seconds, text }) => `${seconds.toFixed(1).padStart(5)}  ${text.trimEnd()}`)
    .join("\n")

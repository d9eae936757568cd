/**
 * The bytes of a text that a reader sees: without terminal sequences (ECMA-48), control characters, the zero bytes of
 * UTF-16 and unseen characters. A backspace takes the last byte back.
 */
import { Buffer } from "node:buffer"

/** `ground`: text. `escape`: after ESC. `csi`: until a final byte. `text`: until BEL or ESC \ (OSC, DCS and others). */
type State = "ground" | "escape" | "csi" | "text" | "textEscape"

/** Receives the place of a byte that is seen. */
type See = (place: number) => void

export interface Reader {
  readonly read: (byte: number, place: number, see: See, back: () => void) => void
  /** First place that is not decided yet: an unfinished character; `end`, where there is none. */
  readonly undecidedFrom: (end: number) => number
  /** Places count from here on. */
  readonly shift: (places: number) => void
  /** Ends the text: an unfinished character is seen. */
  readonly end: (see: See) => void
}

const [bell, backspace, tab, newline, escape, del] = [0x07, 0x08, 0x09, 0x0a, 0x1b, 0x7f]

/** Length of the character that this byte begins; 1: not the beginning of a longer one. */
const lengthOf = (byte: number): number =>
  byte >= 0xf0 && byte < 0xf8 ? 4 : byte >= 0xe0 ? (byte < 0xf0 ? 3 : 1) : byte >= 0xc2 ? 2 : 1

/** Format characters, tags, variation selectors and the control characters of two bytes. */
const unseen = /^[\p{Cf}\p{Cc}\u{fe00}-\u{fe0f}\u{e0100}-\u{e01ef}\u{3164}\u{115f}\u{1160}]$/u

const nextState = (state: State, byte: number): State => {
  switch (state) {
    case "ground":
      return byte === escape ? "escape" : "ground"
    case "escape":
      if (byte === 0x5b) return "csi"
      if (byte === 0x5d || byte === 0x50 || byte === 0x58 || byte === 0x5e || byte === 0x5f) return "text"
      // Intermediate bytes: one more follows.
      return byte >= 0x20 && byte <= 0x2f ? "escape" : "ground"
    case "csi":
      return byte >= 0x40 && byte <= 0x7e ? "ground" : "csi"
    case "text":
      return byte === bell ? "ground" : byte === escape ? "textEscape" : "text"
    case "textEscape":
      return byte === 0x5c ? "ground" : byte === escape ? "textEscape" : "text"
  }
}

/** A sequence that does not end is text: what follows must not escape the masks. */
const longestSequence = 256

export const reader = (): Reader => {
  let state: State = "ground"
  let length = 0
  let character: Array<readonly [byte: number, place: number]> = []
  let expectedLength = 1

  const settle = (see: See) => {
    const text = Buffer.from(character.map(([byte]) => byte)).toString()
    if (!unseen.test(text)) for (const [, place] of character) see(place)
    character = []
  }
  const read: Reader["read"] = (byte, place, see, back) => {
    if (character.length > 0) {
      if (byte >= 0x80 && byte < 0xc0) {
        character.push([byte, place])
        if (character.length === expectedLength) settle(see)
        return
      }
      for (const [, before] of character) see(before)
      character = []
    }
    if (state !== "ground") {
      length++
      // A line end or the limit ends a sequence that no terminal would finish.
      if (byte === newline || length > longestSequence) state = "ground"
      else {
        state = nextState(state, byte)
        return
      }
    }
    if (byte === escape) {
      state = "escape"
      length = 0
    } else if (byte === backspace) back()
    else if (byte === tab || byte === newline || (byte >= 0x20 && byte < 0x80 && byte !== del)) see(place)
    else if (byte >= 0x80) {
      expectedLength = lengthOf(byte)
      if (expectedLength === 1) see(place)
      else character = [[byte, place]]
    }
  }
  return {
    read,
    undecidedFrom: (end) => character[0]?.[1] ?? end,
    shift: (places) => {
      character = character.map(([byte, place]) => [byte, place - places])
    },
    end: (see) => {
      for (const [, place] of character) see(place)
      character = []
      state = "ground"
    }
  }
}

/** The bytes that a reader sees of a whole text. */
export const of = (bytes: Uint8Array): Buffer => {
  const places: Array<number> = []
  const see = (place: number) => places.push(place)
  const one = reader()
  bytes.forEach((byte, place) => one.read(byte, place, see, () => places.pop()))
  one.end(see)
  return Buffer.from(places.map((place) => bytes[place] ?? 0))
}

/**
 * All values of an environment as sealed pieces of the JSON that leaves: runs of members in the order of keys. A change
 * of a few keys opens and seals only the pieces that hold them.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { SnapshotCipher } from "#src/crypto/SnapshotCipher.ts"
import { turn } from "./SecretBoxes.ts"

export interface Piece {
  readonly keys: ReadonlyArray<string>
  /** `"KEY":"value"`, joined by commas. */
  readonly sealed: Buffer
  /** Part of the sealed context: no piece opens in place of another. */
  readonly name: string
}
export type Pieces = ReadonlyArray<Piece>

/** Bytes of a piece, but for a value that is longer alone: a change of one value costs about a millisecond. */
const pieceBytes = 16_384
/** Bytes that are opened between turns. */
const openedAtOnce = 1_048_576

let pieceCount = 0

/** Bytes that are one piece. */
export const whole = (cipher: SnapshotCipher, of: string, keys: ReadonlyArray<string>, bytes: Uint8Array): Piece => {
  const name = `${of}/${++pieceCount}`
  return { keys, name, sealed: cipher.seal(bytes, Buffer.from(name)) }
}

const sealed = (cipher: SnapshotCipher, of: string, keys: ReadonlyArray<string>, members: ReadonlyArray<string>) => {
  const bytes = Buffer.from(members.join(","))
  const piece = whole(cipher, of, keys, bytes)
  bytes.fill(0)
  return piece
}

/** Seals values, sorted by key. `of`: their environment. */
export const seal = Effect.fnUntraced(function* (
  cipher: SnapshotCipher,
  of: string,
  values: Iterable<readonly [string, string]>
) {
  const pieces: Array<Piece> = []
  let keys: Array<string> = []
  let members: Array<string> = []
  let length = 0
  for (const [key, value] of values) {
    const member = `${JSON.stringify(key)}:${JSON.stringify(value)}`
    if (length > 0 && length + member.length > pieceBytes) {
      pieces.push(sealed(cipher, of, keys, members))
      keys = []
      members = []
      length = 0
      yield* turn
    }
    keys.push(key)
    members.push(member)
    length += member.length
  }
  if (keys.length > 0) pieces.push(sealed(cipher, of, keys, members))
  return pieces
})

/** The members of each piece; none when one does not open. */
export const open = Effect.fnUntraced(function* (cipher: SnapshotCipher, pieces: Pieces) {
  const members: Array<Buffer> = []
  let sinceTurn = 0
  for (const { name, sealed } of pieces) {
    const opened = cipher.open(sealed, Buffer.from(name))
    if (Option.isNone(opened)) return Option.none()
    members.push(opened.value)
    sinceTurn += sealed.length
    if (sinceTurn > openedAtOnce) {
      sinceTurn = 0
      yield* turn
    }
  }
  return Option.some(members)
})

/** The values of opened pieces by key, in their order. */
export const values = Effect.fnUntraced(function* (members: ReadonlyArray<Buffer>) {
  const all = new Map<string, string>()
  for (const [i, bytes] of members.entries()) {
    if (i > 0) yield* turn
    // `seal` wrote keys and texts alone.
    const part = JSON.parse(`{${bytes.toString()}}`) as Record<string, string>
    for (const key of Object.keys(part)) all.set(key, part[key])
  }
  return all
})

/** The piece of a key, or the piece that a new key goes to. */
const placeOf = (pieces: Pieces, key: string) => {
  const after = pieces.findIndex(({ keys }) => keys[0] > key)
  return after < 0 ? pieces.length - 1 : Math.max(0, after - 1)
}

export interface Changed {
  readonly pieces: Pieces
  /** No key was added or removed. */
  readonly sameKeys: boolean
}

/** The same values with changes: a value, or null for a key that is gone. None when a piece does not open. */
export const change = Effect.fnUntraced(function* (
  cipher: SnapshotCipher,
  of: string,
  pieces: Pieces,
  changes: ReadonlyMap<string, string | null>
) {
  const byPlace = new Map<number, Array<string>>()
  for (const key of changes.keys()) {
    const place = placeOf(pieces, key)
    const places = byPlace.get(place)
    if (places === undefined) byPlace.set(place, [key])
    else places.push(key)
  }
  const result: Array<Piece> = []
  let sameKeys = true
  for (const place of pieces.length === 0 ? [-1] : pieces.keys()) {
    const changed = byPlace.get(place)
    if (changed === undefined) {
      result.push(...pieces.slice(place, place + 1))
      continue
    }
    yield* turn
    const opened = yield* open(cipher, pieces.slice(Math.max(0, place), place + 1))
    if (Option.isNone(opened)) return Option.none()
    const entries = yield* values(opened.value)
    for (const bytes of opened.value) bytes.fill(0)
    for (const key of changed) {
      const value = changes.get(key)
      if (entries.has(key) !== (typeof value === "string")) sameKeys = false
      if (typeof value === "string") entries.set(key, value)
      else entries.delete(key)
    }
    const sorted = [...entries].sort(([a], [b]) => (a < b ? -1 : 1))
    result.push(...(yield* seal(cipher, of, sorted)))
  }
  return Option.some<Changed>({ pieces: result, sameKeys })
})

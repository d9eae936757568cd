/**
 * The streams that this process writes, as it remembers them. A hash covers everything before it, so a computed head
 * vouches for its whole stream. The database's contents are only compared with these heads. Otherwise a writer of the
 * database could have a forged entry linked into the chain, and sealed.
 */
import * as Chain from "#src/audit/Chain.ts"

/** The number and hash of the last entry of a stream. */
export interface Position {
  readonly seq: number
  readonly hash: Uint8Array
}

/** A stream of reads and denials, committed by one statement after another. */
export interface ReadStream {
  readonly kind: "read"
  readonly id: string
  /** The last position known to be committed. It stays during the next statement, so that it can be sealed. */
  committed: Position
  /** Whether a statement failed since. The database then shows whether it was committed. */
  uncertain: boolean
  /** Positions of failed statements that may still be committed, by their text. */
  readonly attempted: Map<string, Position>
}

/** A stream of writes: each entry is in the transaction of its change, which locks the stream until it ends. */
export interface WriteStream {
  readonly kind: "write"
  readonly id: string
  /** Whether the vault knows it, so that transactions may use it. */
  ready: boolean
  /** The last position read as committed. */
  committed: Position
  /** Positions assigned to transactions since, by number. Some belong to transactions that were rolled back. */
  readonly written: Map<number, ReadonlyArray<Uint8Array>>
}

/** An abandoned stream, which still has to be closed. */
export interface RetiredStream {
  readonly stream: ReadStream | WriteStream
  /** Time in milliseconds by which every transaction on it has ended. */
  readonly closeAt: number
}

/** The streams of this process. */
export interface OwnStreams {
  read: ReadStream
  /** Never empty: one for each concurrent transaction so far. */
  writes: ReadonlyArray<WriteStream>
  retired: ReadonlyArray<RetiredStream>
  /** The time of this process's last report to others. Undefined: none of its services reports. */
  aliveAt: number | undefined
}

/** Bounds the remembered failed statements in a row; older ones have ended long ago. */
const maxAttempts = 1_024
/** Bounds the streams that wait for closing while the vault is down. */
const maxRetired = 100

const same = (a: Position, b: Position) => a.seq === b.seq && Chain.sameBytes(a.hash, b.hash)
const textOf = ({ hash, seq }: Position) => `${seq} ${Buffer.from(hash).toString("base64")}`
const genesis = (id: string): Position => ({ seq: 0, hash: Chain.genesis(id) })

export const openRead = (uuid: string): ReadStream => {
  const id = Chain.withMacs(uuid)
  return { kind: "read", id, committed: genesis(id), uncertain: false, attempted: new Map() }
}

export const openWrite = (uuid: string, ready = true): WriteStream => {
  const id = Chain.withMacs(uuid)
  return { kind: "write", id, ready, committed: genesis(id), written: new Map() }
}

export const all = ({ read, writes }: OwnStreams): ReadonlyArray<ReadStream | WriteStream> => [read, ...writes]

export const headOf = (stream: ReadStream | WriteStream): Chain.Head => ({ stream: stream.id, ...stream.committed })

/** The position expected when the database has no entry of the stream. */
export const beginning = (stream: ReadStream | WriteStream): Position => genesis(stream.id)

export const attempt = (stream: ReadStream, position: Position): void => {
  stream.attempted.set(textOf(position), position)
  if (stream.attempted.size <= maxAttempts) return
  for (const [oldest] of stream.attempted) {
    stream.attempted.delete(oldest)
    return
  }
}

export const isOwnRead = (stream: ReadStream, position: Position): boolean =>
  same(stream.committed, position) || stream.attempted.has(textOf(position))

/**
 * Sets the position after a commit, or after a look at the database. Positions of failed statements are dropped once
 * the stream moves on: their numbers are used.
 */
export const settleRead = (stream: ReadStream, position: Position): void => {
  if (position.seq > stream.committed.seq) stream.attempted.clear()
  stream.committed = position
  stream.uncertain = false
}

export const noteWrite = (stream: WriteStream, { hash, seq }: Position): void => {
  stream.written.set(seq, [...(stream.written.get(seq) ?? []), hash])
}

/** Whether no transaction of this process has a position of it. */
export const isUntouched = ({ committed, written }: WriteStream): boolean => committed.seq === 0 && written.size === 0

export const isOwnWrite = (stream: WriteStream, position: Position): boolean =>
  same(stream.committed, position) ||
  stream.written.get(position.seq)?.some((hash) => Chain.sameBytes(hash, position.hash)) === true

/** Positions before a committed one cannot appear again. */
export const settleWrite = (stream: WriteStream, position: Position): void => {
  stream.committed = position
  for (const seq of stream.written.keys()) if (seq <= position.seq) stream.written.delete(seq)
}

/** Replaces a stream with a new one, named `id`. False: it was replaced before. */
export const retire = (
  own: OwnStreams,
  stream: ReadStream | WriteStream,
  id: string,
  closeAt: number | undefined
): boolean => {
  if (stream === own.read) own.read = openRead(id)
  else if (stream.kind === "write" && own.writes.includes(stream)) {
    own.writes = own.writes.map((one) => (one === stream ? openWrite(id) : one))
  } else return false
  if (closeAt !== undefined) own.retired = [...own.retired, { stream, closeAt }].slice(-maxRetired)
  return true
}

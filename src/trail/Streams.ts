/**
 * The streams that this process writes, as it knows them itself. A hash covers everything before it, so a head that
 * this
 * process computed vouches for its whole stream. What the database holds is compared with these heads and never
 * believed:
 * otherwise a writer of the database could have a forged entry linked into the chain, and sealed.
 */
import * as Chain from "#src/audit/Chain.ts"

/** The last entry of a stream: its number and hash. */
export interface Position {
  readonly seq: number
  readonly hash: Uint8Array
}

/** Reads and denials, committed by one statement after the other. */
export interface ReadStream {
  readonly kind: "read"
  readonly id: string
  /**
   * The last position that is known to be committed. Stays while the next statement is under way, so that it can be
   * sealed.
   */
  committed: Position
  /** A statement failed since: whether it was committed all the same is for the database to say. */
  uncertain: boolean
  /** Positions of statements that failed and may have been committed, or may still be, by their text. */
  readonly attempted: Map<string, Position>
}

/** Writes, each entry in the transaction of its change, which holds the stream until it ends. */
export interface WriteStream {
  readonly kind: "write"
  readonly id: string
  /** The vault knows it, so that transactions may take it. */
  ready: boolean
  /** The last position that was seen committed. */
  committed: Position
  /** Positions that transactions got since, by number; those of a transaction that was rolled back never exist. */
  readonly written: Map<number, ReadonlyArray<Uint8Array>>
}

/** A stream that is written no more and has to be closed. */
export interface LeftStream {
  readonly stream: ReadStream | WriteStream
  /** Milliseconds. A transaction that began before has ended by then. */
  readonly closeAt: number
}

/** One per process. */
export interface OwnStreams {
  read: ReadStream
  /** As many as transactions were under way at once: never none. */
  writes: ReadonlyArray<WriteStream>
  left: ReadonlyArray<LeftStream>
  /** When this process last told the others that it runs; undefined: none of its services does that. */
  aliveAt: number | undefined
}

/** Statements that failed one after the other; what is older than so many has long ended. */
const attempts = 1_024
/** While the vault is away, streams wait to be closed. */
const leftAtMost = 100

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

/** The position that the database should hold when it holds nothing of the stream. */
export const beginning = (stream: ReadStream | WriteStream): Position => genesis(stream.id)

export const attempt = (stream: ReadStream, position: Position): void => {
  stream.attempted.set(textOf(position), position)
  if (stream.attempted.size <= attempts) return
  for (const [oldest] of stream.attempted) {
    stream.attempted.delete(oldest)
    return
  }
}

export const isOwnRead = (stream: ReadStream, position: Position): boolean =>
  same(stream.committed, position) || stream.attempted.has(textOf(position))

/**
 * After a statement that is known to be committed, or a look at the database. Positions of failed statements are
 * forgotten once the stream has moved on: their numbers are taken.
 */
export const settleRead = (stream: ReadStream, position: Position): void => {
  if (position.seq > stream.committed.seq) stream.attempted.clear()
  stream.committed = position
  stream.uncertain = false
}

export const written = (stream: WriteStream, { hash, seq }: Position): void => {
  stream.written.set(seq, [...(stream.written.get(seq) ?? []), hash])
}

/** No transaction of this process was given a position of it. */
export const isUntouched = ({ committed, written }: WriteStream): boolean => committed.seq === 0 && written.size === 0

export const isOwnWrite = (stream: WriteStream, position: Position): boolean =>
  same(stream.committed, position) ||
  stream.written.get(position.seq)?.some((hash) => Chain.sameBytes(hash, position.hash)) === true

/** Nothing before a position that was seen committed can come back. */
export const settleWrite = (stream: WriteStream, position: Position): void => {
  stream.committed = position
  for (const seq of stream.written.keys()) if (seq <= position.seq) stream.written.delete(seq)
}

/** `id`: of the stream that takes its place. False: it was left already. */
export const leave = (
  own: OwnStreams,
  stream: ReadStream | WriteStream,
  id: string,
  closeAt: number | undefined
): boolean => {
  if (stream === own.read) own.read = openRead(id)
  else if (stream.kind === "write" && own.writes.includes(stream)) {
    own.writes = own.writes.map((one) => (one === stream ? openWrite(id) : one))
  } else return false
  if (closeAt !== undefined) own.left = [...own.left, { stream, closeAt }].slice(-leftAtMost)
  return true
}

/**
 * Checkpoints: signed notes of the heads of streams, kept outside the database, in the form of C2SP tlog-checkpoint:
 * origin, size, root, then lines of our own. A writer (a process) numbers its checkpoints. The root of each covers the
 * one before, so that none can be removed from the middle.
 *
 *   ampoule.audit/<writer>
 *   <number of this checkpoint>
 *   <base64: SHA-256 of the root before and of the lines below>
 *   at <time>
 *   head <stream> <seq> <base64>                        heads that moved since the writer's last
 *   accepted <stream> <seq> <base64> <seq> <base64>     a restored database: its head, and the signed head
 *
 * A cut is a separate note: `ampoule.audit/cut`, seq, hash, `stream <id>`, `before <time>`.
 */
import * as Either from "effect/Either"
import { createHash } from "node:crypto"
import type { Head } from "./Chain.ts"
import { sameBytes } from "./Chain.ts"
import { type Problem, Problems } from "./Problems.ts"
import * as SignedNote from "./SignedNote.ts"

const origin = "ampoule.audit/"
const cutOrigin = `${origin}cut`

export const keyName = (rootKeyId: string): string => `ampoule-audit-${rootKeyId}`

const base64 = (bytes: Uint8Array) => Buffer.from(bytes).toString("base64")

export interface AcceptedHead {
  /** The restored database's head; number 0 and the genesis hash if it has no entry of the stream. */
  readonly present: Head
  readonly signed: Head
}

export interface Checkpoint {
  readonly writer: string
  readonly size: number
  readonly root: Uint8Array
  /** Milliseconds. */
  readonly at: number
  readonly heads: ReadonlyArray<Head>
  readonly accepted: ReadonlyArray<AcceptedHead>
}

/** The number and root of a writer's last checkpoint. */
export interface WriterState {
  readonly writer: string
  readonly size: number
  readonly root: Uint8Array
}

export const newWriter = (writer: string): WriterState => ({
  writer,
  size: 0,
  root: createHash("sha256").update("ampoule audit checkpoints v1").update(writer).digest()
})

const linesOf = ({ accepted, at, heads }: Pick<Checkpoint, "at" | "heads" | "accepted">): string =>
  [
    `at ${new Date(at).toISOString()}`,
    ...heads.map(({ hash, seq, stream }) => `head ${stream} ${seq} ${base64(hash)}`),
    ...accepted.map(
      ({ present: held, signed }) =>
        `accepted ${held.stream} ${held.seq} ${base64(held.hash)} ${signed.seq} ${base64(signed.hash)}`
    )
  ]
    .map((line) => `${line}\n`)
    .join("")

const nextRoot = (root: Uint8Array, lines: string) => createHash("sha256").update(root).update(lines).digest()

/** The text to sign, and the writer's state after it. */
export const text = (
  state: WriterState,
  content: Pick<Checkpoint, "at" | "heads" | "accepted">
): { readonly text: string; readonly next: WriterState } => {
  const lines = linesOf(content)
  const next = { writer: state.writer, size: state.size + 1, root: nextRoot(state.root, lines) }
  return { text: `${origin}${next.writer}\n${next.size}\n${base64(next.root)}\n${lines}`, next }
}

const head = (stream: string, seq: string, hash: string): Head | undefined => {
  const bytes = Buffer.from(hash, "base64")
  return /^[0-9a-f-]{36}$/.test(stream) && /^[0-9]{1,15}$/.test(seq) && bytes.length === 32
    ? { stream, seq: Number(seq), hash: bytes }
    : undefined
}

const parse = (text: string): Checkpoint | undefined => {
  const [first = "", size = "", root = "", time = "", ...rest] = text.trimEnd().split("\n")
  const writer = first.startsWith(origin) ? first.slice(origin.length) : ""
  const at = Date.parse(time.replace(/^at /, ""))
  if (writer === "" || !/^[0-9]{1,15}$/.test(size) || Number.isNaN(at)) return undefined
  const heads: Array<Head> = []
  const accepted: Array<AcceptedHead> = []
  for (const line of rest) {
    const [word = "", stream = "", seq = "", hash = "", signedSeq = "", signedHash = "", more] = line.split(" ")
    const one = head(stream, seq, hash)
    if (one === undefined || more !== undefined) return undefined
    if (word === "head" && signedSeq === "") heads.push(one)
    else if (word === "accepted") {
      const signed = head(stream, signedSeq, signedHash)
      if (signed === undefined) return undefined
      accepted.push({ present: one, signed })
    } else return undefined
  }
  return { writer, size: Number(size), root: Buffer.from(root, "base64"), at, heads, accepted }
}

// --- cuts ---

/** The last entry that a recorded cut deleted; the stream starts after it. */
export interface Cut extends Head {
  readonly before: string
}

export const cutText = ({ before, hash, seq, stream }: Cut): string =>
  `${cutOrigin}\n${seq}\n${base64(hash)}\nstream ${stream}\nbefore ${before}\n`

const parseCut = (text: string): Cut | undefined => {
  const [first, seq = "", hash = "", stream = "", before = "", ...rest] = text.trimEnd().split("\n")
  const one = head(stream.replace(/^stream /, ""), seq, hash)
  return first === cutOrigin && one !== undefined && rest.length === 0
    ? { ...one, before: before.replace(/^before /, "") }
    : undefined
}

/** The content of a note, unverified: for a reader without the key. */
export const claimedCut = (note: string): Cut | undefined => parseCut(note.slice(0, note.indexOf("\n\n") + 1))

export const openCut = (
  note: string,
  keys: ReadonlyArray<SignedNote.NoteKey>
): Either.Either<Cut, SignedNote.Refusal> =>
  Either.flatMap(SignedNote.open(note, keys), (text) => {
    const cut = parseCut(text)
    return cut === undefined ? Either.left("is no signed note" as const) : Either.right(cut)
  })

// --- lines of a log ---

const logMember = "auditCheckpoint"
const logWriter = "log-"

/**
 * A writer to a log. Logs are kept for a limited time, so its numbering may begin in the middle. Its signed name marks
 * it: notes of a file cannot pass for notes of a log.
 */
export const newLogWriter = (writer: string): WriterState => newWriter(`${logWriter}${writer}`)

/** A note as one line of JSON. */
export const printLine = (note: string): string => `${JSON.stringify({ [logMember]: note })}\n`

const noteOfLine = (line: string): string | undefined => {
  if (!line.startsWith("{")) return undefined
  try {
    const value: unknown = JSON.parse(line)
    if (typeof value !== "object" || value === null) return undefined
    // Undefined for every other line of the log.
    const note = Object.getOwnPropertyDescriptor(value, logMember)?.value
    return typeof note === "string" ? note : undefined
  } catch {
    return undefined
  }
}

// --- a file of checkpoints ---

/** A stream's head in signed checkpoints. */
export interface Pin extends Head {
  readonly at: number
}

/**
 * Reads files of checkpoints line by line. Memory is bounded by the number of streams, whatever the length of the file.
 * It keeps the last head of a stream: the chain of hashes fixes the entries before.
 */
export class Reader {
  readonly pins = new Map<string, Pin>()
  readonly #problems = new Problems()
  count = 0
  lastAt: number | undefined
  /** Number of checkpoints that a crash left incomplete. */
  fragments = 0
  readonly #keys: ReadonlyArray<SignedNote.NoteKey>
  /** Later checkpoints do not apply to an older export. */
  readonly #until: number
  readonly #writers = new Map<string, WriterState>()
  /** The time when a restored state of a stream was accepted. Heads signed before no longer apply, in any file. */
  readonly #acceptedAt = new Map<string, number>()
  #note: Array<string> = []
  #signed = false
  /** Number of notes so far, valid or not. */
  #notes = 0

  constructor(keys: ReadonlyArray<SignedNote.NoteKey>, until = Number.POSITIVE_INFINITY) {
    this.#keys = keys
    this.#until = until
  }

  get problems(): ReadonlyArray<Problem> {
    return this.#problems.listed
  }
  get problemCount(): number {
    return this.#problems.count
  }

  line(line: string): void {
    if (line.startsWith("{")) {
      const note = noteOfLine(line)
      if (note === undefined) return
      this.end()
      for (const one of note.split("\n")) this.#line(one)
      return this.end()
    }
    this.#line(line)
  }

  #line(line: string): void {
    if (line.startsWith(origin) && this.#note.length > 0) this.#end()
    if (line === "" && this.#note.length === 0) return
    if (line === "" && this.#signed) return this.#end()
    this.#note.push(line)
    if (line.startsWith("— ")) this.#signed = true
  }

  end(): void {
    if (this.#note.length > 0) this.#end()
  }

  #end() {
    const note = `${this.#note.join("\n")}\n`
    const isTorn = !this.#signed
    this.#note = []
    this.#signed = false
    if (isTorn) {
      this.fragments++
      return
    }
    this.#notes++
    const signedText = SignedNote.open(note, this.#keys)
    if (Either.isLeft(signedText)) {
      this.#problems.say(`Checkpoint ${this.#notes} of the file ${signedText.left}.`)
      return
    }
    const checkpoint = parse(signedText.right)
    if (checkpoint === undefined) {
      this.#problems.say("A signed text of the file is no checkpoint.")
      return
    }
    this.#take(checkpoint)
  }

  #take(checkpoint: Checkpoint) {
    this.count++
    const { accepted, at, heads, root, size, writer } = checkpoint
    const existing = this.#writers.get(writer)
    const before = existing ?? newWriter(writer)
    // The first checkpoint that the log still has: the numbering is checked from here on.
    const first = existing === undefined && writer.startsWith(logWriter)
    if (first) this.#writers.set(writer, { writer, size, root })
    else if (size !== before.size + 1) {
      this.#problems.say(`Checkpoints of writer ${writer} are missing: after ${before.size} comes ${size}.`)
    } else if (!sameBytes(nextRoot(before.root, linesOf(checkpoint)), root)) {
      this.#problems.say(`Checkpoint ${size} of writer ${writer} does not continue the one before.`)
    }
    this.#writers.set(writer, { writer, size, root })
    if (at > this.#until) return
    this.lastAt = Math.max(at, this.lastAt ?? 0)
    for (const head of heads) {
      const pin = this.pins.get(head.stream)
      if (at < (this.#acceptedAt.get(head.stream) ?? 0)) continue
      if (pin !== undefined && pin.seq === head.seq && !sameBytes(pin.hash, head.hash)) {
        this.#problems.say(`Two checkpoints disagree about entry ${head.seq} of stream ${head.stream}.`)
      }
      if (pin === undefined || pin.seq < head.seq) this.pins.set(head.stream, { ...head, at })
    }
    for (const { present: held } of accepted) {
      if (at < (this.#acceptedAt.get(held.stream) ?? 0)) continue
      this.#acceptedAt.set(held.stream, at)
      if ((this.pins.get(held.stream)?.at ?? 0) <= at) this.pins.set(held.stream, { ...held, at })
    }
  }
}

/**
 * The file of signed checkpoints: the heads it names, and new ones to append. On standard output, one line of JSON
 * each, for a log shipper.
 */
import { isPlatformError, type PlatformError } from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import type * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import { dirname } from "node:path"
import * as Chain from "#src/audit/Chain.ts"
import * as Checkpoint from "#src/audit/Checkpoint.ts"
import * as SignedNote from "#src/audit/SignedNote.ts"
import type { Crypto } from "#src/crypto/Crypto.ts"
import { inTime, type Vault } from "#src/crypto/Vault.ts"
import type { Alarm } from "#src/database/Alarm.ts"
import * as SealRows from "./SealRows.ts"

/** Interval in milliseconds between looks at all rows of `audit_seals`, even unchanged ones. */
const fullPassMillis = 600_000

/** This process's knowledge of the file. */
interface FileState {
  writer: Checkpoint.WriterState
  /** The last number of each stream in the file. */
  readonly lastNumbers: Map<string, number>
  /** Number of bytes read so far. */
  readTo: number
  /** Times of the last look at all seals, and of the last look. */
  lastPass: number
  lastLook: number
  /** Whether the operator was warned that the file cannot be written. */
  hasWarned: boolean
}

/** On standard output, a new process repeats seals of this period, by any process (milliseconds). */
const repeatMillis = 86_400_000
/** Most heads in a line: log shippers truncate long lines. */
const headsPerLine = 100

export interface Needs {
  /** A path; `stdout` and `stderr` are streams, not files. */
  readonly path: string
  readonly fs: FileSystem.FileSystem
  readonly sql: SqlClient.SqlClient
  readonly vault: Vault["Type"]
  readonly crypto: Crypto
  readonly alarm: Alarm
  readonly state: FileState
}

const isStream = (path: string): path is "stdout" | "stderr" => path === "stdout" || path === "stderr"

const newWriter = (path: string, id: string) =>
  isStream(path) ? Checkpoint.newLogWriter(id) : Checkpoint.newWriter(id)

export const make = (needs: Omit<Needs, "state">): Effect.Effect<Needs> =>
  Effect.map(needs.crypto.uuid, (id) => ({
    ...needs,
    state: {
      writer: newWriter(needs.path, id),
      lastNumbers: new Map(),
      readTo: 0,
      lastPass: Number.NEGATIVE_INFINITY,
      lastLook: 0,
      hasWarned: false
    }
  }))

/** Returns the text as a note with the vault's signature. */
export const signNote = (vault: Vault["Type"], text: string) =>
  Effect.map(inTime(vault.signCheckpoint(new TextEncoder().encode(text))), ({ publicKey, rootKeyId, signature }) =>
    SignedNote.print(text, SignedNote.noteKey(Checkpoint.keyName(rootKeyId), publicKey), signature)
  )

const noteHead = ({ lastNumbers: named }: FileState, line: string) => {
  const [word, stream = "", seq = ""] = line.split(" ")
  if (word === "head" && Number(seq) > (named.get(stream) ?? 0)) named.set(stream, Number(seq))
}

/** Reads notes of other processes. Starts over when the file was replaced. */
const readNewNotes = Effect.fnUntraced(function* ({ fs, path, state }: Needs) {
  if (isStream(path)) return
  const size = (yield* fs.exists(path)) ? Number((yield* fs.stat(path)).size) : 0
  if (size < state.readTo) {
    state.readTo = 0
    state.lastNumbers.clear()
  }
  if (size === state.readTo) return
  const file = yield* fs.open(path)
  yield* file.seek(FileSystem.Size(state.readTo), "start")
  const decoder = new TextDecoder()
  let rest = ""
  // A loop: a `Stream` holds the event loop for several milliseconds, even for a few lines.
  for (;;) {
    const bytes = yield* file.readAlloc(FileSystem.KiB(64))
    const lines = (rest + decoder.decode(Option.getOrUndefined(bytes), { stream: Option.isSome(bytes) })).split(/\r?\n/)
    rest = Option.isSome(bytes) ? (lines.pop() ?? "") : ""
    for (const line of lines) noteHead(state, line)
    if (Option.isNone(bytes)) break
  }
  state.readTo = size
}, Effect.scoped)

/** Returns when the note is on disk. */
const append = Effect.fnUntraced(function* ({ fs, path }: Needs, note: string) {
  if (isStream(path)) {
    const line = Checkpoint.printLine(note)
    return yield* Effect.async<void>((resume) => void process[path].write(line, () => resume(Effect.void)))
  }
  yield* fs.makeDirectory(dirname(path), { recursive: true, mode: 0o700 })
  yield* Effect.scoped(
    Effect.gen(function* () {
      const handle = yield* fs.open(path, { flag: "a", mode: 0o600 })
      // One write, so that processes that share the file do not mix their notes.
      yield* handle.writeAll(new TextEncoder().encode(`${note}\n`))
      yield* handle.sync
    })
  )
})

/** Signs and appends a note. */
export const write = Effect.fnUntraced(function* (
  needs: Needs,
  content: Pick<Checkpoint.Checkpoint, "heads" | "accepted">
) {
  const { crypto, state, vault } = needs
  const at = yield* Clock.currentTimeMillis
  const { next, text } = Checkpoint.text(state.writer, { at, ...content })
  const note = yield* signNote(vault, text)
  yield* append(needs, note).pipe(
    // After a failure or an interruption, an unknown part is written. A new writer begins at number 1.
    Effect.onExit((exit) =>
      Exit.isSuccess(exit)
        ? Effect.sync(() => void (state.writer = next))
        : Effect.map(crypto.uuid, (id) => void (state.writer = newWriter(needs.path, id)))
    )
  )
  for (const { seq, stream } of content.heads) state.lastNumbers.set(stream, seq)
})

/** Whether another process that shares the file wrote to it just now. */
const isFresh = Effect.fnUntraced(function* ({ fs, path }: Needs, now: number) {
  if (isStream(path) || !(yield* fs.exists(path))) return false
  const { mtime } = yield* fs.stat(path)
  const age = now - (Option.getOrUndefined(mtime)?.getTime() ?? 0)
  return age >= 0 && age < Chain.anchorMillis * 0.8
})

/** Heads whose seals changed since the last look, and which the file does not name yet. */
const newHeads = Effect.fnUntraced(function* ({ alarm, sql, state, vault }: Needs, since: number) {
  const heads: Array<Chain.Head> = []
  for (const row of yield* SealRows.sealedSince(sql)(new Date(since))) {
    if ((state.lastNumbers.get(row.stream) ?? 0) >= row.seq) continue
    if (yield* SealRows.isGenuine(vault, row)) heads.push(row)
    else yield* alarm.raise(row.stream, "the seal of a stream is wrong")
  }
  return heads
})

/** `force`: even if another process wrote just now. */
export const checkpoint = Effect.fnUntraced(function* (needs: Needs, force: boolean) {
  const { state } = needs
  const now = yield* Clock.currentTimeMillis
  if (!force && (yield* isFresh(needs, now))) return
  yield* readNewNotes(needs)
  const whole = now - state.lastPass > fullPassMillis
  const all = isStream(needs.path) ? now - repeatMillis : 0
  const heads = yield* newHeads(needs, whole ? all : state.lastLook - 2 * Chain.heartbeatMillis)
  const size = isStream(needs.path) ? headsPerLine : Number.POSITIVE_INFINITY
  for (let at = 0; at < heads.length; at += size) {
    yield* write(needs, { heads: heads.slice(at, at + size), accepted: [] })
  }
  state.lastLook = now
  if (whole) state.lastPass = now
})

/** Sealing goes on without the file. The operator gets one warning for each outage of it. */
export const orWarn = <E, R>({ state }: Needs, work: Effect.Effect<void, E | PlatformError, R>) =>
  work.pipe(
    Effect.tap(() => Effect.sync(() => (state.hasWarned = false))),
    Effect.tapError((error) => {
      const warn = !state.hasWarned && isPlatformError(error)
      state.hasWarned ||= warn
      return warn
        ? Effect.logWarning("Checkpoints of the audit trail cannot be written; check AMPOULE_AUDIT_CHECKPOINTS")
        : Effect.void
    })
  )

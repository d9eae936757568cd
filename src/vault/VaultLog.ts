/**
 * The vault's own record of what it opened, beside and independent of the audit trail: a line of JSON per key, on disk
 * before the key leaves. Each line's `hash` is SHA-256 of the hash before it and the line without its `hash`, so that a
 * line that was changed, dropped or moved shows; what a file does not show is that its end was cut off. A full file is
 * put aside as `<name>-<last seq>.jsonl`, and the first line of the next says after which hash it goes on.
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Clock from "effect/Clock"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as ExecutionStrategy from "effect/ExecutionStrategy"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import { createHash } from "node:crypto"
import { dirname, join, parse as parsePath } from "node:path"
import type { KeyContext } from "#schema/Vault.ts"
import { VaultUnavailable } from "#schema/Vault.ts"

export type Operation = "generate" | "unwrap" | "rewrap" | "wrap"

export interface Event {
  readonly operation: Operation
  readonly outcome: "done" | "refused" | "limited"
  readonly context: KeyContext
  readonly rootKeyId: string
}

/** The log is not what the vault wrote. `line` counts from 1. */
export class VaultLogBroken extends Data.TaggedError("VaultLogBroken")<{
  readonly file: string
  readonly line: number
  readonly message: string
}> {}

interface Head {
  readonly seq: number
  readonly hash: string
}
const genesis: Head = { seq: 0, hash: createHash("sha256").update("ampoule vault log v1").digest("hex") }

const link = (head: Head, body: object): { readonly head: Head; readonly line: string } => {
  const text = JSON.stringify({ seq: head.seq + 1, ...body })
  const hash = createHash("sha256").update(head.hash).update(text).digest("hex")
  return { head: { seq: head.seq + 1, hash }, line: `${text.slice(0, -1)},"hash":"${hash}"}\n` }
}

const Line = Schema.parseJson(
  Schema.Struct({ seq: Schema.Number, hash: Schema.String, after: Schema.optional(Schema.String) })
)
const decodeLine = Schema.decodeUnknownOption(Line)
const hashMember = /,"hash":"[0-9a-f]{64}"\}$/

/** The head after a line, when it continues `head`; `null` is what a first line says itself. */
const follow = (before: Head | null, line: string): Option.Option<Head> =>
  Option.filterMap(decodeLine(line), ({ after, hash, seq }) => {
    const head = before ?? (after === undefined ? genesis : { seq: seq - 1, hash: after })
    if (!hashMember.test(line)) return Option.none()
    const expected = createHash("sha256").update(head.hash).update(line.replace(hashMember, "}")).digest("hex")
    return seq === head.seq + 1 && hash === expected ? Option.some({ seq, hash }) : Option.none()
  })

const chunk = 64 * 1024

/**
 * Reads one file of the log, which has to go on after `before` when that is given. Answers where it ends; a last line
 * that was cut off in a crash does not count.
 */
const verifyFile = Effect.fnUntraced(function* (file: string, before: Head | null) {
  const fs = yield* FileSystem.FileSystem
  if (!(yield* fs.exists(file))) return { head: before ?? genesis, bytes: 0, torn: false }
  return yield* Effect.scoped(
    Effect.gen(function* () {
      const handle = yield* fs.open(file, { flag: "r" })
      const decoder = new TextDecoder()
      const buffer = new Uint8Array(chunk)
      let head = before
      let line = 0
      let rest = ""
      let bytes = 0
      for (;;) {
        const read = Number(yield* handle.read(buffer))
        if (read === 0) break
        rest += decoder.decode(buffer.subarray(0, read), { stream: true })
        const lines = rest.split("\n")
        rest = lines.pop() ?? ""
        for (const text of lines) {
          const next = follow(head, text)
          line++
          if (Option.isNone(next)) {
            return yield* new VaultLogBroken({
              file,
              line,
              message: `The vault's log ${file} was changed: line ${line} does not follow the one before it.`
            })
          }
          head = next.value
          bytes += Buffer.byteLength(text) + 1
        }
        yield* Effect.yieldNow()
      }
      return { head: head ?? genesis, bytes, torn: rest !== "" }
    })
  )
})

/** Files that were put aside, oldest first. */
const asideOf = Effect.fnUntraced(function* (file: string) {
  const fs = yield* FileSystem.FileSystem
  const { base, dir, ext, name } = parsePath(file)
  if (!(yield* fs.exists(dir))) return []
  const seqOf = (other: string) =>
    other !== base && other.startsWith(`${name}-`) && other.endsWith(ext)
      ? Number(other.slice(name.length + 1, -ext.length))
      : Number.NaN
  return (yield* fs.readDirectory(dir))
    .filter((other) => Number.isSafeInteger(seqOf(other)))
    .sort((a, b) => seqOf(a) - seqOf(b))
    .map((other) => join(dir, other))
})

/** Whether a key was ever handed out by the vault of this log. */
export const isUsed = Effect.fnUntraced(function* (file: string) {
  const fs = yield* FileSystem.FileSystem
  if ((yield* asideOf(file)).length > 0) return true
  return (yield* fs.exists(file)) && Number((yield* fs.stat(file)).size) > 0
})

/** Reads the whole log, files put aside included, from its first line on. */
export const verify = Effect.fnUntraced(function* (file: string) {
  let head: Head = genesis
  for (const one of [...(yield* asideOf(file)), file]) head = (yield* verifyFile(one, head)).head
  return head
})

const unwritable = () => new VaultUnavailable({ reason: "The vault cannot write its log." })

/**
 * Opens the log for appending, after a look at its newest file. Answers how to write down events: it returns when they
 * are on disk. Concurrent callers share a write. `fullAt`: bytes.
 */
export const open = Effect.fnUntraced(function* (file: string, fullAt = 64 * 1024 * 1024) {
  const fs = yield* FileSystem.FileSystem
  yield* fs.makeDirectory(dirname(file), { recursive: true, mode: 0o700 })
  const current = yield* verifyFile(file, null)
  // A file without a whole line goes on after the last one that was put aside.
  const last = current.bytes === 0 ? (yield* asideOf(file)).at(-1) : undefined
  const found = last === undefined ? current : { ...current, head: (yield* verifyFile(last, null)).head }
  // What a crash cut off was never answered for: the chain goes on where it is whole.
  if (found.torn) yield* fs.truncate(file, FileSystem.Size(found.bytes))
  const scope = yield* Effect.scope
  const openNext = Effect.gen(function* () {
    const own = yield* Scope.fork(scope, ExecutionStrategy.sequential)
    const handle = yield* Scope.extend(fs.open(file, { flag: "a", mode: 0o600 }), own)
    // A power failure must not take along the name of a file whose lines were promised.
    yield* Effect.scoped(Effect.flatMap(fs.open(dirname(file), { flag: "r" }), (folder) => folder.sync))
    return { scope: own, handle }
  })
  const one = yield* Effect.makeSemaphore(1)
  let head = found.head
  let bytes = found.bytes
  let opened = yield* openNext
  let waiting: Array<Event & { readonly at: number }> = []
  // After a write that failed nobody knows what stands in the file: nothing is opened until a restart has looked.
  let failed = false

  const flush = Effect.gen(function* () {
    const events = waiting
    // What came while the write failed must not go behind the half of a line that it may have left.
    if (failed) return yield* unwritable()
    // Somebody else's write took these along.
    if (events.length === 0) return
    waiting = []
    let next = head
    let text = ""
    for (const { at, context, operation, outcome, rootKeyId } of events) {
      const linked = link(next, {
        at: new Date(at).toISOString(),
        operation,
        outcome,
        purpose: context.purpose,
        team: context.teamId,
        project: context.projectId,
        environment: context.environmentId,
        key: context.keyId,
        rootKeyId,
        ...(bytes === 0 && text === "" && next.seq > 0 ? { after: next.hash } : {})
      })
      next = linked.head
      text += linked.line
    }
    const line = new TextEncoder().encode(text)
    yield* opened.handle.writeAll(line)
    yield* opened.handle.sync
    head = next
    bytes += line.length
    if (bytes < fullAt) return
    yield* Scope.close(opened.scope, Exit.void)
    const { dir, ext, name } = parsePath(file)
    yield* fs.rename(file, join(dir, `${name}-${head.seq}${ext}`))
    bytes = 0
    opened = yield* openNext
  })

  const append = (events: ReadonlyArray<Event>): Effect.Effect<void, VaultUnavailable> =>
    Effect.gen(function* () {
      if (failed) return yield* unwritable()
      const at = yield* Clock.currentTimeMillis
      for (const event of events) waiting.push({ ...event, at })
      // Under way to the end, whoever asked: others' events are in it.
      yield* Effect.uninterruptible(
        one.withPermits(1)(
          Effect.mapError(
            Effect.tapError(flush, () => Effect.sync(() => (failed = true))),
            unwritable
          )
        )
      )
      if (failed) return yield* unwritable()
    })
  return { append, head: Effect.sync(() => head) }
})

export type VaultLog = Effect.Effect.Success<ReturnType<typeof open>>

/**
 * The vault's log of the keys it opened, independent of the audit trail: one line of JSON per key, on disk before the
 * key leaves. A line's `hash` is SHA-256 of the hash before it and the line without its `hash`. So a changed, dropped
 * or moved line is detected, but not a missing end of the file. A full file is renamed to `<name>-<last seq>.jsonl`.
 * The first line of the next file contains the last hash.
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

/** The log was altered. `line` counts from 1. */
class VaultLogBroken extends Data.TaggedError("VaultLogBroken")<{
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

/** The head after a line that continues `head`. Null: the first line itself names the head before it. */
const follow = (before: Head | null, line: string): Option.Option<Head> =>
  Option.filterMap(decodeLine(line), ({ after, hash, seq }) => {
    const head = before ?? (after === undefined ? genesis : { seq: seq - 1, hash: after })
    if (!hashMember.test(line)) return Option.none()
    const expected = createHash("sha256").update(head.hash).update(line.replace(hashMember, "}")).digest("hex")
    return seq === head.seq + 1 && hash === expected ? Option.some({ seq, hash }) : Option.none()
  })

const chunk = 64 * 1024

/**
 * Verifies one file of the log, after `before` if given. Returns its end. A last line cut off by a crash does not
 * count.
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

/** Rotated files, oldest first. */
const rotatedFiles = Effect.fnUntraced(function* (file: string) {
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

/** Whether the vault of this log has ever handed out a key. */
export const isUsed = Effect.fnUntraced(function* (file: string) {
  const fs = yield* FileSystem.FileSystem
  if ((yield* rotatedFiles(file)).length > 0) return true
  return (yield* fs.exists(file)) && Number((yield* fs.stat(file)).size) > 0
})

/** Verifies the whole log, including rotated files, from its first line on. */
export const verify = Effect.fnUntraced(function* (file: string) {
  let head: Head = genesis
  for (const one of [...(yield* rotatedFiles(file)), file]) head = (yield* verifyFile(one, head)).head
  return head
})

const unwritable = () => new VaultUnavailable({ reason: "The vault cannot write its log." })

/**
 * Opens the log for appending, after a check of its newest file. The returned function appends events, and returns when
 * they are on disk. Concurrent callers share a write. `fullAt` is in bytes.
 */
export const open = Effect.fnUntraced(function* (file: string, fullAt = 64 * 1024 * 1024) {
  const fs = yield* FileSystem.FileSystem
  yield* fs.makeDirectory(dirname(file), { recursive: true, mode: 0o700 })
  const current = yield* verifyFile(file, null)
  // A file without a complete line continues the last rotated one.
  const last = current.bytes === 0 ? (yield* rotatedFiles(file)).at(-1) : undefined
  const end = last === undefined ? current : { ...current, head: (yield* verifyFile(last, null)).head }
  // A line cut off by a crash was never acknowledged: the chain continues before it.
  if (end.torn) yield* fs.truncate(file, FileSystem.Size(end.bytes))
  const scope = yield* Effect.scope
  const openNext = Effect.gen(function* () {
    const own = yield* Scope.fork(scope, ExecutionStrategy.sequential)
    const handle = yield* Scope.extend(fs.open(file, { flag: "a", mode: 0o600 }), own)
    // A power failure must not lose the name of a file with acknowledged lines.
    yield* Effect.scoped(Effect.flatMap(fs.open(dirname(file), { flag: "r" }), (folder) => folder.sync))
    return { scope: own, handle }
  })
  const one = yield* Effect.makeSemaphore(1)
  let head = end.head
  let bytes = end.bytes
  let openFile = yield* openNext
  let queue: Array<Event & { readonly at: number }> = []
  // After a failed write the file's content is unknown: the vault opens nothing until a restart has checked it.
  let hasFailed = false

  const flush = Effect.gen(function* () {
    const events = queue
    // Events after a failed write must not follow its half line.
    if (hasFailed) return yield* unwritable()
    // A concurrent write has included these events.
    if (events.length === 0) return
    queue = []
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
    yield* openFile.handle.writeAll(line)
    yield* openFile.handle.sync
    head = next
    bytes += line.length
    if (bytes < fullAt) return
    yield* Scope.close(openFile.scope, Exit.void)
    const { dir, ext, name } = parsePath(file)
    yield* fs.rename(file, join(dir, `${name}-${head.seq}${ext}`))
    bytes = 0
    openFile = yield* openNext
  })

  const append = (events: ReadonlyArray<Event>): Effect.Effect<void, VaultUnavailable> =>
    Effect.gen(function* () {
      if (hasFailed) return yield* unwritable()
      const at = yield* Clock.currentTimeMillis
      for (const event of events) queue.push({ ...event, at })
      // Uninterruptible: the write includes other callers' events.
      yield* Effect.uninterruptible(
        one.withPermits(1)(
          Effect.mapError(
            Effect.tapError(flush, () => Effect.sync(() => (hasFailed = true))),
            unwritable
          )
        )
      )
      if (hasFailed) return yield* unwritable()
    })
  return { append, head: Effect.sync(() => head) }
})

export type VaultLog = Effect.Effect.Success<ReturnType<typeof open>>

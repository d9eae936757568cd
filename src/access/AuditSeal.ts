/**
 * Vouching for the trail from outside the database (security page 3.9): heads of streams under the vault's MAC, and
 * signed checkpoints in a file. No request waits for it; while the vault is down it catches up later.
 *
 * A process seals only what it wrote itself: the head it has in memory. What stands in the database is never believed,
 * or a writer of the database could have a forgery sealed.
 */
import { isPlatformError, type PlatformError } from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { dirname } from "node:path"
import { AppConfig } from "#src/AppConfig.ts"
import * as Chain from "#src/audit/Chain.ts"
import * as Checkpoint from "#src/audit/Checkpoint.ts"
import * as SignedNote from "#src/audit/SignedNote.ts"
import { Verifier } from "#src/audit/Verify.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { inTime, Vault } from "#src/crypto/Vault.ts"
import { Audit } from "./Audit.ts"

/** Says of itself that it lives: how often, and when it is taken for dead (milliseconds). */
const heartbeat = 60_000
export const deadAfter = 300_000
/** Rows of `audit_seals` that did not move are looked at again this often. */
const fullPass = 600_000
const wallClock = Clock.make()

interface SealRow {
  readonly stream: string
  readonly seq: number
  readonly hash: Buffer
  readonly final: boolean
  readonly rootKeyId: string
  readonly mac: Buffer
}

/** The text as a note signed by the vault. */
export const signed = (vault: Vault["Type"], text: string) =>
  Effect.map(inTime(vault.signCheckpoint(new TextEncoder().encode(text))), ({ publicKey, rootKeyId, signature }) =>
    SignedNote.print(text, SignedNote.noteKey(Checkpoint.keyName(rootKeyId), publicKey), signature)
  )

export class AuditSeal extends Effect.Service<AuditSeal>()("access/AuditSeal", {
  scoped: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const vault = yield* Vault
    const audit = yield* Audit
    const crypto = yield* Crypto
    const config = yield* AppConfig
    const fs = yield* FileSystem.FileSystem

    /** What this process sealed last, by stream. */
    const sealed = new Map<string, Chain.Head>()
    const alarmed = new Set<string>()
    /** Told once per stream: the operator is to run the verifier. */
    const alarm = (stream: string, what: string) =>
      Effect.suspend(() => {
        if (alarmed.has(stream)) return Effect.void
        alarmed.add(stream)
        return Effect.logError(
          `The audit trail was altered: ${what}. It is not sealed; run \`ampoule audit verify\`.`
        ).pipe(Effect.annotateLogs({ stream }))
      })

    const put = Effect.fnUntraced(function* (head: Chain.Head, final: boolean) {
      const { mac, rootKeyId } = yield* inTime(vault.macAuditHead(Chain.sealText(head, final)))
      const now = new Date(yield* Clock.currentTimeMillis)
      const rows = yield* sql`
        INSERT INTO audit_seals (stream, seq, hash, final, root_key_id, mac, sealed_at, seen_at)
        VALUES (${head.stream}, ${head.seq}, ${head.hash}, ${final}, ${rootKeyId}, ${mac}, ${now}, ${now})
        ON CONFLICT (stream) DO UPDATE SET seq = excluded.seq, hash = excluded.hash, final = excluded.final,
          root_key_id = excluded.root_key_id, mac = excluded.mac, sealed_at = excluded.sealed_at, seen_at = excluded.seen_at
        WHERE NOT audit_seals.final AND audit_seals.seq <= excluded.seq
        RETURNING stream`
      return rows.length === 1
    })

    /** Whether an entry that was sealed is still there as it was, or was cut with leave. */
    const stands = ({ hash, seq, stream }: Chain.Head) =>
      seq === 0
        ? Effect.succeed(true)
        : Effect.map(
            sql<{ readonly hash: Buffer | null }>`
              SELECT hash FROM audit_entries WHERE stream = ${stream} AND seq = ${seq}
              UNION ALL SELECT NULL FROM audit_cuts WHERE stream = ${stream} AND seq >= ${seq}`,
            (rows) => rows.some((row) => row.hash === null || Chain.sameBytes(row.hash, hash))
          )

    const discard = (stream: string) => sql`DELETE FROM audit_seals WHERE stream = ${stream} AND seq = 0`

    /** Seals a head that this process knows to be its own. False: another process has closed the stream. */
    const sealOwn = Effect.fnUntraced(function* (head: Chain.Head, final: boolean) {
      const before = sealed.get(head.stream)
      if (before !== undefined && before.seq === head.seq && !final) return true
      if (before !== undefined && (head.seq < before.seq || !(yield* stands(before)))) {
        yield* alarm(head.stream, "entries that were sealed are gone or are others")
        return true
      }
      if (final && head.seq === 0) {
        yield* discard(head.stream)
        return true
      }
      if (!(yield* put(head, final))) return false
      sealed.set(head.stream, head)
      return true
    })

    const sealAll = Effect.fnUntraced(function* (final: boolean) {
      yield* audit.seals.taken
      const [readStream, writeStream] = yield* audit.seals.streams
      const read = yield* audit.seals.readHead
      const write = yield* audit.seals.writeHead
      if (write === undefined) yield* alarm(writeStream, "the head of a stream is not the one that this process wrote")
      // One that slept for long may have been taken for dead, also when it has nothing new to seal.
      const closed = yield* sql`
        SELECT 1 FROM audit_seals WHERE final AND stream = ANY(${[readStream, writeStream]}::uuid[])`
      let open = closed.length === 0
      for (const head of [read, write]) if (head !== undefined) open = (yield* sealOwn(head, final)) && open
      if (open) return
      yield* Effect.logWarning("The audit streams of this process were closed by another one; new ones are opened.")
      yield* audit.seals.renew
      sealed.delete(readStream)
      sealed.delete(writeStream)
    })

    let seenAt = 0
    const sayAlive = Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      if (now - seenAt < heartbeat) return
      yield* sql`UPDATE audit_seals SET seen_at = ${new Date(now)} WHERE stream = ANY(${[...(yield* audit.seals.streams)]}::uuid[])`
      seenAt = now
    })

    // --- other processes' streams ---

    const genuine = ({ final, hash, mac, rootKeyId, seq, stream }: SealRow) =>
      inTime(vault.auditHeadMatches(Chain.sealText({ stream, seq, hash }, final), { mac, rootKeyId }))

    const columns = sql.literal("stream, seq::float8 AS seq, hash, final, root_key_id, mac")

    /** Closes the streams of processes that ended without doing so: what they left unsealed is sealed, if it can be theirs. */
    const adopt = Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      // The embedded database has one process, so that every other one is dead.
      const since = new Date(Option.isNone(config.databaseUrl) ? now + heartbeat : now - deadAfter)
      const own = yield* audit.seals.streams
      const rows = yield* sql<SealRow>`
        SELECT ${columns} FROM audit_seals
        WHERE NOT final AND seen_at < ${since} AND stream <> ALL(${[...own]}::uuid[]) LIMIT 50`
      for (const row of rows) {
        if (alarmed.has(row.stream)) continue
        if (!(yield* genuine(row)) || !(yield* stands(row))) {
          yield* alarm(row.stream, "the seal of a stream is wrong, or what it covers is gone")
          continue
        }
        const tail = yield* sql<{ readonly seq: number; readonly hash: Buffer; readonly body: string }>`
          SELECT seq::float8 AS seq, hash, body FROM audit_entries
          WHERE stream = ${row.stream} AND seq > ${row.seq} ORDER BY seq LIMIT ${Chain.orphanEntries + 1}`
        const verifier = new Verifier({ expected: [], cuts: [], starts: new Map([[row.stream, row]]) })
        for (const entry of tail) verifier.add({ stream: row.stream, ...entry })
        const { from = 0, problemCount, to = 0 } = verifier.finish()
        if (problemCount > 0 || tail.length > Chain.orphanEntries || to - from > Chain.orphanMillis) {
          yield* alarm(row.stream, "entries that were never sealed do not look like those of a process that was killed")
          continue
        }
        const last = tail.at(-1)
        if (last === undefined && row.seq === 0) yield* discard(row.stream)
        else yield* put({ stream: row.stream, seq: last?.seq ?? row.seq, hash: last?.hash ?? row.hash }, true)
      }
    })

    /** After a rotation of the root key, so that the old one need not be kept for the seals. */
    const renewMacs = Effect.gen(function* () {
      const { rootKeyId: current } = yield* inTime(vault.status)
      const rows = yield* sql<SealRow>`SELECT ${columns} FROM audit_seals WHERE root_key_id <> ${current} LIMIT 500`
      for (const row of rows) {
        if (!(yield* genuine(row))) continue
        const made = yield* inTime(vault.macAuditHead(Chain.sealText(row, row.final)))
        yield* sql`
          UPDATE audit_seals SET root_key_id = ${made.rootKeyId}, mac = ${made.mac}
          WHERE stream = ${row.stream} AND seq = ${row.seq} AND final = ${row.final} AND mac = ${row.mac}`
      }
    })

    // --- checkpoints ---

    const file = Option.getOrUndefined(config.auditCheckpoints)
    let writer = Checkpoint.newWriter(yield* crypto.uuid)
    /** Heads that the file already names, and how far it was read. */
    const named = new Map<string, number>()
    let readTo = 0
    let lastPass = Number.NEGATIVE_INFINITY
    let lastLook = 0

    const readOn = Effect.fnUntraced(function* (path: string) {
      if (!(yield* fs.exists(path))) {
        readTo = 0
        named.clear()
        return
      }
      const { size } = yield* fs.stat(path)
      if (Number(size) === readTo) return
      // Shorter than before: it was replaced, so everything is named anew.
      if (Number(size) < readTo) {
        readTo = 0
        named.clear()
      }
      yield* fs.stream(path, { offset: FileSystem.Size(readTo) }).pipe(
        Stream.decodeText(),
        Stream.splitLines,
        Stream.runForEach((line) =>
          Effect.sync(() => {
            const [word, stream = "", seq = ""] = line.split(" ")
            if (word === "head" && Number(seq) > (named.get(stream) ?? 0)) named.set(stream, Number(seq))
          })
        )
      )
      readTo = Number(size)
    })

    /** Signs and appends; on disk when it returns. */
    const write = Effect.fnUntraced(function* (
      path: string,
      content: Pick<Checkpoint.Checkpoint, "heads" | "accepted">
    ) {
      const at = yield* Clock.currentTimeMillis
      const { next, text } = Checkpoint.text(writer, { at, ...content })
      const note = yield* signed(vault, text)
      yield* fs.makeDirectory(dirname(path), { recursive: true, mode: 0o700 })
      yield* Effect.scoped(
        Effect.gen(function* () {
          const handle = yield* fs.open(path, { flag: "a", mode: 0o600 })
          // In one write, so that processes that share the file do not mix their notes.
          yield* handle.writeAll(new TextEncoder().encode(`${note}\n`))
          yield* handle.sync
        })
      ).pipe(
        // What part of it stands there is not known: another writer begins at 1.
        Effect.tapError(() => Effect.map(crypto.uuid, (id) => (writer = Checkpoint.newWriter(id))))
      )
      writer = next
      for (const { seq, stream } of content.heads) named.set(stream, seq)
    })

    const checkpoint = Effect.fnUntraced(function* (path: string, force: boolean) {
      const now = yield* Clock.currentTimeMillis
      if (!force && (yield* fs.exists(path))) {
        const { mtime } = yield* fs.stat(path)
        const age = now - (Option.getOrUndefined(mtime)?.getTime() ?? 0)
        // Another process that shares the file was here just now.
        if (age >= 0 && age < Chain.anchorMillis * 0.8) return
      }
      yield* readOn(path)
      const whole = now - lastPass > fullPass
      const since = new Date(whole ? 0 : lastLook - 2 * heartbeat)
      const rows = yield* sql<SealRow>`
        SELECT ${columns} FROM audit_seals WHERE seq > 0 AND sealed_at >= ${since} ORDER BY stream`
      const heads: Array<Chain.Head> = []
      for (const row of rows) {
        if ((named.get(row.stream) ?? 0) >= row.seq) continue
        if (yield* genuine(row)) heads.push(row)
        else yield* alarm(row.stream, "the seal of a stream is wrong")
      }
      if (heads.length > 0) yield* write(path, { heads, accepted: [] })
      lastLook = now
      if (whole) lastPass = now
    })

    let unwritable = false
    /** The seals stand all the same; the operator is told once, and again after it worked in between. */
    const orWarn = <E, R>(work: Effect.Effect<void, E | PlatformError, R>) =>
      work.pipe(
        Effect.tap(() => Effect.sync(() => (unwritable = false))),
        Effect.tapError((error) => {
          const tell = !unwritable && isPlatformError(error)
          unwritable ||= tell
          return tell
            ? Effect.logWarning("Checkpoints of the audit trail cannot be written; check AMPOULE_AUDIT_CHECKPOINTS")
            : Effect.void
        })
      )

    const one = yield* Effect.makeSemaphore(1)
    let minute = 0

    const turn = (final: boolean, asked = final) =>
      Effect.gen(function* () {
        yield* sealAll(final)
        const now = yield* Clock.currentTimeMillis
        if (!final) yield* sayAlive
        if (!final && (minute === 0 || now - minute >= heartbeat)) {
          minute = now
          yield* adopt
          yield* renewMacs
        }
        if (file !== undefined) yield* orWarn(checkpoint(file, asked))
      }).pipe(one.withPermits(1))

    const quietly = <E>(work: Effect.Effect<void, E>) =>
      Effect.catchAllCause(work, (cause) => Effect.logDebug("The audit trail was not sealed; tried again soon", cause))

    yield* Effect.addFinalizer(() => quietly(turn(true)).pipe(Effect.interruptible, Effect.timeoutOption("5 seconds")))
    const pause = Effect.sleep(Chain.anchorMillis).pipe(Effect.withClock(wallClock))
    yield* quietly(turn(false)).pipe(
      Effect.zipRight(Effect.raceFirst(pause, audit.seals.due)),
      Effect.forever,
      Effect.forkScoped
    )

    return {
      /** Seals and signs what stands now. */
      now: turn(false, true),
      /** Signs that a restored database is to count, as it is. */
      accept: (accepted: ReadonlyArray<Checkpoint.Accepted>) =>
        file === undefined ? Effect.void : one.withPermits(1)(write(file, { heads: [], accepted })),
      /** For the operator's word: a head that nobody vouches for becomes the last of its stream. */
      close: (head: Chain.Head) => put(head, true)
    } as const
  })
}) {}

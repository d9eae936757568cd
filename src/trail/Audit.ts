/** The append-only trail (docs/contract/audit.md). No value leaves and no write commits without its entry. */
import * as SqlClient from "@effect/sql/SqlClient"
import type { SqlError } from "@effect/sql/SqlError"
import type * as Statement from "@effect/sql/Statement"
import * as Clock from "effect/Clock"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { identity } from "effect/Function"
import * as Option from "effect/Option"
import type { ParseError } from "effect/ParseResult"
import type { KeyObject } from "node:crypto"
import * as Chain from "#src/audit/Chain.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { methods } from "#src/Methods.ts"
import * as Metrics from "#src/telemetry/Metrics.ts"
import * as TransactionEnd from "#src/database/TransactionEnd.ts"
import { actorOf } from "./Actor.ts"
import * as Alarm from "#src/database/Alarm.ts"
import * as AuditEntry from "./Entry.ts"
import type { AuditEvent } from "./Entry.ts"
import * as AuditKey from "./TrailKey.ts"
import * as KeyLists from "./KeyLists.ts"
import * as SqlStreams from "./StreamRows.ts"
import * as Streams from "./Streams.ts"
import { dieWhenNotWritten } from "#src/database/Dependency.ts"
import * as DatabaseEpoch from "#src/database/DatabaseEpoch.ts"
import * as GroupCommit from "#src/database/GroupCommit.ts"
import * as Outbox from "./Outbox.ts"
import { RequestInfo, type RequestOrigin } from "#src/database/RequestInfo.ts"
import * as RowJournal from "#src/rows/RowJournal.ts"

/** Shorter than the time after which others take a process for dead. */
const silenceMillis = Chain.deadAfterMillis - 60_000
/** What was under way when a stream was left has ended by then, one way or the other. */
const settledMillis = 30_000

/** What webhooks are told of an entry: less than it says, and nothing of what was refused. */
const outboxMessagesOf = ({ at, event, id }: AuditEntry.Entry): ReadonlyArray<Outbox.OutboxMessage> => {
  const { action, outcome, teamId } = event
  if (outcome !== "allowed" || teamId === null || !Outbox.hasWebhookEvent(action)) return []
  return [{ id, at, action, team: teamId, event, actor: actorOf(event.actor) }]
}

const insideTransaction = Effect.contextWith((context: Context.Context<never>) =>
  context.unsafeMap.has(SqlClient.TransactionConnection.key)
)

// Each process writes streams of its own, so that no lock orders processes. Reads go group-committed through one with
// its head in memory; each write takes a stream that no other transaction holds, by the row of its head.
interface Needs {
  readonly sql: SqlClient.SqlClient
  readonly crypto: Crypto
  readonly own: Streams.OwnStreams
  readonly key: Effect.Effect<KeyObject>
  readonly storedLists: KeyLists.Stored
  /** Of the database; when it changed, what is known of it is looked up anew. */
  readonly epoch: () => number
  readonly alarm: Alarm.Alarm
  /** Open when enough entries came to seal before the time. */
  readonly due: Effect.Latch
  /** Entries since the last seal. */
  readonly unsealed: { count: number }
}

type CommittingNeeds = Needs & {
  readonly commit: (entries: ReadonlyArray<AuditEntry.Entry>) => Effect.Effect<void, SqlError | ParseError>
}

interface Parts extends Partial<Pick<AuditEntry.Entry, "keyList" | "rows">> {
  /** The request that the event is of; by default the one that is served. */
  readonly from?: RequestOrigin | undefined
}

const toEntry = Effect.fnUntraced(function* (
  { crypto, key }: Needs,
  event: AuditEvent,
  { from, keyList, rows }: Parts
) {
  const origin = from ?? (yield* RequestInfo)
  const at = yield* Clock.currentTimeMillis
  const entry: AuditEntry.Entry = { id: crypto.uuidAt(at), at, origin, event, key: yield* key, keyList, rows }
  return entry
})

const grew = ({ due, unsealed }: Needs, entries: number) => {
  unsealed.count += entries
  if (unsealed.count >= Chain.anchorEntries) due.unsafeOpen()
}

/** The hot statement of every read: typed here, since it returns no rows to decode. */
const insert = ({ sql }: Needs, stream: string, { head, rows }: ReturnType<typeof AuditEntry.link>) => sql`
  INSERT INTO audit_entries
    (stream, seq, id, at, team_id, project_id, environment_id, environment, actor_id, action, body, hash,
     key_list, mac)
  SELECT ${stream}::uuid, r.*, CASE WHEN r.seq = ${head.seq} THEN ${Chain.entryMac(rows[0].entry.key, head.hash)}::bytea END
  FROM unnest(
    ${rows.map((r) => r.seq)}::bigint[],
    ${rows.map((r) => r.entry.id)}::uuid[],
    ${rows.map((r) => new Date(r.entry.at).toISOString())}::timestamptz[],
    ${rows.map((r) => r.entry.event.teamId)}::uuid[],
    ${rows.map((r) => r.entry.event.projectId ?? null)}::uuid[],
    ${rows.map((r) => r.entry.event.environmentId ?? null)}::uuid[],
    ${rows.map((r) => r.entry.event.environment ?? null)}::text[],
    ${rows.map((r) => actorOf(r.entry.event.actor).id)}::text[],
    ${rows.map((r) => r.entry.event.action)}::text[],
    ${rows.map((r) => r.body)}::text[],
    ${rows.map((r) => r.hash)}::bytea[],
    ${rows.map(({ entry: { keyList } }) => (keyList === undefined ? null : Buffer.from(keyList, "hex")))}::bytea[]
  ) AS r (seq)`

/** `closeAt`: when the stream that is left may be closed; undefined: it was closed by another process. */
const leave = Effect.fnUntraced(function* (
  { crypto, due, own }: Needs,
  stream: Streams.ReadStream | Streams.WriteStream,
  closeAt: number | undefined
) {
  // The vault is to know the new stream before anything can happen to this process.
  if (Streams.leave(own, stream, yield* crypto.uuid, closeAt)) due.unsafeOpen()
})

/**
 * A process that could not say for long that it runs may have been taken for dead, and its streams closed: what comes
 * goes into new ones.
 */
const renewAfterSilence = (needs: Needs, now: number) =>
  Effect.suspend(() => {
    const { own } = needs
    if (own.aliveAt === undefined || now - own.aliveAt < silenceMillis) return Effect.void
    own.aliveAt = now
    const closeAt = now + settledMillis
    return Effect.forEach(Streams.all(own), (stream) => leave(needs, stream, closeAt), { discard: true })
  })

/** A stream that this process is writing does not end as it left it. */
const notOwn = (needs: Needs, stream: Streams.ReadStream | Streams.WriteStream, head: Streams.Position) =>
  Effect.zipRight(
    needs.alarm.raise(
      stream.id,
      head.seq < stream.committed.seq
        ? "entries that this process committed are gone: somebody deleted them, or the database went on from a standby or a copy that had not got them"
        : "a stream that this process writes holds an entry of somebody else"
    ),
    leave(needs, stream, 0)
  )

// --- reads and denials ---

/** Compares what the database holds with what this process wrote, and returns the stream to write on. */
const settleRead = Effect.fnUntraced(function* (needs: Needs, stream: Streams.ReadStream) {
  const head = Option.getOrElse(yield* SqlStreams.lastEntry(needs.sql)(stream.id), () => Streams.beginning(stream))
  if (Streams.isOwnRead(stream, head)) Streams.settleRead(stream, head)
  else yield* notOwn(needs, stream, head)
  return needs.own.read
})

const insertReads = (
  needs: Needs,
  stream: Streams.ReadStream,
  entries: ReadonlyArray<AuditEntry.Entry>,
  lists: ReadonlyArray<Buffer>
) =>
  Effect.suspend(() => {
    const linked = AuditEntry.link(entries, stream.id, stream.committed)
    const started = performance.now()
    Streams.attempt(stream, linked.head)
    return Effect.onExit(
      SqlStreams.behind(needs.sql, insert(needs, stream.id, linked), stream.id, linked.rows, lists),
      (exit) =>
        Effect.sync(() => {
          if (Exit.isFailure(exit)) {
            stream.uncertain = true
            return
          }
          Streams.settleRead(stream, linked.head)
          Metrics.auditCommitted(linked.rows.length, performance.now() - started)
          grew(needs, linked.rows.length)
        })
    )
  })

const listsOf = (entries: ReadonlyArray<AuditEntry.Entry>) =>
  new Map(entries.flatMap(({ event: { keys = [] }, keyList }) => (keyList === undefined ? [] : [[keyList, keys]])))

/** The lists first, where they are not known to be stored. */
const writeReads = (needs: Needs, stream: Streams.ReadStream, entries: ReadonlyArray<AuditEntry.Entry>) => {
  const lists = listsOf(entries)
  const hashes = [...lists.keys()].map((hash) => Buffer.from(hash, "hex"))
  return Effect.zipRight(
    KeyLists.store(needs.sql, needs.storedLists, lists),
    insertReads(needs, stream, entries, hashes)
  )
}

/** One after the other, so that the order of entries is the order of commits. */
const commitBatch = Effect.fnUntraced(function* (needs: Needs, batch: ReadonlyArray<ReadonlyArray<AuditEntry.Entry>>) {
  const { own } = needs
  yield* renewAfterSilence(needs, yield* Clock.currentTimeMillis)
  needs.epoch()
  const stream = own.read.uncertain ? yield* settleRead(needs, own.read) : own.read
  const entries = batch.flat()
  if (entries.length > 0) {
    yield* writeReads(needs, stream, entries).pipe(
      Effect.catchIf(SqlStreams.isElsewhere, () => {
        needs.storedLists.clear()
        return Effect.flatMap(settleRead(needs, stream), (current) => writeReads(needs, current, entries))
      })
    )
  }
  return batch.map(() => undefined)
})

/**
 * Commits the entries, together with those of concurrent requests, before it returns. For reads and denials, and
 * never inside a transaction: the entry would wait for a connection that the transaction may be holding.
 */
const record = Effect.fnUntraced(function* (needs: CommittingNeeds, ...events: ReadonlyArray<AuditEvent>) {
  if (events.length === 0) return
  if (yield* insideTransaction) return yield* Effect.dieMessage("an audit entry of its own inside a transaction")
  const listed: Array<AuditEntry.Entry> = []
  for (const event of events) listed.push(yield* toEntry(needs, event, { keyList: AuditEntry.keyListOf(event) }))
  yield* dieWhenNotWritten(needs.commit(listed))
})

// --- writes ---

interface Taken {
  readonly stream: Streams.WriteStream
  readonly head: Streams.Position
}

/** The stream of a head that is held, if this process wrote that head; else that is an alarm. */
const taken = Effect.fnUntraced(function* (needs: Needs, head: SqlStreams.HeadRow) {
  const stream = needs.own.writes.find(({ id }) => id === head.stream)
  if (stream === undefined) return undefined
  if (!head.followed && Streams.isOwnWrite(stream, head)) return { stream, head }
  yield* notOwn(needs, stream, head)
  return undefined
})

const readyStreams = ({ own }: Needs) => own.writes.filter(({ ready }) => ready)

/**
 * No stream is free. One that no transaction took yet is opened; else this one waits, and has the next ones find one
 * stream more, as soon as the vault knows it.
 */
const waitForHead = Effect.fnUntraced(function* (needs: Needs, now: number) {
  const { crypto, own, sql } = needs
  const ready = readyStreams(needs)
  const untouched = ready.find(Streams.isUntouched)
  const stream = untouched ?? ready[needs.unsealed.count % ready.length]
  if (untouched === undefined && ready.length === own.writes.length) {
    own.writes = [...own.writes, Streams.openWrite(yield* crypto.uuid, false)]
    needs.due.unsafeOpen()
  }
  const head = untouched === undefined ? yield* SqlStreams.lockedHead(sql)(stream.id) : Option.none()
  if (Option.isSome(head)) return head
  yield* SqlStreams.open(sql, stream.id, Streams.beginning(stream), now)
  return yield* SqlStreams.lockedHead(sql)(stream.id)
})

/** `again`: how often another stream may be tried. */
const takeHead: (needs: Needs, now: number, again: number) => Effect.Effect<Taken, SqlError | ParseError> =
  Effect.fnUntraced(function* (needs: Needs, now: number, again: number) {
    const ids = readyStreams(needs).map(({ id }) => id)
    const [free] = yield* SqlStreams.freeHead(needs.sql, ids)
    const head = free ?? Option.getOrUndefined(yield* waitForHead(needs, now))
    const found = head === undefined ? undefined : yield* taken(needs, head)
    if (found !== undefined) return found
    return again === 0
      ? yield* Effect.dieMessage("every stream of the audit trail is written by somebody else")
      : yield* takeHead(needs, now, again - 1)
  })

export interface Merged {
  /** Data-modifying parts of a WITH that change what the entries tell of; undefined: nothing changes. */
  readonly changes: Statement.Fragment | undefined
  /** What `freeHead` took earlier in this transaction. */
  readonly head: SqlStreams.HeadRow | undefined
  /** The request of each event, where the transaction is of several. */
  readonly origins?: ReadonlyArray<RequestOrigin>
  /** Nothing follows in this transaction, and nothing of it can fail any more (`TransactionEnd.ts`). */
  readonly ends?: boolean
}

/** In one statement with the changes that they tell of. */
const appendWith = Effect.fnUntraced(function* (
  needs: Needs,
  merged: Merged | undefined,
  events: ReadonlyArray<AuditEvent>
) {
  const { sql } = needs
  const run = merged?.ends === true ? TransactionEnd.last : identity
  if (events.length === 0) {
    if (merged?.changes !== undefined) yield* run(sql`WITH ${merged.changes} SELECT 1`)
    return
  }
  const changes = merged?.changes === undefined ? sql`` : sql`${merged.changes},`
  const rows = yield* RowJournal.takeFor(events)
  const entries: Array<AuditEntry.Entry> = []
  for (const [i, event] of events.entries()) {
    entries.push(yield* toEntry(needs, event, { from: merged?.origins?.[i], rows: rows[i] }))
  }
  const now = yield* Clock.currentTimeMillis
  yield* renewAfterSilence(needs, now)
  const own = merged?.head === undefined ? undefined : yield* taken(needs, merged.head)
  const { head, stream } = own ?? (yield* takeHead(needs, now, 1))
  const linked = AuditEntry.link(entries, stream.id, head)
  Streams.written(stream, linked.head)
  const told = entries.flatMap(outboxMessagesOf)
  const outbox = told.length === 0 ? sql`` : sql`told AS (${Outbox.enqueue(sql, told)}),`
  yield* run(sql`
    WITH ${changes} ${outbox} entries AS (${insert(needs, stream.id, linked)})
    ${SqlStreams.move(sql, stream.id, linked.head)}`)
  grew(needs, linked.rows.length)
}, dieWhenNotWritten)

/**
 * Adds the entries to the caller's transaction: they commit with the change or not at all. Call it last, since it
 * holds the head of the stream until the transaction ends.
 */
const append = Effect.fnUntraced(function* (needs: Needs, ...events: ReadonlyArray<AuditEvent>) {
  yield* appendWith(needs, undefined, events)
})

/** A SELECT that takes the head of a stream that is free, for `Merged`: no row when all of them are held. */
const freeHead = (needs: Needs) =>
  SqlStreams.freeHead(
    needs.sql,
    readyStreams(needs).map(({ id }) => id)
  )

// --- for the service that has heads sealed ---

const sealsTaken = ({ due, unsealed }: Needs) =>
  Effect.sync(() => {
    unsealed.count = 0
    due.unsafeClose()
  })

/** Reads the write stream's head; one that this process did not write is an alarm. */
const settleWrite = Effect.fnUntraced(function* (needs: Needs, stream: Streams.WriteStream) {
  const row = yield* SqlStreams.head(needs.sql)(stream.id)
  const head = Option.getOrElse(row, () => ({ ...Streams.beginning(stream), followed: false }))
  if (!head.followed && Streams.isOwnWrite(stream, head)) Streams.settleWrite(stream, head)
  else yield* notOwn(needs, stream, head)
})

/**
 * The heads of the streams that this process knows to be its own and committed, also while a commit is under way.
 * `look`: compare the read stream with the database although nothing failed.
 */
const ownHeads = Effect.fnUntraced(function* (needs: CommittingNeeds, look: boolean) {
  const { own } = needs
  if (look) own.read.uncertain = true
  // In the queue of commits, so that nothing moves meanwhile.
  if (own.read.uncertain) yield* needs.commit([])
  for (const stream of own.writes) yield* settleWrite(needs, stream)
  return Streams.all(own).map(Streams.headOf)
})

/** The vault knows these streams: transactions may take them. */
const known = ({ own }: Needs, streams: ReadonlyArray<string>) =>
  Effect.sync(() => {
    for (const stream of own.writes) if (streams.includes(stream.id)) stream.ready = true
  })

/** The last head of a stream left behind that is this process's own. */
const lastOwnHead = Effect.fnUntraced(function* ({ sql }: Needs, { stream }: Streams.LeftStream) {
  if (stream.kind === "write") {
    const written = yield* SqlStreams.lastWritten(sql, stream)
    if (Option.isSome(written)) Streams.settleWrite(stream, written.value)
  } else if (stream.uncertain) {
    const last = yield* SqlStreams.lastEntry(sql)(stream.id)
    if (Option.isSome(last) && Streams.isOwnRead(stream, last.value)) Streams.settleRead(stream, last.value)
  }
  return Streams.headOf(stream)
})

/** Whether this process wrote, or may have written, this entry as the last of a stream that it left. */
const wrote = (_: Needs, { stream }: Streams.LeftStream, position: Streams.Position) =>
  Effect.sync(() =>
    stream.kind === "read" ? Streams.isOwnRead(stream, position) : Streams.isOwnWrite(stream, position)
  )

const toClose = ({ own }: Needs, now: number) => Effect.sync(() => own.left.filter(({ closeAt }) => closeAt <= now))
const closed = ({ own }: Needs, left: Streams.LeftStream) =>
  Effect.sync(() => {
    own.left = own.left.filter((one) => one !== left)
  })

/** A stream that is not as this process left it, or that another process has closed, is written no more. */
const leaveAltered = (needs: Needs, stream: string, what: string) =>
  Effect.suspend(() => {
    const own = Streams.all(needs.own).find(({ id }) => id === stream)
    return Effect.zipRight(needs.alarm.raise(stream, what), own === undefined ? Effect.void : leave(needs, own, 0))
  })
const leaveClosed = (needs: Needs, streams: ReadonlyArray<string>) =>
  Effect.forEach(
    Streams.all(needs.own).filter(({ id }) => streams.includes(id)),
    (stream) => leave(needs, stream, 0),
    { discard: true }
  )

export class Audit extends Effect.Service<Audit>()("trail/Audit", {
  effect: Effect.gen(function* () {
    const crypto = yield* Crypto
    const own: Streams.OwnStreams = {
      read: Streams.openRead(yield* crypto.uuid),
      writes: [Streams.openWrite(yield* crypto.uuid)],
      left: [],
      aliveAt: undefined
    }
    const storedLists: KeyLists.Stored = new Set()
    const needs: Needs = {
      sql: yield* SqlClient.SqlClient,
      crypto,
      own,
      key: yield* AuditKey.shared,
      storedLists,
      epoch: yield* DatabaseEpoch.watch(() => {
        storedLists.clear()
        own.read.uncertain = true
      }),
      alarm: Alarm.make(),
      due: Effect.unsafeMakeLatch(),
      unsealed: { count: 0 }
    }
    const commit = yield* GroupCommit.make({
      maxBatch: 256,
      maxInFlight: 1,
      run: (batch: ReadonlyArray<ReadonlyArray<AuditEntry.Entry>>) => commitBatch(needs, batch)
    })
    const seals = {
      ...methods(
        { ...needs, commit },
        { ownHeads, known, toClose, lastOwnHead, wrote, closed, leaveAltered, leaveClosed }
      ),
      alarm: needs.alarm,
      proves: Effect.map(needs.key, Chain.proves),
      /** Waits until enough entries came to seal before the time. */
      due: needs.due.await,
      taken: sealsTaken(needs),
      /** The stream of reads, then those of writes. */
      streams: Effect.sync(() => Streams.all(own).map(({ id }) => id)),
      /** Streams that this process wrote and has still to close. */
      leftStreams: Effect.sync(() => own.left.map(({ stream }) => stream.id)),
      alive: (at: number) => Effect.sync(() => void (own.aliveAt = at))
    }
    return { ...methods({ ...needs, commit }, { record, append, appendWith, freeHead }), seals } as const
  })
}) {}

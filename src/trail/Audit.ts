/** The append-only trail (docs/contract/audit.md). No value leaves and no write commits without its entry. */
import * as SqlClient from "@effect/sql/SqlClient"
import type { SqlError } from "@effect/sql/SqlError"
import type * as Statement from "@effect/sql/Statement"
import * as Clock from "effect/Clock"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { identity } from "effect/Function"
import * as Chain from "#src/audit/Chain.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { methods } from "#src/Methods.ts"
import * as Metrics from "#src/telemetry/Metrics.ts"
import * as Transaction from "#src/database/Transaction.ts"
import * as Alarm from "#src/database/Alarm.ts"
import * as Entry from "./Entry.ts"
import type { AuditEvent } from "./Entry.ts"
import type { KeyRing } from "#src/crypto/KeyRing.ts"
import * as TrailKey from "./TrailKey.ts"
import * as KeyLists from "./KeyLists.ts"
import * as StreamRows from "./StreamRows.ts"
import * as Streams from "./Streams.ts"
import { notWritten } from "#src/database/Dependency.ts"
import * as DatabaseEpoch from "#src/database/DatabaseEpoch.ts"
import * as GroupCommit from "#src/database/GroupCommit.ts"
import * as Outbox from "./Outbox.ts"
import { RequestInfo, type RequestOrigin } from "#src/database/RequestInfo.ts"
import * as RowJournal from "#src/rows/RowJournal.ts"

/** Shorter than the silence after which other processes assume that this one is dead. */
const silenceMillis = Chain.deadAfterMillis - 60_000
/** Grace period for transactions in flight when a stream is abandoned. */
const transactionGraceMillis = 30_000

/** The webhook messages of an entry. They omit some members, and refused actions have none. */
const outboxMessagesOf = ({ at, event, id }: Entry.Entry): ReadonlyArray<Outbox.OutboxMessage> => {
  const { action, outcome, teamId } = event
  if (outcome !== "allowed" || teamId === null || !Outbox.hasWebhookEvent(action)) return []
  return [{ id, at, action, team: teamId, event, actor: Entry.actorOf(event.actor) }]
}

const insideTransaction = Effect.contextWith((context: Context.Context<never>) =>
  context.unsafeMap.has(SqlClient.TransactionConnection.key)
)

// Each process writes its own streams, so that processes need no common lock. Reads go through one stream, in groups,
// with its head in memory. Each write locks the head of a stream that no other transaction uses.
interface Needs {
  readonly sql: SqlClient.SqlClient
  readonly crypto: Crypto
  readonly own: Streams.OwnStreams
  readonly ring: Effect.Effect<KeyRing>
  readonly storedLists: KeyLists.StoredHashes
  /** The database's epoch. A look at it drops stale knowledge after a change. */
  readonly epoch: () => number
  readonly alarm: Alarm.Alarm
  /** Opens when enough entries need a seal ahead of schedule. */
  readonly due: Effect.Latch
  /** `count`: entries since the last seal. */
  readonly unsealed: { count: number }
}

type CommittingNeeds = Needs & {
  readonly commit: (entries: ReadonlyArray<Entry.Entry>) => Effect.Effect<void, SqlError>
}

interface EntryParts extends Partial<Pick<Entry.Entry, "keyList" | "rows">> {
  /** The request of the event; by default the current one. */
  readonly from?: RequestOrigin | undefined
}

const toEntry = Effect.fnUntraced(function* (
  { crypto, ring }: Needs,
  event: AuditEvent,
  { from, keyList, rows }: EntryParts
) {
  const origin = from ?? event.from ?? (yield* RequestInfo)
  const at = yield* Clock.currentTimeMillis
  const entry: Entry.Entry = { id: crypto.uuidAt(at), at, origin, event, key: (yield* ring).newest, keyList, rows }
  return entry
})

const countEntries = ({ due, unsealed }: Needs, entries: number) => {
  unsealed.count += entries
  if (unsealed.count >= Chain.anchorEntries) due.unsafeOpen()
}

/** The hot statement of every read. It returns no rows, so it needs no decoder. */
const insert = ({ sql }: Needs, stream: string, { head, rows }: ReturnType<typeof Entry.link>) => sql`
  INSERT INTO audit_entries
    (stream, seq, id, at, team_id, project_id, environment_id, environment, actor_id, action, body, hash,
     key_list, mac)
  SELECT ${stream}::uuid, r.*, CASE WHEN r.seq = ${head.seq} THEN ${Entry.macOf(rows[0].entry.key, head.hash)}::bytea END
  FROM unnest(
    ${rows.map((r) => r.seq)}::bigint[],
    ${rows.map((r) => r.entry.id)}::uuid[],
    ${rows.map((r) => new Date(r.entry.at).toISOString())}::timestamptz[],
    ${rows.map((r) => r.entry.event.teamId)}::uuid[],
    ${rows.map((r) => r.entry.event.projectId ?? null)}::uuid[],
    ${rows.map((r) => r.entry.event.environmentId ?? null)}::uuid[],
    ${rows.map((r) => r.entry.event.environment ?? null)}::text[],
    ${rows.map((r) => Entry.actorOf(r.entry.event.actor).id)}::text[],
    ${rows.map((r) => r.entry.event.action)}::text[],
    ${rows.map((r) => r.body)}::text[],
    ${rows.map((r) => r.hash)}::bytea[],
    ${rows.map(({ entry: { keyList } }) => (keyList === undefined ? null : Buffer.from(keyList, "hex")))}::bytea[]
  ) AS r (seq)`

/** `closeAt` is the time when the abandoned stream may be closed. Undefined: another process has closed it. */
const rotateStream = Effect.fnUntraced(function* (
  { crypto, due, own }: Needs,
  stream: Streams.ReadStream | Streams.WriteStream,
  closeAt: number | undefined
) {
  // Wakes the sealing, so that the vault learns of the new stream before this process can fail.
  if (Streams.retire(own, stream, yield* crypto.uuid, closeAt)) due.unsafeOpen()
})

/**
 * After a long silence, others may have assumed that this process is dead, and closed its streams. New entries then go
 * into new streams.
 */
const renewAfterSilence = (needs: Needs, now: number) =>
  Effect.suspend(() => {
    const { own } = needs
    if (own.aliveAt === undefined || now - own.aliveAt < silenceMillis) return Effect.void
    own.aliveAt = now
    const closeAt = now + transactionGraceMillis
    return Effect.forEach(Streams.all(own), (stream) => rotateStream(needs, stream, closeAt), { discard: true })
  })

/** Raises an alarm: a stream of this process does not end with an entry of this process. */
const reportForeignHead = (needs: Needs, stream: Streams.ReadStream | Streams.WriteStream, head: Streams.Position) =>
  Effect.zipRight(
    needs.alarm.raise(
      stream.id,
      head.seq < stream.committed.seq
        ? "entries that this process committed are gone: they were deleted, or the database continues from a standby or copy that lacked them"
        : "a stream that this process writes holds an entry of another writer"
    ),
    rotateStream(needs, stream, 0)
  )

// --- reads and denials ---

/** Compares the database with the entries of this process, and returns the stream to write on. */
const settleRead = Effect.fnUntraced(function* (needs: Needs, stream: Streams.ReadStream) {
  const head = (yield* StreamRows.lastEntry(needs.sql)(stream.id)) ?? Streams.beginning(stream)
  if (Streams.isOwnRead(stream, head)) Streams.settleRead(stream, head)
  else yield* reportForeignHead(needs, stream, head)
  return needs.own.read
})

const insertReads = (
  needs: Needs,
  stream: Streams.ReadStream,
  entries: ReadonlyArray<Entry.Entry>,
  lists: ReadonlyArray<Buffer>
) =>
  Effect.suspend(() => {
    const linked = Entry.link(entries, stream.id, stream.committed)
    const started = performance.now()
    Streams.attempt(stream, linked.head)
    return Effect.onExit(
      StreamRows.insertAfter(needs.sql, insert(needs, stream.id, linked), stream.id, linked.rows, lists),
      (exit) =>
        Effect.sync(() => {
          if (Exit.isFailure(exit)) {
            stream.uncertain = true
            return
          }
          Streams.settleRead(stream, linked.head)
          Metrics.auditCommitted(linked.rows.length, performance.now() - started)
          countEntries(needs, linked.rows.length)
        })
    )
  })

const listsOf = (entries: ReadonlyArray<Entry.Entry>) =>
  new Map(entries.flatMap(({ event: { keys = [] }, keyList }) => (keyList === undefined ? [] : [[keyList, keys]])))

/** Stores the key lists first, unless they are known to exist. */
const writeReads = (needs: Needs, stream: Streams.ReadStream, entries: ReadonlyArray<Entry.Entry>) => {
  const lists = listsOf(entries)
  const hashes = [...lists.keys()].map((hash) => Buffer.from(hash, "hex"))
  const inserted = insertReads(needs, stream, entries, hashes)
  const areStored = [...lists.keys()].every((hash) => needs.storedLists.has(hash))
  return areStored ? inserted : Effect.zipRight(KeyLists.store(needs.sql, needs.storedLists, lists), inserted)
}

/** Runs one batch at a time, so that entries commit in their order. */
const commitBatch = Effect.fnUntraced(function* (needs: Needs, batch: ReadonlyArray<ReadonlyArray<Entry.Entry>>) {
  const { own } = needs
  yield* renewAfterSilence(needs, yield* Clock.currentTimeMillis)
  needs.epoch()
  const stream = own.read.uncertain ? yield* settleRead(needs, own.read) : own.read
  const entries = batch.flat()
  if (entries.length > 0) {
    yield* writeReads(needs, stream, entries).pipe(
      Effect.catchIf(StreamRows.isStreamConflict, () => {
        needs.storedLists.clear()
        return Effect.flatMap(settleRead(needs, stream), (current) => writeReads(needs, current, entries))
      })
    )
  }
  return batch.map(() => undefined)
})

/**
 * Commits the entries, together with those of concurrent requests, before it returns. For reads and denials. Never call
 * it inside a transaction: the entry would wait for a connection, and the transaction may hold the last one.
 */
const record = Effect.fnUntraced(function* (needs: CommittingNeeds, ...events: ReadonlyArray<AuditEvent>) {
  if (events.length === 0) return
  if (yield* insideTransaction) return yield* Effect.dieMessage("audit.record inside a transaction")
  const entries: Array<Entry.Entry> = []
  for (const event of events) entries.push(yield* toEntry(needs, event, { keyList: Entry.keyListOf(event) }))
  yield* Effect.orDieWith(needs.commit(entries), notWritten)
})

// --- writes ---

interface OwnHead {
  readonly stream: Streams.WriteStream
  readonly head: Streams.Position
}

/** The stream of a locked head, if this process wrote that head. Otherwise it raises an alarm. */
const ownStreamOf = Effect.fnUntraced(function* (needs: Needs, head: StreamRows.HeadRow) {
  const stream = needs.own.writes.find(({ id }) => id === head.stream)
  if (stream === undefined) return undefined
  if (!head.followed && Streams.isOwnWrite(stream, head)) return { stream, head }
  yield* reportForeignHead(needs, stream, head)
  return undefined
})

const readyStreams = ({ own }: Needs) => own.writes.filter(({ ready }) => ready)

/**
 * Runs when no stream is free. It opens a stream that no transaction has used yet, or else waits for one. In that case
 * it also adds a stream for later writes, once the vault knows it.
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
  const head = untouched === undefined ? yield* StreamRows.lockedHead(sql)(stream.id) : undefined
  if (head !== undefined) return head
  yield* StreamRows.open(sql, stream.id, Streams.beginning(stream), now)
  return yield* StreamRows.lockedHead(sql)(stream.id)
})

/** `retries` is the number of further streams to try. */
const lockHead: (needs: Needs, now: number, retries: number) => Effect.Effect<OwnHead, SqlError> = Effect.fnUntraced(
  function* (needs: Needs, now: number, retries: number) {
    const ids = readyStreams(needs).map(({ id }) => id)
    const [free] = yield* StreamRows.freeHead(needs.sql, ids)
    const head = free ?? (yield* waitForHead(needs, now))
    const own = head === undefined ? undefined : yield* ownStreamOf(needs, head)
    if (own !== undefined) return own
    return retries === 0
      ? yield* Effect.dieMessage("another writer uses every stream of the audit trail")
      : yield* lockHead(needs, now, retries - 1)
  }
)

interface AppendOptions {
  /** Data-modifying parts of a WITH, the changes that the entries record. Undefined: no changes. */
  readonly changes: Statement.Fragment | undefined
  /** The head that `freeHead` locked earlier in this transaction. */
  readonly head: StreamRows.HeadRow | undefined
  /** The request of each event, if the transaction serves several. */
  readonly origins?: ReadonlyArray<RequestOrigin>
  /** Whether this is the last statement, after which the transaction cannot fail (`Transaction.ts`). */
  readonly ends?: boolean
}

const noRows: ReadonlyArray<ReadonlyArray<string>> = []

/** The member `rows` of each entry. Without changes, only entries of journaled actions have it. */
const rowsOf = (events: ReadonlyArray<AuditEvent>) =>
  Effect.map(RowJournal.take, (changes) =>
    changes.length > 0 || events.some(({ action }) => RowJournal.journaledActions.has(action))
      ? RowJournal.listsOf(events, changes)
      : noRows
  )

/** Appends entries in one statement with the changes that they record. */
const appendWith = Effect.fnUntraced(function* (
  needs: Needs,
  options: AppendOptions | undefined,
  events: ReadonlyArray<AuditEvent>
) {
  const { sql } = needs
  const run = options?.ends === true ? Transaction.last : identity
  if (events.length === 0) {
    if (options?.changes !== undefined) yield* run(sql`WITH ${options.changes} SELECT 1`)
    return
  }
  const changes = options?.changes === undefined ? sql`` : sql`${options.changes},`
  const rows = yield* rowsOf(events)
  const entries: Array<Entry.Entry> = []
  for (const [i, event] of events.entries()) {
    entries.push(yield* toEntry(needs, event, { from: options?.origins?.[i], rows: rows[i] }))
  }
  const now = yield* Clock.currentTimeMillis
  yield* renewAfterSilence(needs, now)
  const own = options?.head === undefined ? undefined : yield* ownStreamOf(needs, options.head)
  const { head, stream } = own ?? (yield* lockHead(needs, now, 1))
  const linked = Entry.link(entries, stream.id, head)
  Streams.noteWrite(stream, linked.head)
  const messages = entries.flatMap(outboxMessagesOf)
  const outbox = messages.length === 0 ? sql`` : sql`messages AS (${Outbox.enqueue(sql, messages)}),`
  yield* run(sql`
    WITH ${changes} ${outbox} entries AS (${insert(needs, stream.id, linked)})
    ${StreamRows.move(sql, stream.id, linked.head)}`)
  countEntries(needs, linked.rows.length)
}, Effect.orDieWith(notWritten))

/**
 * Adds the entries to the caller's transaction: they commit with the change or not at all. Call it last, since it locks
 * the head of the stream until the transaction ends.
 */
const append = Effect.fnUntraced(function* (needs: Needs, ...events: ReadonlyArray<AuditEvent>) {
  yield* appendWith(needs, undefined, events)
})

/** A SELECT that locks the head of a free stream, for `AppendOptions`. It returns no row when all are locked. */
const freeHead = (needs: Needs) =>
  StreamRows.freeHead(
    needs.sql,
    readyStreams(needs).map(({ id }) => id)
  )

// --- for the service that has heads sealed ---

const resetDue = ({ due, unsealed }: Needs) =>
  Effect.sync(() => {
    unsealed.count = 0
    due.unsafeClose()
  })

/** Reads the write stream's head, and raises an alarm if this process did not write it. */
const settleWrite = Effect.fnUntraced(function* (needs: Needs, stream: Streams.WriteStream) {
  const row = yield* StreamRows.head(needs.sql)(stream.id)
  const head = row ?? { ...Streams.beginning(stream), followed: false }
  if (!head.followed && Streams.isOwnWrite(stream, head)) Streams.settleWrite(stream, head)
  else yield* reportForeignHead(needs, stream, head)
})

/**
 * The committed heads of this process's streams, even while a commit is in flight. `mustCompare` compares the read stream with
 * the database even after success.
 */
const ownHeads = Effect.fnUntraced(function* (needs: CommittingNeeds, mustCompare: boolean) {
  const { own } = needs
  if (mustCompare) own.read.uncertain = true
  // Waits in the queue of commits, so that the stream does not move meanwhile.
  if (own.read.uncertain) yield* needs.commit([])
  for (const stream of own.writes) yield* settleWrite(needs, stream)
  return Streams.all(own).map(Streams.headOf)
})

/** Marks streams that the vault knows as ready for transactions. */
const markReady = ({ own }: Needs, streams: ReadonlyArray<string>) =>
  Effect.sync(() => {
    for (const stream of own.writes) if (streams.includes(stream.id)) stream.ready = true
  })

/** The last head of an abandoned stream that this process wrote. */
const lastOwnHead = Effect.fnUntraced(function* ({ sql }: Needs, { stream }: Streams.RetiredStream) {
  if (stream.kind === "write") {
    const written = yield* StreamRows.lastCommitted(sql, stream)
    if (written !== undefined) Streams.settleWrite(stream, written)
  } else if (stream.uncertain) {
    const last = yield* StreamRows.lastEntry(sql)(stream.id)
    if (last !== undefined && Streams.isOwnRead(stream, last)) Streams.settleRead(stream, last)
  }
  return Streams.headOf(stream)
})

/** Whether this process wrote, or may have written, this entry as the last of an abandoned stream. */
const isOwnEnd = (_: Needs, { stream }: Streams.RetiredStream, position: Streams.Position) =>
  Effect.sync(() =>
    stream.kind === "read" ? Streams.isOwnRead(stream, position) : Streams.isOwnWrite(stream, position)
  )

const streamsToClose = ({ own }: Needs, now: number) =>
  Effect.sync(() => own.retired.filter(({ closeAt }) => closeAt <= now))
const forgetClosed = ({ own }: Needs, left: Streams.RetiredStream) =>
  Effect.sync(() => {
    own.retired = own.retired.filter((one) => one !== left)
  })

/** Stops writing a stream that another writer altered. */
const rotateAltered = (needs: Needs, stream: string, what: string) =>
  Effect.suspend(() => {
    const own = Streams.all(needs.own).find(({ id }) => id === stream)
    return Effect.zipRight(
      needs.alarm.raise(stream, what),
      own === undefined ? Effect.void : rotateStream(needs, own, 0)
    )
  })
const rotateClosed = (needs: Needs, streams: ReadonlyArray<string>) =>
  Effect.forEach(
    Streams.all(needs.own).filter(({ id }) => streams.includes(id)),
    (stream) => rotateStream(needs, stream, 0),
    { discard: true }
  )

export class Audit extends Effect.Service<Audit>()("trail/Audit", {
  effect: Effect.gen(function* () {
    const crypto = yield* Crypto
    const own: Streams.OwnStreams = {
      read: Streams.openRead(yield* crypto.uuid),
      writes: [Streams.openWrite(yield* crypto.uuid)],
      retired: [],
      aliveAt: undefined
    }
    const storedLists: KeyLists.StoredHashes = new Set()
    const needs: Needs = {
      sql: yield* SqlClient.SqlClient,
      crypto,
      own,
      ring: yield* TrailKey.shared,
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
      run: (batch: ReadonlyArray<ReadonlyArray<Entry.Entry>>) => commitBatch(needs, batch)
    })
    const seals = {
      ...methods(
        { ...needs, commit },
        { ownHeads, markReady, streamsToClose, lastOwnHead, isOwnEnd, forgetClosed, rotateAltered, rotateClosed }
      ),
      alarm: needs.alarm,
      proves: Effect.map(needs.ring, TrailKey.provedBy),
      /** Waits until enough entries need a seal ahead of schedule. */
      due: needs.due.await,
      resetDue: resetDue(needs),
      /** The stream of reads, then those of writes. */
      streams: Effect.sync(() => Streams.all(own).map(({ id }) => id)),
      /** Abandoned streams of this process that are not closed yet. */
      retiredStreams: Effect.sync(() => own.retired.map(({ stream }) => stream.id)),
      alive: (at: number) => Effect.sync(() => void (own.aliveAt = at))
    }
    return { ...methods({ ...needs, commit }, { record, append, appendWith, freeHead }), seals } as const
  })
}) {}

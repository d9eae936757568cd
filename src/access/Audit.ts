/** The append-only trail (decisions 10). No value leaves and no write commits without its entry. */
import * as SqlClient from "@effect/sql/SqlClient"
import type { SqlError } from "@effect/sql/SqlError"
import * as Clock from "effect/Clock"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type { AuditAction } from "#schema/Audit.ts"
import type { Caller } from "#schema/Caller.ts"
import type { EnvironmentId, ProjectId, TeamId } from "#schema/Ids.ts"
import * as Chain from "#src/audit/Chain.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import * as Metrics from "#src/telemetry/Metrics.ts"
import * as GroupCommit from "./GroupCommit.ts"
import * as Outbox from "./Outbox.ts"
import { RequestInfo, type RequestOrigin } from "./RequestInfo.ts"

export interface AuditEvent {
  /**
   * Who acted: the caller, a named person before a session exists (sign-in), a machine by the token that it gets, or the
   * service itself.
   */
  readonly actor:
    | Caller
    | { readonly userId: string; readonly email: string }
    | { readonly tokenId: string; readonly name: string }
    | "system"
  readonly action: AuditAction
  readonly outcome: "allowed" | "denied"
  /** Whose trail shows the entry; null = none (the entry still stands in its stream). */
  readonly teamId: TeamId | null
  readonly projectId?: ProjectId
  readonly environmentId?: EnvironmentId
  readonly environment?: string
  /** Key names, never values. */
  readonly keys?: ReadonlyArray<string>
  /** Of a write: the versions that `keys` have after it (of a deletion: had), in their order. */
  readonly versions?: ReadonlyArray<number>
  /** Of a write: the environment's revision after it. Orders writes, whatever the clocks of several hosts say. */
  readonly revision?: number
  /** What was acted on, where keys do not say it: a token, a member, a grant. */
  readonly target?: { readonly type: string; readonly id: string; readonly name: string }
  /** Error code of a denial; the reason given for revealing a value. */
  readonly reason?: string
}

interface Entry {
  readonly id: string
  readonly at: number
  readonly origin: RequestOrigin
  readonly event: AuditEvent
}

interface Head {
  readonly seq: number
  readonly hash: Buffer
}

export const actorOf = (
  actor: AuditEvent["actor"]
): { readonly id: string; readonly name: string; readonly type: string } => {
  if (actor === "system") return { id: "system", name: "system", type: "system" }
  if ("tokenId" in actor) return { id: actor.tokenId, name: actor.name, type: "api_token" }
  if ("userId" in actor) return { id: actor.userId, name: actor.email, type: "user" }
  switch (actor.kind) {
    case "api_token":
      return { id: actor.credentialId, name: actor.name ?? "", type: "api_token" }
    case "cli_grant":
      return { id: actor.credentialId, name: actor.user?.email ?? "", type: "cli_grant" }
    case "oauth_token":
      return { id: actor.credentialId, name: actor.name ?? "", type: "oauth_client" }
    case "session":
      return { id: actor.user?.id ?? "", name: actor.user?.email ?? "", type: "user" }
  }
}

/** RFC 8785 text of an entry: members are written in code-unit order, so plain JSON encoding is canonical. */
export const canonicalBody = (entry: Entry, stream: string, seq: number): string => {
  const { event, origin } = entry
  return JSON.stringify({
    action: event.action,
    actor: actorOf(event.actor),
    at: new Date(entry.at).toISOString(),
    environment: event.environment,
    environmentId: event.environmentId,
    id: entry.id,
    ip: origin.ip,
    keys: event.keys ?? [],
    outcome: event.outcome,
    project: event.projectId,
    reason: event.reason,
    requestId: origin.id,
    revision: event.revision,
    seq,
    stream,
    target:
      event.target === undefined
        ? undefined
        : { id: event.target.id, name: event.target.name, type: event.target.type },
    team: event.teamId,
    userAgent: origin.userAgent,
    versions: event.versions,
    via: origin.via
  })
}

/** What webhooks are told of an entry: less than it says, and nothing of what was refused. */
const toldOf = ({ at, event, id }: Entry): ReadonlyArray<Outbox.Told> => {
  const { action, outcome, teamId } = event
  if (outcome !== "allowed" || teamId === null || !Outbox.isTold(action)) return []
  return [{ id, at, action, team: teamId, event, actor: actorOf(event.actor) }]
}

const insideTransaction = Effect.contextWith((context: Context.Context<never>) =>
  context.unsafeMap.has(SqlClient.TransactionConnection.key)
)

/** The streams that this process writes, as it knows them itself: what the database says of them is not believed. */
interface Own {
  readonly readStream: string
  /** Undefined after a failure, until it is read back. */
  readHead: Head | undefined
  readonly writeStream: string
  /** Hashes given out by number; a transaction that was rolled back leaves one that never stood. */
  readonly written: Map<number, Array<Buffer>>
}

export class Audit extends Effect.Service<Audit>()("access/Audit", {
  effect: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const crypto = yield* Crypto

    // Each process writes streams of its own, so that no lock orders processes (security 3.9). Reads go group-committed
    // through one with its head in memory; writes go through one whose head row their transactions lock.
    const open = Effect.gen(function* () {
      const readStream = yield* crypto.uuid
      const made: Own = {
        readStream,
        readHead: { seq: 0, hash: Chain.genesis(readStream) },
        writeStream: yield* crypto.uuid,
        written: new Map()
      }
      return made
    })
    let own = yield* open
    const due = Effect.unsafeMakeLatch()
    let sinceSeal = 0
    const grew = (entries: number) => {
      sinceSeal += entries
      if (sinceSeal >= Chain.anchorEntries) due.unsafeOpen()
    }

    const toEntry = (event: AuditEvent): Effect.Effect<Entry> =>
      Effect.gen(function* () {
        const origin = yield* RequestInfo
        return { id: yield* crypto.uuid, at: yield* Clock.currentTimeMillis, origin, event }
      })

    const link = (entries: ReadonlyArray<Entry>, stream: string, head: Head) => {
      let { hash, seq } = head
      const rows = entries.map((entry) => {
        seq++
        const body = canonicalBody(entry, stream, seq)
        hash = Chain.chain(hash, body)
        return { entry, seq, body, hash }
      })
      return { rows, head: { seq, hash } }
    }

    const insert = (stream: string, rows: ReturnType<typeof link>["rows"]) => sql`
      INSERT INTO audit_entries
        (stream, seq, id, at, team_id, project_id, environment_id, environment, actor_id, action, body, hash)
      SELECT ${stream}::uuid, * FROM unnest(
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
        ${rows.map((r) => r.hash)}::bytea[]
      )`

    /** The last entry by the index: else a long stream is read whole, just when the database comes back. */
    const recoverHead = (stream: string) =>
      Effect.map(
        sql<{ readonly seq: number; readonly hash: Buffer }>`
          SELECT seq::float8 AS seq, hash FROM (
            (SELECT seq, hash FROM audit_entries WHERE stream = ${stream} ORDER BY seq DESC LIMIT 1)
            UNION ALL SELECT seq, hash FROM audit_cuts WHERE stream = ${stream}
          ) AS last ORDER BY last.seq DESC LIMIT 1`,
        (rows): Head => rows[0] ?? { seq: 0, hash: Chain.genesis(stream) }
      )
    const commit = yield* GroupCommit.make({
      maxBatch: 256,
      maxInFlight: 1,
      run: (batch: ReadonlyArray<ReadonlyArray<Entry>>): Effect.Effect<ReadonlyArray<void>, SqlError> =>
        Effect.gen(function* () {
          const mine = own
          const head = mine.readHead ?? (yield* recoverHead(mine.readStream))
          // Until the insert is known to stand, the head is unknown: after a failure it is read back, never guessed.
          mine.readHead = undefined
          const linked = link(batch.flat(), mine.readStream, head)
          const started = performance.now()
          yield* insert(mine.readStream, linked.rows)
          Metrics.auditCommitted(linked.rows.length, performance.now() - started)
          mine.readHead = linked.head
          grew(linked.rows.length)
          return batch.map(() => undefined)
        })
    })

    /**
     * Commits the entries, together with those of concurrent requests, before it returns. For reads and denials, and
     * never inside a transaction: the entry would wait for a connection that the transaction may be holding.
     */
    const record = Effect.fnUntraced(function* (...events: ReadonlyArray<AuditEvent>) {
      if (events.length === 0) return
      if (yield* insideTransaction) return yield* Effect.dieMessage("an audit entry of its own inside a transaction")
      yield* Effect.orDie(commit(yield* Effect.forEach(events, toEntry)))
    })

    /**
     * Adds the entries to the caller's transaction: they commit with the change or not at all. Call it last, since it
     * holds the head of the stream until the transaction ends.
     */
    const append = Effect.fnUntraced(function* (...events: ReadonlyArray<AuditEvent>) {
      if (events.length === 0) return
      const entries = yield* Effect.forEach(events, toEntry)
      const told = entries.flatMap(toldOf)
      if (told.length > 0) yield* Outbox.enqueue(sql, told)
      const { writeStream, written } = own
      const lockHead = sql<{ readonly seq: number; readonly hash: Buffer }>`
        SELECT seq::float8 AS seq, hash FROM audit_streams WHERE id = ${writeStream} FOR UPDATE`
      let rows = yield* lockHead
      if (rows.length === 0) {
        yield* sql`
          INSERT INTO audit_streams (id, seq, hash, created_at)
          VALUES (${writeStream}, 0, ${Chain.genesis(writeStream)}, ${new Date(entries[0].at)}) ON CONFLICT DO NOTHING`
        rows = yield* lockHead
      }
      const linked = link(entries, writeStream, rows[0])
      yield* insert(writeStream, linked.rows)
      yield* sql`UPDATE audit_streams SET seq = ${linked.head.seq}, hash = ${linked.head.hash} WHERE id = ${writeStream}`
      const { hash, seq } = linked.head
      written.set(seq, [...(written.get(seq) ?? []), hash])
      grew(linked.rows.length)
    }, Effect.orDie)

    /** For the service that has heads sealed. */
    const seals = {
      /** Waits until enough entries came to seal before the time. */
      due: due.await,
      taken: Effect.sync(() => {
        sinceSeal = 0
        due.unsafeClose()
      }),
      streams: Effect.sync(() => [own.readStream, own.writeStream] as const),
      /** Undefined: not known for certain just now. */
      readHead: Effect.sync((): Chain.Head | undefined =>
        own.readHead === undefined ? undefined : { stream: own.readStream, ...own.readHead }
      ),
      /** The write stream's head in the database, when this process wrote it; undefined when somebody else did. */
      writeHead: Effect.gen(function* () {
        const { writeStream, written } = own
        const [row] = yield* sql<Head>`SELECT seq::float8 AS seq, hash FROM audit_streams WHERE id = ${writeStream}`
        if (row === undefined) return { stream: writeStream, seq: 0, hash: Chain.genesis(writeStream) }
        const { hash, seq } = row
        if (written.get(seq)?.some((known) => known.equals(hash)) !== true) return undefined
        for (const earlier of written.keys()) if (earlier < seq) written.delete(earlier)
        const head: Chain.Head = { stream: writeStream, seq, hash }
        return head
      }),
      /** Another process took this one for dead and closed its streams: what comes goes into new ones. */
      renew: Effect.map(open, (fresh) => {
        own = fresh
      })
    }

    return { record, append, seals } as const
  })
}) {}

/** The append-only trail (decisions 10). No value leaves and no write commits without its entry. */
import { createHash } from "node:crypto"
import * as SqlClient from "@effect/sql/SqlClient"
import type { SqlError } from "@effect/sql/SqlError"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { AuditAction } from "#schema/Audit.ts"
import type { Caller } from "#schema/Caller.ts"
import type { EnvironmentId, ProjectId, TeamId } from "#schema/Ids.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import * as GroupCommit from "./GroupCommit.ts"
import { RequestInfo, type RequestOrigin } from "./RequestInfo.ts"

export interface AuditEvent {
  /** Who acted: the caller, a named person before a session exists (sign-in), or the service itself. */
  readonly actor: Caller | { readonly userId: string; readonly email: string } | "system"
  readonly action: AuditAction
  readonly outcome: "allowed" | "denied"
  /** Whose trail shows the entry; null = none (the entry still stands in its stream). */
  readonly teamId: TeamId | null
  readonly projectId?: ProjectId
  readonly environmentId?: EnvironmentId
  readonly environment?: string
  /** Key names, never values. */
  readonly keys?: ReadonlyArray<string>
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
    seq,
    stream,
    target:
      event.target === undefined
        ? undefined
        : { id: event.target.id, name: event.target.name, type: event.target.type },
    team: event.teamId,
    userAgent: origin.userAgent,
    via: origin.via
  })
}

/** h_0 of a stream; no entry can be relabelled as another stream's first. */
export const genesis = (stream: string): Buffer =>
  createHash("sha256").update("ampoule audit v1").update(stream).digest()

/** h_i = SHA-256(h_{i-1} || body): both ends are known lengths or the rest, so the join is injective. */
export const chain = (previous: Buffer, body: string): Buffer =>
  createHash("sha256").update(previous).update(body).digest()

export class Audit extends Effect.Service<Audit>()("access/Audit", {
  effect: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const crypto = yield* Crypto

    // Each process writes streams of its own, so that no lock orders processes (security 3.9). Reads go group-committed
    // through one with its head in memory; writes go through one whose head row their transactions lock.
    const readStream = yield* crypto.uuid
    const writeStream = yield* crypto.uuid

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
        hash = chain(hash, body)
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

    let readHead: Head | undefined = { seq: 0, hash: genesis(readStream) }
    const recoverHead = Effect.map(
      sql<{ readonly seq: number; readonly hash: Buffer }>`
        SELECT seq::float8 AS seq, hash FROM audit_entries WHERE stream = ${readStream} ORDER BY seq DESC LIMIT 1`,
      (rows): Head => rows[0] ?? { seq: 0, hash: genesis(readStream) }
    )
    const commit = yield* GroupCommit.make({
      maxBatch: 256,
      maxInFlight: 1,
      run: (batch: ReadonlyArray<ReadonlyArray<Entry>>): Effect.Effect<ReadonlyArray<void>, SqlError> =>
        Effect.gen(function* () {
          const head = readHead ?? (yield* recoverHead)
          // Until the insert is known to stand, the head is unknown: after a failure it is read back, never guessed.
          readHead = undefined
          const linked = link(batch.flat(), readStream, head)
          yield* insert(readStream, linked.rows)
          readHead = linked.head
          return batch.map(() => undefined)
        })
    })

    /** Commits the entries, together with those of concurrent requests, before it returns. For reads and denials. */
    const record = Effect.fnUntraced(function* (...events: ReadonlyArray<AuditEvent>) {
      if (events.length === 0) return
      yield* Effect.orDie(commit(yield* Effect.forEach(events, toEntry)))
    })

    /**
     * Adds the entries to the caller's transaction: they commit with the change or not at all. Call it last, since it
     * holds the head of the stream until the transaction ends.
     */
    const append = Effect.fnUntraced(function* (...events: ReadonlyArray<AuditEvent>) {
      if (events.length === 0) return
      const entries = yield* Effect.forEach(events, toEntry)
      const lockHead = sql<{ readonly seq: number; readonly hash: Buffer }>`
        SELECT seq::float8 AS seq, hash FROM audit_streams WHERE id = ${writeStream} FOR UPDATE`
      let rows = yield* lockHead
      if (rows.length === 0) {
        yield* sql`
          INSERT INTO audit_streams (id, seq, hash, created_at)
          VALUES (${writeStream}, 0, ${genesis(writeStream)}, ${new Date(entries[0].at)}) ON CONFLICT DO NOTHING`
        rows = yield* lockHead
      }
      const linked = link(entries, writeStream, rows[0])
      yield* insert(writeStream, linked.rows)
      yield* sql`UPDATE audit_streams SET seq = ${linked.head.seq}, hash = ${linked.head.hash} WHERE id = ${writeStream}`
    }, Effect.orDie)

    return { record, append } as const
  })
}) {}

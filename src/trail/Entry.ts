/** An entry of the trail: what it says, the text that is hashed, and its place behind the one before (docs/contract/audit.md). */
import type { KeyObject } from "node:crypto"
import type { AuditAction } from "#schema/Audit.ts"
import type { EnvironmentId, ProjectId, TeamId } from "#schema/Ids.ts"
import * as Chain from "#src/audit/Chain.ts"
import * as KeyList from "#src/audit/KeyList.ts"
import { type Actor, actorOf } from "./Actor.ts"
import type * as Streams from "./Streams.ts"
import type { RequestOrigin } from "#src/database/RequestInfo.ts"

export interface AuditEvent {
  readonly actor: Actor
  readonly action: AuditAction
  readonly outcome: "allowed" | "denied"
  /** Whose trail shows the entry; null = none (the entry still stands in its stream). */
  readonly teamId: TeamId | null
  readonly projectId?: ProjectId | undefined
  readonly environmentId?: EnvironmentId | undefined
  readonly environment?: string | undefined
  /** Key names, never values. */
  readonly keys?: ReadonlyArray<string> | undefined
  /** Of a read: the versions of `keys`. Of a write: those that they have after it (of a deletion: had). In their order. */
  readonly versions?: ReadonlyArray<number> | undefined
  /** Of a read: what else was handed out, inside of composed values; versions by key, in the order of keys. */
  readonly contains?: Readonly<Record<string, number>> | undefined
  /** The environment's: that a read saw, or after a write. Orders writes, whatever the clocks of several hosts say. */
  readonly revision?: number | undefined
  /** What was acted on, where keys do not say it: a token, a member, a grant. */
  readonly target?: { readonly type: string; readonly id: string; readonly name: string } | undefined
  /** Error code of a denial; the reason given for revealing a value. */
  readonly reason?: string | undefined
}

export interface Entry {
  readonly id: string
  readonly at: number
  readonly origin: RequestOrigin
  readonly event: AuditEvent
  /** Under which the end of its stream is proved. */
  readonly key: KeyObject
  /** Hash of the list that holds the event's keys, in hexadecimal. */
  readonly keyList: string | undefined
  readonly rows: ReadonlyArray<string> | undefined
}

/** Of a read's entry; versions stand beside their keys. */
export const keyListOf = ({ keys, versions }: AuditEvent): string | undefined =>
  versions === undefined ? KeyList.hashIfLong(keys) : undefined

/** RFC 8785 text of an entry: members are written in code-unit order, so plain JSON encoding is canonical. */
const canonicalBody = (entry: Entry, stream: string, seq: number): string => {
  const { event, origin } = entry
  return JSON.stringify({
    action: event.action,
    actor: actorOf(event.actor),
    at: new Date(entry.at).toISOString(),
    contains: event.contains,
    environment: event.environment,
    environmentId: event.environmentId,
    id: entry.id,
    ip: origin.ip,
    keyList: entry.keyList,
    // Also beside a list: releases before want the member.
    keys: entry.keyList === undefined ? (event.keys ?? []) : [],
    outcome: event.outcome,
    project: event.projectId,
    reason: event.reason,
    requestId: origin.id,
    revision: event.revision,
    rows: entry.rows,
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

/** The entries as they follow a head: their texts and hashes, and the head after them. */
export const link = (entries: ReadonlyArray<Entry>, stream: string, head: Streams.Position) => {
  let { hash, seq } = head
  const rows = entries.map((entry) => {
    seq++
    const body = canonicalBody(entry, stream, seq)
    hash = Chain.chain(hash, body)
    return { entry, seq, body, hash }
  })
  return { rows, head: { seq, hash } }
}

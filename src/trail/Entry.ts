/**
 * An entry of the trail: its actor, its members, its hashed text, and its link to the entry before
 * (docs/contract/audit.md).
 */
import type { AuditAction } from "#schema/Audit.ts"
import type { Caller } from "#schema/Caller.ts"
import type { EnvironmentId, ProjectId, TeamId } from "#schema/Ids.ts"
import * as Chain from "#src/audit/Chain.ts"
import * as KeyRing from "#src/crypto/KeyRing.ts"
import type * as Streams from "./Streams.ts"
import type { RequestOrigin } from "#src/database/RequestInfo.ts"

/** A caller, a person who is signing in, a machine by its new token, or the service itself. */
export type Actor =
  | Caller
  | { readonly userId: string; readonly email: string }
  | { readonly tokenId: string; readonly name: string }
  | "system"

export const actorOf = (actor: Actor) => {
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
    default:
      return { id: actor.user?.id ?? "", name: actor.user?.email ?? "", type: "user" }
  }
}

interface ComparedEnvironment {
  readonly environmentId: EnvironmentId
  readonly environment: string
  readonly revision: number
}

export interface AuditEvent {
  readonly actor: Actor
  readonly action: AuditAction
  readonly outcome: "allowed" | "denied"
  /** The team whose trail shows the entry. Null: no team, though the entry is in its stream. */
  readonly teamId: TeamId | null
  readonly projectId?: ProjectId | undefined
  readonly environmentId?: EnvironmentId | undefined
  readonly environment?: string | undefined
  /** Key names, never values. */
  readonly keys?: ReadonlyArray<string> | undefined
  /**
   * For a read, the versions of `keys`. For a write, their versions after it; for a deletion, before it. In the order
   * of `keys`.
   */
  readonly versions?: ReadonlyArray<number> | undefined
  /** For a read, secrets inside composed values: versions by key, in the order of keys. */
  readonly contains?: Readonly<Record<string, number>> | undefined
  /**
   * The environment's revision, during a read or after a write. It orders writes even if the clocks of hosts differ.
   */
  readonly revision?: number | undefined
  /**
   * For a write: whether the texts of `keys` came from the author, in the request. False: generated, copied or earlier
   * texts. Entries of before this member have none.
   */
  readonly typed?: boolean | undefined
  /** The further environments of a comparison. A reader sees those that it reaches. */
  readonly compared?: ReadonlyArray<ComparedEnvironment> | undefined
  /** True for a write of texts that the secrets had before: as another kind, or of a past moment. */
  readonly earlier?: boolean | undefined
  /** Of a proposed change: names the content that was revealed or approved. A MAC, which tests no guess. */
  readonly digest?: string | undefined
  /** The object of the action, where `keys` do not name it: a token, a member, a grant. */
  readonly target?: { readonly type: string; readonly id: string; readonly name: string } | undefined
  /** Error code of a denial, or the caller's reason for revealing a value. */
  readonly reason?: string | undefined
  /** The request that the event happened in, where it is not the one that writes the entry. */
  readonly from?: RequestOrigin | undefined
}

export interface Entry {
  readonly id: string
  readonly at: number
  readonly origin: RequestOrigin
  readonly event: AuditEvent
  /** Key of the MAC at the end of the stream. */
  readonly key: KeyRing.RingKey
  /** Hexadecimal hash of the list with the event's keys. */
  readonly keyList: string | undefined
  readonly rows: ReadonlyArray<string> | undefined
}

/** For writes and denials only: a read lists its versions beside its keys. */
export const keyListOf = ({ keys, versions }: AuditEvent): string | undefined =>
  versions === undefined ? Chain.hashIfLong(keys) : undefined

/** RFC 8785 text of an entry. Members are written in code-unit order, so plain JSON encoding is canonical. */
const canonicalBody = (entry: Entry, stream: string, seq: number): string => {
  const { event, origin } = entry
  return JSON.stringify({
    action: event.action,
    actor: actorOf(event.actor),
    at: new Date(entry.at).toISOString(),
    compared: event.compared?.map(({ environment, environmentId, revision }) => ({
      environment,
      environmentId,
      revision
    })),
    contains: event.contains,
    digest: event.digest,
    earlier: event.earlier,
    environment: event.environment,
    environmentId: event.environmentId,
    id: entry.id,
    ip: origin.ip,
    keyList: entry.keyList,
    // Present even with a list: earlier releases require the member.
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
    typed: event.typed,
    userAgent: origin.userAgent,
    versions: event.versions,
    via: origin.via
  })
}

/** Links the entries after a head: returns their texts and hashes, and the new head. */
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

/**
 * The last entry of each statement has a MAC of its hash, which covers the whole stream so far. Servers have the key,
 * but writers of the database do not. So only a server can extend a stream. The MAC is a separate column: readers
 * without the key ignore it.
 */
export const macOf = (key: KeyRing.RingKey, hash: Uint8Array): Buffer =>
  KeyRing.tagged(key, KeyRing.hmac(key, "audit entry").update(hash).digest())

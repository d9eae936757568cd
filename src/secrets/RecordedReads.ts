/** Reads of values that are recorded before they leave: the entry, the cached answer, a page of an environment. */
import * as Effect from "effect/Effect"
import type { Representation } from "#schema/Values.ts"
import type { Access } from "#src/access/Access.ts"
import type { EnvironmentPermit } from "#src/access/Permit.ts"
import type { RateLimiter } from "#src/limits/RateLimiter.ts"
import type { SealingKeys } from "#src/projects/SealingKeys.ts"
import type { RowSeal } from "#src/rows/RowSeal.ts"
import type { Exposure } from "#src/trail-use/Exposure.ts"
import type { AuditEvent } from "#src/trail/Entry.ts"
import * as OpenSecrets from "./OpenSecrets.ts"
import type { Built, CachedRead } from "./Snapshots.ts"

export interface ReadNeeds extends OpenSecrets.Caches {
  readonly access: Access
  readonly exposure: Exposure
  readonly limiter: RateLimiter
  readonly rowSeal: RowSeal
  readonly sealingKeys: SealingKeys
}
export interface Paging {
  readonly page: number
  readonly pageSize: number
}
export type ValuePermit = EnvironmentPermit<"secrets:run" | "secrets:read_values">

/** Commits the entry, then hands out the answer: no value leaves before its entry is committed. */
export const reveal = <A>(
  { audit }: ReadNeeds,
  permit: ValuePermit,
  answer: CachedRead<A>,
  { reason, target }: Pick<AuditEvent, "reason" | "target"> = {}
) => {
  const { contains, keys, revision, versions } = answer.read
  return Effect.as(audit.record(permit.event({ keys, versions, contains, revision, target, reason })), answer)
}

export const snapshotOf = <A, E, R>(
  { snapshots }: ReadNeeds,
  { target }: ValuePermit,
  what: string,
  build: () => Effect.Effect<Built<A>, E, R>
) => snapshots.get(target.environmentId, target.revision, what, build)

/** A page of values in this representation, and its part of the audit entry. */
export const openPage = Effect.fnUntraced(function* (
  needs: ReadNeeds,
  permit: ValuePermit,
  representation: Representation,
  { page, pageSize }: Paging
) {
  const opened = yield* OpenSecrets.page(needs, permit, { page, pageSize }, representation === "materialized")
  const { keys, revision, secrets, total } = opened
  return {
    keys,
    revision,
    secrets,
    texts: yield* OpenSecrets.represent(secrets, representation),
    read: OpenSecrets.readAt(revision, keys, secrets),
    paged: { page, pageSize, total, hasMore: page * pageSize < total }
  }
})

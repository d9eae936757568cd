/**
 * Data keys of environments, unwrapped by the vault and cached for a while as `KeyObject`s (docs/security.md).
 *
 * A key is dropped 300 s after the vault last unwrapped it, and within 30 s of its environment's deletion. While the
 * vault is down it keeps serving, for 15 min at most (docs/contract/outages.md). Rows are read by the caller's own
 * connection and only the vault's part is shared between callers: waiting for another request's query while holding a
 * connection would stop a pool of one for good.
 */
import { IntegrityFailure } from "#schema/Errors.ts"
import type { KeyContext } from "#schema/Vault.ts"
import type { VaultUnavailable } from "#schema/Vault.ts"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as DateTime from "effect/DateTime"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import * as Schema from "effect/Schema"
import type { KeyObject } from "node:crypto"
import type { Scope } from "effect/Scope"
import * as Housekeeping from "#src/Housekeeping.ts"
import { methods } from "#src/Methods.ts"
import { Crypto } from "./Crypto.ts"
import { inTime, Vault } from "./Vault.ts"

export interface EnvironmentRef {
  readonly teamId: string
  readonly projectId: string
  readonly environmentId: string
}

export interface DataKey {
  readonly id: string
  readonly generation: number
  readonly key: KeyObject
}

/**
 * Keys in the cache at most; the least recently used goes first. A key has one size: with its place in the cache it
 * takes at most 3.5 KB, all of them 35 MB.
 */
export const capacity = 10_000
/** Milliseconds. The jitter (up to a fifth, downwards) keeps keys that came together from going together. */
export const timeToLive = 300_000
export const hardLimit = 900_000
/** Pause before an unreachable vault is asked again for a key that is still in the cache. */
const retryAfter = 5_000
interface CachedKey extends DataKey {
  readonly environmentId: string
  readonly obtainedAt: number
  refreshAt: number
}

const DataKeyRow = Schema.Struct({
  id: Schema.String,
  generation: Schema.Number,
  rootKeyId: Schema.String,
  wrapped: Schema.Uint8ArrayFromSelf
})
type DataKeyRow = typeof DataKeyRow.Type
const decodeRows = Schema.decodeUnknown(Schema.Array(DataKeyRow))

export const contextOf = (environment: EnvironmentRef, keyId: string): KeyContext => ({
  purpose: "data-key",
  teamId: environment.teamId,
  projectId: environment.projectId,
  environmentId: environment.environmentId,
  keyId
})

interface Needs {
  readonly sql: SqlClient.SqlClient
  readonly vault: Vault["Type"]
  readonly crypto: Crypto
  /** Of the service: calls to the vault run in it. */
  readonly scope: Scope
  /** In order of last use, oldest first. */
  readonly cache: Map<string, CachedKey>
  readonly pending: Map<string, Deferred.Deferred<CachedKey, VaultUnavailable | IntegrityFailure>>
}

const keep = Effect.fnUntraced(function* (
  { cache }: Needs,
  environment: EnvironmentRef,
  row: Pick<DataKeyRow, "id" | "generation">,
  key: KeyObject
) {
  const now = yield* Clock.currentTimeMillis
  const lifetime = yield* Random.nextRange(0.8, 1)
  const entry: CachedKey = {
    id: row.id,
    generation: row.generation,
    key,
    environmentId: environment.environmentId,
    obtainedAt: now,
    refreshAt: now + timeToLive * lifetime
  }
  cache.delete(row.id)
  cache.set(row.id, entry)
  for (const oldest of cache.keys()) {
    if (cache.size <= capacity) break
    cache.delete(oldest)
  }
  return entry
})

/** The key, when it is in the cache and the vault need not be asked again. */
const fresh = ({ cache }: Needs, environment: EnvironmentRef, id: string, now: number): CachedKey | undefined => {
  const entry = cache.get(id)
  if (entry === undefined || now >= entry.refreshAt || now >= entry.obtainedAt + hardLimit) return undefined
  if (entry.environmentId !== environment.environmentId) return undefined
  cache.delete(id)
  cache.set(id, entry)
  return entry
}

const serveDuringOutage = Effect.fnUntraced(function* ({ cache }: Needs, id: string, outage: VaultUnavailable) {
  const now = yield* Clock.currentTimeMillis
  const entry = cache.get(id)
  if (entry === undefined) return yield* outage
  const end = entry.obtainedAt + hardLimit
  if (now >= end) {
    cache.delete(id)
    return yield* outage
  }
  entry.refreshAt = Math.min(now + retryAfter, end)
  return entry
})

/**
 * One call to the vault per key, however many wait for it. It runs in a fiber of the service: a caller that goes away
 * must not take the others' answer with it.
 */
const obtain = (needs: Needs, environment: EnvironmentRef, row: DataKeyRow) =>
  Effect.uninterruptibleMask(
    Effect.fnUntraced(function* (restore) {
      const { cache, pending, scope, vault } = needs
      const current = fresh(needs, environment, row.id, yield* Clock.currentTimeMillis)
      if (current !== undefined) return current
      const underWay = pending.get(row.id)
      if (underWay !== undefined) return yield* restore(Deferred.await(underWay))
      const answer = yield* Deferred.make<CachedKey, VaultUnavailable | IntegrityFailure>()
      pending.set(row.id, answer)
      yield* inTime(vault.unwrap(contextOf(environment, row.id), row.wrapped, row.rootKeyId)).pipe(
        Effect.flatMap((key) => keep(needs, environment, row, key)),
        Effect.catchTags({
          VaultUnavailable: (outage) => serveDuringOutage(needs, row.id, outage),
          INTEGRITY_FAILURE: (refusal) => Effect.suspend(() => (cache.delete(row.id), refusal))
        }),
        Effect.interruptible,
        Effect.onExit((exit) =>
          Effect.zipRight(
            Effect.sync(() => pending.delete(row.id)),
            Deferred.done(answer, exit)
          )
        ),
        Effect.forkIn(scope)
      )
      return yield* restore(Deferred.await(answer))
    })
  )

const activeRow = Effect.fnUntraced(function* ({ sql }: Needs, environment: EnvironmentRef) {
  const rows = yield* sql`
    SELECT id, generation, root_key_id, wrapped FROM data_keys
    WHERE environment_id = ${environment.environmentId} AND state = 'active'`
  return (yield* decodeRows(rows)).at(0)
})

/** None when another server was faster: its key is the active one. */
const create = Effect.fnUntraced(function* (needs: Needs, environment: EnvironmentRef) {
  const { crypto, sql, vault } = needs
  const id = yield* crypto.uuid
  const { key, rootKeyId, wrapped } = yield* inTime(vault.generateDataKey(contextOf(environment, id)))
  const rows = yield* sql`
    INSERT INTO data_keys (id, environment_id, generation, root_key_id, wrapped, state, created_at)
    SELECT ${id}::uuid, ${environment.environmentId}::uuid, coalesce(max(generation), 0) + 1, ${rootKeyId}, ${wrapped}::bytea,
      'active', ${DateTime.toDate(yield* DateTime.now)}::timestamptz
    FROM data_keys WHERE environment_id = ${environment.environmentId}
    ON CONFLICT DO NOTHING
    RETURNING id, generation, root_key_id, wrapped`
  const made = (yield* decodeRows(rows)).at(0)
  return made === undefined ? undefined : yield* keep(needs, environment, made, key)
})

/**
 * The key that seals new values of an environment, made on first use. Read from the database each time, so that a
 * rotation counts from its commit on.
 */
const active = Effect.fn("DataKeys.active")(
  function* (needs: Needs, environment: EnvironmentRef) {
    const find = Effect.flatMap(activeRow(needs, environment), (row) =>
      row === undefined ? Effect.succeed(undefined) : obtain(needs, environment, row)
    )
    const key: DataKey | undefined = (yield* find) ?? (yield* create(needs, environment)) ?? (yield* find)
    return key ?? (yield* Effect.dieMessage("an environment has neither an active data key nor room for one"))
  },
  Effect.catchTags({ SqlError: Effect.die, ParseError: Effect.die })
)

/**
 * The keys that stored values name, by id. An id that is not one of the environment's is `IntegrityFailure`, like a
 * wrapped key that was altered or moved.
 */
const byId = Effect.fnUntraced(
  function* (needs: Needs, environment: EnvironmentRef, ids: Iterable<string>) {
    const now = yield* Clock.currentTimeMillis
    const keys = new Map<string, DataKey>()
    const absent = new Set<string>()
    for (const id of ids) {
      const entry = fresh(needs, environment, id, now)
      if (entry === undefined) absent.add(id)
      else keys.set(id, entry)
    }
    if (absent.size === 0) return keys
    const rows = yield* decodeRows(
      yield* needs.sql`
        SELECT id, generation, root_key_id, wrapped FROM data_keys
        WHERE environment_id = ${environment.environmentId} AND id = ANY(${[...absent]}::uuid[])`
    )
    if (rows.length < absent.size) return yield* new IntegrityFailure()
    for (const row of rows) keys.set(row.id, yield* obtain(needs, environment, row))
    return keys
  },
  Effect.catchTags({ SqlError: Effect.die, ParseError: Effect.die })
)

/** Drops the cached keys of an environment: it was deleted, or its keys were. */
const forget = ({ cache }: Needs, environmentId: string) =>
  Effect.sync(() => {
    for (const entry of cache.values()) if (entry.environmentId === environmentId) cache.delete(entry.id)
  })

const decodeIds = Schema.decodeUnknown(Schema.Array(Schema.Struct({ id: Schema.String })))

/** Of the environments with cached keys, those that were deleted, here or by another process. */
const deleted = ({ cache, sql }: Needs) => {
  const ids = [...new Set([...cache.values()].map(({ environmentId }) => environmentId))]
  if (ids.length === 0) return Effect.succeed([])
  return sql`
    SELECT e.id FROM environments e JOIN projects p ON p.id = e.project_id
    WHERE e.id = ANY(${ids}::uuid[]) AND (e.deleted_at IS NOT NULL OR p.deleted_at IS NOT NULL)`.pipe(
    Effect.flatMap(decodeIds),
    // Without the database nothing is known of deletions; the keys go with their time.
    Effect.catchTags({ SqlError: () => Effect.succeed([]), ParseError: Effect.die })
  )
}

/** Keys that no request asks for must go too. Past their time they stay only while the vault is down. */
const sweep = Effect.fnUntraced(function* (needs: Needs) {
  const { cache, vault } = needs
  for (const { id } of yield* deleted(needs)) yield* forget(needs, id)
  const now = yield* Clock.currentTimeMillis
  const expired = [...cache.values()].filter((entry) => now >= entry.obtainedAt + timeToLive)
  if (expired.length === 0) return
  const vaultIsUp = yield* Effect.isSuccess(inTime(vault.status))
  for (const entry of expired) {
    if ((vaultIsUp || now >= entry.obtainedAt + hardLimit) && cache.get(entry.id) === entry) cache.delete(entry.id)
  }
})

export class DataKeys extends Effect.Service<DataKeys>()("crypto/DataKeys", {
  scoped: Effect.gen(function* () {
    const needs: Needs = {
      sql: yield* SqlClient.SqlClient,
      vault: yield* Vault,
      crypto: yield* Crypto,
      scope: yield* Effect.scope,
      cache: new Map(),
      pending: new Map()
    }
    yield* Housekeeping.every(
      "30 seconds",
      Effect.suspend(() => sweep(needs))
    )
    return {
      ...methods(needs, { active, byId, forget }),
      sweep: Effect.suspend(() => sweep(needs)),
      held: Effect.sync((): number => needs.cache.size)
    }
  })
}) {}

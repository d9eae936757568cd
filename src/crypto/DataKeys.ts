/**
 * Data keys of environments, unwrapped by the vault and cached as `KeyObject`s (docs/security.md). A key is dropped 300
 * s after its last unwrapping, and within 30 s of its environment's deletion. During an outage of the vault it stays
 * for at most 15 min (docs/contract/outages.md). Callers read rows on their own connection, and share only calls to the
 * vault. With a pool of one, a caller that held the connection while waiting for another caller's query would block
 * forever.
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
import * as Rows from "#src/database/Rows.ts"
import { Crypto } from "./Crypto.ts"
import * as BoundKeys from "./BoundKeys.ts"
import * as Instance from "./Instance.ts"
import { ServiceKeys } from "./ServiceKeys.ts"
import { inTime, Vault } from "./Vault.ts"

export interface EnvironmentRef {
  readonly teamId: string
  readonly projectId: string
  readonly environmentId: string
}

export interface DataKey {
  readonly id: string
  readonly generation: number
  /** The id of the database, in the contexts of the key and of its values. Undefined: a key of an earlier release. */
  readonly instance: string | undefined
  readonly key: KeyObject
}

/**
 * Most cached keys; the least recently used is evicted first. A key takes at most 3.5 KB with its entry, all of them 35
 * MB.
 */
export const capacity = 10_000
/** Milliseconds. A jitter of up to a fifth, downwards, spreads the expiry of keys cached at the same time. */
export const timeToLive = 300_000
export const hardLimit = 900_000
/** Milliseconds before the next call to an unreachable vault, for a key that is still cached. */
const retryAfter = 5_000
interface CachedKey extends DataKey {
  readonly environmentId: string
  readonly obtainedAt: number
  refreshAt: number
}

const DataKeyRow = Schema.Struct({
  id: Schema.String,
  generation: Schema.Number,
  bound: Schema.Boolean,
  rootKeyId: Schema.String,
  wrapped: Schema.Uint8ArrayFromSelf
})
type DataKeyRow = typeof DataKeyRow.Type

/** `instance`: the id of the database; undefined for a key of a release without it. */
export const contextOf = (environment: EnvironmentRef, id: string, instance: string | undefined): KeyContext => ({
  purpose: "data-key",
  teamId: environment.teamId,
  projectId: environment.projectId,
  environmentId: environment.environmentId,
  keyId: Instance.keyIdIn(id, instance)
})

interface Needs {
  readonly sql: SqlClient.SqlClient
  readonly vault: Vault["Type"]
  readonly crypto: Crypto
  readonly serviceKeys: ServiceKeys
  /** The service's scope, in which calls to the vault run. */
  readonly scope: Scope
  /** In order of last use, oldest first. */
  readonly cache: Map<string, CachedKey>
  readonly pending: Map<string, Deferred.Deferred<CachedKey, VaultUnavailable | IntegrityFailure>>
}

const cacheKey = Effect.fnUntraced(function* (
  { cache }: Needs,
  environment: EnvironmentRef,
  row: Omit<DataKey, "key">,
  key: KeyObject
) {
  const now = yield* Clock.currentTimeMillis
  const lifetime = yield* Random.nextRange(0.8, 1)
  const entry: CachedKey = {
    id: row.id,
    generation: row.generation,
    instance: row.instance,
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

/** The cached key, unless it is due for another unwrapping. */
const cached = ({ cache }: Needs, environment: EnvironmentRef, id: string, now: number): CachedKey | undefined => {
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

const unwrapped = Effect.fnUntraced(function* (needs: Needs, environment: EnvironmentRef, row: DataKeyRow) {
  const { bound, generation, id, rootKeyId, wrapped } = row
  const instance = yield* BoundKeys.ofStoredKey(needs.serviceKeys, bound)
  const key = yield* inTime(needs.vault.unwrap(contextOf(environment, id, instance), wrapped, rootKeyId))
  return yield* cacheKey(needs, environment, { id, generation, instance }, key)
})

/**
 * Calls the vault once per key, for all waiting callers. The call runs in a fiber of the service, so that a caller's
 * interruption does not affect the others.
 */
const obtain = (needs: Needs, environment: EnvironmentRef, row: DataKeyRow) =>
  Effect.uninterruptibleMask(
    Effect.fnUntraced(function* (restore) {
      const { cache, pending, scope } = needs
      const current = cached(needs, environment, row.id, yield* Clock.currentTimeMillis)
      if (current !== undefined) return current
      const call = pending.get(row.id)
      if (call !== undefined) return yield* restore(Deferred.await(call))
      const result = yield* Deferred.make<CachedKey, VaultUnavailable | IntegrityFailure>()
      pending.set(row.id, result)
      yield* unwrapped(needs, environment, row).pipe(
        Effect.catchTags({
          VaultUnavailable: (outage) => serveDuringOutage(needs, row.id, outage),
          INTEGRITY_FAILURE: (refusal) => Effect.suspend(() => (cache.delete(row.id), refusal))
        }),
        Effect.interruptible,
        Effect.onExit((exit) =>
          Effect.zipRight(
            Effect.sync(() => pending.delete(row.id)),
            Deferred.done(result, exit)
          )
        ),
        Effect.forkIn(scope)
      )
      return yield* restore(Deferred.await(result))
    })
  )

const activeRow = ({ sql }: Needs, environment: EnvironmentRef) =>
  Rows.findOne(
    DataKeyRow,
    sql`
      SELECT id, generation, bound, root_key_id, wrapped FROM data_keys
      WHERE environment_id = ${environment.environmentId} AND state = 'active'`
  )

/** Undefined when another server was faster: its key is the active one. */
const create = Effect.fnUntraced(function* (needs: Needs, environment: EnvironmentRef) {
  const { crypto, sql, vault } = needs
  const id = yield* crypto.uuid
  const instance = yield* BoundKeys.forNewKey(needs.serviceKeys, sql)
  const { key, rootKeyId, wrapped } = yield* inTime(vault.generateDataKey(contextOf(environment, id, instance)))
  const row = yield* Rows.findOne(
    DataKeyRow,
    sql`
    INSERT INTO data_keys (id, environment_id, generation, bound, root_key_id, wrapped, state, created_at)
    SELECT ${id}::uuid, ${environment.environmentId}::uuid, coalesce(max(generation), 0) + 1,
      ${instance !== undefined}::boolean, ${rootKeyId}, ${wrapped}::bytea,
      'active', ${DateTime.toDate(yield* DateTime.now)}::timestamptz
    FROM data_keys WHERE environment_id = ${environment.environmentId}
    ON CONFLICT DO NOTHING
    RETURNING id, generation, bound, root_key_id, wrapped`
  )
  return row === undefined
    ? undefined
    : yield* cacheKey(needs, environment, { id, generation: row.generation, instance }, key)
})

/**
 * The key that seals new values of an environment, created on first use. Each call reads the database, so a rotation
 * takes effect at its commit.
 */
const active = Effect.fn("DataKeys.active")(function* (needs: Needs, environment: EnvironmentRef) {
  const find = Effect.flatMap(activeRow(needs, environment), (row) =>
    row === undefined ? Effect.succeed(undefined) : obtain(needs, environment, row)
  )
  const key: DataKey | undefined = (yield* find) ?? (yield* create(needs, environment)) ?? (yield* find)
  return key ?? (yield* Effect.dieMessage("an environment has neither an active data key nor room for one"))
})

/**
 * The keys of stored values, by id. Fails with `IntegrityFailure` for an id of another environment, or a wrapped key
 * that was altered or moved.
 */
const byId = Effect.fnUntraced(function* (needs: Needs, environment: EnvironmentRef, ids: Iterable<string>) {
  const now = yield* Clock.currentTimeMillis
  const keys = new Map<string, DataKey>()
  const absent = new Set<string>()
  for (const id of ids) {
    const entry = cached(needs, environment, id, now)
    if (entry === undefined) absent.add(id)
    else keys.set(id, entry)
  }
  if (absent.size === 0) return keys
  const rows = yield* Rows.findAll(
    DataKeyRow,
    needs.sql`
        SELECT id, generation, bound, root_key_id, wrapped FROM data_keys
        WHERE environment_id = ${environment.environmentId} AND id = ANY(${[...absent]}::uuid[])`
  )
  if (rows.length < absent.size) return yield* new IntegrityFailure()
  for (const row of rows) keys.set(row.id, yield* obtain(needs, environment, row))
  return keys
})

/** Drops the cached keys of an environment after its deletion, or that of its keys. */
const forget = ({ cache }: Needs, environmentId: string) =>
  Effect.sync(() => {
    for (const entry of cache.values()) if (entry.environmentId === environmentId) cache.delete(entry.id)
  })

const EnvironmentRow = Schema.Struct({ id: Schema.String })

/** Environments with cached keys that this or another process has deleted. */
const deletedEnvironments = ({ cache, sql }: Needs) => {
  const ids = [...new Set([...cache.values()].map(({ environmentId }) => environmentId))]
  if (ids.length === 0) return Effect.succeed([])
  const statement = sql`
    SELECT e.id FROM environments e JOIN projects p ON p.id = e.project_id
    WHERE e.id = ANY(${ids}::uuid[]) AND (e.deleted_at IS NOT NULL OR p.deleted_at IS NOT NULL)`
  // During an outage of the database, deletions are unknown; keys still expire.
  return Effect.catchTag(Rows.decodeAll(EnvironmentRow, statement), "SqlError", () => Effect.succeed([]))
}

/** Drops expired keys that no request uses. They stay only while the vault is down. */
const sweep = Effect.fnUntraced(function* (needs: Needs) {
  const { cache, vault } = needs
  for (const { id } of yield* deletedEnvironments(needs)) yield* forget(needs, id)
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
      serviceKeys: yield* ServiceKeys,
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
      cachedCount: Effect.sync((): number => needs.cache.size)
    }
  })
}) {}

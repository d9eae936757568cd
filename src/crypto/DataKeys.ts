/**
 * Data keys of environments, unwrapped by the vault and held for a while as `KeyObject`s (security page 3.1).
 *
 * A key is dropped 300 s after the vault last gave it, and within 30 s of its environment's deletion. While the vault is down it keeps serving, 15 min at most
 * (decisions 11). Rows are read by the caller's own connection and only the vault's part is shared between callers:
 * waiting for another request's query while holding a connection would stop a pool of one for good.
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
import * as Housekeeping from "#src/Housekeeping.ts"
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

/** Keys held at most; the least recently used goes first. */
export const capacity = 256
/** Milliseconds. The jitter (up to a fifth, downwards) keeps keys that came together from going together. */
export const timeToLive = 300_000
export const hardLimit = 900_000
/** Pause before an unreachable vault is asked again for a key that is still held. */
const retryAfter = 5_000
interface Held extends DataKey {
  readonly environmentId: string
  readonly obtainedAt: number
  refreshAt: number
}

const Row = Schema.Struct({
  id: Schema.String,
  generation: Schema.Number,
  rootKeyId: Schema.String,
  wrapped: Schema.Uint8ArrayFromSelf
})
type Row = typeof Row.Type
const decodeRows = Schema.decodeUnknown(Schema.Array(Row))

export const contextOf = (environment: EnvironmentRef, keyId: string): KeyContext => ({
  purpose: "data-key",
  teamId: environment.teamId,
  projectId: environment.projectId,
  environmentId: environment.environmentId,
  keyId
})

export class DataKeys extends Effect.Service<DataKeys>()("crypto/DataKeys", {
  scoped: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const vault = yield* Vault
    const crypto = yield* Crypto
    const scope = yield* Effect.scope

    /** In order of last use, oldest first. */
    const held = new Map<string, Held>()
    const pending = new Map<string, Deferred.Deferred<Held, VaultUnavailable | IntegrityFailure>>()

    const hold = Effect.fnUntraced(function* (
      environment: EnvironmentRef,
      row: Omit<Row, "wrapped" | "rootKeyId">,
      key: KeyObject
    ) {
      const now = yield* Clock.currentTimeMillis
      const lifetime = yield* Random.nextRange(0.8, 1)
      const entry: Held = {
        id: row.id,
        generation: row.generation,
        key,
        environmentId: environment.environmentId,
        obtainedAt: now,
        refreshAt: now + timeToLive * lifetime
      }
      held.delete(row.id)
      held.set(row.id, entry)
      for (const oldest of held.keys()) {
        if (held.size <= capacity) break
        held.delete(oldest)
      }
      return entry
    })

    /** The key, when it is held and needs no new look at the vault. */
    const fresh = (environment: EnvironmentRef, id: string, now: number): Held | undefined => {
      const entry = held.get(id)
      if (entry === undefined || now >= entry.refreshAt || now >= entry.obtainedAt + hardLimit) return undefined
      if (entry.environmentId !== environment.environmentId) return undefined
      held.delete(id)
      held.set(id, entry)
      return entry
    }

    const serveDuringOutage = Effect.fnUntraced(function* (id: string, outage: VaultUnavailable) {
      const now = yield* Clock.currentTimeMillis
      const entry = held.get(id)
      if (entry === undefined) return yield* outage
      const end = entry.obtainedAt + hardLimit
      if (now >= end) {
        held.delete(id)
        return yield* outage
      }
      entry.refreshAt = Math.min(now + retryAfter, end)
      return entry
    })

    /**
     * One call to the vault per key, however many wait for it. It runs in a fiber of the service: a caller that goes
     * away must not take the others' answer with it.
     */
    const obtain = (environment: EnvironmentRef, row: Row) =>
      Effect.uninterruptibleMask(
        Effect.fnUntraced(function* (restore) {
          const current = fresh(environment, row.id, yield* Clock.currentTimeMillis)
          if (current !== undefined) return current
          const underWay = pending.get(row.id)
          if (underWay !== undefined) return yield* restore(Deferred.await(underWay))
          const answer = yield* Deferred.make<Held, VaultUnavailable | IntegrityFailure>()
          pending.set(row.id, answer)
          yield* inTime(vault.unwrap(contextOf(environment, row.id), row.wrapped, row.rootKeyId)).pipe(
            Effect.flatMap((key) => hold(environment, row, key)),
            Effect.catchTags({
              VaultUnavailable: (outage) => serveDuringOutage(row.id, outage),
              INTEGRITY_FAILURE: (refusal) => Effect.suspend(() => (held.delete(row.id), refusal))
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

    const activeRow = Effect.fnUntraced(function* (environment: EnvironmentRef) {
      const rows = yield* sql`
        SELECT id, generation, root_key_id, wrapped FROM data_keys
        WHERE environment_id = ${environment.environmentId} AND state = 'active'`
      return (yield* decodeRows(rows)).at(0)
    })

    /** None when another server was faster: its key is the active one. */
    const create = Effect.fnUntraced(function* (environment: EnvironmentRef) {
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
      return made === undefined ? undefined : yield* hold(environment, made, key)
    })

    /**
     * The key that seals new values of an environment, made on first use. Read from the database each time, so that a
     * rotation counts from its commit on.
     */
    const active = Effect.fn("DataKeys.active")(
      function* (environment: EnvironmentRef) {
        const find = Effect.flatMap(activeRow(environment), (row) =>
          row === undefined ? Effect.succeed(undefined) : obtain(environment, row)
        )
        const key: DataKey | undefined = (yield* find) ?? (yield* create(environment)) ?? (yield* find)
        return key ?? (yield* Effect.dieMessage("an environment has neither an active data key nor room for one"))
      },
      Effect.catchTags({ SqlError: Effect.die, ParseError: Effect.die })
    )

    /**
     * The keys that stored values name, by id. An id that is not one of the environment's is `IntegrityFailure`, like a
     * wrapped key that was altered or moved.
     */
    const byId = Effect.fnUntraced(
      function* (environment: EnvironmentRef, ids: Iterable<string>) {
        const now = yield* Clock.currentTimeMillis
        const keys = new Map<string, DataKey>()
        const absent = new Set<string>()
        for (const id of ids) {
          const entry = fresh(environment, id, now)
          if (entry === undefined) absent.add(id)
          else keys.set(id, entry)
        }
        if (absent.size === 0) return keys
        const rows = yield* decodeRows(
          yield* sql`
            SELECT id, generation, root_key_id, wrapped FROM data_keys
            WHERE environment_id = ${environment.environmentId} AND id = ANY(${[...absent]}::uuid[])`
        )
        if (rows.length < absent.size) return yield* new IntegrityFailure()
        for (const row of rows) keys.set(row.id, yield* obtain(environment, row))
        return keys
      },
      Effect.catchTags({ SqlError: Effect.die, ParseError: Effect.die })
    )

    /** Drops what is held of an environment: it was deleted, or its keys were. */
    const forget = (environmentId: string) =>
      Effect.sync(() => {
        for (const entry of held.values()) if (entry.environmentId === environmentId) held.delete(entry.id)
      })

    /** Of what is held, the environments that were deleted, here or by another process. */
    const deleted = Effect.suspend(() => {
      const ids = [...new Set([...held.values()].map(({ environmentId }) => environmentId))]
      if (ids.length === 0) return Effect.succeed([])
      return sql<{ readonly id: string }>`
        SELECT e.id FROM environments e JOIN projects p ON p.id = e.project_id
        WHERE e.id = ANY(${ids}::uuid[]) AND (e.deleted_at IS NOT NULL OR p.deleted_at IS NOT NULL)`
    }).pipe(Effect.catchTag("SqlError", () => Effect.succeed([])))

    // Keys nobody asks for any more must go too. Past their time they stay only while the vault is down.
    const sweep = Effect.gen(function* () {
      for (const { id } of yield* deleted) yield* forget(id)
      const now = yield* Clock.currentTimeMillis
      const expired = [...held.values()].filter((entry) => now >= entry.obtainedAt + timeToLive)
      if (expired.length === 0) return
      const vaultIsUp = yield* Effect.isSuccess(inTime(vault.status))
      for (const entry of expired) {
        if ((vaultIsUp || now >= entry.obtainedAt + hardLimit) && held.get(entry.id) === entry) held.delete(entry.id)
      }
    })
    yield* Housekeeping.every("30 seconds", sweep)

    return { active, byId, forget, sweep, held: Effect.sync((): number => held.size) }
  })
}) {}

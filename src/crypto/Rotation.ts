/**
 * Rotation while everything serves (security 3.1): what root keys wrap is wrapped again by the current one, and what data
 * keys seal is sealed again by a new generation. Both go in batches, can be cut off anywhere and be started again, and
 * at every moment each row names keys that open it.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import type { SqlError } from "@effect/sql/SqlError"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Predicate from "effect/Predicate"
import * as Schedule from "effect/Schedule"
import type { KeyObject } from "node:crypto"
import * as Housekeeping from "#src/Housekeeping.ts"
import type { KeyPurpose } from "#schema/Vault.ts"
import type { VaultUnavailable } from "#schema/Vault.ts"
import * as Canary from "./Canary.ts"
import { Crypto } from "./Crypto.ts"
import { contextOf, DataKeys, type EnvironmentRef } from "./DataKeys.ts"
import * as Envelope from "./Envelope.ts"
import { inTime, Vault } from "./Vault.ts"

export interface Progress {
  readonly done: number
  readonly total: number
}
type OnProgress = (progress: Progress) => Effect.Effect<void>

/** What could not be opened and stands as it was. `name` is an id or a key id. */
export interface Refused {
  readonly table: string
  readonly name: string
}

/** Wrapped keys of one turn: about as long as it takes a request. */
const wrappedBatch = 100
/** Sealed values of one turn, during which nobody writes to the environment. */
const sealedBatch = 50
/** Millis that a data key outlives its last use: a reader that has seen a row may still ask for the key that it named. */
export const restMillis = 10 * 60_000

interface WrappedRow {
  /** Identifies the row within its table. */
  readonly id: string
  readonly teamId: string
  readonly projectId: string
  readonly environmentId: string
  readonly keyId: string
  readonly rootKeyId: string
  readonly wrapped: Buffer
}
interface Rewrapped {
  readonly id: string
  readonly rootKeyId: string
  readonly wrapped: Uint8Array
}

interface SealedRow {
  readonly secretId: string
  readonly version: number
  readonly kind: "literal" | "template"
  readonly key: string
  readonly dataKeyId: string
  readonly sealed: Buffer
}

/** A vault that restarts, or hands out no more keys this second, is waited for. */
const patience = Schedule.intersect(Schedule.spaced("1 second"), Schedule.recurs(60))
/** A deadlock or a lost connection: the batch left nothing behind. */
const again = Schedule.intersect(Schedule.spaced("100 millis"), Schedule.recurs(3))

export class Rotation extends Effect.Service<Rotation>()("crypto/Rotation", {
  scoped: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const vault = yield* Vault
    const crypto = yield* Crypto
    const dataKeys = yield* DataKeys
    const cipher = yield* Envelope.ValueCipher

    /** The tables with keys that a root key wraps; `vault_canary` is the canary's own business. */
    const sources: ReadonlyArray<{
      readonly table: string
      readonly purpose: KeyPurpose
      readonly batch: (current: string, after: string) => Effect.Effect<ReadonlyArray<WrappedRow>, SqlError>
      readonly store: (rows: ReadonlyArray<Rewrapped>) => Effect.Effect<unknown, SqlError>
    }> = [
      {
        table: "data_keys",
        purpose: "data-key",
        batch: (current, after) => sql<WrappedRow>`
          SELECT d.id::text AS id, e.team_id, e.project_id, d.environment_id, d.id::text AS key_id, d.root_key_id, d.wrapped
          FROM data_keys d JOIN environments e ON e.id = d.environment_id
          WHERE d.root_key_id <> ${current} AND d.id::text COLLATE "C" > ${after}
          ORDER BY d.id::text COLLATE "C" LIMIT ${wrappedBatch} FOR NO KEY UPDATE OF d SKIP LOCKED`,
        store: (rows) => sql`
          UPDATE data_keys d SET root_key_id = i.root_key_id, wrapped = i.wrapped FROM unnest(
            ${rows.map((r) => r.id)}::uuid[], ${rows.map((r) => r.rootKeyId)}::text[],
            ${rows.map((r) => Buffer.from(r.wrapped))}::bytea[]
          ) AS i (id, root_key_id, wrapped) WHERE d.id = i.id`
      },
      {
        table: "sealing_keys",
        purpose: "sealing-key",
        batch: (current, after) => sql<WrappedRow>`
          SELECT k.environment_id || '/' || k.key_id AS id, e.team_id, e.project_id, k.environment_id, k.key_id,
            k.root_key_id, k.wrapped_private AS wrapped
          FROM sealing_keys k JOIN environments e ON e.id = k.environment_id
          WHERE k.root_key_id <> ${current} AND (k.environment_id || '/' || k.key_id) COLLATE "C" > ${after}
          ORDER BY (k.environment_id || '/' || k.key_id) COLLATE "C" LIMIT ${wrappedBatch}
          FOR NO KEY UPDATE OF k SKIP LOCKED`,
        store: (rows) => sql`
          UPDATE sealing_keys k SET root_key_id = i.root_key_id, wrapped_private = i.wrapped FROM unnest(
            ${rows.map((r) => r.id)}::text[], ${rows.map((r) => r.rootKeyId)}::text[],
            ${rows.map((r) => Buffer.from(r.wrapped))}::bytea[]
          ) AS i (id, root_key_id, wrapped)
          WHERE k.environment_id = split_part(i.id, '/', 1)::uuid AND k.key_id = split_part(i.id, '/', 2)`
      },
      {
        table: "service_keys",
        purpose: "service-key",
        batch: (current, after) => sql<WrappedRow>`
          SELECT name AS id, '' AS team_id, '' AS project_id, '' AS environment_id, name AS key_id, root_key_id, wrapped
          FROM service_keys WHERE root_key_id <> ${current} AND name COLLATE "C" > ${after}
          ORDER BY name COLLATE "C" LIMIT ${wrappedBatch} FOR NO KEY UPDATE SKIP LOCKED`,
        store: (rows) => sql`
          UPDATE service_keys k SET root_key_id = i.root_key_id, wrapped = i.wrapped FROM unnest(
            ${rows.map((r) => r.id)}::text[], ${rows.map((r) => r.rootKeyId)}::text[],
            ${rows.map((r) => Buffer.from(r.wrapped))}::bytea[]
          ) AS i (name, root_key_id, wrapped) WHERE k.name = i.name`
      },
      {
        table: "webhook_secrets",
        purpose: "webhook-secret",
        batch: (current, after) => sql<WrappedRow>`
          SELECT s.id::text AS id, w.team_id, '' AS project_id, '' AS environment_id, s.id::text AS key_id,
            s.root_key_id, s.wrapped
          FROM webhook_secrets s JOIN webhooks w ON w.id = s.webhook_id
          WHERE s.root_key_id <> ${current} AND s.id::text COLLATE "C" > ${after}
          ORDER BY s.id::text COLLATE "C" LIMIT ${wrappedBatch} FOR NO KEY UPDATE OF s SKIP LOCKED`,
        store: (rows) => sql`
          UPDATE webhook_secrets s SET root_key_id = i.root_key_id, wrapped = i.wrapped FROM unnest(
            ${rows.map((r) => r.id)}::uuid[], ${rows.map((r) => r.rootKeyId)}::text[],
            ${rows.map((r) => Buffer.from(r.wrapped))}::bytea[]
          ) AS i (id, root_key_id, wrapped) WHERE s.id = i.id`
      }
    ]

    /** Rows per root key, over all tables that name one. */
    const named = Effect.map(
      sql<{ readonly rootKeyId: string; readonly n: number }>`
        SELECT root_key_id, count(*)::int AS n FROM (
          SELECT root_key_id FROM data_keys UNION ALL SELECT root_key_id FROM sealing_keys
          UNION ALL SELECT root_key_id FROM service_keys UNION ALL SELECT root_key_id FROM webhook_secrets
          UNION ALL SELECT root_key_id FROM vault_canary
        ) AS named GROUP BY root_key_id ORDER BY root_key_id`,
      (rows) => new Map(rows.map(({ n, rootKeyId }) => [rootKeyId, n]))
    )

    /** Seals of the audit trail that a server has yet to make again under another key. */
    const auditSeals = (rootKeyId: string) =>
      Effect.map(
        sql<{ readonly n: number }>`SELECT count(*)::int AS n FROM audit_seals WHERE root_key_id = ${rootKeyId}`,
        (rows) => rows[0].n
      )

    const others = (current: string) =>
      Effect.map(named, (counts) => [...counts].reduce((sum, [id, n]) => (id === current ? sum : sum + n), 0))

    /**
     * One turn: rows that nobody else holds, wrapped again, stored. The lock lets rows that name the key come and go.
     * Answers the last row that it looked at.
     */
    const rewrapBatch = (source: (typeof sources)[number], current: string, after: string) =>
      sql.withTransaction(
        Effect.gen(function* () {
          const rows = yield* source.batch(current, after)
          if (rows.length === 0) return { last: undefined, done: 0, refused: [] }
          const answers = yield* Effect.forEach(
            rows,
            ({ rootKeyId, wrapped, ...at }) =>
              vault
                .rewrap(
                  {
                    purpose: source.purpose,
                    teamId: at.teamId,
                    projectId: at.projectId,
                    environmentId: at.environmentId,
                    keyId: at.keyId
                  },
                  wrapped,
                  rootKeyId
                )
                .pipe(
                  Effect.map((again): Rewrapped => ({ id: at.id, ...again })),
                  Effect.catchTag("INTEGRITY_FAILURE", () => Effect.succeed({ table: source.table, name: at.keyId }))
                ),
            // Calls to the vault, which takes them as one; no statement is among them.
            { concurrency: "unbounded" }
          )
          const done = answers.filter((answer): answer is Rewrapped => "wrapped" in answer)
          if (done.length > 0) yield* source.store(done)
          return {
            last: rows[rows.length - 1].id,
            done: done.length,
            refused: answers.filter((answer): answer is Refused => "table" in answer)
          }
        })
      )

    const waiting = <A, E, R>(self: Effect.Effect<A, E | SqlError | VaultUnavailable, R>) =>
      self.pipe(
        Effect.retry({ schedule: again, while: (error) => Predicate.isTagged(error, "SqlError") }),
        Effect.retry({ schedule: patience, while: (error) => Predicate.isTagged(error, "VaultUnavailable") })
      )

    /** Passes after the first are for rows that somebody else held; they are released within a request's time. */
    const passes = 50

    /** Wraps everything by the vault's current root key. Answers how many rows, and what it could not open. */
    const rewrapAll = Effect.fn("Rotation.rewrapAll")(function* (onProgress: OnProgress) {
      const current = (yield* waiting(vault.status)).rootKeyId
      const total = yield* others(current)
      const refused = new Map<string, Refused>()
      let done = 0
      yield* onProgress({ done, total })
      for (let pass = 0; pass < passes; pass++) {
        for (const source of sources) {
          let after: string | undefined = ""
          while (after !== undefined) {
            const turn: Effect.Effect.Success<ReturnType<typeof rewrapBatch>> = yield* waiting(
              rewrapBatch(source, current, after)
            )
            for (const one of turn.refused) refused.set(`${one.table}/${one.name}`, one)
            done += turn.done
            after = turn.last
            if (turn.done > 0) yield* onProgress({ done, total })
          }
        }
        // It moves last: a server that starts in between needs the keys of both, and holds both.
        yield* waiting(Effect.provideService(Canary.check(vault), SqlClient.SqlClient, sql))
        if ((yield* others(current)) <= refused.size) break
        yield* Effect.sleep("200 millis")
      }
      return { rootKeyId: current, done, refused: [...refused.values()], remaining: yield* others(current) }
    })

    /** Live environments with data keys of before `before`, or with values that an older key still seals. */
    const environmentsOf = (at: {
      readonly environmentId?: string | undefined
      readonly projectId?: string | undefined
      readonly before: Date
    }) =>
      sql<EnvironmentRef>`
        SELECT e.team_id, e.project_id, e.id AS environment_id FROM environments e
        JOIN projects p ON p.id = e.project_id AND p.deleted_at IS NULL
        WHERE e.deleted_at IS NULL
          AND (${at.environmentId ?? null}::uuid IS NULL OR e.id = ${at.environmentId ?? null}::uuid)
          AND (${at.projectId ?? null}::uuid IS NULL OR e.project_id = ${at.projectId ?? null}::uuid)
          AND EXISTS (
            SELECT 1 FROM data_keys d WHERE d.environment_id = e.id AND (
              (d.state = 'active' AND d.created_at < ${at.before})
              OR (d.state = 'decrypt_only' AND EXISTS (SELECT 1 FROM secret_versions v WHERE v.data_key_id = d.id))
            )
          )
        ORDER BY e.id`

    const lock = (environment: EnvironmentRef) =>
      sql`SELECT 1 FROM environments WHERE id = ${environment.environmentId} AND deleted_at IS NULL FOR UPDATE`

    /** From its commit on everything new is sealed by a new key: writers look it up under the same lock. */
    const beginGeneration = (environment: EnvironmentRef, before: Date) =>
      sql.withTransaction(
        Effect.gen(function* () {
          if ((yield* lock(environment)).length === 0) return
          const now = new Date(yield* Clock.currentTimeMillis)
          const retired = yield* sql`
            UPDATE data_keys SET state = 'decrypt_only', retired_at = ${now}
            WHERE environment_id = ${environment.environmentId} AND state = 'active' AND created_at < ${before}
            RETURNING id`
          if (retired.length === 0) return
          const id = yield* crypto.uuid
          const { rootKeyId, wrapped } = yield* inTime(vault.generateDataKey(contextOf(environment, id)))
          yield* sql`
            INSERT INTO data_keys (id, environment_id, generation, root_key_id, wrapped, state, created_at)
            SELECT ${id}::uuid, ${environment.environmentId}::uuid, max(generation) + 1, ${rootKeyId},
              ${Buffer.from(wrapped)}::bytea, 'active', ${now}::timestamptz
            FROM data_keys WHERE environment_id = ${environment.environmentId}`
        })
      )

    interface Place {
      readonly secretId: string
      readonly version: number
    }
    const start: Place = { secretId: "00000000-0000-0000-0000-000000000000", version: 0 }

    /** One turn under the environment's lock; a reader sees a value before or after, with the key that opens it. */
    const resealBatch = (environment: EnvironmentRef, after: Place) =>
      sql.withTransaction(
        Effect.gen(function* () {
          const none = { last: undefined, done: 0, refused: [] }
          if ((yield* lock(environment)).length === 0) return none
          const active = yield* dataKeys.active(environment)
          const rows = yield* sql<SealedRow>`
            SELECT v.secret_id, v.version, v.kind, s.key, v.data_key_id, v.sealed
            FROM secret_versions v JOIN secrets s ON s.id = v.secret_id
            WHERE s.environment_id = ${environment.environmentId} AND v.data_key_id <> ${active.id}
              AND (v.secret_id, v.version) > (${after.secretId}::uuid, ${after.version}::int)
            ORDER BY v.secret_id, v.version LIMIT ${sealedBatch}`
          if (rows.length === 0) return none
          const keys = new Map<string, KeyObject>()
          for (const id of new Set(rows.map((row) => row.dataKeyId))) {
            const found = yield* Effect.either(dataKeys.byId(environment, [id]))
            if (Either.isRight(found)) for (const [id, { key }] of found.right) keys.set(id, key)
            else if (found.left._tag === "VaultUnavailable") return yield* found.left
          }
          const done: Array<Place & { readonly sealed: Buffer }> = []
          const refused: Array<Refused> = []
          for (const { dataKeyId, key: name, kind, sealed, secretId, version } of rows) {
            const at = { ...environment, secretId, key: name, kind, version }
            const key = keys.get(dataKeyId)
            const opened = key === undefined ? undefined : Envelope.openValue(key, { ...at, dataKeyId }, sealed)
            if (opened === undefined || Either.isLeft(opened)) {
              refused.push({ table: "secret_versions", name: `${name} version ${version}` })
              continue
            }
            const salt = yield* crypto.randomBytes(Envelope.saltLength)
            done.push({
              secretId,
              version,
              sealed: Envelope.sealValue(active.key, { ...at, dataKeyId: active.id }, opened.right, salt, cipher)
            })
          }
          if (done.length > 0) {
            yield* sql`
              UPDATE secret_versions v SET data_key_id = ${active.id}, sealed = i.sealed FROM unnest(
                ${done.map((r) => r.secretId)}::uuid[], ${done.map((r) => r.version)}::int[],
                ${done.map((r) => r.sealed)}::bytea[]
              ) AS i (secret_id, version, sealed) WHERE v.secret_id = i.secret_id AND v.version = i.version`
          }
          const { secretId, version } = rows[rows.length - 1]
          return { last: { secretId, version }, done: done.length, refused }
        })
      )

    /**
     * A new data key for each environment chosen, and every value of it sealed again, earlier versions and deleted ones
     * too. Keys of `before` and later stay: the same call after an interruption goes on where it stopped.
     */
    const rotateDataKeys = Effect.fn("Rotation.rotateDataKeys")(function* (
      at: {
        readonly environmentId?: string | undefined
        readonly projectId?: string | undefined
        readonly before: Date
      },
      onProgress: OnProgress
    ) {
      const environments = yield* environmentsOf(at)
      const refused: Array<Refused> = []
      let values = 0
      let done = 0
      yield* onProgress({ done, total: environments.length })
      for (const environment of environments) {
        yield* waiting(beginGeneration(environment, at.before))
        let after: Place | undefined = start
        while (after !== undefined) {
          const turn: Effect.Effect.Success<ReturnType<typeof resealBatch>> = yield* waiting(
            resealBatch(environment, after)
          )
          refused.push(...turn.refused)
          values += turn.done
          after = turn.last
        }
        done++
        yield* onProgress({ done, total: environments.length })
      }
      yield* removeUnused
      return { environments: done, values, refused }
    })

    /** Data keys that rest and that no value and no stored request names. Answers how many. */
    const removeUnused = Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      const rows = yield* sql`
        DELETE FROM data_keys WHERE id IN (
          SELECT d.id FROM data_keys d
          WHERE d.state = 'decrypt_only' AND d.retired_at <= ${new Date(now - restMillis)}
            AND NOT EXISTS (SELECT 1 FROM secret_versions v WHERE v.data_key_id = d.id)
            AND NOT EXISTS (
              SELECT 1 FROM idempotency_keys k WHERE substring(k.request_mac FROM 1 FOR 16) = uuid_send(d.id))
          LIMIT 500 FOR UPDATE SKIP LOCKED)
        RETURNING id`
      return rows.length
    })
    yield* Housekeeping.every("10 minutes", removeUnused)

    return { rewrapAll, rotateDataKeys, removeUnused, named, auditSeals } as const
  })
}) {}

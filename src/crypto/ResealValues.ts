/** Seals values again under a new data key of their environment, while requests read and write it. */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import * as Rows from "#src/database/Rows.ts"
import type { Crypto } from "./Crypto.ts"
import { contextOf, type DataKey, type DataKeys, type EnvironmentRef } from "./DataKeys.ts"
import * as Envelope from "./Envelope.ts"
import * as BoundKeys from "./BoundKeys.ts"
import type { ServiceKeys } from "./ServiceKeys.ts"
import { nothingLeft, type OnProgress, type UnopenedRow, type Turn, retrying } from "./RotationTurn.ts"
import { inTime, type Vault } from "./Vault.ts"

interface Needs {
  readonly sql: SqlClient.SqlClient
  readonly vault: Vault["Type"]
  readonly crypto: Crypto
  readonly dataKeys: DataKeys
  readonly serviceKeys: ServiceKeys
  readonly cipher: Envelope.ValueCipher["Type"]
}

/** The scope of a rotation: one environment, one project, or everything. Keys created at `before` or later stay. */
interface Selection {
  readonly environmentId?: string | undefined
  readonly projectId?: string | undefined
  readonly before: Date
}

/** Sealed values per turn, during which other writes to the environment wait. */
const batchSize = 50
/** Milliseconds that a data key outlives its last use, since a reader of an older row may still request its key. */
export const restMillis = 10 * 60_000

interface Position {
  readonly secretId: string
  readonly version: number
}
export const start: Position = { secretId: "00000000-0000-0000-0000-000000000000", version: 0 }

const EnvironmentRow = Schema.Struct({
  teamId: Schema.String,
  projectId: Schema.String,
  environmentId: Schema.String
})

const SealedValueRow = Schema.Struct({
  secretId: Schema.String,
  version: Schema.Number,
  kind: Schema.Literal("literal", "template"),
  key: Schema.String,
  dataKeyId: Schema.String,
  sealed: Schema.Uint8ArrayFromSelf
})
type SealedValueRow = typeof SealedValueRow.Type

/** Live environments with data keys older than `before`, or with values under an older key. */
const environmentsOf = ({ sql }: Needs, { before, environmentId, projectId }: Selection) =>
  Rows.decodeAll(
    EnvironmentRow,
    sql`
      SELECT e.team_id, e.project_id, e.id AS environment_id FROM environments e
      JOIN projects p ON p.id = e.project_id AND p.deleted_at IS NULL
      WHERE e.deleted_at IS NULL
        AND (${environmentId ?? null}::uuid IS NULL OR e.id = ${environmentId ?? null}::uuid)
        AND (${projectId ?? null}::uuid IS NULL OR e.project_id = ${projectId ?? null}::uuid)
        AND EXISTS (
          SELECT 1 FROM data_keys d WHERE d.environment_id = e.id AND (
            (d.state = 'active' AND d.created_at < ${before})
            OR (d.state = 'decrypt_only' AND EXISTS (SELECT 1 FROM secret_versions v WHERE v.data_key_id = d.id))
          )
        )
      ORDER BY e.id`
  )

const lock = ({ sql }: Needs, environment: EnvironmentRef) =>
  sql`SELECT 1 FROM environments WHERE id = ${environment.environmentId} AND deleted_at IS NULL FOR UPDATE`

/** From its commit on, a new key seals new values: writers look it up under the same lock. */
const beginGeneration = (needs: Needs, environment: EnvironmentRef, before: Date) => {
  const { crypto, serviceKeys, sql, vault } = needs
  return sql.withTransaction(
    Effect.gen(function* () {
      // Updates the row unchanged, so that a waiting writer reads again and finds the new key.
      const locked = yield* sql`
        UPDATE environments SET updated_at = updated_at
        WHERE id = ${environment.environmentId} AND deleted_at IS NULL RETURNING id`
      if (locked.length === 0) return
      const now = new Date(yield* Clock.currentTimeMillis)
      const retired = yield* sql`
        UPDATE data_keys SET state = 'decrypt_only', retired_at = ${now}
        WHERE environment_id = ${environment.environmentId} AND state = 'active' AND created_at < ${before}
        RETURNING id`
      if (retired.length === 0) return
      const id = yield* crypto.uuid
      const instance = yield* BoundKeys.forNewKey(serviceKeys, sql)
      const { rootKeyId, wrapped } = yield* inTime(vault.generateDataKey(contextOf(environment, id, instance)))
      yield* sql`
        INSERT INTO data_keys (id, environment_id, generation, bound, root_key_id, wrapped, state, created_at)
        SELECT ${id}::uuid, ${environment.environmentId}::uuid, max(generation) + 1,
          ${instance !== undefined}::boolean, ${rootKeyId},
          ${Buffer.from(wrapped)}::bytea, 'active', ${now}::timestamptz
        FROM data_keys WHERE environment_id = ${environment.environmentId}`
    })
  )
}

/** Values after `after` under another key than the active one. */
export const valuesOfOtherKeys = (
  { sql }: Pick<Needs, "sql">,
  environment: EnvironmentRef,
  active: DataKey,
  after: Position
) =>
  Rows.decodeAll(
    SealedValueRow,
    sql`
      SELECT v.secret_id, v.version, v.kind, coalesce(v.key, s.key) AS key, v.data_key_id, v.sealed
      FROM secret_versions v JOIN secrets s ON s.id = v.secret_id
      WHERE s.environment_id = ${environment.environmentId} AND v.data_key_id <> ${active.id}
        AND (v.secret_id, v.version) > (${after.secretId}::uuid, ${after.version}::int)
      ORDER BY v.secret_id, v.version LIMIT ${batchSize}`
  )

/** The keys of these rows. An altered key is left out, and its values are reported one by one. */
const keysOf = Effect.fnUntraced(function* (
  { dataKeys }: Needs,
  environment: EnvironmentRef,
  rows: ReadonlyArray<SealedValueRow>
) {
  const keys = new Map<string, DataKey>()
  for (const id of new Set(rows.map((row) => row.dataKeyId))) {
    const result = yield* Effect.either(dataKeys.byId(environment, [id]))
    if (Either.isRight(result)) for (const [id, key] of result.right) keys.set(id, key)
    else if (result.left._tag === "VaultUnavailable") return yield* result.left
  }
  return keys
})

export const storeSealed = (
  { sql }: Pick<Needs, "sql">,
  active: DataKey,
  rows: ReadonlyArray<Position & { readonly sealed: Uint8Array }>
) =>
  sql`
    UPDATE secret_versions v SET data_key_id = ${active.id}, sealed = i.sealed FROM unnest(
      ${rows.map((r) => r.secretId)}::uuid[], ${rows.map((r) => r.version)}::int[],
      ${rows.map((r) => r.sealed)}::bytea[]
    ) AS i (secret_id, version, sealed) WHERE v.secret_id = i.secret_id AND v.version = i.version`

/** Seals these values under `active`. Leaves out those that do not open. */
export const resealed = Effect.fnUntraced(function* (
  { cipher, crypto }: Pick<Needs, "cipher" | "crypto">,
  environment: EnvironmentRef,
  rows: ReadonlyArray<SealedValueRow>,
  keys: ReadonlyMap<string, DataKey>,
  active: DataKey
) {
  const done: Array<Position & { readonly sealed: Buffer }> = []
  const refused: Array<UnopenedRow> = []
  for (const { dataKeyId, key: name, kind, sealed, secretId, version } of rows) {
    const at = { ...environment, secretId, key: name, kind, version }
    const earlier = keys.get(dataKeyId)
    const opened =
      earlier === undefined
        ? undefined
        : Envelope.openValue(earlier.key, { ...at, dataKeyId, instance: earlier.instance }, sealed)
    if (opened === undefined || Either.isLeft(opened)) {
      refused.push({ table: "secret_versions", name: `${name} version ${version}` })
      continue
    }
    const salt = yield* crypto.randomBytes(Envelope.saltLength)
    const context = { ...at, dataKeyId: active.id, instance: active.instance }
    done.push({ secretId, version, sealed: Envelope.sealValue(active.key, context, opened.right, salt, cipher) })
  }
  return { done, refused }
})

/** One turn under the environment's lock. Readers see each value before or after, with the matching key. */
const resealBatch = (needs: Needs, environment: EnvironmentRef, after: Position) => {
  const { dataKeys, sql } = needs
  return sql.withTransaction(
    Effect.gen(function* () {
      if ((yield* lock(needs, environment)).length === 0) return nothingLeft
      const active = yield* dataKeys.active(environment)
      const rows = yield* valuesOfOtherKeys(needs, environment, active, after)
      if (rows.length === 0) return nothingLeft
      const keys = yield* keysOf(needs, environment, rows)
      const { done, refused } = yield* resealed(needs, environment, rows, keys, active)
      if (done.length > 0) yield* storeSealed(needs, active, done)
      const { secretId, version } = rows[rows.length - 1]
      return { last: { secretId, version }, done: done.length, refused }
    })
  )
}

/** Removes retired data keys that no value, no stored request and no pending change uses. Returns their number. */
export const removeUnused = ({ sql }: Pick<Needs, "sql">) =>
  Effect.gen(function* () {
    const now = yield* Clock.currentTimeMillis
    const rows = yield* sql`
      DELETE FROM data_keys WHERE id IN (
        SELECT d.id FROM data_keys d
        WHERE d.state = 'decrypt_only' AND d.retired_at <= ${new Date(now - restMillis)}
          AND NOT EXISTS (SELECT 1 FROM secret_versions v WHERE v.data_key_id = d.id)
          AND NOT EXISTS (
            SELECT 1 FROM idempotency_keys k WHERE substring(k.request_mac FROM 1 FOR 16) = uuid_send(d.id))
          AND NOT EXISTS (
            SELECT 1 FROM change_requests r WHERE r.environment_id = d.environment_id AND r.data_key_id = d.id
              AND r.sealed IS NOT NULL AND r.expires_at > ${new Date(now)})
        LIMIT 500 FOR UPDATE SKIP LOCKED)
      RETURNING id`
    return rows.length
  })

/**
 * Creates a new data key for each selected environment and seals all its values again, including earlier and deleted
 * versions. After an interruption, the same call continues.
 */
export const rotateDataKeys = Effect.fn("Rotation.rotateDataKeys")(function* (
  needs: Needs,
  selection: Selection,
  onProgress: OnProgress
) {
  const environments = yield* environmentsOf(needs, selection)
  const refused: Array<UnopenedRow> = []
  let values = 0
  let done = 0
  yield* onProgress({ done, total: environments.length })
  for (const environment of environments) {
    yield* retrying(beginGeneration(needs, environment, selection.before))
    let after: Position | undefined = start
    while (after !== undefined) {
      const turn: Turn<Position> = yield* retrying(resealBatch(needs, environment, after))
      for (const one of turn.refused) refused.push(one)
      values += turn.done
      after = turn.last
    }
    done++
    yield* onProgress({ done, total: environments.length })
  }
  yield* removeUnused(needs)
  return { environments: done, values, refused }
})

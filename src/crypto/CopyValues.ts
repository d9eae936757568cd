/**
 * Values of a copy of a database (docs/backup.md): each environment gets a data key that the original does not have, and
 * every version and every waiting change is sealed again under it. No row of the copy opens in the original then, and
 * none of the original in the copy.
 */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import * as Rows from "#src/database/Rows.ts"
import type { Crypto } from "./Crypto.ts"
import { contextOf, type DataKey, type EnvironmentRef } from "./DataKeys.ts"
import * as Envelope from "./Envelope.ts"
import * as ResealValues from "./ResealValues.ts"
import { bindTo } from "./RewrapKeys.ts"
import type { OnProgress } from "./RotationTurn.ts"
import { inTime, type Vault } from "./Vault.ts"

interface Needs {
  readonly sql: SqlClient.SqlClient
  readonly vault: Vault["Type"]
  readonly crypto: Crypto
  readonly cipher: Envelope.ValueCipher["Type"]
}

/** Ids of the original and of the copy. */
export interface Databases {
  readonly from: string | undefined
  readonly to: string
}

const EnvironmentRow = Schema.Struct({
  teamId: Schema.String,
  projectId: Schema.String,
  environmentId: Schema.String
})

/** Deleted environments are among them: their values come back for 30 days. */
const environmentsWithKeys = (sql: SqlClient.SqlClient) =>
  Rows.decodeAll(
    EnvironmentRow,
    sql`
      SELECT e.team_id, e.project_id, e.id AS environment_id FROM environments e
      WHERE EXISTS (SELECT 1 FROM data_keys d WHERE d.environment_id = e.id) ORDER BY e.id`
  )

const KeyRow = Schema.Struct({
  id: Schema.String,
  generation: Schema.Number,
  bound: Schema.Boolean,
  rootKeyId: Schema.String,
  wrapped: Schema.Uint8ArrayFromSelf
})

/** The keys of the original. One that does not open is left out, and its values stay as they are. */
const earlierKeys = Effect.fnUntraced(function* (
  { sql, vault }: Needs,
  environment: EnvironmentRef,
  from: Databases["from"]
) {
  const rows = yield* Rows.decodeAll(
    KeyRow,
    sql`
      SELECT id, generation, bound, root_key_id, wrapped FROM data_keys
      WHERE environment_id = ${environment.environmentId} ORDER BY generation`
  )
  const keys = new Map<string, DataKey>()
  for (const { bound, generation, id, rootKeyId, wrapped } of rows) {
    const instance = bound ? from : undefined
    const key = yield* Effect.either(inTime(vault.unwrap(contextOf(environment, id, instance), wrapped, rootKeyId)))
    if (Either.isRight(key)) keys.set(id, { id, generation, instance, key: key.right })
    else if (key.left._tag === "VaultUnavailable") return yield* key.left
  }
  return keys
})

const newKey = Effect.fnUntraced(function* (
  { crypto, sql, vault }: Needs,
  environment: EnvironmentRef,
  instance: string,
  now: Date
) {
  const id = yield* crypto.uuid
  const { key, rootKeyId, wrapped } = yield* inTime(vault.generateDataKey(contextOf(environment, id, instance)))
  yield* sql`
    UPDATE data_keys SET state = 'decrypt_only', retired_at = ${now}
    WHERE environment_id = ${environment.environmentId} AND state = 'active'`
  yield* sql`
    INSERT INTO data_keys (id, environment_id, generation, bound, root_key_id, wrapped, state, created_at)
    SELECT ${id}::uuid, ${environment.environmentId}::uuid, max(generation) + 1, true, ${rootKeyId},
      ${Buffer.from(wrapped)}::bytea, 'active', ${now}::timestamptz
    FROM data_keys WHERE environment_id = ${environment.environmentId}`
  return { id, generation: 0, instance, key } satisfies DataKey
})

const IdRow = Schema.Struct({ id: Schema.String })

const RequestRow = Schema.Struct({
  id: Schema.String,
  dataKeyId: Schema.String,
  sealed: Schema.Uint8ArrayFromSelf
})

/** Marks of the people who saw a change are under the earlier key: in the copy it has to be seen again. */
const resealRequests = Effect.fnUntraced(function* (
  { cipher, crypto, sql }: Needs,
  environment: EnvironmentRef,
  keys: ReadonlyMap<string, DataKey>,
  active: DataKey
) {
  const ids = yield* Rows.decodeAll(
    IdRow,
    sql`SELECT id FROM change_requests WHERE environment_id = ${environment.environmentId} AND sealed IS NOT NULL`
  )
  for (const one of ids) {
    const statement = sql`SELECT id, data_key_id, sealed FROM change_requests WHERE id = ${one.id}`
    const { dataKeyId, id, sealed } = yield* Rows.decodeSingle(RequestRow, statement)
    const at = { ...environment, ...Envelope.requestPlace(id) }
    const earlier = keys.get(dataKeyId)
    if (earlier === undefined) continue
    const text = Envelope.openValue(earlier.key, { ...at, dataKeyId, instance: earlier.instance }, sealed)
    if (Either.isLeft(text)) continue
    const salt = yield* crypto.randomBytes(Envelope.saltLength)
    const context = { ...at, dataKeyId: active.id, instance: active.instance }
    yield* sql`
      UPDATE change_requests SET data_key_id = ${active.id}, seen_by = '[]',
        sealed = ${Envelope.sealValue(active.key, context, text.right, salt, cipher)} WHERE id = ${id}`
  }
  yield* sql`
    UPDATE change_requests SET data_key_id = ${active.id}
    WHERE environment_id = ${environment.environmentId} AND sealed IS NULL`
})

const reseal = Effect.fnUntraced(function* (
  needs: Needs,
  environment: EnvironmentRef,
  { from, to }: Databases,
  now: Date
) {
  const { sql } = needs
  const keys = yield* earlierKeys(needs, environment, from)
  const active = yield* newKey(needs, environment, to, now)
  let values = 0
  let after = ResealValues.start
  for (;;) {
    const rows = yield* ResealValues.valuesOfOtherKeys(needs, environment, active, after)
    if (rows.length === 0) break
    const { done } = yield* ResealValues.resealed(needs, environment, rows, keys, active)
    if (done.length > 0) yield* ResealValues.storeSealed(needs, active, done)
    values += done.length
    after = rows[rows.length - 1]
  }
  yield* resealRequests(needs, environment, keys, active)
  // A change whose box does not open stays too, and so does its key.
  yield* sql`
    DELETE FROM data_keys d WHERE d.environment_id = ${environment.environmentId} AND d.id <> ${active.id}
      AND NOT EXISTS (SELECT 1 FROM secret_versions v WHERE v.data_key_id = d.id)
      AND NOT EXISTS (
        SELECT 1 FROM change_requests r WHERE r.environment_id = d.environment_id AND r.data_key_id = d.id)`
  return values
})

/** Part of the restore's transaction. A value that does not open in the original does not open in the copy. */
export const make = Effect.fn("CopyValues.make")(function* (
  needs: Needs,
  databases: Databases,
  onProgress: OnProgress
) {
  const { sql } = needs
  const now = yield* DateTime.nowAsDate
  const environments = yield* environmentsWithKeys(sql)
  // Stored answers of credentials that end, under MACs of the earlier keys.
  yield* sql`DELETE FROM idempotency_keys`
  let values = 0
  for (const environment of environments) {
    values += yield* reseal(needs, environment, databases, now)
    yield* onProgress({ done: values, total: values })
  }
  yield* bindTo(needs, { condition: sql`true`, ...databases })
})

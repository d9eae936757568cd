/**
 * Rows of service keys. `service_keys` has the keys of releases without generations, which are generation 1 under
 * contexts without the id of the database. `service_key_generations` has all later ones.
 *
 *   coming    servers load it and verify with it
 *   active    the newest active generation writes
 */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { createSecretKey } from "node:crypto"
import { IntegrityFailure } from "#schema/Errors.ts"
import type { KeyContext } from "#schema/Vault.ts"
import * as Rows from "#src/database/Rows.ts"
import * as Instance from "./Instance.ts"
import * as KeyRing from "./KeyRing.ts"
import { inTime, type Vault } from "./Vault.ts"

export const names = [
  "audit-entries",
  "credential-pepper",
  "password-hashes",
  "row-seals",
  "oauth-cookies",
  "oauth-refresh",
  "mcp-request-state",
  "run-output",
  "second-factors",
  "sign-in-flows",
  "issuer-secrets"
] as const
export type ServiceKeyName = (typeof names)[number]

interface Needs {
  readonly sql: SqlClient.SqlClient
  readonly vault: Vault["Type"]
}

const contextOf = (keyId: string): KeyContext => ({
  purpose: "service-key",
  teamId: "",
  projectId: "",
  environmentId: "",
  keyId
})

/** The name of a generation under its wrapping. `src/crypto/WrappedKeys.ts` composes it in SQL. */
const keyIdOf = (name: string, generation: number, instance: string) =>
  Instance.keyIdIn(`${name}/${generation}`, instance)

const KeyRow = Schema.Struct({
  name: Schema.Literal(...names),
  generation: Schema.Number,
  /** Whether its contexts hold the id of the database. */
  bound: Schema.Boolean,
  instance: Schema.NullOr(Schema.String),
  state: Schema.Literal("coming", "active"),
  createdAt: Schema.DateFromSelf,
  activeAt: Schema.NullOr(Schema.DateFromSelf),
  rootKeyId: Schema.String,
  wrapped: Schema.Uint8ArrayFromSelf
})
export type KeyRow = typeof KeyRow.Type

/** All generations of these keys, oldest first. A bound generation 1 excludes one of an earlier release. */
export const rowsOf = (sql: SqlClient.SqlClient, wanted: ReadonlyArray<ServiceKeyName>) =>
  Rows.decodeAll(
    KeyRow,
    sql`
      SELECT g.name, g.generation, true AS bound, i.instance_id AS instance, g.state, g.created_at, g.active_at,
        g.root_key_id, g.wrapped
      FROM service_key_generations g LEFT JOIN instance i ON i.id = 1 WHERE g.name = ANY(${wanted}::text[])
      UNION ALL
      SELECT k.name, 1, false, NULL, 'active', k.created_at, k.created_at, k.root_key_id, k.wrapped
      FROM service_keys k WHERE k.name = ANY(${wanted}::text[])
        AND NOT EXISTS (SELECT 1 FROM service_key_generations g WHERE g.name = k.name AND g.generation = 1)
      ORDER BY name, generation`
  )

const unwrapped = ({ vault }: Needs, { bound, generation, instance, name, rootKeyId, wrapped }: KeyRow) =>
  inTime(
    vault.unwrapBytes(contextOf(bound ? keyIdOf(name, generation, instance ?? "") : name), wrapped, rootKeyId)
  ).pipe(
    Effect.map((bytes): KeyRing.RingKey => ({
      generation,
      instance: bound ? (instance ?? "") : undefined,
      key: createSecretKey(Redacted.value(bytes))
    }))
  )

const isSame = (key: KeyRing.RingKey | undefined, { bound, instance }: KeyRow): key is KeyRing.RingKey =>
  key !== undefined && key.instance === (bound ? instance : undefined)

/** The row of the generation that writes. `rows`: of one key, oldest first. */
export const writingOf = (rows: ReadonlyArray<KeyRow>): KeyRow | undefined =>
  rows.filter(({ state }) => state === "active").at(-1)

/**
 * The ring of one key's rows. It takes keys over from `earlier`, and leaves out rows that do not open. Undefined: no row
 * is active, or the newest active one does not open. An older one, which others may have, never writes in its place.
 */
export const ringOf = Effect.fnUntraced(function* (
  needs: Needs,
  rows: ReadonlyArray<KeyRow>,
  earlier: KeyRing.KeyRing | undefined
) {
  const keys: Array<KeyRing.RingKey> = []
  const writing = writingOf(rows)
  let newest: KeyRing.RingKey | undefined
  for (const row of rows) {
    const before = earlier?.live.get(row.generation)
    const key = isSame(before, row) ? Either.right(before) : yield* Effect.either(unwrapped(needs, row))
    if (Either.isLeft(key)) {
      if (key.left._tag === "VaultUnavailable") return yield* key.left
      const message =
        row === writing
          ? "The newest generation of a service key does not open. Nothing is written with an older one: check that the server has the root key that wrapped it, or restore the row from a backup."
          : "A service key does not open. Rows of its generation are not accepted."
      yield* Effect.logError(message).pipe(Effect.annotateLogs({ key: row.name, generation: row.generation }))
      if (row === writing) return undefined
      continue
    }
    keys.push(key.right)
    if (row === writing) newest = key.right
  }
  return newest === undefined ? undefined : KeyRing.of(newest, keys)
})

/** For a reader, which creates no key. Undefined: no key exists, or the newest does not open. */
export const open = (needs: Needs, name: ServiceKeyName) =>
  Effect.flatMap(rowsOf(needs.sql, [name]), (rows) => ringOf(needs, rows, undefined))

const StartRow = Schema.Struct({ newest: Schema.NullOr(Schema.Number), older: Schema.Boolean })

const insert = Effect.fnUntraced(function* (
  { sql, vault }: Needs,
  row: Pick<KeyRow, "name" | "generation" | "state" | "createdAt"> & { readonly instance: string },
  bytes: Redacted.Redacted<Uint8Array>
) {
  const { createdAt, generation, instance, name, state } = row
  const { rootKeyId, wrapped } = yield* inTime(vault.wrapBytes(contextOf(keyIdOf(name, generation, instance)), bytes))
  yield* sql`
    INSERT INTO service_key_generations (name, generation, root_key_id, wrapped, state, created_at, active_at)
    VALUES (${name}, ${generation}, ${rootKeyId}, ${Buffer.from(wrapped)}, ${state}, ${createdAt},
      ${state === "active" ? createdAt : null})
    ON CONFLICT (name, generation) DO NOTHING`
})

/**
 * Creates a key that has no row, in the generation of the others. Beside keys of an earlier release it is one of those,
 * so that servers of that release can use it too.
 */
export const create = Effect.fnUntraced(function* (
  needs: Needs,
  name: ServiceKeyName,
  bytes: Redacted.Redacted<Uint8Array>,
  now: Date
) {
  const { sql, vault } = needs
  const instance = yield* Instance.idOf(sql, now)
  const { newest, older } = yield* Rows.decodeSingle(
    StartRow,
    sql`
      SELECT (SELECT max(generation) FROM service_key_generations WHERE state = 'active') AS newest,
        EXISTS (SELECT 1 FROM service_keys) AS older`
  )
  if (newest === null && older) {
    const { rootKeyId, wrapped } = yield* inTime(vault.wrapBytes(contextOf(name), bytes))
    yield* sql`
      INSERT INTO service_keys (name, root_key_id, wrapped, created_at)
      VALUES (${name}, ${rootKeyId}, ${Buffer.from(wrapped)}, ${now}) ON CONFLICT (name) DO NOTHING`
    return
  }
  yield* insert(needs, { name, generation: newest ?? KeyRing.first, state: "active", createdAt: now, instance }, bytes)
  if (newest === null) yield* Instance.refuseEarlierReleases(sql)
})

/** The highest generation of any key. */
export const newestOf = (rows: ReadonlyArray<KeyRow>): number =>
  rows.reduce((last, row) => Math.max(last, row.generation), KeyRing.first)

/** Keys that have rows, and none of the highest generation. `create` gives a key without rows the highest one. */
export const withoutNewest = (rows: ReadonlyArray<KeyRow>): ReadonlyArray<ServiceKeyName> => {
  const newest = newestOf(rows)
  return names.filter((name) => {
    const own = rows.filter((row) => row.name === name)
    return own.length > 0 && own.every((row) => row.generation < newest)
  })
}

interface Beginning {
  readonly bytes: Effect.Effect<Buffer>
  readonly generation: number
  readonly names: ReadonlyArray<ServiceKeyName>
  readonly now: Date
}

/** Creates a generation of these keys, which servers load before one of them writes with it. */
export const begin = Effect.fnUntraced(function* (needs: Needs, { bytes, generation, names, now }: Beginning) {
  const instance = yield* Instance.idOf(needs.sql, now)
  for (const name of names) {
    const key = yield* bytes
    yield* insert(needs, { name, generation, state: "coming", createdAt: now, instance }, Redacted.make(key))
    key.fill(0)
  }
})

/** From now on servers write with the coming generation. */
export const activate = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, now: Date) {
  yield* sql`UPDATE service_key_generations SET state = 'active', active_at = ${now} WHERE state = 'coming'`
  yield* Instance.refuseEarlierReleases(sql)
})

/** Deletes a generation that is not the newest active one. */
export const remove = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  { bound, generation, name }: Pick<KeyRow, "bound" | "generation" | "name">
) {
  const newer = sql`
    EXISTS (SELECT 1 FROM service_key_generations n WHERE n.name = ${name} AND n.generation > ${generation}
      AND n.state = 'active')`
  yield* bound
    ? sql`DELETE FROM service_key_generations WHERE name = ${name} AND generation = ${generation} AND ${newer}`
    : sql`DELETE FROM service_keys WHERE name = ${name} AND ${newer}`
})

/**
 * Replaces all keys by ones of a new database id, for a copy. Returns the id, and for each name the ring that verifies
 * what the original wrote and writes for the copy. Fails if a key of the original does not open.
 */
export const rebind = Effect.fnUntraced(function* (
  needs: Needs,
  { bytes, now }: { readonly bytes: Effect.Effect<Buffer>; readonly now: Date }
) {
  const { sql } = needs
  yield* Instance.idOf(sql, now)
  const rows = yield* rowsOf(sql, names)
  const generation = 1 + newestOf(rows)
  const older = new Map<ServiceKeyName, KeyRing.KeyRing>()
  for (const name of names) {
    const own = rows.filter((row) => row.name === name)
    const ring = yield* ringOf(needs, own, undefined)
    if (ring !== undefined) older.set(name, ring)
    else if (own.length > 0) return yield* new IntegrityFailure()
  }
  yield* sql`DELETE FROM service_key_generations`
  yield* sql`DELETE FROM service_keys`
  const instance = yield* Instance.renew(sql, now)
  const rings = new Map<ServiceKeyName, KeyRing.KeyRing>()
  for (const name of names) {
    const key = yield* bytes
    yield* insert(needs, { name, generation, state: "active", createdAt: now, instance }, Redacted.make(key))
    const newest = { generation, instance, key: createSecretKey(key) }
    key.fill(0)
    rings.set(name, KeyRing.of(newest, [...(older.get(name)?.live.values() ?? [])]))
  }
  yield* Instance.refuseEarlierReleases(sql)
  return { instance, rings }
})

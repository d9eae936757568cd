/**
 * `Idempotency-Key` (docs/contract/secrets.md): a second request with the same key and body within 24 h gets the stored answer. When
 * both arrive at once, one waits for the other.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { IdempotencyKeyReused, type IntegrityFailure } from "#schema/Errors.ts"
import { dieWhenVaultIsDown } from "#src/database/Dependency.ts"
import type { EnvironmentPermit } from "#src/access/Permit.ts"
import { safeEqual } from "#src/crypto/Crypto.ts"
import { DataKeys } from "#src/crypto/DataKeys.ts"
import * as Envelope from "#src/crypto/Envelope.ts"
import { days } from "#src/Days.ts"
import * as Rows from "#src/database/Rows.ts"
import { methods } from "#src/Methods.ts"

const kept = days(1)
/** Rows of one statement: a purge must not make requests wait. */
const purgeBatch = 2_000

export interface Idempotent {
  /** The value of the header. */
  readonly key: string
  readonly route: string
  /**
   * The members that make two requests equal, in a fixed order. Their keyed fingerprint reveals nothing about values.
   */
  readonly request: ReadonlyArray<unknown>
}

/** Texts leave their `Redacted` only for the fingerprint. */
const encoded = (request: ReadonlyArray<unknown>): string => JSON.stringify(request.map(revealed))
const revealed = (part: unknown): unknown =>
  Redacted.isRedacted(part) ? Redacted.value(part) : Array.isArray(part) ? part.map(revealed) : part

const StoredRow = Schema.Struct({
  requestMac: Schema.Uint8ArrayFromSelf,
  body: Schema.String,
  createdAt: Schema.DateFromSelf
})

interface Needs {
  readonly sql: SqlClient.SqlClient
  readonly dataKeys: DataKeys
}

const macLength = 32

const fingerprint = Effect.fnUntraced(function* (
  { dataKeys }: Needs,
  permit: EnvironmentPermit<"secrets:write">,
  request: ReadonlyArray<unknown>,
  keyId?: string
) {
  const key = yield* dieWhenVaultIsDown(
    keyId === undefined
      ? dataKeys.active(permit.target)
      : dataKeys.byId(permit.target, [keyId]).pipe(
          Effect.map((keys) => keys.get(keyId)),
          // The data key belongs to another environment: the idempotency key was used there, for another request.
          Effect.catchTag("INTEGRITY_FAILURE", () => Effect.succeed(undefined))
        )
  )
  if (key === undefined) return Buffer.alloc(0)
  const id = Buffer.from(key.id.replaceAll("-", ""), "hex")
  return Buffer.concat([id, Envelope.mac(key.key, "idempotent request", Buffer.from(encoded(request)))])
})

/** The MAC starts with the id of its data key, so that it can be checked after a rotation within the 24 h. */
const keyIdOf = (mac: Uint8Array): string => {
  const hex = Buffer.from(mac.subarray(0, mac.length - macLength)).toString("hex")
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`
}

/**
 * The stored answer of the same request; undefined when there is none. It comes first in the transaction that `keep` is
 * part of: an equal request waits for its end.
 */
const find = Effect.fnUntraced(function* (
  needs: Needs,
  permit: EnvironmentPermit<"secrets:write">,
  { key, request, route }: Idempotent
) {
  const { sql } = needs
  const now = yield* Clock.currentTimeMillis
  const credential = permit.caller.credentialId
  yield* Rows.run(sql`SELECT pg_advisory_xact_lock(hashtextextended(${`${credential} ${route} ${key}`}, 0))`)
  const stored = yield* Rows.findOne(
    StoredRow,
    sql`
      SELECT request_mac, body, created_at FROM idempotency_keys
      WHERE credential_id = ${credential} AND route = ${route} AND key = ${key}`
  )
  if (stored === undefined || stored.createdAt.getTime() + kept <= now) return undefined
  const mac = yield* fingerprint(needs, permit, request, keyIdOf(stored.requestMac))
  if (!safeEqual(mac, stored.requestMac)) return yield* new IdempotencyKeyReused()
  const answer: unknown = JSON.parse(stored.body)
  return { answer }
})

/** Keeps the answer of a request, in the transaction that wrote what the answer says. */
const keep = Effect.fnUntraced(function* (
  needs: Needs,
  permit: EnvironmentPermit<"secrets:write">,
  { key, request, route }: Idempotent,
  answer: unknown
) {
  const now = new Date(yield* Clock.currentTimeMillis)
  const mac = yield* fingerprint(needs, permit, request)
  yield* Rows.run(needs.sql`
    INSERT INTO idempotency_keys (credential_id, route, key, request_mac, body, created_at)
    VALUES (${permit.caller.credentialId}, ${route}, ${key}, ${mac}, ${JSON.stringify(answer)}, ${now})
    ON CONFLICT (credential_id, route, key) DO UPDATE
    SET request_mac = excluded.request_mac, body = excluded.body, created_at = excluded.created_at`)
})

/** Removes expired rows; the schedule of `Maintenance` calls it. */
const purge = ({ sql }: Needs) =>
  Effect.gen(function* () {
    const now = yield* Clock.currentTimeMillis
    const { n } = yield* Rows.single(
      Rows.CountRow,
      sql`
        WITH purged AS (
          DELETE FROM idempotency_keys WHERE (credential_id, route, key) IN (
            SELECT credential_id, route, key FROM idempotency_keys WHERE created_at < ${new Date(now - kept)}
            LIMIT ${purgeBatch})
          RETURNING 1)
        SELECT count(*)::int AS n FROM purged`
    )
    return n
  }).pipe(Effect.repeat({ while: (purged) => purged === purgeBatch }))

export class Idempotency extends Effect.Service<Idempotency>()("secrets/Idempotency", {
  effect: Effect.gen(function* () {
    const needs: Needs = { sql: yield* SqlClient.SqlClient, dataKeys: yield* DataKeys }
    return {
      ...methods(needs, { keep }),
      /** A route has one type of answer, and is part of the key of the row. */
      find: <A>(permit: EnvironmentPermit<"secrets:write">, idempotent: Idempotent) =>
        find(needs, permit, idempotent) as Effect.Effect<
          { readonly answer: A } | undefined,
          IdempotencyKeyReused | IntegrityFailure
        >,
      purge: purge(needs)
    }
  })
}) {}

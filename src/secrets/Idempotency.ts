/** `Idempotency-Key` (decisions 4): the same key and body within 24 h gives the stored answer; a parallel twin waits. */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { IdempotencyKeyReused } from "#schema/Errors.ts"
import { dieWhenVaultIsDown } from "#src/access/Dependency.ts"
import type { EnvironmentPermit } from "#src/access/Permit.ts"
import { safeEqual } from "#src/crypto/Crypto.ts"
import { DataKeys } from "#src/crypto/DataKeys.ts"
import * as Envelope from "#src/crypto/Envelope.ts"

const kept = 86_400_000
/** Rows of one statement: a purge never holds up the requests. */
const purgeBatch = 2_000

export interface Idempotent {
  /** The header's value; undefined = the request is not idempotent. */
  readonly key: string | undefined
  readonly route: string
  /** The request, encoded the same way each time. Its fingerprint is keyed, so that the row tells nothing of values. */
  readonly request: string
}

interface StoredRow {
  readonly requestMac: Buffer
  readonly body: string
  readonly createdAt: Date
}

export class Idempotency extends Effect.Service<Idempotency>()("secrets/Idempotency", {
  effect: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const dataKeys = yield* DataKeys

    const macLength = 32
    const fingerprint = Effect.fnUntraced(function* (
      permit: EnvironmentPermit<"secrets:write">,
      request: string,
      keyId?: string
    ) {
      const key = yield* dieWhenVaultIsDown(
        keyId === undefined
          ? dataKeys.active(permit.target)
          : dataKeys.byId(permit.target, [keyId]).pipe(
              Effect.map((keys) => keys.get(keyId)),
              // Another environment's key: the same idempotency key was used there, for another request then.
              Effect.catchTag("INTEGRITY_FAILURE", () => Effect.succeed(undefined))
            )
      )
      if (key === undefined) return Buffer.alloc(0)
      const id = Buffer.from(key.id.replaceAll("-", ""), "hex")
      return Buffer.concat([id, Envelope.mac(key.key, "idempotent request", Buffer.from(request))])
    })
    /** The mac names the data key it was made under, so that a rotation within the 24 h changes nothing. */
    const keyIdOf = (mac: Buffer): string => {
      const hex = mac.subarray(0, mac.length - macLength).toString("hex")
      return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`
    }

    /**
     * Runs `effect` once for a key, inside the transaction that stores its answer. `effect` must only write through the
     * database: a second run with the same key gives the stored answer and leaves no trace.
     */
    const once = <A, E, R>(
      permit: EnvironmentPermit<"secrets:write">,
      { key, request, route }: Idempotent,
      effect: Effect.Effect<A, E, R>
    ) =>
      key === undefined
        ? effect
        : sql
            .withTransaction(
              Effect.gen(function* () {
                const credential = permit.caller.credentialId
                yield* sql`SELECT pg_advisory_xact_lock(hashtextextended(${`${credential} ${route} ${key}`}, 0))`
                const now = yield* Clock.currentTimeMillis
                const rows = yield* sql<StoredRow>`
                  SELECT request_mac, body, created_at FROM idempotency_keys
                  WHERE credential_id = ${credential} AND route = ${route} AND key = ${key}`
                const stored = rows[0]
                if (stored !== undefined && stored.createdAt.getTime() + kept > now) {
                  const same = safeEqual(
                    yield* fingerprint(permit, request, keyIdOf(stored.requestMac)),
                    stored.requestMac
                  )
                  return same ? (JSON.parse(stored.body) as A) : yield* new IdempotencyKeyReused()
                }
                const answer = yield* effect
                const mac = yield* fingerprint(permit, request)
                yield* sql`
                  INSERT INTO idempotency_keys (credential_id, route, key, request_mac, body, created_at)
                  VALUES (${credential}, ${route}, ${key}, ${mac}, ${JSON.stringify(answer)}, ${new Date(now)})
                  ON CONFLICT (credential_id, route, key) DO UPDATE
                  SET request_mac = excluded.request_mac, body = excluded.body, created_at = excluded.created_at`
                return answer
              })
            )
            .pipe(Effect.catchTag("SqlError", Effect.die))

    /** Removes what nobody can ask for any more; called by the schedule of `Maintenance`. */
    const purge = Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      const purged = yield* sql<{ readonly n: number }>`
        WITH purged AS (
          DELETE FROM idempotency_keys WHERE (credential_id, route, key) IN (
            SELECT credential_id, route, key FROM idempotency_keys WHERE created_at < ${new Date(now - kept)}
            LIMIT ${purgeBatch})
          RETURNING 1)
        SELECT count(*)::int AS n FROM purged`
      return purged[0]?.n
    }).pipe(Effect.repeat({ while: (purged) => purged === purgeBatch }), Effect.orDie)

    return { once, purge } as const
  })
}) {}

/**
 * Keys that all processes of one service share, for signatures on data that clients return, and for reproducible
 * credentials. 256 bits each, in the database, wrapped by the vault.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { IntegrityFailure } from "#schema/Errors.ts"
import type { KeyContext } from "#schema/Vault.ts"
import * as Rows from "#src/database/Rows.ts"
import { Crypto } from "./Crypto.ts"
import { inTime, Vault } from "./Vault.ts"

type ServiceKeyName =
  | "audit-entries"
  | "credential-pepper"
  | "password-hashes"
  | "row-seals"
  | "oauth-cookies"
  | "oauth-refresh"
  | "mcp-request-state"
  | "run-output"
  | "second-factors"
  | "sign-in-flows"
  | "issuer-secrets"

const contextOf = (name: ServiceKeyName): KeyContext => ({
  purpose: "service-key",
  teamId: "",
  projectId: "",
  environmentId: "",
  keyId: name
})

const ServiceKeyRow = Schema.Struct({ rootKeyId: Schema.String, wrapped: Schema.Uint8ArrayFromSelf })

/** Undefined: the key does not exist yet. */
export const open = Effect.fnUntraced(function* (
  { sql, vault }: { readonly sql: SqlClient.SqlClient; readonly vault: Vault["Type"] },
  name: ServiceKeyName
) {
  const row = yield* Rows.findOne(
    ServiceKeyRow,
    sql`SELECT root_key_id, wrapped FROM service_keys WHERE name = ${name}`
  )
  return row === undefined ? undefined : yield* inTime(vault.unwrapBytes(contextOf(name), row.wrapped, row.rootKeyId))
})

export class ServiceKeys extends Effect.Service<ServiceKeys>()("crypto/ServiceKeys", {
  effect: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const vault = yield* Vault
    const crypto = yield* Crypto
    const cache = new Map<ServiceKeyName, Redacted.Redacted<Uint8Array>>()

    const make = Effect.fnUntraced(function* (name: ServiceKeyName) {
      const bytes = yield* crypto.randomBytes(32)
      const { rootKeyId, wrapped } = yield* inTime(vault.wrapBytes(contextOf(name), Redacted.make(bytes)))
      bytes.fill(0)
      yield* sql`
        INSERT INTO service_keys (name, root_key_id, wrapped, created_at)
        VALUES (${name}, ${rootKeyId}, ${Buffer.from(wrapped)}, ${yield* DateTime.nowAsDate})
        ON CONFLICT (name) DO NOTHING`
    })

    /** Returns the key, created on first use. If two processes start at once, only one creates it. */
    const get = Effect.fn("ServiceKeys.get")(
      function* (name: ServiceKeyName) {
        const cached = cache.get(name)
        if (cached !== undefined) return cached
        const needs = { sql, vault }
        const key = (yield* open(needs, name)) ?? (yield* Effect.zipRight(make(name), open(needs, name)))
        if (key === undefined) return yield* new IntegrityFailure()
        cache.set(name, key)
        return key
      },
      Effect.catchTag("SqlError", Effect.die)
    )

    return { get } as const
  })
}) {}

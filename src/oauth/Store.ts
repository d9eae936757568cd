/** What the library asks of one kind of record, and how its payloads are read and written. */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { AdapterPayload } from "oidc-provider"
import type { Audit } from "#src/access/Audit.ts"
import type { Crypto } from "#src/crypto/Crypto.ts"
import type { Library } from "./Library.ts"

export interface Store {
  readonly upsert: (
    id: string,
    payload: AdapterPayload,
    expiresIn: number | undefined
  ) => Effect.Effect<unknown, unknown>
  readonly find: (id: string) => Effect.Effect<AdapterPayload | undefined, unknown>
  readonly consume: (id: string) => Effect.Effect<unknown, unknown>
  readonly destroy: (id: string) => Effect.Effect<unknown, unknown>
  readonly revokeByGrantId: (grantId: string) => Effect.Effect<unknown, unknown>
}

/** Keeps nothing and finds nothing. */
export const empty: Store = {
  upsert: () => Effect.void,
  find: () => Effect.succeed(undefined),
  consume: () => Effect.void,
  destroy: () => Effect.void,
  revokeByGrantId: () => Effect.void
}

export interface StoreNeeds {
  readonly sql: SqlClient.SqlClient
  readonly crypto: Crypto
  readonly audit: Audit
  /** The library's own errors, which it answers itself. */
  readonly errors: Library["errors"]
}

/** A record as the library wrote it; every member of its type is optional. */
export const Payload = Schema.declare(
  (value): value is AdapterPayload => typeof value === "object" && value !== null && !Array.isArray(value)
)
export const PayloadRow = Schema.Struct({ payload: Payload })

export const textOf = (payload: AdapterPayload, member: string): string => {
  const value = payload[member]
  return typeof value === "string" ? value : ""
}

export const expiryOf = (payload: AdapterPayload, now: Date): Date =>
  typeof payload.exp === "number" ? new Date(payload.exp * 1_000) : now

/** Text for the database. The id is the credential itself, so it is left out. */
export const withoutId = (payload: AdapterPayload): string => JSON.stringify({ ...payload, jti: undefined })

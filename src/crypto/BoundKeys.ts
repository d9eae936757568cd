/** The id of the database in contexts of data keys, sealing keys and secrets of webhooks (`Instance.ts`). */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import { IntegrityFailure } from "#schema/Errors.ts"
import * as Rows from "#src/database/Rows.ts"
import { bindsEveryKey } from "./Instance.ts"
import type { ServiceKeys } from "./ServiceKeys.ts"

/**
 * The id as the service keys have it, which no writer of the database can change. A generation that does not write yet
 * counts too: another server may have begun to write with it.
 */
const authentic = (serviceKeys: ServiceKeys) =>
  Effect.map(serviceKeys.ring("row-seals"), ({ live }) => {
    for (const { instance } of live.values()) if (instance !== undefined) return instance
    return undefined
  })

/** The id in the context of a stored key. Fails for a key without the id, where every key has it. */
export const ofStoredKey = Effect.fnUntraced(function* (serviceKeys: ServiceKeys, bound: boolean) {
  const id = yield* authentic(serviceKeys)
  if (bound ? id === undefined : id !== undefined && bindsEveryKey(id)) return yield* new IntegrityFailure()
  return bound ? id : undefined
})

/**
 * The id for the context of a new key. Undefined while a program that could not open such a key may start. A service key
 * that does not open is a defect: nothing can be authenticated without it.
 */
export const forNewKey = Effect.fnUntraced(function* (serviceKeys: ServiceKeys, sql: SqlClient.SqlClient) {
  const id = yield* Effect.catchTag(authentic(serviceKeys), "INTEGRITY_FAILURE", Effect.die)
  if (id === undefined || bindsEveryKey(id)) return id
  const isOpen = yield* Rows.exists(
    sql`SELECT 1 FROM effect_sql_migrations WHERE name = 'key_instances' AND served_from < migration_id`
  )
  return isOpen ? undefined : id
})

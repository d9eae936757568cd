/**
 * Makes a restored database a copy: it gets an id, service keys and data keys that the original does not have, so that
 * no row of it is worth anything in the original. Credentials of the original end in it, since their hashes need the
 * older pepper.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import { IntegrityFailure } from "#schema/Errors.ts"
import * as CopyValues from "#src/crypto/CopyValues.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { ValueCipher } from "#src/crypto/Envelope.ts"
import * as Instance from "#src/crypto/Instance.ts"
import * as KeyGenerations from "#src/crypto/KeyGenerations.ts"
import type { OnProgress } from "#src/crypto/RotationTurn.ts"
import { Vault } from "#src/crypto/Vault.ts"
import type { PepperedTable } from "#src/rows/KeyUses.ts"
import * as ServiceKeyRotation from "#src/trail/ServiceKeyRotation.ts"

/** For each table with a peppered hash, the column that marks the end of its rows. Null: the rows are deleted. */
const ends: Readonly<Record<PepperedTable, string | null>> = {
  api_tokens: "revoked_at",
  cli_grants: "revoked_at",
  sessions: "revoked_at",
  invitations: "revoked_at",
  password_resets: "used_at",
  recovery_codes: "used_at",
  device_requests: null,
  known_devices: null,
  oauth_access_tokens: null,
  oauth_codes: null,
  oauth_refresh_tokens: null,
  passkey_challenges: null,
  setup_codes: null,
  sign_in_steps: null
}

const endCredentials = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, now: Date) {
  for (const [table, column] of [...Object.entries(ends), ["oauth_grants", "revoked_at"] as const]) {
    yield* column === null
      ? sql`DELETE FROM ${sql(table)}`
      : sql`UPDATE ${sql(table)} SET ${sql(column)} = ${now}, mac = '' WHERE ${sql(column)} IS NULL`
  }
  // Results of runs are sealed under an older key, and of credentials that have ended.
  yield* sql`DELETE FROM ${sql("run_plans")}`
})

/** Part of the restore's transaction. */
export const make = Effect.fn("DatabaseCopy.make")(function* (onProgress: OnProgress) {
  const sql = yield* SqlClient.SqlClient
  const crypto = yield* Crypto
  const now = yield* DateTime.nowAsDate
  const vault = yield* Vault
  const cipher = yield* ValueCipher
  const from = yield* Instance.stored(sql)
  const { instance, rings } = yield* KeyGenerations.rebind({ sql, vault }, { bytes: crypto.randomBytes(32), now })
  yield* endCredentials(sql, now)
  yield* CopyValues.make({ sql, vault, crypto, cipher }, { from, to: instance }, onProgress)
  const ring = (name: KeyGenerations.ServiceKeyName) => {
    const one = rings.get(name)
    return one === undefined ? Effect.fail(new IntegrityFailure()) : Effect.succeed(one)
  }
  return yield* ServiceKeyRotation.reseal({ sql, crypto, keys: { ring } }, onProgress)
})

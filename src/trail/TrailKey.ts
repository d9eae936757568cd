/**
 * The key that proves that a server wrote the end of a stream (`Chain.entryMac`). All servers of a database share it,
 * and the database stores it wrapped by the vault.
 */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { createSecretKey, type KeyObject } from "node:crypto"
import * as Chain from "#src/audit/Chain.ts"
import * as ServiceKeys from "#src/crypto/ServiceKeys.ts"
import type { Vault } from "#src/crypto/Vault.ts"
import { dieWhenVaultIsDown } from "#src/database/Dependency.ts"

const name = "audit-entries"
const keyOf = (bytes: Redacted.Redacted<Uint8Array>): KeyObject => createSecretKey(Redacted.value(bytes))

/**
 * For a process that writes. It loads the key once, at its start or, after an outage of the vault, with the first
 * entry. Until then no entry is committed.
 */
export const shared = Effect.gen(function* () {
  const keys = yield* ServiceKeys.ServiceKeys
  let loaded: KeyObject | undefined
  const load = Effect.tap(Effect.map(keys.get(name), keyOf), (key) => Effect.sync(() => (loaded = key)))
  yield* Effect.catchTag(load, "VaultUnavailable", () => Effect.void)
  return Effect.suspend(() => (loaded === undefined ? Effect.orDie(dieWhenVaultIsDown(load)) : Effect.succeed(loaded)))
})

/** For a reader, which creates no key. Without a key, or with one that the vault cannot open, no entry is proved. */
export const proves = (needs: { readonly sql: SqlClient.SqlClient; readonly vault: Vault["Type"] }) =>
  ServiceKeys.open(needs, name).pipe(
    Effect.catchTag("INTEGRITY_FAILURE", () => Effect.succeed(undefined)),
    Effect.map((bytes): Chain.Proves => (bytes === undefined ? () => false : Chain.proves(keyOf(bytes))))
  )
